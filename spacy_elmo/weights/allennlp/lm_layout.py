"""The tensors of a language model of AllenNLP, and their positions in our state dict.

PyTorch's LSTM has two biases, which are added: its second one is not in the table (see `sum_biases`).
"""

from typing import Dict, List, Mapping

import numpy as np

from ...bilm.config import BiLMConfig, CharCNNConfig
from ...bilm.transformer import transformer_of
from ..tensor_map import Array, Dataset, Shape, TensorSlice, permute
from .layout import NEGATED, gate_slices

DIRECTIONS = ("forward", "backward")
POSITIONS = "_contextualizer._position.positional_encoding"
UNUSED = "_last_average_loss"  # a buffer that AllenNLP keeps for old archives
COLUMNS = permute(1, 0)
LSTM = "_contextualizer._module."
SUFFIXES = ("", "_reverse")
FIRST_BIAS, SECOND_BIAS = f"{LSTM}bias_ih_", f"{LSTM}bias_hh_"


def language_model_datasets(config: BiLMConfig, embedder: str) -> List[Dataset]:
    """config (BiLMConfig): Sizes.
    embedder (str): Name of the token embedder.
    RETURNS (List[Dataset]): All tensors but the softmax, the positions and unused buffers.
    """
    table = [] if config.char_cnn is None else _characters(config.char_cnn, config.projection_width, embedder)
    return table + (_transformer(config) if config.encoder == "transformer" else _lstm(config))


def _lstm(config: BiLMConfig) -> List[Dataset]:
    p, h = config.projection_width, config.cell_width
    table = []
    for layer in range(config.n_layers):
        for k in range(config.n_directions):
            ending, ours = f"l{layer}{SUFFIXES[k]}", f"encoder.layers.{layer}."
            for name, key in (("weight_ih_", "input_weight"), ("weight_hh_", "recurrent_weight")):
                slices = gate_slices(ours + key, k, h, has_columns=True)
                table.append(Dataset(f"{LSTM}{name}{ending}", (4 * h, p), slices))
            table.append(Dataset(FIRST_BIAS + ending, (4 * h,), gate_slices(ours + "bias", k, h)))
    return table


def sum_biases(arrays: Mapping[str, Array]) -> Dict[str, Array]:
    """arrays (Mapping[str, Array]): The tensors of a model.
    RETURNS (Dict[str, Array]): The same, the second bias of each LSTM added to the first.
    """
    summed = {name: array for name, array in arrays.items() if not name.startswith(SECOND_BIAS)}
    for name in summed:
        if name.startswith(FIRST_BIAS):
            summed[name] = arrays[name] + arrays[name.replace(FIRST_BIAS, SECOND_BIAS)]
    return summed


def _transformer(config: BiLMConfig) -> List[Dataset]:
    table = []
    for k, direction in enumerate(DIRECTIONS):
        stack = f"_contextualizer._{direction}_transformer."
        for layer in range(config.n_layers):
            table += _layer(config, f"{stack}layers.{layer}.", f"encoder.blocks.{layer}.", k)
        table += _norm(f"{stack}norm.", "encoder.norm.", config.projection_width, (k,))
    return table


def _layer(config: BiLMConfig, theirs: str, ours: str, k: int) -> List[Dataset]:
    p, hidden = config.projection_width, transformer_of(config).feedforward_width
    table = []
    for i in range(3):  # queries, keys, values
        columns = slice(i * p, (i + 1) * p)
        weight = TensorSlice(ours + "input_weight", at=(k, slice(None), columns), transform=COLUMNS)
        table.append(Dataset(f"{theirs}self_attn.linears.{i}.weight", (p, p), (weight,)))
        bias = TensorSlice(ours + "input_bias", at=(k, columns))
        table.append(Dataset(f"{theirs}self_attn.linears.{i}.bias", (p,), (bias,)))
    for name, own, n_in, n_out in (
        ("self_attn.linears.3", "output", p, p),
        ("feed_forward.w_1", "up", p, hidden),
        ("feed_forward.w_2", "down", hidden, p),
    ):
        weight = TensorSlice(f"{ours}{own}_weight", at=(k,), transform=COLUMNS)
        table.append(Dataset(f"{theirs}{name}.weight", (n_out, n_in), (weight,)))
        table.append(Dataset(f"{theirs}{name}.bias", (n_out,), (TensorSlice(f"{ours}{own}_bias", at=(k,)),)))
    for i in range(2):
        table += _norm(f"{theirs}sublayer.{i}.norm.", f"{ours}norm_", p, (k, i))
    return table


def _norm(theirs: str, ours: str, width: int, at: "tuple[int, ...]") -> List[Dataset]:
    names = (("gamma", "weight"), ("beta", "bias"))
    return [Dataset(theirs + name, (width,), (TensorSlice(ours + own, at=at),)) for name, own in names]


def _characters(config: CharCNNConfig, p: int, embedder: str) -> List[Dataset]:
    base = f"_text_field_embedder.token_embedder_{embedder}."
    encoder = base + "_encoder._module."
    shape = (config.n_characters + 1, config.embedding_width)
    table = [Dataset(base + "_embedding._module.weight", shape, (TensorSlice("char_cnn.embedding"),))]
    for i, (window, n) in enumerate(config.filters):
        weight = TensorSlice(f"char_cnn.filters.{i}.weight")
        table.append(Dataset(f"{encoder}char_conv_{i}.weight", (n, config.embedding_width, window), (weight,)))
        table.append(Dataset(f"{encoder}char_conv_{i}.bias", (n,), (TensorSlice(f"char_cnn.filters.{i}.bias"),)))
    width = config.highway_width(p)
    sizes: Dict[str, Shape] = {"weight": (width,), "bias": ()}
    for layer in range(config.n_highway):
        for name, rest in sizes.items():
            key = f"char_cnn.highways.{layer}.{name}"
            transform, gate = slice(None, width), slice(width, None)
            # Their gate carries the input, ours transforms it: sigmoid(-x) = 1 - sigmoid(x).
            parts = (
                TensorSlice(key, at=(transform,), cut=(transform,)),
                TensorSlice(key, at=(gate,), cut=(gate,), transform=NEGATED),
            )
            table.append(Dataset(f"{encoder}_highways._layers.{layer}.{name}", (2 * width, *rest), parts))
    projected: Dict[str, Shape] = {"weight": (p, config.n_filters), "bias": (p,)}
    for name, size in projected.items():
        table.append(Dataset(f"{encoder}_projection.{name}", size, (TensorSlice(f"char_cnn.projection.{name}"),)))
    return table + (_norm(f"{encoder}_layer_norm.", "char_cnn.norm.", p, ()) if config.has_layer_norm else [])


def are_sinusoids(found: Array, wanted: Array) -> bool:
    """found (Array): The table of positions in a file, shape (1, n, P).
    wanted (Array): Our table, shape (n, P).
    RETURNS (bool): Whether they are equal, to within the rounding of large angles.
    """
    return found.shape == (1, *wanted.shape) and bool(np.allclose(found[0], wanted, rtol=0, atol=2e-3))
