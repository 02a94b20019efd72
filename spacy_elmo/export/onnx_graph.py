"""The parts of a biLM in ONNX: words, LSTM layers (Peters et al. 2018, sec. 3.4), transformer layers (2018b, sec. 2.2).

ONNX's own LSTM operator has neither a projection nor a clip of the memory cell, so a Scan over time runs the cell.
Sentence boundaries are not part of the graph: each direction starts from the state after reading its boundary, which is
constant. What follows a sentence is never read: the backward direction reads it reversed by its length. The transformer
reads rows instead: BOS, the words with what is padded, and EOS at the position after the last word; its forward
direction reads BOS and earlier words, its backward direction EOS and later words.
"""

from importlib import import_module
from typing import Any, Dict, List, NamedTuple, Sequence, Set, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from ..bilm.config import BiLMConfig, CharCNNConfig
from ..bilm.layers import NORM_EPS
from ..bilm.lstm import FORGET_BIAS
from ..bilm.transformer import sinusoids, transformer_of
from ..inference.bilm import BiLM
from ..weights.tensor_map import to_arrays

FLOAT, INT64 = "FLOAT", "INT64"
GATE_ORDER = (0, 2, 3, 1)  # i, f, o, then the candidate j: one sigmoid for the first three
UNREAD = -1e9  # score of a place that is not read: its weight is zero, since every row reads its own boundary
Axes = Sequence[Union[str, int]]


class Arrays:
    """The parameters of a biLM by name, float32. Each is taken once, and `unused` lists the rest."""

    def __init__(self, bilm: BiLM) -> None:
        self._arrays: Dict[str, NDArray[Any]] = to_arrays(bilm.network)
        self._taken: Set[str] = set()

    def take(self, name: str) -> NDArray[Any]:
        """The array of this name, which counts as used."""
        self._taken.add(name)
        return self._arrays[name]

    def unused(self) -> List[str]:
        """Names that were not taken."""
        return sorted(self._arrays.keys() - self._taken)


class OnnxGraph:
    """Collects nodes and constants in the order in which they are added.

    name (str): Name of the graph, and prefix of the names of its values.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.n_bytes = 0  # size of the constants
        self._nodes: List[Any] = []
        self._constants: List[Any] = []
        self._inputs: List[Any] = []
        self._outputs: List[Any] = []
        self._n_names = 0
        self._onnx = import_module("onnx")

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """The output of a new node of an ONNX operator; inputs and outputs are names of values."""
        return self.add_many(operator, 1, *inputs, **attributes)[0]

    def add_many(self, operator: str, n_outputs: int, *inputs: str, **attributes: Any) -> List[str]:
        """The outputs of a new node."""
        outputs = [self._new_name(operator) for _ in range(n_outputs)]
        self._nodes.append(self._onnx.helper.make_node(operator, list(inputs), outputs, **attributes))
        return outputs

    def constant(self, values: Any, dtype: str = "float32") -> str:
        """A new constant of an array or numbers."""
        array: NDArray[Any] = np.ascontiguousarray(values, dtype=dtype).reshape(np.shape(values))
        name = self._new_name("constant")
        self.n_bytes += array.nbytes
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def integers(self, *values: int) -> str:
        """A new constant with one axis: a shape, or indices of axes."""
        return self.constant(list(values), "int64")

    def input(self, name: str, kind: str, axes: Axes) -> str:
        """Declare an input of a kind (FLOAT or INT64); an axis of any size has a name in place of a size."""
        self._inputs.append(self._value_info(name, kind, axes))
        return name

    def output(self, name: str, value: str, kind: str, axes: Axes) -> None:
        """Declare a value as an output with a name of its own."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._value_info(name, kind, axes))

    def build(self) -> Any:
        """The graph, an onnx.GraphProto."""
        inputs, outputs = self._inputs, self._outputs
        return self._onnx.helper.make_graph(self._nodes, self.name, inputs, outputs, self._constants)

    def _value_info(self, name: str, kind: str, axes: Axes) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, getattr(self._onnx.TensorProto, kind), list(axes))

    def _new_name(self, stem: str) -> str:
        self._n_names += 1
        return f"{self.name}/{stem.lower()}_{self._n_names}"


def split_shape(graph: OnnxGraph, value: str, n_axes: int) -> Tuple[str, ...]:
    """The sizes of the first axes of a value, each with one axis."""
    shape = graph.add("Shape", value)
    return tuple(graph.add("Gather", shape, graph.integers(i), axis=0) for i in range(n_axes))


def _join_directions(graph: OnnxGraph, directions: List[str]) -> str:
    """Value (1, ..., D), of values (..., P) with three axes."""
    joined = graph.add("Concat", *directions, axis=2)
    return graph.add("Unsqueeze", joined, graph.integers(0))


def add_range(graph: OnnxGraph, stop: str) -> str:
    """Value (stop,), from 0; `stop` has one axis."""
    scalar = graph.add("Squeeze", stop, graph.integers(0))
    return graph.add("Range", graph.constant(0, "int64"), scalar, graph.constant(1, "int64"))


def _add_affine(graph: OnnxGraph, rows: str, weight: object, bias: object) -> str:
    """Value (..., O), rows (..., I) times weights (I, O), plus the bias."""
    return graph.add("Add", graph.add("MatMul", rows, graph.constant(weight)), graph.constant(bias))


def _add_mix(graph: OnnxGraph, carried: str, transformed: str, gate_scores: str) -> str:
    """carried + sigmoid(gate_scores) * (transformed - carried), the sum of a highway."""
    gate = graph.add("Sigmoid", gate_scores)
    return graph.add("Add", carried, graph.add("Mul", gate, graph.add("Sub", transformed, carried)))


def _add_norm(graph: OnnxGraph, rows: str, weight: object, bias: object) -> str:
    """Value (..., P), normalized over the last axis."""
    constants = graph.constant(weight), graph.constant(bias)
    return graph.add("LayerNormalization", rows, *constants, axis=-1, epsilon=NORM_EPS)


# Words.


def add_characters(graph: OnnxGraph, config: BiLMConfig, arrays: Arrays, char_ids: str) -> str:
    """Add the character CNN, from ids (B, S, C), int64, to (B, S, P). Each distinct row of ids is computed once."""
    cnn: CharCNNConfig = config.char_cnn  # type: ignore[assignment]  # the caller has checked
    rows = graph.add("Reshape", char_ids, graph.integers(-1, cnn.max_characters))  # (B * S, C)
    distinct, _, index = graph.add_many("Unique", 3, rows, axis=0, sorted=0)  # (U, C), (U,), (B * S,)
    sizes = graph.add("Concat", *split_shape(graph, char_ids, 2), axis=0)  # (2,)
    index = graph.add("Reshape", index, sizes)  # (B, S)
    return graph.add("Gather", _add_cnn(graph, config, cnn, arrays, distinct), index, axis=0)


def _add_cnn(graph: OnnxGraph, config: BiLMConfig, cnn: CharCNNConfig, arrays: Arrays, char_ids: str) -> str:
    features = _add_filters(graph, cnn, arrays, char_ids)  # (U, F)
    is_first = cnn.projection == "after_cnn"
    if config.has_cnn_projection and is_first:
        features = _add_gemm(graph, arrays, "char_cnn.projection", features)
    for k in range(cnn.n_highway):
        width = cnn.highway_width(config.projection_width)
        scores = _add_gemm(graph, arrays, f"char_cnn.highways.{k}", features)  # (U, 2F): transform, gate
        transform, gate = graph.add_many("Split", 2, scores, graph.integers(width, width), axis=1)
        features = _add_mix(graph, features, graph.add("Relu", transform), gate)
    if config.has_cnn_projection and not is_first:
        features = _add_gemm(graph, arrays, "char_cnn.projection", features)
    if cnn.has_layer_norm:
        weight, bias = (arrays.take(f"char_cnn.norm.{key}") for key in ("weight", "bias"))
        features = _add_norm(graph, features, weight, bias)
    return features  # (U, P)


def _add_filters(graph: OnnxGraph, cnn: CharCNNConfig, arrays: Arrays, char_ids: str) -> str:
    embedded = graph.add("Gather", graph.constant(arrays.take("char_cnn.embedding")), char_ids, axis=0)  # (U, C, E)
    characters = graph.add("Transpose", embedded, perm=[0, 2, 1])  # (U, E, C)
    pooled = []
    for i, _ in enumerate(cnn.filters):
        weight, bias = (graph.constant(arrays.take(f"char_cnn.filters.{i}.{key}")) for key in ("weight", "bias"))
        scores = graph.add("Conv", characters, weight, bias)  # (U, n, C - width + 1)
        pooled.append(graph.add("ReduceMax", scores, axes=[2], keepdims=0))  # (U, n)
    return graph.add({"relu": "Relu", "tanh": "Tanh"}[cnn.activation], graph.add("Concat", *pooled, axis=1))


def _add_gemm(graph: OnnxGraph, arrays: Arrays, name: str, rows: str) -> str:
    """Value (N, O), rows (N, I) times the transposed weights (O, I), plus the bias."""
    weight, bias = (graph.constant(arrays.take(f"{name}.{key}")) for key in ("weight", "bias"))
    return graph.add("Gemm", rows, weight, bias, transB=1)


# LSTM layers.


class StartState(NamedTuple):
    """State of a layer after the boundary: h (d, P) and c (d, H)."""

    h: NDArray[Any]
    c: NDArray[Any]


def add_lstm_layers(
    graph: OnnxGraph, config: BiLMConfig, arrays: Arrays, start: List[StartState], vectors: str, lengths: str
) -> str:
    """Add all layers in both directions, from layer 0 (B, S, P) and lengths (B,), int64, to (L+1, B, S, D). `start` has
    the state of each layer. Rows after the end of a sentence have no meaning.
    """
    steps = graph.add("Transpose", vectors, perm=[1, 0, 2])  # (S, B, P)
    inputs = [steps, _reverse(graph, steps, lengths)][: config.n_directions]
    stacked = [_join_directions(graph, [steps] * config.n_directions)]
    for k in range(config.n_layers):
        inputs = [_add_layer(graph, config, arrays, k, direction, start[k], x) for direction, x in enumerate(inputs)]
        outputs = [inputs[0], *(_reverse(graph, x, lengths) for x in inputs[1:])]
        stacked.append(_join_directions(graph, outputs))
    return graph.add("Transpose", graph.add("Concat", *stacked, axis=0), perm=[0, 2, 1, 3])


def _reverse(graph: OnnxGraph, steps: str, lengths: str) -> str:
    return graph.add("ReverseSequence", steps, lengths, batch_axis=1, time_axis=0)


def _add_layer(
    graph: OnnxGraph, config: BiLMConfig, arrays: Arrays, k: int, direction: int, start: StartState, inputs: str
) -> str:
    """Value (S, B, P), in the reading order of the direction."""
    name = f"encoder.layers.{k}"
    weight, bias = (_by_gate(arrays.take(f"{name}.{key}")[direction]) for key in ("input_weight", "bias"))
    forget = np.repeat(np.array([0, FORGET_BIAS, 0, 0], dtype="float32"), config.cell_width)  # not in the stored bias
    gates = _add_affine(graph, inputs, weight, bias + forget)
    cell = _build_cell(graph, config, arrays, name, direction)
    h, c = (_repeat(graph, values[direction], inputs) for values in start)
    _, _, outputs = graph.add_many("Scan", 3, h, c, gates, body=cell, num_scan_inputs=1)
    if k == 0:
        return outputs
    if config.highway_between:
        highway = f"encoder.highways.{k - 1}"
        weight, bias = (arrays.take(f"{highway}.{key}")[direction] for key in ("weight", "bias"))
        return _add_mix(graph, inputs, outputs, _add_affine(graph, inputs, weight, bias))
    return graph.add("Add", outputs, inputs) if config.has_skip else outputs


def _by_gate(columns: NDArray[Any]) -> NDArray[Any]:
    """Reorder the last axis, 4H, from i, j, f, o."""
    gates = np.split(columns, 4, axis=-1)
    return np.concatenate([gates[i] for i in GATE_ORDER], axis=-1)


def _repeat(graph: OnnxGraph, row: NDArray[Any], inputs: str) -> str:
    """Value (B, len(row)); B is the second axis of `inputs`."""
    n_rows = graph.add("Gather", graph.add("Shape", inputs), graph.integers(1), axis=0)
    shape = graph.add("Concat", n_rows, graph.integers(len(row)), axis=0)
    return graph.add("Expand", graph.constant(row[np.newaxis]), shape)


def _build_cell(graph: OnnxGraph, config: BiLMConfig, arrays: Arrays, name: str, direction: int) -> Any:
    """One step, an onnx.GraphProto: h, c and the input side of the gates to h, c and h as output."""
    width, cell_width = config.projection_width, config.cell_width
    weight = graph.constant(_by_gate(arrays.take(f"{name}.recurrent_weight")[direction]))
    step = OnnxGraph(f"{name}.{direction}")
    h = step.input(f"{step.name}/h", FLOAT, ["batch", width])
    c = step.input(f"{step.name}/c", FLOAT, ["batch", cell_width])
    gates = step.input(f"{step.name}/gates", FLOAT, ["batch", 4 * cell_width])
    scores = step.add("Add", gates, step.add("MatMul", h, weight))  # (B, 4H)
    open_scores, candidate = step.add_many("Split", 2, scores, step.integers(3 * cell_width, cell_width), axis=1)
    thirds = step.integers(cell_width, cell_width, cell_width)
    i, f, o = step.add_many("Split", 3, step.add("Sigmoid", open_scores), thirds, axis=1)
    cell = step.add("Add", step.add("Mul", i, step.add("Tanh", candidate)), step.add("Mul", f, c))
    cell = _clip(step, cell, config.cell_clip)
    output = step.add("Mul", o, step.add("Tanh", cell))  # (B, H)
    if config.has_projection:
        output = step.add("MatMul", output, graph.constant(arrays.take(f"{name}.projection_weight")[direction]))
        output = _clip(step, output, config.projection_clip)
    step.output(f"{step.name}/h_next", output, FLOAT, ["batch", width])
    step.output(f"{step.name}/c_next", cell, FLOAT, ["batch", cell_width])
    step.output(f"{step.name}/output", output, FLOAT, ["batch", width])
    return step.build()


def _clip(graph: OnnxGraph, value: str, limit: Any) -> str:
    return value if limit is None else graph.add("Clip", value, graph.constant(-limit), graph.constant(limit))


# Transformer layers.


def add_transformer_layers(
    graph: OnnxGraph, config: BiLMConfig, arrays: Arrays, boundaries: NDArray[Any], vectors: str, lengths: str
) -> str:
    """Add all layers in both directions, from the vectors of BOS and EOS (2, P), layer 0 (B, S, P) and lengths (B,),
    int64, to (L+1, B, S, D). Rows after the end of a sentence have no meaning.
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
    stacks = [_add_stack(graph, config, arrays, direction, rows, mask) for direction, mask in enumerate(masks)]
    stacked = [_join_directions(graph, [vectors] * config.n_directions)]
    for layers in zip(*stacks):
        stacked.append(_join_directions(graph, [graph.add("Slice", layer, one, last, one) for layer in layers]))
    return graph.add("Concat", *stacked, axis=0)


def _add_positions(graph: OnnxGraph, n_rows: str, lengths: str, last: str) -> str:
    """Value (B, T), the position of each row in the text of its sentence."""
    words = graph.add("Expand", add_range(graph, last), graph.add("Concat", n_rows, last, axis=0))  # (B, T - 1)
    ends = graph.add("Unsqueeze", graph.add("Add", lengths, graph.integers(1)), graph.integers(1))  # (B, 1)
    return graph.add("Concat", words, ends, axis=1)


def _add_masks(graph: OnnxGraph, lengths: str, last: str) -> Tuple[str, str]:
    """Values (B, 1, T, T), added to the scores of the forward and backward direction."""
    steps = add_range(graph, graph.add("Add", last, graph.integers(1)))  # (T,)
    read, reader = (graph.add("Unsqueeze", steps, graph.integers(axis)) for axis in (0, 1))  # (1, T), (T, 1)
    length = graph.add("Unsqueeze", lengths, graph.integers(1, 2))  # (B, 1, 1)
    is_behind = graph.add("Greater", read, length)  # (B, 1, T)
    is_padding = graph.add("And", is_behind, graph.add("Less", read, last))
    forward = graph.add("Or", graph.add("Greater", read, reader), is_behind)  # (B, T, T)
    backward = graph.add("Or", graph.add("Less", read, reader), is_padding)
    unread, zero = graph.constant(UNREAD), graph.constant(0.0)
    scores = (graph.add("Where", mask, unread, zero) for mask in (forward, backward))
    masks = [graph.add("Unsqueeze", score, graph.integers(1)) for score in scores]
    return masks[0], masks[1]


def _add_stack(graph: OnnxGraph, config: BiLMConfig, arrays: Arrays, direction: int, rows: str, mask: str) -> List[str]:
    """Values (B, T, P), the layers of a direction."""
    layers = []
    for layer in range(config.n_layers):
        block = f"encoder.blocks.{layer}."
        rows = _add_attention(graph, config, arrays, block, direction, rows, mask)
        weight, bias = (arrays.take(f"{block}norm_{key}")[direction, 1] for key in ("weight", "bias"))
        hidden = _add_linear(graph, arrays, f"{block}up", direction, _add_norm(graph, rows, weight, bias))
        changed = _add_linear(graph, arrays, f"{block}down", direction, graph.add("Relu", hidden))
        rows = graph.add("Add", rows, changed)
        layers.append(rows)
    layers[-1] = _add_norm(graph, rows, *(arrays.take(f"encoder.norm.{key}")[direction] for key in ("weight", "bias")))
    return layers


def _add_attention(
    graph: OnnxGraph, config: BiLMConfig, arrays: Arrays, block: str, direction: int, rows: str, mask: str
) -> str:
    """Value (B, T, P), the rows plus the attended values."""
    width, n_heads = config.projection_width, transformer_of(config).n_heads
    weight, bias = (arrays.take(f"{block}norm_{key}")[direction, 0] for key in ("weight", "bias"))
    mixed = _add_linear(graph, arrays, f"{block}input", direction, _add_norm(graph, rows, weight, bias))  # (B, T, 3P)
    projections = graph.add_many("Split", 3, mixed, graph.integers(width, width, width), axis=2)
    split = graph.integers(0, 0, n_heads, width // n_heads)
    query, key, value = (
        graph.add("Transpose", graph.add("Reshape", projection, split), perm=perm)
        for projection, perm in zip(projections, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
    )
    scale = graph.constant((width // n_heads) ** -0.5)
    scores = graph.add("Add", graph.add("Mul", graph.add("MatMul", query, key), scale), mask)  # (B, heads, T, T)
    heads = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), value)  # (B, heads, T, P / heads)
    joined = graph.add("Reshape", graph.add("Transpose", heads, perm=[0, 2, 1, 3]), graph.integers(0, 0, width))
    return graph.add("Add", rows, _add_linear(graph, arrays, f"{block}output", direction, joined))


def _add_linear(graph: OnnxGraph, arrays: Arrays, name: str, direction: int, rows: str) -> str:
    return _add_affine(graph, rows, *(arrays.take(f"{name}_{key}")[direction] for key in ("weight", "bias")))
