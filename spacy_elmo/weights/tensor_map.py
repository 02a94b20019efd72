"""Mapping between slices of foreign datasets and slices of our state dict: one table for reading and writing.

With the tables of an LSTM cell and a highway, which AllenNLP and ELMoForManyLangs have in common. Their gates are in
the order i, f, j (candidate), o, ours i, j, f, o. Their forget bias includes the 1.0 that ours leaves out. The gate of
their highways carries where ours transforms: sigmoid(-x) = 1 - sigmoid(x), so it has the opposite sign.
"""

import operator
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..bilm.config import CharCNNConfig
from ..bilm.lstm import FORGET_BIAS

MAX_ABSOLUTE = 1e18  # the product of two such numbers is still finite in float32

Array = NDArray[Any]
Shape = Tuple[int, ...]


@dataclass(frozen=True)
class Transform:
    """An exactly invertible transform of values: the order of axes, or a sign.

    to_ours (Callable[[Any], Any]): Maps values of a dataset to values of the state dict.
    to_theirs (Callable[[Any], Any]): The inverse.
    """

    to_ours: Callable[[Any], Any]
    to_theirs: Callable[[Any], Any]


def _add_forget_bias(bias: Array, sign: int) -> Array:
    """Rounded once."""
    total: Array = np.add(bias, sign * FORGET_BIAS, dtype="float64").astype("float32")
    return total


# Of arrays and tensors.
UNCHANGED = Transform(lambda values: values, lambda values: values)
NEGATED = Transform(operator.neg, operator.neg)
TRANSPOSED = Transform(operator.attrgetter("T"), operator.attrgetter("T"))  # all axes in reverse order
# Exact where the sum is at least 0.5: for all biases that AllenNLP itself read from an HDF5 file.
WITHOUT_FORGET_BIAS = Transform(partial(_add_forget_bias, sign=-1), partial(_add_forget_bias, sign=1))
GATES = (0, 2, 1, 3)  # position of i, f, j, o in our order
FORGET = 1
DIRECTIONS = ("forward", "backward")


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


def whole(name: str, shape: Shape, key: str) -> Dataset:
    """RETURNS (Dataset): A dataset that is equal to an entry of our state dict."""
    return Dataset(name, shape, (TensorSlice(key),))


def highway_datasets(base: str, ours: str, width: int) -> List[Dataset]:
    """base (str), ours (str): Prefixes of a highway layer in the file and in our state dict.
    width (int): Of its input and output.
    RETURNS (List[Dataset]): Its weight (2 * width, width) and its bias (2 * width,).
    """
    halves = ((slice(None, width), UNCHANGED), (slice(width, None), NEGATED))
    table = []
    for name, shape in (("weight", (2 * width, width)), ("bias", (2 * width,))):
        slices = (TensorSlice(ours + name, at=(rows,), cut=(rows,), transform=change) for rows, change in halves)
        table.append(Dataset(base + name, shape, tuple(slices)))
    return table


def filter_datasets(base: str, ours: str, filters: Iterable[Tuple[int, int]], width: int) -> List[Dataset]:
    """base (str), ours (str): Prefixes of the convolutions in the file, to which their numbers are added, and in ours.
    filters (Iterable[Tuple[int, int]]): Their windows, and numbers of filters.
    width (int): Of a character vector.
    RETURNS (List[Dataset]): Weights (n, E, w) and biases (n,).
    """
    table = []
    for i, (window, n) in enumerate(filters):
        table.append(whole(f"{base}{i}.weight", (n, width, window), f"{ours}{i}.weight"))
        table.append(whole(f"{base}{i}.bias", (n,), f"{ours}{i}.bias"))
    return table


def char_cnn_datasets(config: CharCNNConfig, width: int, table: str, base: str) -> List[Dataset]:
    """config (CharCNNConfig): Sizes.
    width (int): P.
    table (str), base (str): Name of the character embeddings in the file, and prefix of all else.
    RETURNS (List[Dataset]): Character embeddings, convolutions, highways and projection of AllenNLP.
    """
    shape = (config.n_characters + 1, config.embedding_width)
    found = [whole(table, shape, "char_cnn.embedding")]
    found += filter_datasets(f"{base}char_conv_", "char_cnn.filters.", config.filters, config.embedding_width)
    for k in range(config.n_highway):
        n_rows = config.highway_width(width)
        found += highway_datasets(f"{base}_highways._layers.{k}.", f"char_cnn.highways.{k}.", n_rows)
    found.append(whole(f"{base}_projection.weight", (width, config.n_filters), "char_cnn.projection.weight"))
    return [*found, whole(f"{base}_projection.bias", (width,), "char_cnn.projection.bias")]


def cell_datasets(
    base: str, ours: str, direction: int, width: int, cell_width: int, input_width: Optional[int] = None
) -> List[Dataset]:
    """base (str), ours (str): Prefixes of an LSTM layer of one direction in the file, and of the layer in our state
        dict.
    direction (int): 0 forward, 1 backward.
    width (int), cell_width (int): P, H.
    input_width (Optional[int]): Width of its input, P by default.
    RETURNS (List[Dataset]): Its two weights (4H, P), its bias (4H,) and its projection (P, H).
    """
    table = []
    inputs = ("input_linearity", "input_weight", width if input_width is None else input_width)
    for name, key, n_in in (inputs, ("state_linearity", "recurrent_weight", width)):
        slices = gate_slices(ours + key, direction, cell_width, has_columns=True)
        table.append(Dataset(f"{base}{name}.weight", (4 * cell_width, n_in), slices))
    bias = gate_slices(ours + "bias", direction, cell_width)
    table.append(Dataset(f"{base}state_linearity.bias", (4 * cell_width,), bias))
    projection = TensorSlice(ours + "projection_weight", at=(direction,), transform=TRANSPOSED)
    return [*table, Dataset(f"{base}state_projection.weight", (width, cell_width), (projection,))]


def gate_slices(key: str, direction: int, h: int, *, has_columns: bool = False) -> Tuple[TensorSlice, ...]:
    """The four gates of a tensor of PyTorch's LSTMs (i, f, j, o) in ours.

    key (str): Name of ours.
    direction (int): 0 forward, 1 backward.
    h (int): H.
    has_columns (bool): A matrix (4H, P), ours (P, 4H); otherwise a bias (4H,).
    RETURNS (Tuple[TensorSlice, ...]): One per gate.
    """
    slices = []
    for gate, our_gate in enumerate(GATES):
        columns = slice(our_gate * h, (our_gate + 1) * h)
        at: Tuple[Any, ...] = (direction, slice(None), columns) if has_columns else (direction, columns)
        transform = TRANSPOSED if has_columns else WITHOUT_FORGET_BIAS if gate == FORGET else UNCHANGED
        slices.append(TensorSlice(key, at=at, cut=(slice(gate * h, (gate + 1) * h),), transform=transform))
    return tuple(slices)


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
            state[part.key][part.at] = part.transform.to_ours(arrays[dataset.name][part.cut])
    return state


def import_tensors(table: Iterable[Dataset], tensors: Mapping[str, Tensor]) -> Dict[str, Tensor]:
    """The same from tensors, attached to their graph; biases keep the forget bias of 1, with which AllenNLP computes.

    table (Iterable[Dataset]): The mapping.
    tensors (Mapping[str, Tensor]): The tensors of AllenNLP by name.
    RETURNS (Dict[str, Tensor]): By name in our state dict.
    """
    parts: Dict[str, List[Tuple[Tuple[Any, ...], Tensor]]] = defaultdict(list)
    for dataset in table:
        for part in dataset.slices:
            change = UNCHANGED if part.transform is WITHOUT_FORGET_BIAS else part.transform
            parts[part.key].append((part.at, change.to_ours(tensors[dataset.name][part.cut])))
    return {key: _join(found) for key, found in parts.items()}


def _join(parts: Sequence[Tuple[Tuple[Any, ...], Tensor]]) -> Tensor:
    """Parts and their indices: a direction, or slices of the last dimension of the index, or one of both after it."""
    first, tensor = parts[0]
    if not first:
        return tensor
    if isinstance(first[0], int):
        directions = sorted({at[0] for at, _ in parts})
        return torch.stack([_join([(at[1:], part) for at, part in parts if at[0] == k]) for k in directions])
    ordered = sorted(parts, key=lambda found: found[0][-1].start or 0)
    return torch.cat([part for _, part in ordered], dim=len(first) - 1)


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
            array[part.cut] = part.transform.to_theirs(state[part.key][part.at])
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
