"""The record of ELMo vectors on a Doc, and how its rows are matched to tokens.

spaCy copies all records of a Doc, whatever it copies of the Doc, and does not store which tokens. So a record also has
the first character and the text of each token.

- A read (`read_rows`) compares them with the tokens that are read. After retokenization, rows are found by their
  characters (`locate_tokens`); a merged token gets the mean of its rows, which stay as they are.
- A Doc that was cut or joined gets one record with the rows of its own tokens (`join_records`).
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy
from numpy.typing import NDArray
from spacy.attrs import IDX, ORTH
from spacy.tokens import Doc
from srsly import msgpack_decoders
from thinc.types import Floats2d, Floats3d
from thinc.util import get_array_module

from ..errors import Errors
from .mix import mix_layers
from .record_checks import is_count

FLAGS = ("averages_merged", "sets_hooks")
Rows = NDArray[numpy.int64]


class VectorsError(ValueError, AttributeError):
    """A Doc has no vectors for these tokens. `hasattr(doc._, "elmo")`, which spaCy's `doc_cleaner` calls, is false."""


class DocVectors(NamedTuple):
    """The output of the ELMo component for one Doc.

    mixed (Optional[Floats2d]): Shape (n, D), None if it is not stored.
    layers (Optional[Floats3d]): Shape (L+1, n, D), None if they are not stored.
    weights (Sequence[float]): Raw weights of the component's mix.
    gamma (float): Scale of the mix.
    norm (Optional[str]): Layer norm of the mix.
    averages_merged (bool): Whether tokens that are merged later get the mean of their rows.
    sets_hooks (bool): Whether a copy that has lost its vector hooks gets them at its first read.
    """

    mixed: Optional[Floats2d]
    layers: Optional[Floats3d]
    weights: Sequence[float]
    gamma: float
    norm: Optional[str]
    averages_merged: bool = False
    sets_hooks: bool = False


class VectorRecord(Dict[str, Any]):
    """What is stored on a Doc, besides the fields of `DocVectors`.

    starts, orths: Shape (n,), first character (relative to the start of the record) and hash of the text of each token.
    stops (optional): Shape (n,), the character after each token, if others between them have no vectors.
    n_chars, n_tokens (int): Length of the text of the Doc, and number of its tokens.
    n_carried (int): Number of copies into another Doc since.
    unclear (optional): First characters of tokens whose vectors are ambiguous.

    is_checked (bool): Whether this process created or checked the record; false for one read from bytes.
    mean (Optional[Tuple[bytes, Any]]): First characters of the tokens, and the mean vector that was computed for them.
    """

    is_checked = False
    mean: Optional[Tuple[bytes, Any]] = None

    def __copy__(self) -> "VectorRecord":
        """spaCy calls this for each record of a Doc in `Span.as_doc` and `Doc.from_docs`, and nowhere else."""
        copied = VectorRecord(self)
        copied["n_carried"] += 1
        copied.is_checked = self.is_checked
        return copied


@msgpack_decoders("spacy-elmo.VectorRecord.v1")
def _decode_record(record: Any, chain: Optional[Callable[[Any], Any]] = None) -> Any:
    """RETURNS (Any): A `VectorRecord`, which counts its copies, for a dictionary from bytes; else the same value."""
    if isinstance(record, dict) and "orths" in record and is_count(record.get("n_carried")):
        return VectorRecord(record)
    return record if chain is None else chain(record)


def write_rows(vectors: DocVectors, rows: Any, layers: Floats3d) -> None:
    """Write the layers (L+1, n, D) of some tokens of a Doc; `rows` are the tokens, ascending, shape (n,)."""
    if not len(rows):
        return
    first, last = int(rows[0]), int(rows[-1])
    has_gaps = last - first + 1 != len(rows)  # due to space tokens
    places = get_array_module(layers).asarray(rows) if has_gaps else slice(first, last + 1)
    if vectors.layers is not None:
        vectors.layers[:, places] = cast_values(layers, vectors.layers.dtype)
    if vectors.mixed is not None:
        mixed = mix_layers(layers, vectors.weights, vectors.gamma, vectors.norm)
        vectors.mixed[places] = cast_values(mixed, vectors.mixed.dtype)


def cast_values(values: Any, dtype: Any, *, setting: str = "dtype") -> Any:
    """Convert vectors to the type in which they are stored.

    setting (str): The setting that chooses the type, for the error.
    RETURNS (Any): The same array if it has this type.
    RAISES (ValueError): If a finite value becomes infinite: float16 has values up to 65,504.
    """
    if values.dtype == dtype:
        return values
    xp = get_array_module(values)
    with numpy.errstate(over="ignore"):
        stored = values.astype(dtype)
    lost = xp.isinf(stored)
    if lost.any():
        lost &= xp.isfinite(values)
        if lost.any():
            largest, limit = float(xp.abs(values[lost]).max()), float(xp.finfo(dtype).max)
            raise ValueError(
                f"The vectors do not fit {numpy.dtype(dtype)}: a value is {largest:,.0f}, but should be at most "
                f'{limit:,.0f}. Set {setting} to "float32".'
            )
    return stored


def read_rows(
    doc: Doc, prefix: str, record: VectorRecord, start: int, end: int, get_rows: Callable[[VectorRecord, slice], Any]
) -> Any:
    """Rows of the tokens from `start` to before `end`; `get_rows` gives rows of a record, (n, D) or (L+1, n, D).

    RAISES (VectorsError): EL062 for tokens without vectors, EL063 after retokenization, EL074 for ambiguous ones.
    """
    starts, orths, is_averaged = record["starts"], record["orths"], record.get("averages_merged") is True
    has_all, is_same = len(starts) == len(doc), len(doc) == record["n_tokens"] or is_averaged
    if is_same and end - start == 1:
        token = doc[start]
        row = start if has_all else int(numpy.searchsorted(starts, token.idx))
        if row < len(starts) and starts[row] == token.idx and orths[row] == token.orth:
            return get_rows(record, slice(row, row + 1))
    elif is_same and has_all:
        token_starts, token_orths = read_tokens(doc, start, end)
        if numpy.array_equal(starts[start:end], token_starts) and numpy.array_equal(orths[start:end], token_orths):
            return get_rows(record, slice(start, end))
    if not is_same or (has_all and not is_averaged):
        raise VectorsError(Errors.EL063.format(name=prefix, text=doc.text[:40]))
    first_rows, end_rows = locate_tokens(doc, prefix, record, start, end)
    if (first_rows == end_rows).any():
        unclear = numpy.isin(read_tokens(doc, start, end)[0], record.get("unclear", []))
        raise _no_vectors(doc[start:end].text, prefix, unclear)
    first, last = (int(first_rows[0]), int(end_rows[-1])) if start < end else (0, 0)
    return _average(get_rows(record, slice(first, last)), first_rows - first, end_rows - first)


def locate_tokens(doc: Doc, prefix: str, record: Dict[str, Any], start: int, end: int) -> Tuple[Rows, Rows]:
    """Find the rows of tokens by their characters: one for each, several for a merged token, or none.

    RETURNS (Tuple[Rows, Rows]): The first row of each token, and the one after its last; equal for none.
    RAISES (VectorsError): EL063 if a token was split, or if tokens were merged that are not to be averaged.
    """
    starts, orths, stops = record["starts"], record["orths"], _find_stops(record)
    token_starts, token_orths = read_tokens(doc, start, end)
    next_start = doc[end].idx if end < len(doc) else count_chars(doc)
    bounds = numpy.searchsorted(starts, numpy.append(token_starts, next_start))
    first_rows, end_rows = bounds[:-1], bounds[1:].copy()
    if not len(starts):
        return first_rows, end_rows
    rows = first_rows.clip(max=len(starts) - 1)
    is_same = (end_rows - first_rows == 1) & (starts[rows] == token_starts) & (orths[rows] == token_orths)
    is_lost = bool((stops[first_rows[first_rows > 0] - 1] > token_starts[first_rows > 0]).any())
    for i in numpy.flatnonzero((end_rows > first_rows) & ~is_same).tolist():
        a, b, stop = int(first_rows[i]), int(end_rows[i]), token_starts[i] + len(doc[start + i])
        has_gaps = (
            starts[a] != token_starts[i] or stops[b - 1] < stop or (starts[a + 1 : b] > stops[a : b - 1] + 1).any()
        )
        is_averaged = record.get("averages_merged") is True and stops[b - 1] <= stop + 1
        is_lost = is_lost or not is_averaged or bool(b - a == 1 and not has_gaps)
        if has_gaps:  # merged with tokens that have no vectors
            end_rows[i] = a
    if is_lost:
        raise VectorsError(Errors.EL063.format(name=prefix, text=doc.text[:40]))
    return first_rows, end_rows


def _average(rows: Any, first_rows: Rows, end_rows: Rows) -> Any:
    """RETURNS (Any): For each token its row, or the mean of its rows without white space, which has rows of zeros."""
    averages = rows[..., get_array_module(rows).asarray(first_rows), :]
    for i in numpy.flatnonzero(end_rows - first_rows > 1).tolist():
        several = rows[..., first_rows[i] : end_rows[i], :]
        n_words = int(several.reshape((-1, *several.shape[-2:])).any(axis=(0, 2)).sum())
        averages[..., i, :] = several.sum(axis=-2, dtype="float32") / max(n_words, 1)
    return averages


def mixed_rows(record: Dict[str, Any], rows: slice) -> Floats2d:
    if "mixed" in record:
        mixed: Floats2d = record["mixed"][rows]
        return mixed
    layers = record["layers"][:, rows]
    return cast_values(mix_layers(layers, record["weights"], record["gamma"], record["norm"]), layers.dtype)


def _find_stops(record: Dict[str, Any]) -> Rows:
    """RETURNS (Rows): The character after each token, or after the white space that follows it."""
    stops: Rows = record["stops"] if "stops" in record else numpy.append(record["starts"][1:], record["n_chars"])
    return stops


def _no_vectors(text: str, prefix: str, unclear: Any) -> VectorsError:
    template = Errors.EL074 if unclear.any() else Errors.EL062
    return VectorsError(template.format(name=prefix, text=text[:40]))


def read_tokens(doc: Doc, start: int, end: int) -> Tuple[Rows, NDArray[numpy.uint64]]:
    """RETURNS (Tuple): The first character of each token, and the hash of its text."""
    if end - start < len(doc) / 16:  # less work than for all tokens; `Span.to_array` is slow
        starts = numpy.asarray([token.idx for token in doc[start:end]], dtype="int64")
        return starts, numpy.asarray([token.orth for token in doc[start:end]], dtype="uint64")
    tokens: Any = doc.to_array([IDX, ORTH])[start:end]
    return tokens[:, 0].astype("int64"), tokens[:, 1].copy()


def count_chars(doc: Doc) -> int:
    """RETURNS (int): Length of the text without the white space after it, in constant time."""
    if not len(doc):
        return 0
    last = doc[len(doc) - 1]
    return last.idx + len(last)


def join_records(doc: Doc, prefix: str, records: List[Tuple[int, Dict[str, Any]]], unclear: Rows) -> VectorRecord:
    """The rows of records within a Doc, in arrays of its own. VectorsError EL062 or EL074 for none; if sizes differ."""
    n_chars, slices = count_chars(doc), []
    for first, record in sorted(records, key=lambda placed: placed[0]):
        rows = slice(*numpy.searchsorted(record["starts"], [-first, n_chars - first]).tolist())
        if rows.start < rows.stop or not len(doc):
            slices.append((first, record, rows))
    if not slices:
        raise _no_vectors(doc.text, prefix, unclear >= 0)
    inside = [record for _, record, _ in slices]
    arrays = [record[name] for record in inside for name in ("mixed", "layers") if name in record]
    widths, depths = {array.shape[-1] for array in arrays}, {len(array) for array in arrays if array.ndim == 3}
    if len(widths) > 1 or len(depths) > 1:
        sizes = f"widths {sorted(widths)}, numbers of layers {sorted(depths)}"
        raise VectorsError(
            f"The Doc '{doc.text[:40]}' was joined from Docs whose ELMo vectors (extension prefix '{prefix}') "
            f"have different sizes: {sizes}. Compute them all with the same biLM, or give each ELMo component "
            "its own prefix."
        )
    joined = VectorRecord(n_chars=n_chars, n_tokens=len(doc), n_carried=0)
    joined.update({name: inside[0][name] for name in ("weights", "gamma", "norm")})
    joined.update({name: True for name in FLAGS if all(record.get(name) is True for record in inside)})
    joined["starts"] = numpy.concatenate([shift(record["starts"][rows], first) for first, record, rows in slices])
    joined["stops"] = numpy.concatenate([shift(_find_stops(record)[rows], first) for first, record, rows in slices])
    joined["orths"] = numpy.concatenate([record["orths"][rows] for _, record, rows in slices])
    older = [shift(record["unclear"], first) for first, record, _ in slices if "unclear" in record]
    joined["unclear"] = numpy.concatenate([unclear, *older])
    xp = get_array_module(arrays[0])
    mixes = {(*record["weights"], record["gamma"], record["norm"]) for record in inside}
    if all("layers" in record for record in inside):
        joined["layers"] = xp.concatenate([record["layers"][:, rows] for _, record, rows in slices], axis=1)
    if len(mixes) > 1 or any("mixed" in record for record in inside):
        joined["mixed"] = xp.concatenate([mixed_rows(record, rows) for _, record, rows in slices])
    if (joined["starts"][1:] <= joined["starts"][:-1]).any():  # no copy by spaCy has two rows for a character
        raise VectorsError(Errors.EL063.format(name=prefix, text=doc.text[:40]))
    if (numpy.append(joined["starts"], n_chars) > numpy.append(0, joined["stops"]) + 1).any():
        joined.pop("sets_hooks", None)  # other tokens may have vectors of their own
    return joined


def shift(characters: Any, first: int) -> Rows:
    shifted: Rows = characters.astype("int64") + first
    return shifted
