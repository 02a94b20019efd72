"""The LSTM layers in ONNX (Peters et al. 2018, sec. 3.4).

ONNX's own LSTM operator has neither a projection nor a clip of the memory cell, so a Scan over time runs the cell.
Sentence boundaries are not part of the graph: each direction starts from the state after reading its boundary, which is
constant. What follows a sentence is never read: the backward direction reads it reversed by its length.
"""

from typing import Any, List, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..bilm.config import BiLMConfig
from ..bilm.lstm import FORGET_BIAS
from .arrays import Arrays
from .graph import FLOAT, Graph
from .word_graph import add_mix

GATE_ORDER = (0, 2, 3, 1)  # i, f, o, then the candidate j: one sigmoid for the first three


class StartState(NamedTuple):
    """State of a layer after the boundary.

    h (NDArray): Shape (d, P).
    c (NDArray): Shape (d, H).
    """

    h: NDArray[Any]
    c: NDArray[Any]


def add_layers(
    graph: Graph, config: BiLMConfig, arrays: Arrays, start: List[StartState], vectors: str, lengths: str
) -> str:
    """Add all layers in both directions.

    start (List[StartState]): For each layer.
    vectors (str): Value (B, S, P), layer 0.
    lengths (str): Value (B,), int64.
    RETURNS (str): Value (L+1, B, S, D). Rows after the end of a sentence have no meaning.
    """
    steps = graph.add("Transpose", vectors, perm=[1, 0, 2])  # (S, B, P)
    inputs = [steps, _reverse(graph, steps, lengths)][: config.n_directions]
    stacked = [_join(graph, [steps] * config.n_directions)]
    for number in range(config.n_layers):
        inputs = [
            _add_layer(graph, config, arrays, number, direction, start[number], x) for direction, x in enumerate(inputs)
        ]
        outputs = [inputs[0], *(_reverse(graph, x, lengths) for x in inputs[1:])]
        stacked.append(_join(graph, outputs))
    return graph.add("Transpose", graph.add("Concat", *stacked, axis=0), perm=[0, 2, 1, 3])


def _join(graph: Graph, directions: List[str]) -> str:
    joined = graph.add("Concat", *directions, axis=2)  # (S, B, D)
    return graph.add("Unsqueeze", joined, graph.integers(0))  # (1, S, B, D)


def _reverse(graph: Graph, steps: str, lengths: str) -> str:
    return graph.add("ReverseSequence", steps, lengths, batch_axis=1, time_axis=0)


def _add_layer(
    graph: Graph, config: BiLMConfig, arrays: Arrays, number: int, direction: int, start: StartState, inputs: str
) -> str:
    """RETURNS (str): Value (S, B, P), in the reading order of the direction."""
    name = f"encoder.layers.{number}"
    weight, bias = (_by_gate(arrays.take(f"{name}.{key}")[direction]) for key in ("input_weight", "bias"))
    forget = np.repeat(np.array([0, FORGET_BIAS, 0, 0], dtype="float32"), config.cell_width)  # not in the stored bias
    gates = graph.add("Add", graph.add("MatMul", inputs, graph.constant(weight)), graph.constant(bias + forget))
    cell = _build_cell(graph, config, arrays, name, direction)
    h, c = (_repeat(graph, values[direction], inputs) for values in start)
    _, _, outputs = graph.add_many("Scan", 3, h, c, gates, body=cell, num_scan_inputs=1)
    if number == 0:
        return outputs
    if config.highway_between:
        return _add_highway(graph, arrays, f"encoder.highways.{number - 1}", direction, inputs, outputs)
    return graph.add("Add", outputs, inputs) if config.has_skip else outputs


def _by_gate(columns: NDArray[Any]) -> NDArray[Any]:
    """Reorder the last axis, 4H, from i, j, f, o."""
    parts = np.split(columns, 4, axis=-1)
    return np.concatenate([parts[i] for i in GATE_ORDER], axis=-1)


def _repeat(graph: Graph, row: NDArray[Any], inputs: str) -> str:
    """RETURNS (str): Value (B, len(row)); B is the second axis of `inputs`."""
    n_rows = graph.add("Gather", graph.add("Shape", inputs), graph.integers(1), axis=0)
    shape = graph.add("Concat", n_rows, graph.integers(len(row)), axis=0)
    return graph.add("Expand", graph.constant(row[np.newaxis]), shape)


def _build_cell(graph: Graph, config: BiLMConfig, arrays: Arrays, name: str, direction: int) -> Any:
    """RETURNS (onnx.GraphProto): One step: h, c and the input side of the gates to h, c and h as output."""
    width, cell_width = config.projection_width, config.cell_width
    weight = graph.constant(_by_gate(arrays.take(f"{name}.recurrent_weight")[direction]))
    step = Graph(f"{name}.{direction}")
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


def _clip(graph: Graph, value: str, limit: Any) -> str:
    return value if limit is None else graph.add("Clip", value, graph.constant(-limit), graph.constant(limit))


def _add_highway(graph: Graph, arrays: Arrays, name: str, direction: int, inputs: str, outputs: str) -> str:
    weight, bias = (graph.constant(arrays.take(f"{name}.{key}")[direction]) for key in ("weight", "bias"))
    scores = graph.add("Add", graph.add("MatMul", inputs, weight), bias)  # (S, B, P)
    return add_mix(graph, inputs, outputs, scores)
