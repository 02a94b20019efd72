"""The ELMo vectors of a Doc: how they are stored, read, copied, checked and removed; `doc._.elmo` and `doc.vector`.

They are one record (`VectorRecord`) in `doc.user_data`, under the key of a span extension:

    ("._.", "<prefix>_data", first character, character after the last token)

In `span.as_doc(copy_user_data=True)` and `Doc.from_docs`, spaCy shifts both characters. It copies all entries, whatever
part of a Doc it copies, and does not tell which. So a record also has the first character and the text of each token.

- A read (`_read`) compares them with the tokens that are read. After retokenization, rows are found by their characters
  (`_locate`); a merged token gets the mean of its rows, which stay as they are.
- The first read of a copy (`_settle`) replaces its records by one with the rows of its own tokens.
- After two copies without a read between them, rows are ambiguous: "the cat", cut from "the cat the dog" and joined
  with another Doc "the dog", looks like the Doc it was cut from. Reading is then an error.
- A record from bytes is checked before its first use.
"""

import math
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy
from numpy.typing import NDArray
from spacy.attrs import IDX, ORTH
from spacy.tokens import Doc, Span, Token
from srsly import msgpack_decoders
from thinc.types import Floats2d, Floats3d
from thinc.util import get_array_module, is_xp_array, to_numpy

from ..errors import Errors
from ..util import COMPONENT_NORMS, is_number
from .mix import mix_layers

LARGEST_VALUE = 1e15  # the layer norm sums squares; larger values would overflow float32
LARGEST_PLACE = 2**40  # largest number of a character or token; sums of two fit in 64 bits
FLAGS = ("averages_merged", "sets_hooks")
Owner = Union[Doc, Span, Token]
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

    starts, orths: Shape (n,), first character (relative to that of the record) and hash of the text of each token.
    stops (optional): Shape (n,), the character after each token, if others between them have no vectors.
    n_chars, n_tokens (int): Length of the text of the Doc, and number of its tokens.
    n_carried (int): Number of copies into another Doc since.
    unclear (optional): First characters of tokens whose vectors are ambiguous.

    is_checked (bool): Whether this process created or checked the record; false for one read from bytes.
    mean (Optional[Tuple[bytes, Any]]): See `_mean_of_doc`.
    """

    is_checked = False
    mean: Optional[Tuple[bytes, Any]] = None

    def __copy__(self) -> "VectorRecord":
        """spaCy calls this for each record of a Doc in `Span.as_doc` and `Doc.from_docs`, and nowhere else."""
        copied = VectorRecord(self)
        copied["n_carried"] += 1
        copied.is_checked = self.is_checked
        return copied


@msgpack_decoders("spacy-elmo.Piece.v1")
def decode_record(record: Any, chain: Optional[Callable[[Any], Any]] = None) -> Any:
    """RETURNS (Any): A `VectorRecord`, which counts its copies, for a dictionary from bytes; else the same value."""
    if isinstance(record, dict) and "orths" in record and _is_count(record.get("n_carried")):
        return VectorRecord(record)
    return record if chain is None else chain(record)


# Writing and removing


def write_rows(vectors: DocVectors, rows: Any, layers: Floats3d) -> None:
    """Write the layers (L+1, n, D) of some tokens of a Doc; `rows` are the tokens, ascending, shape (n,)."""
    if not len(rows):
        return
    first, last = int(rows[0]), int(rows[-1])
    has_gaps = last - first + 1 != len(rows)  # due to space tokens
    places = get_array_module(layers).asarray(rows) if has_gaps else slice(first, last + 1)
    if vectors.layers is not None:
        vectors.layers[:, places] = layers
    if vectors.mixed is not None:
        vectors.mixed[places] = mix_layers(layers, vectors.weights, vectors.gamma, vectors.norm)


def set_vectors(doc: Doc, prefix: str, vectors: DocVectors) -> None:
    """Store vectors, one row per token, on a Doc, in place of existing ones."""
    starts, orths = _tokens(doc, 0, len(doc))
    fields = {name: getattr(vectors, name) or None for name in FLAGS}
    fields.update(mixed=vectors.mixed, layers=vectors.layers)
    record = VectorRecord({name: value for name, value in fields.items() if value is not None})
    record.update(starts=starts, orths=orths, n_chars=_count_chars(doc), n_tokens=len(doc), n_carried=0)
    record.update(weights=list(vectors.weights), gamma=vectors.gamma, norm=vectors.norm)
    _put_record(doc, prefix, record)


def drop_vectors(doc: Doc, prefix: str) -> None:
    """Remove the vectors of a Doc, also from `doc.tensor` if it has the same."""
    if _find_keys(doc, prefix) and _is_tensor(doc, prefix):
        doc.tensor = numpy.zeros((0,), dtype="float32")
    for key in _find_keys(doc, prefix):  # reading the vectors of joined Docs makes one record of several
        doc.vector = None  # set by `as_doc`; spaCy computes it if it is None
        del doc.user_data[key]


def drop_layers(doc: Doc, prefix: str) -> None:
    """Remove the layers of a Doc, and keep its mixed vectors. VectorsError for damaged data."""
    for _, record in _find_records(doc, prefix):
        if "layers" in record:
            record["mixed"] = _mixed_rows(record, slice(None))
            del record["layers"]


def _is_tensor(doc: Doc, prefix: str) -> bool:
    """RETURNS (bool): Whether `doc.tensor` has the mixed vectors, up to their precision."""
    tensor: Any = doc.tensor
    if tensor is None or not tensor.size:
        return False
    try:
        mixed = to_numpy(get_mixed(doc, prefix, 0, len(doc)))
    except VectorsError:
        return False
    return mixed.shape == tensor.shape and numpy.allclose(mixed, to_numpy(tensor), rtol=0.01, atol=0.01)


# Reading


def has_layers(doc: Doc, prefix: str) -> bool:
    """Whether the Doc has layers, for all or some of its tokens. VectorsError for damaged data."""
    settled = _find_settled(doc, prefix)
    records = [settled] if settled else [record for _, record in _find_records(doc, prefix)]
    return any("layers" in record for record in records)


def get_mixed(doc: Doc, prefix: str, start: int, end: int) -> Floats2d:
    """The mixed vectors of the tokens from `start` to before `end`, shape (end - start, D).

    RAISES (VectorsError): EL062 without data, EL063 after retokenization, EL074 if copied records are ambiguous; for
        damaged data, and for vectors of different sizes.
    """
    mixed: Floats2d = _read(doc, prefix, start, end, _mixed_rows)
    return mixed


def get_layers(doc: Doc, prefix: str, start: int, end: int) -> Floats3d:
    """The layers of the tokens, shape (L+1, end - start, D). VectorsError as `get_mixed`, or without layers."""
    if "layers" not in _get_record(doc, prefix):
        raise VectorsError(
            f"The Doc has only the mixed vectors, not the layers (extension prefix '{prefix}'). Set store = "
            '"both" or "layers" in the config of the ELMo component, and do not remove the layers from the Doc.'
        )
    layers: Floats3d = _read(doc, prefix, start, end, lambda record, rows: record["layers"][:, rows])
    return layers


def _read(doc: Doc, prefix: str, start: int, end: int, get_rows: Callable[[VectorRecord, slice], Any]) -> Any:
    """`get_rows` returns rows of a record, shape (n, D) or (L+1, n, D). VectorsError as `get_mixed`."""
    record = _get_record(doc, prefix)
    starts, orths, is_averaged = record["starts"], record["orths"], record.get("averages_merged") is True
    has_all, is_same = len(starts) == len(doc), len(doc) == record["n_tokens"] or is_averaged
    if is_same and end - start == 1:
        token = doc[start]
        row = start if has_all else int(numpy.searchsorted(starts, token.idx))
        if row < len(starts) and starts[row] == token.idx and orths[row] == token.orth:
            return get_rows(record, slice(row, row + 1))
    elif is_same and has_all:
        found = _tokens(doc, start, end)
        if numpy.array_equal(starts[start:end], found[0]) and numpy.array_equal(orths[start:end], found[1]):
            return get_rows(record, slice(start, end))
    if not is_same or (has_all and not is_averaged):
        raise VectorsError(Errors.EL063.format(name=prefix, text=doc.text[:40]))
    lows, highs = _locate(doc, prefix, record, start, end)
    if (lows == highs).any():
        unclear = numpy.isin(_tokens(doc, start, end)[0], record.get("unclear", []))
        raise _no_vectors(doc[start:end].text, prefix, unclear)
    first, last = (int(lows[0]), int(highs[-1])) if start < end else (0, 0)
    return _average(get_rows(record, slice(first, last)), lows - first, highs - first)


def _locate(doc: Doc, prefix: str, record: Dict[str, Any], start: int, end: int) -> Tuple[Rows, Rows]:
    """Find the rows of tokens by their characters: one for each, several for a merged token, or none.

    RETURNS (Tuple[Rows, Rows]): The first row of each token, and the one after its last; equal for none.
    RAISES (VectorsError): EL063 if a token was split, or if tokens were merged that are not to be averaged.
    """
    starts, orths, stops = record["starts"], record["orths"], _find_stops(record)
    wanted, wanted_orths = _tokens(doc, start, end)
    next_start = doc[end].idx if end < len(doc) else _count_chars(doc)
    bounds = numpy.searchsorted(starts, numpy.append(wanted, next_start))
    lows, highs = bounds[:-1], bounds[1:].copy()
    if not len(starts):
        return lows, highs
    rows = lows.clip(max=len(starts) - 1)
    is_same = (highs - lows == 1) & (starts[rows] == wanted) & (orths[rows] == wanted_orths)
    is_lost = bool((stops[lows[lows > 0] - 1] > wanted[lows > 0]).any())
    for i in numpy.flatnonzero((highs > lows) & ~is_same).tolist():
        a, b, stop = int(lows[i]), int(highs[i]), wanted[i] + len(doc[start + i])
        has_gaps = starts[a] != wanted[i] or stops[b - 1] < stop or (starts[a + 1 : b] > stops[a : b - 1] + 1).any()
        is_averaged = record.get("averages_merged") is True and stops[b - 1] <= stop + 1
        is_lost = is_lost or not is_averaged or bool(b - a == 1 and not has_gaps)
        if has_gaps:  # merged with tokens that have no vectors
            highs[i] = a
    if is_lost:
        raise VectorsError(Errors.EL063.format(name=prefix, text=doc.text[:40]))
    return lows, highs


def _average(rows: Any, lows: Rows, highs: Rows) -> Any:
    """RETURNS (Any): For each token its row, or the mean of its rows without white space, which has rows of zeros."""
    found = rows[..., get_array_module(rows).asarray(lows), :]
    for i in numpy.flatnonzero(highs - lows > 1).tolist():
        several = rows[..., lows[i] : highs[i], :]
        n_words = int(several.reshape((-1, *several.shape[-2:])).any(axis=(0, 2)).sum())
        found[..., i, :] = several.sum(axis=-2, dtype="float32") / max(n_words, 1)
    return found


def _mixed_rows(record: Dict[str, Any], rows: slice) -> Floats2d:
    if "mixed" in record:
        mixed: Floats2d = record["mixed"][rows]
        return mixed
    layers = record["layers"][:, rows]
    return mix_layers(layers, record["weights"], record["gamma"], record["norm"]).astype(layers.dtype, copy=False)


def _find_stops(record: Dict[str, Any]) -> Rows:
    """RETURNS (Rows): The character after each token, or after the white space that follows it."""
    stops: Rows = record["stops"] if "stops" in record else numpy.append(record["starts"][1:], record["n_chars"])
    return stops


def _no_vectors(text: str, prefix: str, unclear: Any) -> VectorsError:
    template = Errors.EL074 if unclear.any() else Errors.EL062
    return VectorsError(template.format(name=prefix, text=text[:40]))


def _tokens(doc: Doc, start: int, end: int) -> Tuple[Rows, NDArray[numpy.uint64]]:
    """RETURNS (Tuple): Of each token the first character, and the hash of the text."""
    if end - start < len(doc) / 16:  # less work than for all tokens; `Span.to_array` is slow
        starts = numpy.asarray([token.idx for token in doc[start:end]], dtype="int64")
        return starts, numpy.asarray([token.orth for token in doc[start:end]], dtype="uint64")
    tokens: Any = doc.to_array([IDX, ORTH])[start:end]
    return tokens[:, 0].astype("int64"), tokens[:, 1].copy()


def _count_chars(doc: Doc) -> int:
    """RETURNS (int): Length of the text without the white space after it, in constant time."""
    if not len(doc):
        return 0
    last = doc[len(doc) - 1]
    return last.idx + len(last)


# Records in `doc.user_data`


def _make_key(doc: Doc, prefix: str) -> Any:
    return "._.", f"{prefix}_data", 0, _count_chars(doc)


def _find_keys(doc: Doc, prefix: str) -> List[Any]:
    name = f"{prefix}_data"
    return [key for key in doc.user_data if isinstance(key, tuple) and len(key) == 4 and key[:2] == ("._.", name)]


def _get_record(doc: Doc, prefix: str) -> VectorRecord:
    """RETURNS (VectorRecord): The record made for this Doc, in constant time after the first read."""
    return _find_settled(doc, prefix) or _settle(doc, prefix)


def _find_settled(doc: Doc, prefix: str) -> Optional[VectorRecord]:
    record: Any = doc.user_data.get(_make_key(doc, prefix))
    return record if getattr(record, "is_checked", False) and not record["n_carried"] else None


def _find_records(doc: Doc, prefix: str) -> List[Tuple[int, Dict[str, Any]]]:
    """RETURNS (List[Tuple[int, Dict[str, Any]]]): The character at which each record begins, and the checked record."""
    keys: List[Any] = _find_keys(doc, prefix)
    for key in keys:
        if not getattr(doc.user_data[key], "is_checked", False):
            _check_record(doc, prefix, key[2], doc.user_data[key])
    return [(key[2], doc.user_data[key]) for key in keys]


def _put_record(doc: Doc, prefix: str, record: VectorRecord) -> None:
    """Store a record in place of all others."""
    for key in _find_keys(doc, prefix):
        del doc.user_data[key]
    record.is_checked = True
    doc.user_data[_make_key(doc, prefix)] = record


def _settle(doc: Doc, prefix: str) -> VectorRecord:
    """Replace the records of a Doc that was cut, joined or read from bytes by one with the rows of its own tokens.

    RAISES (VectorsError): As `get_mixed`; the Doc is then unchanged.
    """
    found, (starts, orths) = _find_records(doc, prefix), _tokens(doc, 0, len(doc))
    clear: List[Tuple[int, Dict[str, Any]]] = []
    unclear = numpy.zeros(len(doc), dtype=bool)
    for first, record in found:
        # After one copy, all tokens of the Doc within the text of the record belong to it: the Doc was cut from that of
        # the record, or joined from Docs that include it. Copies are counted, unless the record is a dictionary, which
        # was read from bytes before this module was imported.
        if isinstance(record, VectorRecord):
            is_clear = record["n_carried"] <= 1
        else:
            is_clear = numpy.array_equal(record["starts"] + first, starts) and numpy.array_equal(record["orths"], orths)
        if is_clear or not len(doc):
            clear.append((first, record))
        else:
            unclear |= numpy.isin(starts, _shift(record["starts"], first))
    if len(found) == len(clear) == 1 and clear[0][0] == 0 and clear[0][1]["n_carried"] == 0:
        settled = VectorRecord(clear[0][1])
    else:
        settled = _join(doc, prefix, clear, starts[unclear])
    if settled.get("sets_hooks") is True:
        set_vector_hooks(doc, prefix)
    if settled.get("averages_merged") is not True:
        _locate(doc, prefix, settled, 0, len(doc))
    _put_record(doc, prefix, settled)
    return settled


def _join(doc: Doc, prefix: str, records: List[Tuple[int, Dict[str, Any]]], unclear: Rows) -> VectorRecord:
    """The rows of records within a Doc, in arrays of its own. VectorsError EL062 or EL074 for none; if sizes differ."""
    n_chars, parts = _count_chars(doc), []
    for first, record in sorted(records, key=lambda placed: placed[0]):
        rows = slice(*numpy.searchsorted(record["starts"], [-first, n_chars - first]).tolist())
        if rows.start < rows.stop or not len(doc):
            parts.append((first, record, rows))
    if not parts:
        raise _no_vectors(doc.text, prefix, unclear >= 0)
    kept = [record for _, record, _ in parts]
    arrays = [record[name] for record in kept for name in ("mixed", "layers") if name in record]
    widths, depths = {array.shape[-1] for array in arrays}, {len(array) for array in arrays if array.ndim == 3}
    if len(widths) > 1 or len(depths) > 1:
        sizes = f"widths {sorted(widths)}, numbers of layers {sorted(depths)}"
        raise VectorsError(
            f"The Doc '{doc.text[:40]}' was joined from Docs whose ELMo vectors (extension prefix '{prefix}') "
            f"have different sizes: {sizes}. Compute them all with the same biLM, or give each ELMo component "
            "its own prefix."
        )
    joined = VectorRecord(n_chars=n_chars, n_tokens=len(doc), n_carried=0)
    joined.update({name: kept[0][name] for name in ("weights", "gamma", "norm")})
    joined.update({name: True for name in FLAGS if all(record.get(name) is True for record in kept)})
    joined["starts"] = numpy.concatenate([_shift(record["starts"][rows], first) for first, record, rows in parts])
    joined["stops"] = numpy.concatenate([_shift(_find_stops(record)[rows], first) for first, record, rows in parts])
    joined["orths"] = numpy.concatenate([record["orths"][rows] for _, record, rows in parts])
    older = [_shift(record["unclear"], first) for first, record, _ in parts if "unclear" in record]
    joined["unclear"] = numpy.concatenate([unclear, *older])
    xp, mixes = get_array_module(arrays[0]), {(*record["weights"], record["gamma"], record["norm"]) for record in kept}
    if all("layers" in record for record in kept):
        joined["layers"] = xp.concatenate([record["layers"][:, rows] for _, record, rows in parts], axis=1)
    if len(mixes) > 1 or any("mixed" in record for record in kept):
        joined["mixed"] = xp.concatenate([_mixed_rows(record, rows) for _, record, rows in parts])
    if (joined["starts"][1:] <= joined["starts"][:-1]).any():  # no copy by spaCy has two rows for a character
        raise VectorsError(Errors.EL063.format(name=prefix, text=doc.text[:40]))
    if (numpy.append(joined["starts"], n_chars) > numpy.append(0, joined["stops"]) + 1).any():
        joined.pop("sets_hooks", None)  # other tokens may have vectors of their own
    return joined


def _shift(characters: Any, first: int) -> Rows:
    shifted: Rows = characters.astype("int64") + first
    return shifted


# Checks of a record from bytes, which may contain arbitrary values


def _check_record(doc: Doc, prefix: str, first: Any, record: Any) -> None:
    """RAISES (VectorsError): For a record with problems, for one with unusable values."""
    problems = _find_problems(first, record)
    if problems:
        raise VectorsError(
            f"The stored ELMo data of the Doc '{doc.text[:40]}' (extension prefix '{prefix}') is damaged: "
            f"{'; '.join(problems)}. Read the Doc from an intact copy, or compute its vectors again with the "
            "ELMo component (`nlp.get_pipe(NAME)(doc)`)."
        )
    if _has_unusable_values(record):
        raise VectorsError(
            f"The stored ELMo vectors of the Doc '{doc.text[:40]}' (extension prefix '{prefix}') contain NaN, "
            "infinity or very large values that would overflow. Read the Doc from an intact copy, or compute "
            "its vectors again with the ELMo component (`nlp.get_pipe(NAME)(doc)`)."
        )
    if isinstance(record, VectorRecord):
        record.is_checked = True


def _find_problems(first: Any, record: Any) -> List[str]:
    """RETURNS (List[str]): What differs from the docstring of `VectorRecord`; sizes only if all types are right."""
    if not isinstance(record, dict):
        return [f"the record is {_describe(record)}, should be a dictionary"]
    problems = [] if _is_place(first) else [f"the key has {_describe(first)}, should have a character"]
    problems += [f"{name} is missing" for name in ("starts", "orths", *VALUES) if name not in record]
    if "mixed" not in record and "layers" not in record:
        problems.append("mixed and layers are missing")
    for name, (kind, axes) in ARRAYS.items():
        if name in record and not _is_array(record[name], kind, len(axes)):
            wanted = f"an array of {KINDS[kind]} with {len(axes)} axes"
            problems.append(f"{name} is {_describe(record[name])}, should be {wanted}")
    for name, (is_fine, wanted) in VALUES.items():
        if name in record and not is_fine(record[name]):
            problems.append(f"{name} is {_describe(record[name])}, should be {wanted}")
    if problems:
        return problems
    shapes = {name: dict(zip(axes, record[name].shape)) for name, (_, axes) in ARRAYS.items() if name in record}
    shapes["weights"] = {"values": len(record["weights"])}
    sizes: Dict[str, int] = {}
    for name, shape in shapes.items():
        for axis, size in shape.items():
            if sizes.setdefault(axis, size) != size:
                problems.append(f"{name} has {size} {axis}, should have {sizes[axis]}")
    starts, n_chars = record["starts"], int(record["n_chars"])
    if "layers" in record and not len(record["layers"]):
        problems.append("layers is empty")
    if len(starts) and (starts[0] < 0 or not (starts[1:] > starts[:-1]).all()):
        problems.append("starts is not ascending from 0")
    elif len(starts) and starts[-1] > n_chars:
        problems.append(f"n_chars is {n_chars}, should be {starts[-1]} or more")
    return problems


def _has_unusable_values(record: Dict[str, Any]) -> bool:
    """Whether a value is NaN, infinite, or so large that results would overflow."""
    array = record["layers"] if "layers" in record else record["mixed"]
    largest = _find_largest(array)
    if not (largest <= LARGEST_VALUE and _find_largest(record.get("mixed", array)) <= LARGEST_VALUE):  # or NaN
        return True
    if "layers" not in record:
        return False
    largest = largest if record["norm"] is None else math.sqrt(array.shape[2])
    return bool(abs(record["gamma"]) * largest > float(numpy.finfo(array.dtype).max))


def _find_largest(array: Any) -> float:
    """RETURNS (float): The largest absolute value, NaN if one is."""
    return float(abs(array).max()) if array.size else 0.0


def _describe(value: Any) -> str:
    if is_xp_array(value):
        return f"an array of {value.dtype} with shape {value.shape}"
    text = repr(value)
    return text if len(text) <= 40 else f"a {type(value).__name__}"


def _is_array(value: Any, kind: str, n_axes: int) -> bool:
    return is_xp_array(value) and value.dtype.kind == kind and value.ndim == n_axes


def _is_place(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and abs(int(value)) < LARGEST_PLACE


def _is_count(value: Any) -> bool:
    return _is_place(value) and value >= 0


def _is_number(value: Any) -> bool:
    return is_number(value) and abs(value) <= LARGEST_VALUE


KINDS = {"i": "integers", "u": "hashes", "f": "numbers"}
ARRAYS = {
    "starts": ("i", ["rows"]),
    "orths": ("u", ["rows"]),
    "stops": ("i", ["rows"]),
    "layers": ("f", ["values", "rows", "columns"]),
    "mixed": ("f", ["rows", "columns"]),
    "unclear": ("i", ["characters"]),
}
VALUES: Dict[str, Tuple[Callable[[Any], bool], str]] = {
    "n_chars": (_is_count, "a number of characters"),
    "n_tokens": (_is_count, "a number of tokens"),
    "n_carried": (_is_count, "a number of copies"),
    "weights": (lambda value: isinstance(value, (list, tuple)) and all(map(_is_number, value)), "a list of numbers"),
    "gamma": (_is_number, "a number"),
    "norm": (lambda value: value is None or value in [*COMPONENT_NORMS], f"one of {COMPONENT_NORMS}"),
}


# Extension attributes, read-only as their arrays are; `doc._.elmo = None` removes the vectors


@dataclass(frozen=True)
class ExtensionGetter:
    """A getter for one prefix, picklable for spawned workers; getters of the same class and prefix are equal."""

    prefix: str


class VectorsGetter(ExtensionGetter):
    """`._.elmo`, read-only: the mixed vectors of a Doc, shape (n, D), that of a token, shape (D,), or the mean over the
    tokens of a span, zeros if it is empty.
    """

    def __call__(self, owner: Owner) -> Any:
        return _of_owner(owner, get_mixed(*_place(owner, self.prefix)))


class LayersGetter(ExtensionGetter):
    """`._.elmo_layers`, read-only: all layers, shape (L+1, n, D) of a Doc, (L+1, D) of a token and of a span."""

    def __call__(self, owner: Owner) -> Any:
        return _of_owner(owner, get_layers(*_place(owner, self.prefix)))


def register_extensions(prefix: str = "elmo") -> None:
    """Register the attributes `._.elmo` and `._.elmo_layers` of Doc, Span and Token. May be called repeatedly.

    The ELMo component calls it. Call it yourself for Docs read from a file without a pipeline.
    prefix (str): The component's `prefix` setting, which replaces "elmo" in the names.
    RAISES (ValueError): If a name is taken.
    """
    layers = f"{prefix}_layers"
    for owner in (Doc, Token, Span):
        register_getter(owner, prefix, VectorsGetter(prefix), partial(drop_vectors, prefix=prefix))
        register_getter(owner, layers, LayersGetter(prefix), partial(drop_layers, prefix=prefix))


def register_getter(
    owner: Any, name: str, getter: ExtensionGetter, remove: Optional[Callable[[Doc], None]] = None
) -> None:
    """Register an attribute; `remove` is called if that of a Doc is set to None. ValueError if the name is taken."""
    if not owner.has_extension(name):
        owner.set_extension(name, getter=getter, setter=partial(_set_attribute, name, remove))
    elif owner.get_extension(name)[2] != getter:
        raise ValueError(
            f"The extension attribute '{owner.__name__}._.{name}' is already registered by other code. Choose "
            "another prefix in the config of the ELMo component."
        )


def _set_attribute(name: str, remove: Optional[Callable[[Doc], None]], owner: Owner, value: Any) -> None:
    """RAISES (AttributeError): For any value but None; spaCy would ignore it without a setter."""
    if value is not None or not isinstance(owner, Doc) or remove is None:
        remedy = "" if remove is None else f" To remove it from a Doc, set `doc._.{name} = None`."
        raise AttributeError(
            f"'{type(owner).__name__}._.{name}' cannot be set: the ELMo component computes it. To change "
            f"values, copy them (`vectors = {type(owner).__name__}._.{name}.copy()`); to store the copy on the "
            "Doc, register another extension attribute." + remedy
        )
    remove(owner)


def read_only(array: Any) -> Any:
    """RETURNS (Any): A read-only view of a NumPy array; CuPy has no read-only arrays."""
    if not isinstance(array, numpy.ndarray):
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def _place(owner: Owner, prefix: str) -> Tuple[Doc, str, int, int]:
    """RETURNS (Tuple[Doc, str, int, int]): The Doc, the prefix, the first token, and the one after the last."""
    if isinstance(owner, Token):
        return owner.doc, prefix, owner.i, owner.i + 1
    if isinstance(owner, Span):
        return owner.doc, prefix, owner.start, owner.end
    return owner, prefix, 0, len(owner)


def _of_owner(owner: Owner, rows: Any) -> Any:
    if isinstance(owner, Token):
        return read_only(rows[..., 0, :].copy())  # a view would keep the array of the Doc in memory
    return read_only(_mean(rows).astype(rows.dtype) if isinstance(owner, Span) else rows)


def _mean(rows: Any) -> Any:
    """RETURNS (Any): The mean over tokens in float32, zeros if there are none."""
    return rows.sum(axis=-2, dtype="float32") / max(rows.shape[-2], 1)


# `doc.vector` and related attributes, for `set_vectors = true`


def set_vector_hooks(doc: Doc, prefix: str = "elmo") -> None:
    """Use the mixed vectors for `vector`, `has_vector`, `vector_norm` and `similarity` of a Doc, its spans and tokens.

    The hooks read what `._.elmo` reads; `doc.tensor` may be another component's. They are functions of this module, so
    that a Doc with hooks can be pickled. spaCy does not write hooks to bytes (warning W109), nor copy them in
    `Doc.from_docs`; the first read of `._.elmo` sets them again.
    doc (Doc): A Doc with ELMo vectors.
    prefix (str): The component's extension prefix.
    """
    hooks: Dict[str, Callable[..., Any]] = {
        "vector": partial(_vector, prefix),
        "has_vector": partial(_has_vector, prefix),
        "vector_norm": _vector_norm,
        "similarity": _similarity,
    }
    for known in (doc.user_hooks, doc.user_span_hooks, doc.user_token_hooks):
        known.update(hooks)


def _vector(prefix: str, owner: Owner) -> Any:
    """RETURNS (Any): The ELMo vector of a token, the mean over a Doc or span, shape (D,). That of a span is NaN if its
        Doc has no vectors that can be read, since `as_doc` reads it, and must not fail.
    RAISES (VectorsError): As `get_mixed`, for a Doc or token.
    """
    if isinstance(owner, Span) and _is_in_merge(owner.doc):
        rows = [owner.vocab.get_vector(token.orth) for token in owner]
        return numpy.asarray(sum(rows) / len(rows), dtype="float32")
    try:
        if isinstance(owner, Doc):
            return _mean_of_doc(owner, prefix)
        rows = get_mixed(*_place(owner, prefix))
    except VectorsError:
        if isinstance(owner, Span):
            return numpy.full((max(owner.vocab.vectors_length, 1),), numpy.nan, dtype="float32")
        set_by_as_doc = getattr(owner, "_vector", None)
        if set_by_as_doc is None or _find_keys(owner.doc, prefix):
            raise
        return set_by_as_doc
    return read_only(rows[0].copy()) if isinstance(owner, Token) else _mean(rows)


def _mean_of_doc(doc: Doc, prefix: str) -> Any:
    """RETURNS (Any): The mean over the tokens of a Doc, which is computed again only if these have changed: then one of
    them begins elsewhere.
    """
    starts, record = doc.to_array(IDX).tobytes(), _find_settled(doc, prefix)
    if record is None or record.mean is None or record.mean[0] != starts:
        mean = _mean(get_mixed(doc, prefix, 0, len(doc)))
        record = _get_record(doc, prefix)
        record.mean = starts, mean
    return record.mean[1].copy()


def _is_in_merge(doc: Doc) -> bool:
    """Whether spaCy is merging tokens: it has shortened `doc.tensor`, but not yet the Doc, when it asks for the vectors
    of spans, to store them in the vocabulary as static vectors of the merged words.
    """
    tensor = doc.tensor
    return bool(tensor is not None and tensor.size and len(tensor) != len(doc))


def _has_vector(prefix: str, owner: Owner) -> bool:
    """RETURNS (bool): Whether all tokens have ELMo vectors."""
    try:
        return bool(get_mixed(*_place(owner, prefix)).size)
    except VectorsError:
        return False


def _vector_norm(owner: Owner) -> float:
    """RETURNS (float): The length of the vector of a Doc, span or token."""
    vector = owner.vector.astype("float32")
    return float(get_array_module(vector).sqrt((vector**2).sum()))


def _similarity(owner: Owner, other: Any) -> float:
    """RETURNS (float): Cosine of the vectors of two Docs, spans or tokens; 0 if one is zero."""
    if not isinstance(other, (Doc, Span, Token)):
        return 0.0
    one, two = (part.vector.astype("float32", copy=False) for part in (owner, other))
    squares = float(one @ one) * float(two @ two)
    return float(one @ two) / math.sqrt(squares) if squares else 0.0
