"""The datasets of a weights file of bilm-tf and AllenNLP, and their positions in our state dict.

Gates are in the order i, j, f, o. The forget bias of 1.0 is neither in the file nor in our state dict.
"""

import re
from typing import Dict, List

from ...bilm.config import BiLMConfig, CharCNNConfig
from ...bilm.transformer_config import TransformerConfig
from ..parts import network_shapes
from ..tensor_map import Dataset, Shape, TensorSlice, permute

CHAR_TABLE = "char_embed"
WORD_TABLE = "embedding"
SOFTMAX_WEIGHT = "softmax/W"
SOFTMAX_BIAS = "softmax/b"
CHAR_PROJECTION = "CNN_proj/W_proj"
FORWARD_ONLY_PREFIX = "rnn/"


def tf_datasets(config: BiLMConfig) -> List[Dataset]:
    """config (BiLMConfig): Sizes and switches.
    RETURNS (List[Dataset]): All datasets of its weights file under their regular names, without the softmax.
    """
    if config.char_cnn is None:
        shape = (config.n_words or 0, config.projection_width)
        table = [Dataset(WORD_TABLE, shape, (TensorSlice("word_embedding"),))]
    else:
        table = _char_cnn_datasets(config.char_cnn)
    if config.char_cnn is not None and config.has_cnn_projection:
        table += _char_projection(config.char_cnn.n_filters, config.projection_width)
    for direction in range(config.n_directions):
        for layer in range(config.n_layers):
            table += _lstm_datasets(config, direction, layer)
    return table


def state_shapes(config: BiLMConfig) -> Dict[str, Shape]:
    """config (BiLMConfig): Sizes and switches.
    RETURNS (Dict[str, Shape]): Names and shapes of the network's state dict.
    """
    if config.token_embedder is not None or config.encoder != "lstm":
        return network_shapes(config)
    d, p, h = config.n_directions, config.projection_width, config.cell_width
    shapes: Dict[str, Shape] = {}
    if config.char_cnn is None:
        shapes["word_embedding"] = (config.n_words or 0, p)
    else:
        shapes.update(_char_cnn_shapes(config.char_cnn, p))
    if config.char_cnn is not None and config.has_cnn_projection:
        shapes["char_cnn.projection.weight"] = (p, config.char_cnn.n_filters)
        shapes["char_cnn.projection.bias"] = (p,)
    if config.transformer is not None:
        return {**shapes, **_transformer_shapes(config, config.transformer)}
    for layer in range(config.n_layers):
        shapes[f"encoder.layers.{layer}.input_weight"] = (d, p, 4 * h)
        shapes[f"encoder.layers.{layer}.recurrent_weight"] = (d, p, 4 * h)
        shapes[f"encoder.layers.{layer}.bias"] = (d, 4 * h)
        if config.has_projection:
            shapes[f"encoder.layers.{layer}.projection_weight"] = (d, h, p)
    for k in range(config.n_layers - 1 if config.highway_between else 0):
        shapes[f"encoder.highways.{k}.weight"] = (d, p, p)
        shapes[f"encoder.highways.{k}.bias"] = (d, p)
    return shapes


def regular_name(name: str) -> str:
    """Convert the name of a dataset in a one-layer or forward-only dump to its name in all other files.

    name (str): For example `RNN_0/RNN/LSTMCell/B`, `rnn/MultiRNNCell/Cell0/LSTMCell/kernel`.
    RETURNS (str): For example `RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/B`; other names unchanged.
    """
    name = re.sub(r"^rnn/", "RNN_0/RNN/", name)
    if not name.startswith("RNN_"):
        return name
    name = re.sub(r"^(RNN_\d)/RNN/LSTMCell/", r"\1/RNN/MultiRNNCell/Cell0/LSTMCell/", name)
    endings = {"/projection/kernel": "/W_P_0", "/kernel": "/W_0", "/bias": "/B"}
    for theirs, regular in endings.items():
        if name.endswith(theirs):
            return name[: -len(theirs)] + regular
    return name


def _char_cnn_datasets(config: CharCNNConfig) -> List[Dataset]:
    width, n_filters = config.embedding_width, config.n_filters
    # Files have no row for the mask: our ids are larger by one, and our row 0 is zero.
    embedding = TensorSlice("char_cnn.embedding", at=(slice(1, None),))
    table = [Dataset(CHAR_TABLE, (config.n_characters, width), (embedding,))]
    for i, (window, n) in enumerate(config.filters):
        # (w, E, n) to (n, E, w)
        weight = TensorSlice(f"char_cnn.filters.{i}.weight", cut=(0,), transform=permute(2, 1, 0))
        table.append(Dataset(f"CNN/W_cnn_{i}", (1, window, width, n), (weight,)))
        table.append(Dataset(f"CNN/b_cnn_{i}", (n,), (TensorSlice(f"char_cnn.filters.{i}.bias"),)))
    for k in range(config.n_highway):
        for name, rows in (("transform", slice(None, n_filters)), ("carry", slice(n_filters, None))):
            weight = TensorSlice(f"char_cnn.highways.{k}.weight", at=(rows,), transform=permute(1, 0))
            bias = TensorSlice(f"char_cnn.highways.{k}.bias", at=(rows,))
            table.append(Dataset(f"CNN_high_{k}/W_{name}", (n_filters, n_filters), (weight,)))
            table.append(Dataset(f"CNN_high_{k}/b_{name}", (n_filters,), (bias,)))
    return table


def _char_projection(n_filters: int, width: int) -> List[Dataset]:
    weight = TensorSlice("char_cnn.projection.weight", transform=permute(1, 0))
    bias = TensorSlice("char_cnn.projection.bias")
    return [
        Dataset(CHAR_PROJECTION, (n_filters, width), (weight,)),
        Dataset("CNN_proj/b_proj", (width,), (bias,)),
    ]


def _lstm_datasets(config: BiLMConfig, direction: int, layer: int) -> List[Dataset]:
    base = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"
    p, h, at = config.projection_width, config.cell_width, (direction,)
    weights = (
        TensorSlice(f"encoder.layers.{layer}.input_weight", at=at, cut=(slice(None, p),)),
        TensorSlice(f"encoder.layers.{layer}.recurrent_weight", at=at, cut=(slice(p, None),)),
    )
    table = [
        Dataset(base + "W_0", (2 * p, 4 * h), weights),
        Dataset(base + "B", (4 * h,), (TensorSlice(f"encoder.layers.{layer}.bias", at=at),)),
    ]
    if config.has_projection:
        projection = TensorSlice(f"encoder.layers.{layer}.projection_weight", at=at)
        table.append(Dataset(base + "W_P_0", (h, p), (projection,)))
    return table


def _char_cnn_shapes(config: CharCNNConfig, p: int) -> Dict[str, Shape]:
    shapes: Dict[str, Shape] = {"char_cnn.embedding": (config.n_characters + 1, config.embedding_width)}
    for i, (window, n) in enumerate(config.filters):
        shapes[f"char_cnn.filters.{i}.weight"] = (n, config.embedding_width, window)
        shapes[f"char_cnn.filters.{i}.bias"] = (n,)
    width = config.highway_width(p)
    for k in range(config.n_highway):
        shapes[f"char_cnn.highways.{k}.weight"] = (2 * width, width)
        shapes[f"char_cnn.highways.{k}.bias"] = (2 * width,)
    if config.has_layer_norm:
        shapes.update({"char_cnn.norm.weight": (p,), "char_cnn.norm.bias": (p,)})
    return shapes


def _transformer_shapes(config: BiLMConfig, sizes: TransformerConfig) -> Dict[str, Shape]:
    d, p, hidden = config.n_directions, config.projection_width, sizes.feedforward_width
    layer: Dict[str, Shape] = {
        "input_weight": (d, p, 3 * p),
        "input_bias": (d, 3 * p),
        "output_weight": (d, p, p),
        "output_bias": (d, p),
        "up_weight": (d, p, hidden),
        "up_bias": (d, hidden),
        "down_weight": (d, hidden, p),
        "down_bias": (d, p),
        "norm_weight": (d, 2, p),
        "norm_bias": (d, 2, p),
    }
    shapes = {f"encoder.blocks.{k}.{name}": shape for k in range(config.n_layers) for name, shape in layer.items()}
    return {**shapes, "encoder.norm.weight": (d, p), "encoder.norm.bias": (d, p)}
