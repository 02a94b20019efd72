"""Checks of a stored record of ELMo vectors: a Doc read from bytes may contain arbitrary values."""

import math
from numbers import Integral
from typing import Any, Callable, Dict, List, NamedTuple

import numpy
from thinc.util import is_xp_array

from .._choices import COMPONENT_NORMS

LARGEST_VALUE = 1e15  # the layer norm sums squares; larger values would overflow float32
LARGEST_PLACE = 2**40  # largest number of a character or token; sums of two fit in 64 bits


class _Field(NamedTuple):
    """Check of the value of a field, and its description."""

    is_fine: Callable[[Any], bool]
    wanted: str


def find_problems(record: Any, first_char: Any) -> List[str]:
    """Compare a stored record with what `vector_record.VectorRecord` describes.

    record (Any): The value in `doc.user_data`.
    first_char (Any): First character of the record in the Doc, from the key of the record.
    RETURNS (List[str]): All problems. Sizes and positions are checked only if all fields have the right type.
    """
    if not isinstance(record, dict):
        return [f"the record is {_describe(record)}, should be a dictionary"]
    problems = [] if _is_place(first_char) else [f"the key has {_describe(first_char)}, should have a character"]
    missing = [f"{name} is missing" for name in REQUIRED if name not in record]
    if "mixed" not in record and "layers" not in record:
        missing.append("mixed and layers are missing")
    fields = {**REQUIRED, **OPTIONAL}
    mistyped = [
        f"{name} is {_describe(record[name])}, should be {field.wanted}"
        for name, field in fields.items()
        if name in record and not field.is_fine(record[name])
    ]
    return [*problems, *missing, *mistyped] or _wrong_sizes(record) or _wrong_places(record)


def has_unusable_values(record: Dict[str, Any]) -> bool:
    """record (Dict[str, Any]): A record without problems.
    RETURNS (bool): Whether a value is NaN, infinite, or so large that results would overflow.
    """
    largest = [_largest(record[name]) for name in ("mixed", "layers") if name in record]
    if not all(value <= LARGEST_VALUE for value in largest):  # false for NaN
        return True
    if "layers" in record and _overflows(record, largest[-1]):
        return True
    return "marks" in record and _has_unusable_boundaries(record)


def _overflows(record: Dict[str, Any], largest: float) -> bool:
    """Whether the mix of the layers could overflow their dtype."""
    layers = record["layers"]
    if record["norm"] is not None:
        largest = math.sqrt(layers.shape[2])
    return bool(abs(record["gamma"]) * largest > float(numpy.finfo(layers.dtype).max))


def _has_unusable_boundaries(record: Dict[str, Any]) -> bool:
    """Whether the sums of the boundaries cannot be sums of finite values: their variance would be negative."""
    n_boundaries, sums, squares = record["marks"]
    width = (record["layers"] if "layers" in record else record["mixed"]).shape[-1]
    if not (_largest(sums) <= LARGEST_VALUE and _largest(squares) <= LARGEST_VALUE**2):
        return True
    return bool((squares * n_boundaries * width < sums**2 * (1 - 1e-6)).any())


def _wrong_sizes(record: Dict[str, Any]) -> List[str]:
    """RETURNS (List[str]): Arrays with inconsistent sizes."""
    n_tokens, found = len(record["starts"]), {"orths": len(record["orths"])}
    if "mixed" in record:
        found["mixed"] = record["mixed"].shape[0]
    if "layers" in record:
        found["layers"] = record["layers"].shape[1]
    problems = [
        f"{name} has {n_rows} rows, should have {n_tokens}" for name, n_rows in found.items() if n_rows != n_tokens
    ]
    widths = {record[name].shape[-1] for name in ("mixed", "layers") if name in record}
    if len(widths) > 1:
        problems.append(f"mixed has width {record['mixed'].shape[-1]}, layers have {record['layers'].shape[-1]}")
    counts = {"weights": len(record["weights"]), "marks": len(record["marks"][1]) if "marks" in record else None}
    n_layers = record["layers"].shape[0] if "layers" in record else None
    return problems + [
        f"{name} has values for {count} layers, should have {n_layers}"
        for name, count in counts.items()
        if None not in (count, n_layers) and count != n_layers
    ]


def _wrong_places(record: Dict[str, Any]) -> List[str]:
    """RETURNS (List[str]): Token positions that are impossible in a Doc."""
    starts, n_tokens = record["starts"], len(record["starts"])
    last = int(starts[-1]) if n_tokens else 0
    is_rising = not n_tokens or (starts[0] == 0 and bool((starts[1:] >= starts[:-1]).all()))
    checks = [
        (is_rising, "starts is not ascending from 0"),
        (last <= record["n_chars"], f"n_chars is {record['n_chars']}, should be {last} or more"),
        (
            record["first"] + n_tokens <= record["n_tokens"],
            f"n_tokens is {record['n_tokens']}, should be {record['first'] + n_tokens} or more",
        ),
    ]
    return [text for is_fine, text in checks if not is_fine]


def _largest(array: Any) -> float:
    """RETURNS (float): The largest absolute value, NaN if one is."""
    return float(abs(array).max()) if array.size else 0.0


def _is_array(value: Any, kind: str, n_dims: int) -> bool:
    return is_xp_array(value) and value.dtype.kind == kind and value.ndim == n_dims


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_place(value: Any) -> bool:
    return _is_whole(value) and abs(value) < LARGEST_PLACE


def _is_count(value: Any) -> bool:
    return _is_place(value) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST_VALUE


def _is_boundary_sums(value: Any) -> bool:
    if not (isinstance(value, (list, tuple)) and len(value) == 3 and _is_count(value[0])):
        return False
    return all(_is_array(sums, "f", 1) for sums in value[1:]) and value[1].shape == value[2].shape


def _describe(value: Any) -> str:
    if is_xp_array(value):
        return f"an array of {value.dtype} with shape {value.shape}"
    text = repr(value)
    return text if len(text) <= 40 else f"a {type(value).__name__}"


REQUIRED: Dict[str, _Field] = {
    "starts": _Field(lambda value: _is_array(value, "i", 1), "an array of integers"),
    "orths": _Field(lambda value: _is_array(value, "u", 1), "an array of hashes"),
    "n_chars": _Field(_is_count, "a number of characters"),
    "first": _Field(_is_count, "the number of a token"),
    "n_tokens": _Field(_is_count, "a number of tokens"),
    "n_carried": _Field(_is_count, "a number of copies"),
    "weights": _Field(
        lambda value: isinstance(value, (list, tuple)) and all(map(_is_number, value)), "a list of numbers"
    ),
    "gamma": _Field(_is_number, "a number"),
    "norm": _Field(
        lambda value: value is None or (isinstance(value, str) and value in COMPONENT_NORMS),
        f"one of {COMPONENT_NORMS}",
    ),
}
OPTIONAL: Dict[str, _Field] = {
    "mixed": _Field(lambda value: _is_array(value, "f", 2), "an array of numbers with 2 axes"),
    "layers": _Field(lambda value: _is_array(value, "f", 3) and len(value) > 0, "an array of numbers with 3 axes"),
    "marks": _Field(_is_boundary_sums, "a number of boundaries and two arrays of sums"),
}
