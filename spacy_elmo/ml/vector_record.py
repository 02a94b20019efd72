"""The record of ELMo vectors in `doc.user_data`, which counts how often spaCy copied it from one Doc to another.

`Span.as_doc(copy_user_data=True)` and `Doc.from_docs` copy all user data, whatever part of a Doc they take, and do not
store which part it was. After one such copy the tokens can still be matched to the rows. After two copies they cannot:
the first two words of "the cat the dog", cut and joined with the Doc "the dog", look like the original Doc.
"""

from typing import Any, Callable, Dict, Optional

from srsly import msgpack_decoders

# Number of copies of a record that a process read from bytes before it imported this file: unknown, so at least 2.
UNCOUNTED = 2


class VectorRecord(Dict[str, Any]):
    """Vectors of a run of tokens.

    starts, orths: Shape (n,), first character (relative to that of the run) and hash of the text of each token.
    n_chars (int): Length of the text of the run.
    first, n_tokens (int): Number of the first token in the original Doc, and number of tokens of that Doc.
    n_carried (int): Number of copies into another Doc since.
    mixed, layers: Shape (n, D) and (L+1, n, D), one or both.
    weights, gamma, norm: The component's mix.
    marks (optional): The fields of `BoundarySums`, for AllenNLP's layer norm.

    is_checked (bool): Whether this process created or checked the record; false for one read from bytes.
    """

    is_checked = False

    def __copy__(self) -> "VectorRecord":
        """spaCy calls this for each record of a Doc in `Span.as_doc` and `Doc.from_docs`, and nowhere else."""
        copied = VectorRecord(self)
        copied["n_carried"] += 1
        copied.is_checked = self.is_checked
        return copied


Piece = VectorRecord  # its name in pickles of Docs


def carried(record: Dict[str, Any]) -> int:
    """RETURNS (int): How often a record was copied from Doc to Doc."""
    return int(record["n_carried"]) if isinstance(record, VectorRecord) else UNCOUNTED


@msgpack_decoders("spacy-elmo.Piece.v1")
def decode_record(record: Any, chain: Optional[Callable[[Any], Any]] = None) -> Any:
    """Convert a dictionary read from bytes to a `VectorRecord`, which counts its copies.

    record (Any): A value decoded by msgpack.
    chain (Optional[Callable]): The next decoder.
    RETURNS (Any): A `VectorRecord`, or the unchanged value.
    """
    if isinstance(record, dict) and "orths" in record and _is_count(record.get("n_carried")):
        return VectorRecord(record)
    return record if chain is None else chain(record)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0
