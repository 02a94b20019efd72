"""The transformer layers in ONNX (Peters et al. 2018b, sec. 2.2), see `bilm/transformer.py`.

Rows of a sentence are BOS, its words with what is padded, and EOS, at the position after the last word. The forward
direction reads BOS and earlier words, the backward direction EOS and later words; neither reads what is padded.
"""

from typing import Any, List, Tuple

import numpy as np
from numpy.typing import NDArray

from ..bilm.config import BiLMConfig
from ..bilm.transformer import sinusoids, transformer_of
from .arrays import Arrays
from .graph import Graph, split_shape
from .word_graph import add_norm

UNREAD = -1e9  # score of a place that is not read: its weight is zero, since every row reads its own boundary


def add_transformer_layers(
    graph: Graph, config: BiLMConfig, arrays: Arrays, boundaries: NDArray[Any], vectors: str, lengths: str
) -> str:
    """Add all layers in both directions.

    boundaries (NDArray): Shape (2, P), the vectors of BOS and EOS.
    vectors (str): Value (B, S, P), layer 0.
    lengths (str): Value (B,), int64.
    RETURNS (str): Value (L+1, B, S, D). Rows after the end of a sentence have no meaning.
    """
    n_rows, n_words = split_shape(graph, vectors, 2)
    one = graph.integers(1)
    size = graph.add("Concat", n_rows, one, graph.integers(config.projection_width), axis=0)
    begin, end = (graph.add("Expand", graph.constant(row[np.newaxis, np.newaxis]), size) for row in boundaries)
    rows = graph.add("Concat", begin, vectors, end, axis=1)  # (B, T, P), T = S + 2
    last = graph.add("Add", n_words, one)  # place of EOS
    table = sinusoids(transformer_of(config).max_positions, config.projection_width).numpy()
    places = _add_positions(graph, n_rows, lengths, last)
    rows = graph.add("Add", rows, graph.add("Gather", graph.constant(table), places, axis=0))
    masks = _add_masks(graph, lengths, last)[: config.n_directions]
    stacks = [_add_stack(graph, config, arrays, k, rows, mask) for k, mask in enumerate(masks)]
    stacked = [_join(graph, [vectors] * config.n_directions)]
    for layers in zip(*stacks):
        stacked.append(_join(graph, [graph.add("Slice", layer, one, last, one) for layer in layers]))
    return graph.add("Concat", *stacked, axis=0)


def _join(graph: Graph, directions: List[str]) -> str:
    joined = graph.add("Concat", *directions, axis=2)  # (B, S, D)
    return graph.add("Unsqueeze", joined, graph.integers(0))  # (1, B, S, D)


def _add_range(graph: Graph, stop: str) -> str:
    """RETURNS (str): Value (stop,), from 0; `stop` has one axis."""
    scalar = graph.add("Squeeze", stop, graph.integers(0))
    return graph.add("Range", graph.constant(0, "int64"), scalar, graph.constant(1, "int64"))


def _add_positions(graph: Graph, n_rows: str, lengths: str, last: str) -> str:
    """RETURNS (str): Value (B, T), the position of each row in the text of its sentence."""
    words = graph.add("Expand", _add_range(graph, last), graph.add("Concat", n_rows, last, axis=0))  # (B, T - 1)
    ends = graph.add("Unsqueeze", graph.add("Add", lengths, graph.integers(1)), graph.integers(1))  # (B, 1)
    return graph.add("Concat", words, ends, axis=1)


def _add_masks(graph: Graph, lengths: str, last: str) -> Tuple[str, str]:
    """RETURNS (Tuple[str, str]): Values (B, 1, T, T), added to the scores of the forward and backward direction."""
    steps = _add_range(graph, graph.add("Add", last, graph.integers(1)))  # (T,)
    read, reader = (graph.add("Unsqueeze", steps, graph.integers(axis)) for axis in (0, 1))  # (1, T), (T, 1)
    length = graph.add("Unsqueeze", lengths, graph.integers(1, 2))  # (B, 1, 1)
    is_behind = graph.add("Greater", read, length)  # (B, 1, T)
    is_padding = graph.add("And", is_behind, graph.add("Less", read, last))
    forward = graph.add("Or", graph.add("Greater", read, reader), is_behind)  # (B, T, T)
    backward = graph.add("Or", graph.add("Less", read, reader), is_padding)
    unread, zero = graph.constant(UNREAD), graph.constant(0.0)
    scores = (graph.add("Where", mask, unread, zero) for mask in (forward, backward))
    found = [graph.add("Unsqueeze", score, graph.integers(1)) for score in scores]
    return found[0], found[1]


def _add_stack(graph: Graph, config: BiLMConfig, arrays: Arrays, k: int, rows: str, mask: str) -> List[str]:
    """RETURNS (List[str]): Values (B, T, P), the layers of direction k."""
    layers = []
    for number in range(config.n_layers):
        block = f"encoder.blocks.{number}."
        rows = _add_attention(graph, config, arrays, block, k, rows, mask)
        weight, bias = (arrays.take(f"{block}norm_{key}")[k, 1] for key in ("weight", "bias"))
        hidden = _add_linear(graph, arrays, f"{block}up", k, add_norm(graph, rows, weight, bias))
        changed = _add_linear(graph, arrays, f"{block}down", k, graph.add("Relu", hidden))
        rows = graph.add("Add", rows, changed)
        layers.append(rows)
    layers[-1] = add_norm(graph, rows, *(arrays.take(f"encoder.norm.{key}")[k] for key in ("weight", "bias")))
    return layers


def _add_attention(graph: Graph, config: BiLMConfig, arrays: Arrays, block: str, k: int, rows: str, mask: str) -> str:
    """RETURNS (str): Value (B, T, P), the rows with what they read added."""
    width, n_heads = config.projection_width, transformer_of(config).n_heads
    weight, bias = (arrays.take(f"{block}norm_{key}")[k, 0] for key in ("weight", "bias"))
    mixed = _add_linear(graph, arrays, f"{block}input", k, add_norm(graph, rows, weight, bias))  # (B, T, 3P)
    parts = graph.add_many("Split", 3, mixed, graph.integers(width, width, width), axis=2)
    split = graph.integers(0, 0, n_heads, width // n_heads)
    query, key, value = (
        graph.add("Transpose", graph.add("Reshape", part, split), perm=perm)
        for part, perm in zip(parts, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
    )
    scale = graph.constant((width // n_heads) ** -0.5)
    scores = graph.add("Add", graph.add("Mul", graph.add("MatMul", query, key), scale), mask)  # (B, heads, T, T)
    heads = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), value)  # (B, heads, T, P / heads)
    joined = graph.add("Reshape", graph.add("Transpose", heads, perm=[0, 2, 1, 3]), graph.integers(0, 0, width))
    return graph.add("Add", rows, _add_linear(graph, arrays, f"{block}output", k, joined))


def _add_linear(graph: Graph, arrays: Arrays, name: str, k: int, rows: str) -> str:
    weight, bias = (graph.constant(arrays.take(f"{name}_{key}")[k]) for key in ("weight", "bias"))
    return graph.add("Add", graph.add("MatMul", rows, weight), bias)
