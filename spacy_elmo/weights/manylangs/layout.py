"""The tensors of ELMoForManyLangs, and their positions in our state dict.

Gates are in the order i, f, j (candidate), o, and the forget bias of 1 is part of the bias. The gate of a highway
carries, ours transforms: its sign is the opposite.
"""

from typing import Dict, List

import numpy as np

from ...bilm.config import BiLMConfig, TokenEmbedderConfig
from ...bilm.lstm import FORGET_BIAS
from ..tensor_map import UNCHANGED, Array, Dataset, Shape, TensorSlice, Transform, permute

OUR_GATES = (0, 2, 1, 3)  # place of their gates i, f, j, o in ours
DIRECTIONS = ("forward", "backward")
OURS = "token_embedder."


def _without_forget_bias(bias: Array) -> Array:
    return np.asarray(bias, dtype="float64") - FORGET_BIAS


def _with_forget_bias(bias: Array) -> Array:
    return np.asarray(bias, dtype="float64") + FORGET_BIAS


NEGATED = Transform(np.negative, np.negative)
FORGET = Transform(_without_forget_bias, _with_forget_bias)


def embedder_datasets(config: BiLMConfig) -> List[Dataset]:
    """config (BiLMConfig): With a token embedder.
    RETURNS (List[Dataset]): The tensors of token_embedder.pkl.
    """
    embedder: TokenEmbedderConfig = config.token_embedder  # type: ignore[assignment]  # not None for these models
    characters = "char_cnn" if embedder.kind == "cnn" else "char_lstm"
    tables = (
        ("word_emb_layer", embedder.n_words, embedder.word_width, "word_embedding"),
        ("char_emb_layer", embedder.n_characters, embedder.character_width, f"{characters}.embedding"),
    )
    found = [
        # Our ids are larger by one, and our row 0 is zero.
        Dataset(f"{name}.embedding.weight", (n, width), (TensorSlice(OURS + ours, at=(slice(1, None),)),))
        for name, n, width, ours in tables
        if n
    ]
    if embedder.n_characters:
        found += _char_cnn_datasets(embedder) if embedder.kind == "cnn" else _char_lstm_datasets(embedder)
    width = config.projection_width
    found.append(_same("projection.weight", (width, embedder.feature_width), OURS))
    return [*found, _same("projection.bias", (width,), OURS)]


def encoder_datasets(config: BiLMConfig) -> List[Dataset]:
    """config (BiLMConfig): Sizes.
    RETURNS (List[Dataset]): The tensors of encoder.pkl.
    """
    if config.encoder == "bilstm":
        return _bilstm_datasets(config)
    return [
        dataset
        for layer in range(config.n_layers)
        for direction in range(2)
        for dataset in _layer_datasets(config, direction, layer)
    ]


def _char_cnn_datasets(config: TokenEmbedderConfig) -> List[Dataset]:
    found = []
    for i, (window, n) in enumerate(config.filters):
        shapes: Dict[str, Shape] = {"weight": (n, config.character_width, window), "bias": (n,)}
        for name, shape in shapes.items():
            key = f"{OURS}char_cnn.filters.{i}.{name}"
            found.append(Dataset(f"convolutions.{i}.{name}", shape, (TensorSlice(key),)))
    n = sum(n for _, n in config.filters)
    for k in range(config.n_highway):
        shapes = {"weight": (2 * n, n), "bias": (2 * n,)}
        for name, shape in shapes.items():
            key = f"{OURS}char_cnn.highways.{k}.{name}"
            halves = ((slice(None, n), UNCHANGED), (slice(n, None), NEGATED))
            slices = tuple(TensorSlice(key, at=(rows,), cut=(rows,), transform=change) for rows, change in halves)
            found.append(Dataset(f"highways._layers.{k}.{name}", shape, slices))
    return found


def _char_lstm_datasets(config: TokenEmbedderConfig) -> List[Dataset]:
    width = config.character_width
    return _torch_lstm_datasets("char_lstm.", f"{OURS}char_lstm.lstm.", [width], width)


def _bilstm_datasets(config: BiLMConfig) -> List[Dataset]:
    width, cell_width = config.projection_width, config.cell_width
    inputs = [width, *[2 * cell_width] * (config.encoder_depth - 1)]
    return [
        *_torch_lstm_datasets("encoder.", "encoder.lstm.", inputs, cell_width),
        _same("projection.weight", (width, cell_width), "encoder."),
        _same("projection.bias", (width,), "encoder."),
    ]


def _torch_lstm_datasets(theirs: str, ours: str, input_widths: List[int], cell_width: int) -> List[Dataset]:
    """Tensors of `torch.nn.LSTM`, whose names and values we keep."""
    found = []
    for layer, input_width in enumerate(input_widths):
        for suffix in ("", "_reverse"):
            for name, shape in (
                ("weight_ih", (4 * cell_width, input_width)),
                ("weight_hh", (4 * cell_width, cell_width)),
                ("bias_ih", (4 * cell_width,)),
                ("bias_hh", (4 * cell_width,)),
            ):
                full = f"{name}_l{layer}{suffix}"
                found.append(Dataset(theirs + full, shape, (TensorSlice(ours + full),)))
    return found


def _layer_datasets(config: BiLMConfig, direction: int, layer: int) -> List[Dataset]:
    theirs, ours = f"{DIRECTIONS[direction]}_layer_{layer}.", f"encoder.layers.{layer}."
    width, cell_width = config.projection_width, config.cell_width
    weights = (("input_linearity", "input_weight"), ("state_linearity", "recurrent_weight"))
    found = [
        Dataset(
            f"{theirs}{name}.weight",
            (4 * cell_width, width),
            tuple(_gate(ours + key, direction, gate, cell_width, is_bias=False) for gate in range(4)),
        )
        for name, key in weights
    ]
    bias = tuple(_gate(ours + "bias", direction, gate, cell_width, is_bias=True) for gate in range(4))
    found.append(Dataset(f"{theirs}state_linearity.bias", (4 * cell_width,), bias))
    projection = TensorSlice(ours + "projection_weight", at=(direction,), transform=permute(1, 0))
    return [*found, Dataset(f"{theirs}state_projection.weight", (width, cell_width), (projection,))]


def _gate(key: str, direction: int, gate: int, cell_width: int, *, is_bias: bool) -> TensorSlice:
    own = OUR_GATES[gate]
    rows = slice(gate * cell_width, (gate + 1) * cell_width)
    columns = slice(own * cell_width, (own + 1) * cell_width)
    if is_bias:
        change = FORGET if gate == 1 else UNCHANGED
        return TensorSlice(key, at=(direction, columns), cut=(rows,), transform=change)
    return TensorSlice(key, at=(direction, slice(None), columns), cut=(rows,), transform=permute(1, 0))


def _same(name: str, shape: Shape, prefix: str) -> Dataset:
    return Dataset(name, shape, (TensorSlice(prefix + name),))
