"""The tensors of AllenNLP's `Elmo` in a state dict, and their positions in ours.

Gates of the LSTMs are in the order i, f, j, o, ours i, j, f, o. The forget bias includes the 1.0 that ours leaves out.
The gate of a highway carries where ours transforms: sigmoid(-x) = 1 - sigmoid(x), so it has the opposite sign.
"""

import re
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Tuple

import numpy as np

from ...bilm.config import BiLMConfig, CharCNNConfig
from ...bilm.lstm import FORGET_BIAS
from ...errors import Errors
from ..limits import shorten
from ..tensor_map import UNCHANGED, Array, Dataset, Shape, TensorSlice, Transform, permute

EMBEDDER, LSTM, CACHE = "_token_embedder.", "_elmo_lstm.", "_word_embedding."
CHARACTERS = f"{EMBEDDER}_char_embedding_weights"
ELMO_MODULE = "_elmo_lstm."  # the biLM in an `Elmo`, and the LSTMs in the biLM
DIRECTIONS = ("forward", "backward")
GATES = (0, 2, 1, 3)  # position of i, f, j, o in our order
FORGET = 1

NEGATED = Transform(np.negative, np.negative)


def _without_forget_bias(bias: Array) -> Array:
    stored: Array = np.subtract(bias, np.float32(FORGET_BIAS), dtype="float32")
    return stored


def _with_forget_bias(bias: Array) -> Array:
    own: Array = np.add(bias, np.float32(FORGET_BIAS), dtype="float32")
    return own


# Exact where the sum is at least 0.5: for all biases that AllenNLP itself read from an HDF5 file (see `exact_bias.py`).
FORGET_TRANSFORM = Transform(_without_forget_bias, _with_forget_bias)


class Module(NamedTuple):
    """A biLM in a state dict.

    name (str): Name of the `Elmo` module, or of the biLM if it is not in one; "" for the whole state dict.
    prefix (str): Prefix of the biLM's tensors.
    mixes (str): Prefix of its scalar mixes.
    """

    name: str
    prefix: str
    mixes: str


def find_modules(names: Iterable[str]) -> List[Module]:
    """names (Iterable[str]): Names in a state dict.
    RETURNS (List[Module]): All biLMs, found by their character embeddings.
    """
    prefixes = sorted(name[: -len(CHARACTERS)] for name in names if name.endswith(CHARACTERS))
    return [_module(prefix) for prefix in prefixes if not prefix or prefix.endswith(".")]


def _module(prefix: str) -> Module:
    is_in_elmo = prefix == ELMO_MODULE or prefix.endswith(f".{ELMO_MODULE}")
    elmo = prefix[: -len(ELMO_MODULE)] if is_in_elmo else prefix
    return Module(elmo.rstrip("."), prefix, elmo)


def bilm_tensors(module: Module, names: Iterable[str]) -> Dict[str, str]:
    """RETURNS (Dict[str, str]): Names of a biLM's tensors by their names in the biLM, without cached words."""
    own = (name for name in names if name.startswith((module.prefix + EMBEDDER, module.prefix + LSTM)))
    return {name[len(module.prefix) :]: name for name in own}


def allennlp_datasets(config: BiLMConfig) -> List[Dataset]:
    """config (BiLMConfig): Sizes and switches, of a biLM that AllenNLP can have.
    RETURNS (List[Dataset]): All tensors of the biLM, by their names in it.
    """
    table = [] if config.char_cnn is None else _char_cnn_datasets(config.char_cnn, config.projection_width)
    for layer in range(config.n_layers):
        for direction in range(config.n_directions):
            table += _lstm_datasets(config, layer, direction)
    return table


def _char_cnn_datasets(config: CharCNNConfig, width: int) -> List[Dataset]:
    shape = (config.n_characters + 1, config.embedding_width)
    table = [Dataset(CHARACTERS, shape, (TensorSlice("char_cnn.embedding"),))]
    for i, (window, n) in enumerate(config.filters):
        base, ours = f"{EMBEDDER}char_conv_{i}.", f"char_cnn.filters.{i}."
        table.append(_whole(base + "weight", (n, config.embedding_width, window), ours + "weight"))
        table.append(_whole(base + "bias", (n,), ours + "bias"))
    for k in range(config.n_highway):
        table += _highway_datasets(f"{EMBEDDER}_highways._layers.{k}.", f"char_cnn.highways.{k}.", config.n_filters)
    base, ours = f"{EMBEDDER}_projection.", "char_cnn.projection."
    table.append(_whole(base + "weight", (width, config.n_filters), ours + "weight"))
    table.append(_whole(base + "bias", (width,), ours + "bias"))
    return table


def _whole(name: str, shape: Shape, key: str) -> Dataset:
    return Dataset(name, shape, (TensorSlice(key),))


def _highway_datasets(base: str, ours: str, n_filters: int) -> List[Dataset]:
    halves = ((slice(None, n_filters), UNCHANGED), (slice(n_filters, None), NEGATED))
    table = []
    for name, shape in (("weight", (2 * n_filters, n_filters)), ("bias", (2 * n_filters,))):
        slices = (TensorSlice(ours + name, at=(rows,), cut=(rows,), transform=change) for rows, change in halves)
        table.append(Dataset(base + name, shape, tuple(slices)))
    return table


def lstm_base(layer: int, direction: int) -> str:
    """RETURNS (str): Prefix of an LSTM layer in the biLM."""
    return f"{LSTM}{DIRECTIONS[direction]}_layer_{layer}."


def _lstm_datasets(config: BiLMConfig, layer: int, direction: int) -> List[Dataset]:
    base, ours = lstm_base(layer, direction), f"encoder.layers.{layer}."
    p, h = config.projection_width, config.cell_width
    table = []
    for name, key in (("input_linearity", "input_weight"), ("state_linearity", "recurrent_weight")):
        slices = gate_slices(ours + key, direction, h, has_columns=True)
        table.append(Dataset(f"{base}{name}.weight", (4 * h, p), slices))
    table.append(Dataset(f"{base}state_linearity.bias", (4 * h,), gate_slices(ours + "bias", direction, h)))
    projection = TensorSlice(ours + "projection_weight", at=(direction,), transform=permute(1, 0))
    table.append(Dataset(f"{base}state_projection.weight", (p, h), (projection,)))
    return table


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
        transform = permute(1, 0) if has_columns else FORGET_TRANSFORM if gate == FORGET else UNCHANGED
        slices.append(TensorSlice(key, at=at, cut=(slice(gate * h, (gate + 1) * h),), transform=transform))
    return tuple(slices)


def read_sizes(shapes: Mapping[str, Shape], where: str) -> Dict[str, Any]:
    """The options that shapes tell, in the form of bilm-tf's options.json. Missing are activation and clips.

    shapes (Mapping[str, Shape]): Of a biLM's tensors, by their names in it.
    where (str): Source of the tensors, for messages.
    RETURNS (Dict[str, Any]): The options.
    RAISES (ValueError): EL314 if a tensor that tells a size is missing or has another number of dimensions.
    """

    def shape_of(name: str, n_axes: int) -> Shape:
        shape = shapes.get(name, ())
        if len(shape) != n_axes:
            found = f"shape {list(shape)}" if name in shapes else "missing"
            problem = f"{shorten(name, 80)} is {found}, should have {n_axes} dimensions"
            raise ValueError(Errors.EL314.format(path=where, problem=problem))
        return shape

    n_filters = _count(shapes, EMBEDDER + r"char_conv_(\d+)\.weight")
    filters = [shape_of(f"{EMBEDDER}char_conv_{i}.weight", 3) for i in range(max(n_filters, 1))]
    width, cell_width = shape_of(f"{lstm_base(0, 0)}state_projection.weight", 2)
    return {
        "lstm": {
            "dim": cell_width,
            "projection_dim": width,
            "n_layers": _count(shapes, LSTM + r"(?:forward|backward)_layer_(\d+)\.input_linearity\.weight"),
            "use_skip_connections": True,
        },
        "char_cnn": {
            "embedding": {"dim": shape_of(CHARACTERS, 2)[1]},
            "filters": [[window, n] for n, _, window in filters],
            "n_highway": _count(shapes, EMBEDDER + r"_highways\._layers\.(\d+)\.weight"),
            "max_characters_per_token": 50,
            "n_characters": 262,
        },
    }


def _count(names: Iterable[str], pattern: str) -> int:
    """One more than the largest number in names that match, 0 without one."""
    found = (re.fullmatch(pattern, name) for name in names)
    return max((int(match[1][:9]) + 1 for match in found if match), default=0)
