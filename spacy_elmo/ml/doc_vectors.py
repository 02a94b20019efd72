"""Store ELMo vectors on a Doc, and find them again after the Doc was copied, cut or joined.

The vectors of a Doc are stored in `doc.user_data` as one record under the key of a span extension,
`("._.", name, start, end)`: spaCy shifts such keys in `Doc.from_docs` and `Span.as_doc(copy_user_data=True)`, and warns
about all others. A record contains the first character and the text of each of its tokens, so that tokens are matched
to rows after such a copy, and retokenization is detected. After two copies without a read between them, the match may
be ambiguous (see `vector_record.py`): reading is then an error. A record from bytes is checked before its first use
(see `record_checks.py`).
"""

from hashlib import blake2b
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy
from numpy.typing import NDArray
from spacy.attrs import IDX, ORTH
from spacy.tokens import Doc
from thinc.types import Floats2d, Floats3d
from thinc.util import get_array_module, to_numpy

from ..errors import Errors
from .batch_norm import BoundarySums
from .merged_rows import average_merged
from .mixing import mix_layers
from .record_checks import find_problems, has_unusable_values
from .vector_record import VectorRecord, carried

NO_ROW, UNCLEAR = -1, -2
KEPT_WHEN_MERGED = ("weights", "gamma", "norm", "marks", "averages_merged")
Rows = NDArray[numpy.int64]


class DocVectors(NamedTuple):
    """The output of the ELMo component for one Doc.

    mixed (Optional[Floats2d]): Shape (n, D), None if it is not stored.
    layers (Optional[Floats3d]): Shape (L+1, n, D), None if they are not stored.
    weights (Sequence[float]): Raw weights of the component's mix.
    gamma (float): Scale of the mix.
    norm (Optional[str]): Layer norm of the mix.
    boundaries (Optional[BoundarySums]): Sums of the Doc's boundaries, None if no listener needs them.
    averages_merged (bool): Whether tokens that are merged later get the mean of their rows.
    """

    mixed: Optional[Floats2d]
    layers: Optional[Floats3d]
    weights: Sequence[float]
    gamma: float
    norm: Optional[str]
    boundaries: Optional[BoundarySums] = None
    averages_merged: bool = False


def set_vectors(doc: Doc, prefix: str, vectors: DocVectors) -> None:
    """Store vectors on a Doc, in place of existing ones.

    doc (Doc): The Doc.
    prefix (str): The component's extension prefix.
    vectors (DocVectors): One row per token.
    """
    for key in _record_keys(doc, prefix):
        del doc.user_data[key]
    record = _make_record(doc, 0, len(doc))
    if vectors.mixed is not None:
        record["mixed"] = vectors.mixed
    if vectors.layers is not None:
        record["layers"] = vectors.layers
    if vectors.boundaries is not None:
        record["marks"] = list(vectors.boundaries)
    record.update(weights=list(vectors.weights), gamma=vectors.gamma, norm=vectors.norm)
    if vectors.averages_merged:
        record["averages_merged"] = True
    _put_record(doc, prefix, record, 0)


def has_layers(doc: Doc, prefix: str) -> bool:
    """RETURNS (bool): Whether the Doc has layers, for all or some of its tokens.
    RAISES (ValueError): EL090 and EL091 for damaged data.
    """
    return any("layers" in record for _, record in _find_records(doc, prefix))


def get_mixed(doc: Doc, prefix: str, start: int, end: int) -> Floats2d:
    """doc (Doc): The Doc.
    prefix (str): The component's extension prefix.
    start (int): First token.
    end (int): The token after the last one.
    RETURNS (Floats2d): The mixed vectors of the tokens, shape (end - start, D).
    RAISES (ValueError): EL062 without data, EL063 after retokenization, EL074 if copied records are ambiguous, EL090
        and EL091 for damaged data, EL092 for vectors of different sizes.
    """
    record, row = _record_of(doc, prefix, start, end)
    if "mixed" in record and end - start == len(record["starts"]):
        whole: Floats2d = record["mixed"]  # the array itself, not a view
        return whole
    return _mixed_rows(record, slice(row, row + end - start))


def get_layers(doc: Doc, prefix: str, start: int, end: int) -> Floats3d:
    """doc (Doc): The Doc.
    prefix (str): The component's extension prefix.
    start (int): First token.
    end (int): The token after the last one.
    RETURNS (Floats3d): The layers of the tokens, shape (L+1, end - start, D).
    RAISES (ValueError): EL062 without data, EL063 after retokenization, EL064 if only mixed vectors are stored, EL074
        if copied records are ambiguous, EL090 and EL091 for damaged data, EL092 for vectors of different sizes.
    """
    record, row = _record_of(doc, prefix, start, end)
    if "layers" not in record:
        raise ValueError(Errors.EL064.format(name=prefix))
    layers: Floats3d = record["layers"]
    return layers if end - start == len(record["starts"]) else layers[:, row : row + end - start]


def get_boundary_sums(doc: Doc, prefix: str) -> Optional[BoundarySums]:
    """doc (Doc): The Doc.
    prefix (str): The component's extension prefix.
    RETURNS (Optional[BoundarySums]): Sums of its boundaries, None if they are not stored or the Doc was cut or joined.
    RAISES (ValueError): EL062 without data, EL063 after retokenization, EL074 if copied records are ambiguous, EL090
        and EL091 for damaged data, EL092 for vectors of different sizes.
    """
    boundaries = _record_of(doc, prefix, 0, len(doc))[0].get("marks")
    return None if boundaries is None else BoundarySums(*boundaries)


def _record_of(doc: Doc, prefix: str, start: int, end: int) -> Tuple[VectorRecord, int]:
    """RETURNS (Tuple[VectorRecord, int]): A record with all these tokens, and the row of the first."""
    records = _find_records(doc, prefix)
    if not records:
        raise ValueError(Errors.EL062.format(name=prefix, text=doc.text[:40]))
    for key, record in records:
        row = _known_row(doc, key[2], record, start, end)
        if row is not None:
            return record, row
    return _resolve_records(doc, prefix, records, start, end)


def _known_row(doc: Doc, first_char: int, record: VectorRecord, start: int, end: int) -> Optional[int]:
    """Fast check, which keeps reading token by token cheap: the record was created for this Doc, with these tokens.

    RETURNS (Optional[int]): The row of the first token, None if the records must be resolved.
    """
    if carried(record) or record["n_tokens"] != len(doc):
        return None
    if end - start == len(doc):
        is_same = first_char == 0 and _is_same(record, _starts(doc), _orths(doc))
        return 0 if is_same else None
    if start == end:
        return 0
    row = start - record["first"]
    if row < 0:
        return None
    found = doc[start:end].to_array([IDX, ORTH])  # type: ignore[attr-defined]  # spaCy's stub lacks it
    rows = {name: record[name][row : row + end - start] for name in ("starts", "orths")}
    return row if _is_same(rows, found[:, 0].astype("int64") - first_char, found[:, 1]) else None


def _is_same(record: Dict[str, Any], starts: Rows, orths: NDArray[numpy.uint64]) -> bool:
    return numpy.array_equal(record["starts"], starts) and numpy.array_equal(record["orths"], orths)


def _resolve_records(
    doc: Doc, prefix: str, records: List[Tuple[Any, VectorRecord]], start: int, end: int
) -> Tuple[VectorRecord, int]:
    """Find the rows of a Doc that was cut from another or joined from several.

    Each run of tokens with vectors gets a new record for exactly these tokens, so that this is done once. Rows of
    other tokens, which `Span.as_doc` also copies, are dropped.
    RETURNS (Tuple[VectorRecord, int]): A record with the tokens, and the row of the first.
    """
    owners, rows = _claim_tokens(doc, records)
    if _is_retokenized(doc, records, owners):
        return _resolve_merged(doc, prefix, records), start
    runs = [(a, b, _assemble(doc, prefix, records, owners, rows, a, b)) for a, b in _covered_runs(owners)]
    for key, record in records:
        if _is_clear(doc, key[2], record):
            del doc.user_data[key]
    for a, _, record in runs:
        _put_record(doc, prefix, record, doc[a].idx)
    if (owners[start:end] == UNCLEAR).any():
        raise ValueError(Errors.EL074.format(name=prefix, text=doc[start:end].text[:40]))
    if (owners[start:end] == NO_ROW).any():
        raise ValueError(Errors.EL062.format(name=prefix, text=doc[start:end].text[:40]))
    found = [(record, start - a) for a, b, record in runs if a <= start and end <= b]
    return found[0] if found else (records[0][1], 0)  # of an empty span


def _resolve_merged(doc: Doc, prefix: str, records: List[Tuple[Any, VectorRecord]]) -> VectorRecord:
    """Replace the record of a Doc whose tokens were merged with one that has the means of their rows, if enabled.

    RETURNS (VectorRecord): The new record.
    RAISES (ValueError): EL063 if it is not enabled, tokens were split, or the Doc was joined from several.
    """
    key, record = records[0]
    is_wanted = len(records) == 1 and record.get("averages_merged") is True and _is_clear(doc, key[2], record)
    arrays = average_merged(doc, key[2], record) if is_wanted else None
    if arrays is None:
        raise ValueError(Errors.EL063.format(name=prefix, text=doc.text[:40]))
    whole = _make_record(doc, 0, len(doc))
    whole.update({name: record[name] for name in KEPT_WHEN_MERGED if name in record})
    whole.update(arrays)
    del doc.user_data[key]
    _put_record(doc, prefix, whole, 0)
    return whole


def _claim_tokens(doc: Doc, records: List[Tuple[Any, VectorRecord]]) -> Tuple[Rows, Rows]:
    """Find the record of each token: the same text at the same position.

    RETURNS (Tuple[Rows, Rows]): For each token the number of its record and its row; instead of a number `NO_ROW` if
        there is none, `UNCLEAR` if the match is ambiguous.
    """
    owners, owned_rows = numpy.full(len(doc), NO_ROW), numpy.full(len(doc), NO_ROW)
    starts, orths = _starts(doc), _orths(doc)
    for number, ((_, _, first_char, _), record) in enumerate(records):
        rows = _match(starts - first_char, orths, record)
        is_mine = rows != NO_ROW
        if not _is_clear(doc, first_char, record):
            owners[is_mine & (owners == NO_ROW)] = UNCLEAR
            continue
        owners[is_mine] = numpy.where(owners[is_mine] < 0, number, UNCLEAR)
        owned_rows[is_mine] = rows[is_mine]
    return owners, owned_rows


def _is_clear(doc: Doc, first_char: int, record: VectorRecord) -> bool:
    """Whether all tokens of the Doc that match a record belong to it.

    This holds after one copy: either the Doc was cut from the Doc of the record and has no other tokens, or it was
    joined from Docs that include the Doc of the record with all its tokens.
    """
    if carried(record) <= 1:
        return True
    return not isinstance(record, VectorRecord) and first_char == 0 and _is_same(record, _starts(doc), _orths(doc))


def _match(starts: Rows, orths: NDArray[numpy.uint64], record: VectorRecord) -> Rows:
    """RETURNS (Rows): For each token the row of the record with the same first character and text, else `NO_ROW`."""
    if len(record["starts"]) == 0:
        return numpy.full(len(starts), NO_ROW)
    rows = numpy.searchsorted(record["starts"], starts).clip(max=len(record["starts"]) - 1)
    is_same = (record["starts"][rows] == starts) & (record["orths"][rows] == orths)
    return numpy.where(is_same, rows, NO_ROW)


def _is_retokenized(doc: Doc, records: List[Tuple[Any, VectorRecord]], owners: Rows) -> bool:
    """RETURNS (bool): Whether a token within the text of a record is missing in that record."""
    lost = _starts(doc)[owners < 0]
    clear = [(key[2], record) for key, record in records if _is_clear(doc, key[2], record)]
    ranges = [(first_char, first_char + record["n_chars"]) for first_char, record in clear]
    return any(((lost >= first) & (lost < last)).any() for first, last in ranges)


def _covered_runs(owners: Rows) -> List[Tuple[int, int]]:
    """RETURNS (List[Tuple[int, int]]): First token, and the one after the last, of each run of tokens with vectors."""
    is_covered = numpy.concatenate([[False], owners >= 0, [False]])
    edges = numpy.flatnonzero(is_covered[1:] != is_covered[:-1]).tolist()
    return list(zip(edges[::2], edges[1::2]))


def _assemble(
    doc: Doc, prefix: str, records: List[Tuple[Any, VectorRecord]], owners: Rows, rows: Rows, start: int, end: int
) -> VectorRecord:
    """RETURNS (VectorRecord): Tokens `start` to `end` in one record with its own arrays."""
    bounds = [start, *(numpy.flatnonzero(numpy.diff(owners[start:end])) + start + 1).tolist(), end]
    parts = [(records[owners[a]][1], rows[a:b]) for a, b in zip(bounds, bounds[1:])]
    _check_same_sizes(doc, prefix, [record for record, _ in parts])
    mixes = {(tuple(record["weights"]), record["gamma"], record["norm"]) for record, _ in parts}
    whole = _make_record(doc, start, end)
    whole.update({name: parts[0][0][name] for name in ("weights", "gamma", "norm")})
    if all("layers" in record for record, _ in parts):
        whole["layers"] = _concatenate(
            [record["layers"][:, _indices(record["layers"], part_rows)] for record, part_rows in parts], axis=1
        )
    if len(mixes) > 1 or any("mixed" in record for record, _ in parts):
        whole["mixed"] = _concatenate([_mixed_rows(record, part_rows) for record, part_rows in parts], axis=0)
    return whole


def _check_same_sizes(doc: Doc, prefix: str, records: Sequence[VectorRecord]) -> None:
    widths = {record[name].shape[-1] for record in records for name in ("mixed", "layers") if name in record}
    counts = {len(record["layers"]) for record in records if "layers" in record}
    if len(widths) > 1 or len(counts) > 1:
        found = f"widths {sorted(widths)}, numbers of layers {sorted(counts)}"
        raise ValueError(Errors.EL092.format(name=prefix, text=doc.text[:40], found=found))


def _mixed_rows(record: VectorRecord, rows: Union[Rows, slice]) -> Floats2d:
    if "mixed" in record:
        mixed: Floats2d = record["mixed"][_indices(record["mixed"], rows)]
        return mixed
    layers = record["layers"][:, _indices(record["layers"], rows)]
    return mix_layers(layers, record["weights"], record["gamma"], record["norm"]).astype(layers.dtype, copy=False)


def _indices(array: Any, rows: Union[Rows, slice]) -> Any:
    """RETURNS (Any): Rows as an index for the library of the array."""
    return rows if isinstance(rows, slice) else get_array_module(array).asarray(rows)


def _concatenate(arrays: List[Any], axis: int) -> Any:
    return get_array_module(arrays[0]).concatenate(arrays, axis=axis)


def _make_record(doc: Doc, start: int, end: int) -> VectorRecord:
    """RETURNS (VectorRecord): A record for a run of tokens, without vectors."""
    starts = _starts(doc)[start:end]
    record = VectorRecord(
        starts=starts - starts[:1],
        orths=_orths(doc)[start:end],
        n_chars=int(starts[-1] - starts[0]) + len(doc[end - 1]) if end > start else 0,  # no copy of a long text
        first=start,
        n_tokens=len(doc),
        n_carried=0,
    )
    record.is_checked = True
    return record


def _put_record(doc: Doc, prefix: str, record: VectorRecord, first_char: int) -> None:
    """Store a record on the Doc that it was created for."""
    user_data: Dict[Any, Any] = doc.user_data
    user_data[("._.", _data_name(prefix), first_char, _fingerprint(record) + first_char)] = record


def _fingerprint(record: VectorRecord) -> int:
    """RETURNS (int): A hash of the content.

    The key contains it in place of the last character. spaCy shifts both characters of a key by the same number, so
    keys of different records stay different.
    """
    digest = blake2b(record["starts"], digest_size=5)
    digest.update(record["orths"])
    for name in ("mixed", "layers"):
        if name in record:
            digest.update(to_numpy(record[name].sum(axis=-2, dtype="float32")).tobytes())
    return int.from_bytes(digest.digest(), "little")


def _find_records(doc: Doc, prefix: str) -> List[Tuple[Any, VectorRecord]]:
    """RETURNS (List[Tuple[Any, VectorRecord]]): The records of a Doc with their keys, all of them checked."""
    found = [(key, doc.user_data[key]) for key in _record_keys(doc, prefix)]
    for key, record in found:
        if not getattr(record, "is_checked", False):
            _check_record(doc, prefix, key, record)
    return found


def _check_record(doc: Doc, prefix: str, key: Any, record: Any) -> None:
    problems = find_problems(record, key[2])
    if problems:
        raise ValueError(Errors.EL090.format(name=prefix, text=doc.text[:40], problems="; ".join(problems)))
    if has_unusable_values(record):
        raise ValueError(Errors.EL091.format(name=prefix, text=doc.text[:40]))
    if isinstance(record, VectorRecord):
        record.is_checked = True


def _record_keys(doc: Doc, prefix: str) -> List[Any]:
    name = _data_name(prefix)
    return [key for key in doc.user_data if _is_record_key(key, name)]


def _is_record_key(key: Any, name: str) -> bool:
    return isinstance(key, tuple) and len(key) == 4 and key[0] == "._." and key[1] == name


def _data_name(prefix: str) -> str:
    return f"{prefix}_data"


def _starts(doc: Doc) -> Rows:
    """RETURNS (Rows): The first character of each token."""
    return doc.to_array(IDX).astype("int64")


def _orths(doc: Doc) -> NDArray[numpy.uint64]:
    """RETURNS (NDArray[numpy.uint64]): The hash of each token's text."""
    orths: NDArray[numpy.uint64] = doc.to_array(ORTH)  # type: ignore[assignment]  # an array of uint64
    return orths
