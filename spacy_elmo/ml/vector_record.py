"""The record of ELMo vectors in `doc.user_data`, which counts how often spaCy carried it from one Doc to another.

`Span.as_doc(copy_user_data=True)` and `Doc.from_docs` copy all user data, whatever part of a Doc they take, and leave
no trace of that part. After one such step the tokens still tell whose the rows are. After two they do not: the first
two words of "the cat the dog", cut out and joined with the Doc "the dog", look like the whole.
"""

from typing import Any, Callable, Dict, Optional

from srsly import msgpack_decoders

# Read from bytes by a process that had not imported this file: carried nobody knows how often.
UNCOUNTED = 2


class Piece(Dict[str, Any]):
    """Vectors of a run of tokens.

    starts, orths: Shape (n,), first character (counted from that of the run) and hash of the text of each token.
    n_chars (int): Length of the run's text.
    first, n_tokens (int): Number of the first token in the Doc that it was made for, and how many that Doc has.
    n_carried (int): Times it was copied into another Doc since.
    mixed, layers: Shape (n, D) and (L+1, n, D), one or both.
    weights, gamma, norm: The component's mix.

    is_checked (bool): Whether this process made or checked the record; false for one that comes from bytes.
    """

    is_checked = False

    def __copy__(self) -> "Piece":
        """spaCy calls this, for each piece of a Doc, in `Span.as_doc` and in `Doc.from_docs`, and nowhere else."""
        copied = Piece(self)
        copied["n_carried"] += 1
        copied.is_checked = self.is_checked
        return copied


def carried(piece: Dict[str, Any]) -> int:
    """RETURNS (int): How often a piece was carried from Doc to Doc."""
    return int(piece["n_carried"]) if isinstance(piece, Piece) else UNCOUNTED


@msgpack_decoders("spacy-elmo.Piece.v1")
def decode_piece(record: Any, chain: Optional[Callable[[Any], Any]] = None) -> Any:
    """Let a piece that comes from bytes go on counting.

    record (Any): What msgpack has read.
    chain (Optional[Callable]): The next decoder.
    RETURNS (Any): A piece, or the record as it was.
    """
    if isinstance(record, dict) and "orths" in record and _is_count(record.get("n_carried")):
        return Piece(record)
    return record if chain is None else chain(record)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0
