"""Checks of the values of a `VectorRecord`: when they are stored, and from bytes, which may have arbitrary values."""

import math
from numbers import Integral
from typing import Annotated, Any, Callable, Dict, List

import numpy
from pydantic import AfterValidator, ConfigDict
from pydantic.dataclasses import dataclass
from thinc.util import is_xp_array

from ..settings import check_record, require
from ..util import is_number

LARGEST_VALUE = 1e15  # the layer norm sums squares; larger values would overflow float32
COMPONENT_NORMS = (None, "token")
LARGEST_PLACE = 2**40  # largest position of a character or token; sums of two fit in 64 bits


def find_problems(first: Any, record: Any) -> List[str]:
    """RETURNS (List[str]): What differs from the docstring of `VectorRecord`; sizes only if all types are right."""
    problems = [] if _is_place(first) else [f"the key has {_describe_stored(first)}, should have a character"]
    if not isinstance(record, dict):
        return [*problems, f"the record is {_describe_stored(record)}, should be a dictionary"]
    return [*problems, *(problem.describe() for problem in check_record(StoredRecord, record)[1])]


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


def _describe_stored(value: Any) -> str:
    if is_xp_array(value):
        return f"an array of {value.dtype} with shape {value.shape}"
    text = repr(value)
    return text if len(text) <= 40 else f"a {type(value).__name__}"


def _is_place(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and abs(int(value)) < LARGEST_PLACE


def is_count(value: Any) -> bool:
    return _is_place(value) and value >= 0


def _is_number(value: Any) -> bool:
    return is_number(value) and abs(value) <= LARGEST_VALUE


def _are_numbers(values: Any) -> bool:
    return isinstance(values, (list, tuple)) and all(map(_is_number, values))


def _is_norm(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value in COMPONENT_NORMS)


def _must_be(is_fine: Callable[[Any], bool], expected: str) -> AfterValidator:
    def check(value: Any) -> Any:
        require((is_fine(value), f"is {_describe_stored(value)}, should be {expected}"))
        return value

    return AfterValidator(check)


def _array(kind: str, n_axes: int) -> AfterValidator:
    def is_fine(value: Any) -> bool:
        return is_xp_array(value) and value.dtype.kind == kind and value.ndim == n_axes

    return _must_be(is_fine, f"an array of {DTYPE_KINDS[kind]} with {n_axes} axes")


DTYPE_KINDS = {"i": "integers", "u": "hashes", "f": "numbers"}
AXES = {
    "starts": ["rows"],
    "orths": ["rows"],
    "stops": ["rows"],
    "layers": ["values", "rows", "columns"],
    "mixed": ["rows", "columns"],
    "weights": ["values"],
}
PlaceArray = Annotated[Any, _array("i", 1)]
OrthArray = Annotated[Any, _array("u", 1)]


@dataclass(config=ConfigDict(arbitrary_types_allowed=True, extra="ignore"))
class StoredRecord:
    """The checked values of a `VectorRecord`, see its docstring. None stands for a value that is not there."""

    starts: PlaceArray
    orths: OrthArray
    n_chars: Annotated[Any, _must_be(is_count, "a number of characters")]
    n_tokens: Annotated[Any, _must_be(is_count, "a number of tokens")]
    n_carried: Annotated[Any, _must_be(is_count, "a number of copies")]
    weights: Annotated[Any, _must_be(_are_numbers, "a list of numbers")]
    gamma: Annotated[Any, _must_be(_is_number, "a number")]
    norm: Annotated[Any, _must_be(_is_norm, f"one of {COMPONENT_NORMS}")]
    stops: PlaceArray = None
    layers: Annotated[Any, _array("f", 3)] = None
    mixed: Annotated[Any, _array("f", 2)] = None
    unclear: PlaceArray = None

    def __post_init__(self) -> None:
        problems: List[str] = []
        if self.layers is None and self.mixed is None:
            problems.append("mixed and layers are missing")
        sizes: Dict[str, int] = {}
        for name, axes in AXES.items():
            value = getattr(self, name)
            shape = () if value is None else (len(value),) if name == "weights" else value.shape
            for axis, size in zip(axes, shape):
                if sizes.setdefault(axis, size) != size:
                    problems.append(f"{name} has {size} {axis}, should have {sizes[axis]}")
        starts, n_chars = self.starts, int(self.n_chars)
        if self.layers is not None and not len(self.layers):
            problems.append("layers is empty")
        if len(starts) and (starts[0] < 0 or not (starts[1:] > starts[:-1]).all()):
            problems.append("starts is not ascending from 0")
        elif len(starts) and starts[-1] > n_chars:
            problems.append(f"n_chars is {n_chars}, should be {starts[-1]} or more")
        require(*((False, problem) for problem in problems))
