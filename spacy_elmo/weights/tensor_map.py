"""Mapping between slices of foreign datasets and slices of our state dict: one table for reading and writing."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Dict, Iterable, List, Mapping, Tuple

import numpy as np
from numpy.typing import NDArray

from .limits import MAX_ABSOLUTE

Array = NDArray[Any]
Shape = Tuple[int, ...]


@dataclass(frozen=True)
class Transform:
    """An exactly invertible transform of values: the order of axes, or a sign.

    to_ours (Callable[[Array], Array]): Maps values of a dataset to values of the state dict.
    to_theirs (Callable[[Array], Array]): The inverse.
    """

    to_ours: Callable[[Array], Array]
    to_theirs: Callable[[Array], Array]


def permute(*axes: int) -> Transform:
    """axes (int): Order of the dataset's axes in the state dict.
    RETURNS (Transform): The permutation.
    """
    inverse = tuple(int(axis) for axis in np.argsort(axes))
    return Transform(partial(np.transpose, axes=axes), partial(np.transpose, axes=inverse))


UNCHANGED = Transform(np.asarray, np.asarray)


@dataclass(frozen=True)
class TensorSlice:
    """A slice of a dataset and its position in our state dict.

    key (str): Name in the state dict.
    at (Tuple[Any, ...]): Index into the state array, empty for all of it.
    cut (Tuple[Any, ...]): Index into the dataset, empty for all of it.
    transform (Transform): Transform between the values of both.
    """

    key: str
    at: Tuple[Any, ...] = ()
    cut: Tuple[Any, ...] = ()
    transform: Transform = UNCHANGED

    def to_ours(self, dataset: Array) -> Array:
        """RETURNS (Array): The slice for our state dict."""
        return self.transform.to_ours(dataset[self.cut])

    def to_theirs(self, ours: Array) -> Array:
        """RETURNS (Array): The slice for the dataset."""
        return self.transform.to_theirs(ours[self.at])


@dataclass(frozen=True)
class Dataset:
    """A dataset of a foreign file.

    name (str): Its path in the file.
    shape (Shape): Its expected shape.
    slices (Tuple[TensorSlice, ...]): Its slices; together they cover the dataset.
    """

    name: str
    shape: Shape
    slices: Tuple[TensorSlice, ...]


def import_arrays(
    table: Iterable[Dataset], arrays: Mapping[str, Array], shapes: Mapping[str, Shape]
) -> Dict[str, Array]:
    """Fill a state dict from the arrays of a file.

    table (Iterable[Dataset]): The mapping.
    arrays (Mapping[str, Array]): The arrays of the file by name.
    shapes (Mapping[str, Shape]): Shapes of our state dict.
    RETURNS (Dict[str, Array]): float32 arrays, zero where no dataset is mapped.
    """
    state = {key: np.zeros(shape, dtype="float32") for key, shape in shapes.items()}
    for dataset in table:
        for part in dataset.slices:
            state[part.key][part.at] = part.to_ours(arrays[dataset.name])
    return state


def export_arrays(table: Iterable[Dataset], state: Mapping[str, Array]) -> Dict[str, Array]:
    """The exact inverse of `import_arrays`.

    table (Iterable[Dataset]): The mapping.
    state (Mapping[str, Array]): Our state dict.
    RETURNS (Dict[str, Array]): float32 arrays by dataset name.
    """
    arrays: Dict[str, Array] = {}
    for dataset in table:
        array = np.empty(dataset.shape, dtype="float32")
        for part in dataset.slices:
            array[part.cut] = part.to_theirs(state[part.key])
        arrays[dataset.name] = array
    return arrays


def find_misfits(wanted: Mapping[str, Shape], arrays: Mapping[str, Array]) -> List[str]:
    """Find all problems of arrays.

    wanted (Mapping[str, Shape]): Expected names and shapes.
    arrays (Mapping[str, Array]): The arrays.
    RETURNS (List[str]): A description of each missing or unexpected array, wrong shape or dtype, and of values that are
        not finite, or so large that products would not be.
    """
    problems: List[str] = []
    for name in sorted(set(wanted) - set(arrays)):
        problems.append(f"missing: {name} {list(wanted[name])}")
    for name in sorted(set(arrays) - set(wanted)):
        problems.append(f"unexpected: {name} {list(arrays[name].shape)}")
    for name in sorted(set(arrays) & set(wanted)):
        found = arrays[name]
        if found.shape != tuple(wanted[name]):
            problems.append(f"wrong shape: {name} is {list(found.shape)}, should be {list(wanted[name])}")
        if found.dtype.kind != "f":
            problems.append(f"wrong type: {name} is {found.dtype}, should be floating point")
        elif n_bad := _count_unusable(found):
            problems.append(f"not finite: {name} has {n_bad} of {found.size} values")
        elif n_bad := _count_too_large(found):
            problems.append(f"too large: {name} has {n_bad} of {found.size} values above {MAX_ABSOLUTE:g}")
    return problems


def _count_unusable(array: Array) -> int:
    """Number of values that are not finite in float32, including too large float64 values."""
    with np.errstate(over="ignore"):
        return int(array.size - np.count_nonzero(np.isfinite(array.astype("float32", copy=False))))


def _count_too_large(array: Array) -> int:
    """Number of values above the limit. float() is needed, since the limit is infinite in float16."""
    if not array.size or max(float(array.max()), -float(array.min())) <= MAX_ABSOLUTE:
        return 0
    return int(np.count_nonzero(np.abs(array) > MAX_ABSOLUTE))
