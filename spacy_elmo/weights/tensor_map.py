"""Which slice of a foreign dataset is which slice of our state dict: one table for reading and for writing."""

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
    """An invertible map of values: the order of axes, a sign.

    to_ours (Callable[[Array], Array]): From a dataset's values to those of the state dict.
    to_theirs (Callable[[Array], Array]): The inverse, bit for bit.
    """

    to_ours: Callable[[Array], Array]
    to_theirs: Callable[[Array], Array]


def permute(*axes: int) -> Transform:
    """axes (int): Order of the dataset's axes in the state dict.
    RETURNS (Transform): Puts them into this order.
    """
    inverse = tuple(int(axis) for axis in np.argsort(axes))
    return Transform(partial(np.transpose, axes=axes), partial(np.transpose, axes=inverse))


UNCHANGED = Transform(np.asarray, np.asarray)
NEGATED = Transform(np.negative, np.negative)  # gates of AllenNLP carry where ours transform


@dataclass(frozen=True)
class Piece:
    """One slice of a dataset and its place in our state dict.

    key (str): Name in the state dict.
    at (Tuple[Any, ...]): Index into the state array, empty for all of it.
    cut (Tuple[Any, ...]): Index into the dataset, empty for all of it.
    transform (Transform): Between the slice's values and ours.
    """

    key: str
    at: Tuple[Any, ...] = ()
    cut: Tuple[Any, ...] = ()
    transform: Transform = UNCHANGED

    def to_ours(self, dataset: Array) -> Array:
        """RETURNS (Array): The slice as our state dict holds it."""
        return self.transform.to_ours(dataset[self.cut])

    def to_theirs(self, ours: Array) -> Array:
        """RETURNS (Array): The slice as the dataset holds it."""
        return self.transform.to_theirs(ours[self.at])


@dataclass(frozen=True)
class Dataset:
    """A dataset of a foreign file.

    name (str): Its path in the file.
    shape (Shape): The shape it should have.
    pieces (Tuple[Piece, ...]): Where its slices go; together they are all of it.
    """

    name: str
    shape: Shape
    pieces: Tuple[Piece, ...]


def import_arrays(
    table: Iterable[Dataset], arrays: Mapping[str, Array], shapes: Mapping[str, Shape]
) -> Dict[str, Array]:
    """Fill a state dict from a file's arrays.

    table (Iterable[Dataset]): What goes where.
    arrays (Mapping[str, Array]): The file's arrays by name.
    shapes (Mapping[str, Shape]): Shapes of our state dict.
    RETURNS (Dict[str, Array]): float32 arrays; what no dataset fills is zero.
    """
    state = {key: np.zeros(shape, dtype="float32") for key, shape in shapes.items()}
    for dataset in table:
        for piece in dataset.pieces:
            state[piece.key][piece.at] = piece.to_ours(arrays[dataset.name])
    return state


def export_arrays(table: Iterable[Dataset], state: Mapping[str, Array]) -> Dict[str, Array]:
    """The inverse of `import_arrays`, bit for bit.

    table (Iterable[Dataset]): What goes where.
    state (Mapping[str, Array]): Our state dict.
    RETURNS (Dict[str, Array]): float32 arrays by dataset name.
    """
    arrays: Dict[str, Array] = {}
    for dataset in table:
        array = np.empty(dataset.shape, dtype="float32")
        for piece in dataset.pieces:
            array[piece.cut] = piece.to_theirs(state[piece.key])
        arrays[dataset.name] = array
    return arrays


def find_misfits(wanted: Mapping[str, Shape], arrays: Mapping[str, Array]) -> List[str]:
    """Everything that keeps arrays from being used, one text each.

    wanted (Mapping[str, Shape]): Names and shapes that should be there.
    arrays (Mapping[str, Array]): What is there.
    RETURNS (List[str]): Missing, unexpected, of another shape, not numbers, not finite or so large that products are
        not; empty if all is fine.
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
    """Values that are not finite as float32: a float64 file may hold larger ones."""
    with np.errstate(over="ignore"):
        return int(array.size - np.count_nonzero(np.isfinite(array.astype("float32", copy=False))))


def _count_too_large(array: Array) -> int:
    """Values beyond the limit, counted only where the largest is: float() since float16 does not hold the limit."""
    if not array.size or max(float(array.max()), -float(array.min())) <= MAX_ABSOLUTE:
        return 0
    return int(np.count_nonzero(np.abs(array) > MAX_ABSOLUTE))
