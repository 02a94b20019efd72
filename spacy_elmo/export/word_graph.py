"""Word vectors in ONNX: the character CNN (Peters et al. 2018, sec. 3.4), or a table of words."""

from ..bilm.config import BiLMConfig, CharCNNConfig
from ..bilm.layers import NORM_EPS
from .arrays import Arrays
from .graph import Graph, split_shape


def add_characters(graph: Graph, config: BiLMConfig, arrays: Arrays, char_ids: str) -> str:
    """Add the character CNN. Each distinct row of ids is computed once.

    char_ids (str): Value (B, S, C), int64.
    RETURNS (str): Value (B, S, P).
    """
    cnn: CharCNNConfig = config.char_cnn  # type: ignore[assignment]  # the caller has checked
    rows = graph.add("Reshape", char_ids, graph.integers(-1, cnn.max_characters))  # (B * S, C)
    distinct, _, index = graph.add_many("Unique", 3, rows, axis=0, sorted=0)  # (U, C), (U,), (B * S,)
    index = graph.add("Reshape", index, _first_sizes(graph, char_ids))  # (B, S)
    return _spread(graph, _add_cnn(graph, config, cnn, arrays, distinct), index)


def add_table(graph: Graph, table: object, word_ids: str) -> str:
    """table (object): Array (V, P).
    word_ids (str): Value (B, S), int64.
    RETURNS (str): Value (B, S, P).
    """
    return _spread(graph, graph.constant(table), word_ids)


def _spread(graph: Graph, vectors: str, index: str) -> str:
    return graph.add("Gather", vectors, index, axis=0)


def _first_sizes(graph: Graph, value: str) -> str:
    return graph.add("Concat", *split_shape(graph, value, 2), axis=0)  # (2,)


def _add_cnn(graph: Graph, config: BiLMConfig, cnn: CharCNNConfig, arrays: Arrays, char_ids: str) -> str:
    features = _add_filters(graph, cnn, arrays, char_ids)  # (U, F)
    is_first = cnn.projection == "after_cnn"
    if is_first:
        features = _add_projection(graph, config, arrays, features)
    for k in range(cnn.n_highway):
        width = cnn.highway_width(config.projection_width)
        features = _add_highway(graph, arrays, f"char_cnn.highways.{k}", features, width)
    if not is_first:
        features = _add_projection(graph, config, arrays, features)
    if cnn.has_layer_norm:
        weight, bias = (arrays.take(f"char_cnn.norm.{key}") for key in ("weight", "bias"))
        features = add_norm(graph, features, weight, bias)
    return features  # (U, P)


def _add_projection(graph: Graph, config: BiLMConfig, arrays: Arrays, features: str) -> str:
    return add_linear(graph, arrays, "char_cnn.projection", features) if config.has_cnn_projection else features


def _add_filters(graph: Graph, cnn: CharCNNConfig, arrays: Arrays, char_ids: str) -> str:
    embedded = graph.add("Gather", graph.constant(arrays.take("char_cnn.embedding")), char_ids, axis=0)  # (U, C, E)
    characters = graph.add("Transpose", embedded, perm=[0, 2, 1])  # (U, E, C)
    pooled = []
    for i, _ in enumerate(cnn.filters):
        weight, bias = (graph.constant(arrays.take(f"char_cnn.filters.{i}.{key}")) for key in ("weight", "bias"))
        scores = graph.add("Conv", characters, weight, bias)  # (U, n, C - width + 1)
        pooled.append(graph.add("ReduceMax", scores, axes=[2], keepdims=0))  # (U, n)
    return graph.add({"relu": "Relu", "tanh": "Tanh"}[cnn.activation], graph.add("Concat", *pooled, axis=1))


def _add_highway(graph: Graph, arrays: Arrays, name: str, features: str, width: int) -> str:
    scores = add_linear(graph, arrays, name, features)  # (U, 2F): transform, gate
    transform, gate = graph.add_many("Split", 2, scores, graph.integers(width, width), axis=1)
    return add_mix(graph, features, graph.add("Relu", transform), gate)


def add_mix(graph: Graph, carried: str, transformed: str, gate_scores: str) -> str:
    """RETURNS (str): carried + sigmoid(gate_scores) * (transformed - carried), the sum of a highway."""
    gate = graph.add("Sigmoid", gate_scores)
    return graph.add("Add", carried, graph.add("Mul", gate, graph.add("Sub", transformed, carried)))


def add_norm(graph: Graph, rows: str, weight: object, bias: object) -> str:
    """rows (str): Value (..., P).
    weight (object), bias (object): Arrays (P,).
    RETURNS (str): Value (..., P), normalized over the last axis.
    """
    constants = graph.constant(weight), graph.constant(bias)
    return graph.add("LayerNormalization", rows, *constants, axis=-1, epsilon=NORM_EPS)


def add_linear(graph: Graph, arrays: Arrays, name: str, rows: str) -> str:
    """rows (str): Value (N, I).
    RETURNS (str): Value (N, O), rows times the transposed weights (O, I), plus the bias.
    """
    weight, bias = (graph.constant(arrays.take(f"{name}.{key}")) for key in ("weight", "bias"))
    return graph.add("Gemm", rows, weight, bias, transB=1)
