"""Checks of the values of a `VectorRecord`: when they are stored, and from bytes, which may have arbitrary values."""

import math
from numbers import Integral
from typing import Any, Callable, Dict, List, Tuple

import numpy
from thinc.util import get_array_module, is_xp_array

from ..util import is_number

LARGEST_VALUE = 1e15  # the layer norm sums squares; larger values would overflow float32
COMPONENT_NORMS = (None, "token")
LARGEST_PLACE = 2**40  # largest position of a character or token; sums of two fit in 64 bits


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


def find_problems(first: Any, record: Any) -> List[str]:
    """RETURNS (List[str]): What differs from the docstring of `VectorRecord`; sizes only if all types are right."""
    if not isinstance(record, dict):
        return [f"the record is {_describe(record)}, should be a dictionary"]
    problems = [] if _is_place(first) else [f"the key has {_describe(first)}, should have a character"]
    problems += [f"{name} is missing" for name in ("starts", "orths", *VALUES) if name not in record]
    if "mixed" not in record and "layers" not in record:
        problems.append("mixed and layers are missing")
    for name, (kind, axes) in ARRAYS.items():
        if name in record and not _is_array(record[name], kind, len(axes)):
            expected = f"an array of {KINDS[kind]} with {len(axes)} axes"
            problems.append(f"{name} is {_describe(record[name])}, should be {expected}")
    for name, (is_fine, expected) in VALUES.items():
        if name in record and not is_fine(record[name]):
            problems.append(f"{name} is {_describe(record[name])}, should be {expected}")
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


def has_unusable_values(record: Dict[str, Any]) -> bool:
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


def is_count(value: Any) -> bool:
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
    "n_chars": (is_count, "a number of characters"),
    "n_tokens": (is_count, "a number of tokens"),
    "n_carried": (is_count, "a number of copies"),
    "weights": (lambda value: isinstance(value, (list, tuple)) and all(map(_is_number, value)), "a list of numbers"),
    "gamma": (_is_number, "a number"),
    "norm": (lambda value: value is None or value in [*COMPONENT_NORMS], f"one of {COMPONENT_NORMS}"),
}
