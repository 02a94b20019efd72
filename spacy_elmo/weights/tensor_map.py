"""Between the arrays of a file and a network: one table of names for reading and writing, for every format.

A `Dataset` is an array of a file, by its name there, with the places of its slices in our state dict. The softmax and
the vocabulary, whose words are the rows of tables, are here, too.
"""

import operator
import warnings
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from torch import Tensor, nn

from ..bilm.char_cnn import has_mask_row
from ..bilm.config import MAX_ABSOLUTE, BiLMConfig
from ..bilm.lstm import FORGET_BIAS
from ..bilm.network import BiLMNetwork, LMHead, SoftmaxHead
from ..errors import Errors, Warnings
from ..inference.products import full_state
from ..text.words import BYTE_ORDER_MARK, Vocabulary
from ..util import MAX_NAMED, listed, shorten
from .archive import Array, File, Shape


@dataclass(frozen=True)
class Transform:
    """An exactly invertible transform of values, from a dataset to the state dict and back: the order of axes, or a
    sign.
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


@dataclass(frozen=True)
class TensorSlice:
    """A slice of a dataset, and its position in our state dict.

    key (str): Name in the state dict.
    state_index (Tuple[Any, ...]), file_index (Tuple[Any, ...]): Index into the state array and into the dataset, empty
        for all of it.
    """

    key: str
    state_index: Tuple[Any, ...] = ()
    file_index: Tuple[Any, ...] = ()
    transform: Transform = UNCHANGED


@dataclass(frozen=True)
class Dataset:
    """A dataset of a foreign file: its path there, its expected shape, and its slices, which together cover it."""

    name: str
    shape: Shape
    slices: Tuple[TensorSlice, ...]


def whole(name: str, shape: Shape, key: str) -> Dataset:
    """A dataset that is equal to an entry of our state dict."""
    return Dataset(name, shape, (TensorSlice(key),))


def import_arrays(
    table: Iterable[Dataset], arrays: Mapping[str, Array], shapes: Mapping[str, Shape]
) -> Dict[str, Array]:
    """A state dict of the given shapes from the arrays of a file: float32, zero where no dataset is mapped."""
    state = {key: np.zeros(shape, dtype="float32") for key, shape in shapes.items()}
    for dataset in table:
        for view in dataset.slices:
            state[view.key][view.state_index] = view.transform.to_ours(arrays[dataset.name][view.file_index])
    return state


def import_tensors(table: Iterable[Dataset], tensors: Mapping[str, Tensor]) -> Dict[str, Tensor]:
    """The same as `import_arrays` from tensors of AllenNLP, attached to their graph; biases keep the forget bias of 1,
    with which AllenNLP computes.
    """
    slices_by_key: Dict[str, List[Tuple[Tuple[Any, ...], Tensor]]] = defaultdict(list)
    for dataset in table:
        for view in dataset.slices:
            change = UNCHANGED if view.transform is WITHOUT_FORGET_BIAS else view.transform
            slices_by_key[view.key].append((view.state_index, change.to_ours(tensors[dataset.name][view.file_index])))
    return {key: _join(slices) for key, slices in slices_by_key.items()}


def _join(slices: Sequence[Tuple[Tuple[Any, ...], Tensor]]) -> Tensor:
    """Concatenate slices by their index: each is a whole tensor, a direction, a range of the last dimension, or a range
    of a direction.
    """
    first, tensor = slices[0]
    if not first:
        return tensor
    if isinstance(first[0], int):
        directions = sorted({at[0] for at, _ in slices})
        return torch.stack([_join([(at[1:], values) for at, values in slices if at[0] == k]) for k in directions])
    ordered = sorted(slices, key=lambda item: item[0][-1].start or 0)
    return torch.cat([values for _, values in ordered], dim=len(first) - 1)


def export_arrays(table: Iterable[Dataset], state: Mapping[str, Array]) -> Dict[str, Array]:
    """The exact inverse of `import_arrays`: float32 arrays by dataset name from our state dict."""
    arrays: Dict[str, Array] = {}
    for dataset in table:
        array = np.empty(dataset.shape, dtype="float32")
        for view in dataset.slices:
            array[view.file_index] = view.transform.to_theirs(state[view.key][view.state_index])
        arrays[dataset.name] = array
    return arrays


def find_mismatches(expected: Mapping[str, Shape], arrays: Mapping[str, Array]) -> List[str]:
    """A description of each array that is missing, unexpected, of another shape or dtype, or that has values that are
    not finite, or so large that products would not be.
    """
    problems: List[str] = []
    for name in sorted(set(expected) - set(arrays)):
        problems.append(f"missing: {name} {list(expected[name])}")
    for name in sorted(set(arrays) - set(expected)):
        problems.append(f"unexpected: {name} {list(arrays[name].shape)}")
    for name in sorted(set(arrays) & set(expected)):
        array = arrays[name]
        if array.shape != tuple(expected[name]):
            problems.append(f"wrong shape: {name} is {list(array.shape)}, should be {list(expected[name])}")
        if array.dtype.kind != "f":
            problems.append(f"wrong type: {name} is {array.dtype}, should be floating point")
        elif n_bad := _count_unusable(array):
            problems.append(f"not finite: {name} has {n_bad} of {array.size} values")
        elif n_bad := _count_too_large(array):
            problems.append(f"too large: {name} has {n_bad} of {array.size} values above {MAX_ABSOLUTE:g}")
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


def raise_mismatches(problems: Sequence[str], path: object, options: object) -> None:
    """ValueError EL026 with the problems from `find_mismatches`, if there are any, in the file of the arrays (`path`)
    for the file of the settings (`options`).
    """
    if problems:
        settings = {"options": options, "n_problems": len(problems), "problems": listed(problems)}
        raise ValueError(Errors.EL026.format(path=path, **settings))


def load_network(config: BiLMConfig, table: Iterable[Dataset], arrays: Mapping[str, Array]) -> BiLMNetwork:
    """A network with the weights of a file, float32, in evaluation mode, without random initialization. The arrays have
    no problems, see `find_mismatches`.
    """
    with torch.device("meta"):
        network = BiLMNetwork(config)
    state = import_arrays(table, arrays, {key: tuple(tensor.shape) for key, tensor in network.state_dict().items()})
    network.load_state_dict({key: torch.from_numpy(array) for key, array in state.items()}, assign=True)
    return network.eval()


def network_shapes(config: BiLMConfig) -> Dict[str, Shape]:
    """Names and shapes of the state dict of a network; no memory is taken."""
    with torch.device("meta"):
        network = BiLMNetwork(config)
    return {key: tuple(tensor.shape) for key, tensor in network.state_dict().items()}


def count_numbers(shapes: Mapping[str, Shape]) -> Dict[str, int]:
    """Parameters in each array of a network. The first row of a table of symbols is the mask, and not a parameter."""
    return {name: prod(shape) - (shape[1] if has_mask_row(name) else 0) for name, shape in shapes.items()}


def softmax_shapes(
    names: Tuple[str, str], arrays: Mapping[str, Array], config: BiLMConfig, *, is_shared: bool, is_needed: bool = False
) -> Dict[str, Shape]:
    """Expected shapes of the weight and the bias, by these names, of a softmax with any number of rows, or with those
    of the word table if it is shared; empty without a softmax, unless it is needed.
    """
    stored = [arrays[name] for name in names if name in arrays]
    if not stored and not is_needed:
        return {}
    n_words = (config.n_words or 0) if is_shared or not stored or not stored[0].shape else len(stored[0])
    shapes: Dict[str, Shape] = {names[0]: (n_words, config.projection_width), names[1]: (n_words,)}
    return {names[1]: shapes[names[1]]} if is_shared else shapes


def build_softmax(weight: Union[nn.Parameter, Array], bias: Array) -> SoftmaxHead:
    """A softmax in evaluation mode, float32, from a weight (V, P) and a bias (V,). A weight that is a parameter is
    shared: the word table.
    """
    if not isinstance(weight, nn.Parameter):
        weight = nn.Parameter(torch.from_numpy(as_float32(weight)))
    with torch.device("meta"):
        head = SoftmaxHead(*weight.shape)
    head.weight = weight
    head.bias = nn.Parameter(torch.from_numpy(as_float32(bias)))
    return head.eval()


def load_softmax(
    names: Tuple[str, str], arrays: Mapping[str, Array], network: BiLMNetwork, *, is_shared: bool
) -> Optional[SoftmaxHead]:
    """The softmax of a file, see `softmax_shapes`; None without a softmax."""
    if names[1] not in arrays:
        return None
    table = network.word_embedding if is_shared else None
    return build_softmax(arrays[names[0]] if table is None else table, arrays[names[1]])


def is_head_shared(network: BiLMNetwork, head: Optional[LMHead]) -> bool:
    """Whether the softmax shares the word table (bilm-tf's share_embedding_softmax)."""
    return isinstance(head, SoftmaxHead) and head.weight is network.word_embedding


def to_arrays(module: nn.Module) -> Dict[str, Array]:
    """The module's state dict in NumPy, float32. ValueError for a biLM with parametrizations or pruned weights, which
    no format has.
    """
    state = full_state(module) if isinstance(module, BiLMNetwork) else module.state_dict()
    if isinstance(module, BiLMNetwork) and (unknown := sorted(state.keys() - network_shapes(module.config).keys())):
        raise ValueError(
            f"The biLM has parametrizations or pruned weights ({shorten(', '.join(unknown))}), which no format has. "
            "Make them permanent before it is saved: `torch.nn.utils.parametrize.remove_parametrizations`, or "
            "`torch.nn.utils.prune.remove`."
        )
    return {key: tensor.detach().cpu().numpy() for key, tensor in state.items()}


def as_float32(array: Array) -> Array:
    """A writable float32 copy."""
    return np.array(array, dtype="float32", order="C")


def read_vocabulary(source: File, is_needed: bool) -> Optional[Vocabulary]:
    """The words of a text file in UTF-8, one per line. If it is invalid: a ValueError if the model needs it, else None
    and the warning WL020.
    """
    try:
        # Only a line feed (in a file without any, a carriage return) ends a line, since words may contain other line
        # separators of Unicode.
        text = source.read_text()
        lines = text.split("\n" if "\n" in text else "\r")
        vocabulary = Vocabulary.from_lines(lines[:-1] if not lines[-1] else lines)
    except ValueError as error:
        if is_needed:
            raise ValueError(
                f"'{source}' cannot be used as vocabulary, one word per line in UTF-8: {error} Correct the file, "
                "convert it to UTF-8, or use another file."
            ) from error
        warnings.warn(Warnings.WL020.format(path=source, reason=error), stacklevel=2)
        return None
    _warn_of_repeated(vocabulary.words, source)
    return vocabulary


def _warn_of_repeated(words: List[str], source: File) -> None:
    """bilm-tf reads such vocabularies, too: a word is trained, and looked up, in the last of its rows."""
    n_repeated = len(words) - len(set(words))
    if n_repeated:
        lines: Dict[str, int] = {}
        first = next(i for i, word in enumerate(words) if lines.setdefault(word, i) != i)
        text = (
            f"The vocabulary '{source}' repeats {n_repeated:,} word(s), first {words[first]!r} in the lines "
            f"{lines[words[first]] + 1:,} and {first + 1:,}. As in bilm-tf, a word has the last of its rows. Remove no "
            "line: lines are the rows of the weights."
        )
        warnings.warn(text, stacklevel=3)


def write_vocabulary(path: Path, vocabulary: Vocabulary) -> None:
    """Write one word per line. ValueError for words that would change when the file is read."""
    bad = [repr(word) for word in vocabulary.words if not _fits_line(word)]
    bad += [repr(word) for word in vocabulary.words[:1] if word.startswith(BYTE_ORDER_MARK)]
    if bad:
        words = ", ".join(bad[:MAX_NAMED])
        raise ValueError(
            f"{len(bad)} words of the vocabulary cannot be written to {path.name}, which has one word per line in "
            f"UTF-8: {words}. Replace these words: they contain a line feed or an unpaired surrogate, end in a "
            "carriage return, or begin with a byte order mark."
        )
    path.write_bytes("".join(f"{word}\n" for word in vocabulary.words).encode("utf8"))


def _fits_line(word: str) -> bool:
    """No line feed, no final carriage return (a line end on Windows), no unpaired surrogate."""
    return "\n" not in word and not word.endswith("\r") and not any("\ud800" <= char <= "\udfff" for char in word)


def check_vocabulary(vocabulary: Optional[Vocabulary], rows: Mapping[str, int], where: object) -> None:
    """ValueError with all tables that should have a row per word, by their numbers of rows, and have another number."""
    if vocabulary is None:
        return
    mismatches = [f"{name} has {n} rows" for name, n in rows.items() if n != len(vocabulary)]
    if mismatches:
        listing = "; ".join(mismatches)
        raise ValueError(
            f"The vocabulary '{where}' has {len(vocabulary)} words, but {listing}. Pass the vocabulary the model was "
            "trained with, one word per line in the order of the rows."
        )


def table_rows(
    words: Optional[Array] = None, softmax_bias: Optional[Array] = None, embeddings: Optional[Array] = None
) -> Dict[str, int]:
    """The number of rows of every table with one row per word: the word table, the softmax, the precomputed word
    vectors.
    """
    tables = {"the word table": words, "the softmax": softmax_bias, "the token embeddings": embeddings}
    return {name: len(table) for name, table in tables.items() if table is not None and table.shape}


def check_dtype_fits(arrays: Mapping[str, Array], dtype: str) -> None:
    """ValueError for values of float32 arrays that are not finite in "float32" or "float16"."""
    with np.errstate(over="ignore"):
        bad: List[str] = [name for name, array in arrays.items() if not np.isfinite(array.astype(dtype)).all()]
    if bad:
        names = ", ".join(sorted(bad))
        raise ValueError(
            f"These tensors have values that are too large or not finite in {dtype}: {names}. Save as float32, or "
            "check how the model was trained."
        )
