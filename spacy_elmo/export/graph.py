"""An ONNX graph under construction: nodes and constants, with generated names."""

from typing import Any, List, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

FLOAT, INT64 = "FLOAT", "INT64"
Axes = Sequence[Union[str, int]]


class Graph:
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

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output.

        operator (str): ONNX operator.
        inputs (str): Names of values.
        RETURNS (str): Name of the output.
        """
        return self.add_many(operator, 1, *inputs, **attributes)[0]

    def add_many(self, operator: str, n_outputs: int, *inputs: str, **attributes: Any) -> List[str]:
        """Add a node with several outputs.

        RETURNS (List[str]): Names of the outputs.
        """
        from onnx import helper

        outputs = [self._new_name(operator) for _ in range(n_outputs)]
        self._nodes.append(helper.make_node(operator, list(inputs), outputs, **attributes))
        return outputs

    def constant(self, values: Any, dtype: str = "float32") -> str:
        """Add a constant.

        values (Any): An array or numbers.
        RETURNS (str): Its name.
        """
        from onnx import numpy_helper

        array: NDArray[Any] = np.ascontiguousarray(values, dtype=dtype).reshape(np.shape(values))
        name = self._new_name("constant")
        self.n_bytes += array.nbytes
        self._constants.append(numpy_helper.from_array(array, name))
        return name

    def integers(self, *values: int) -> str:
        """RETURNS (str): Name of a constant with one axis: a shape, or indices of axes."""
        return self.constant(list(values), "int64")

    def input(self, name: str, kind: str, axes: Axes) -> str:
        """Declare an input.

        kind (str): FLOAT or INT64.
        axes (Axes): Sizes; a name for an axis of any size.
        RETURNS (str): Its name.
        """
        self._inputs.append(_describe(name, kind, axes))
        return name

    def output(self, name: str, value: str, kind: str, axes: Axes) -> None:
        """Declare a value as an output with a name of its own."""
        from onnx import helper

        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(_describe(name, kind, axes))

    def build(self) -> Any:
        """RETURNS (onnx.GraphProto): The graph."""
        from onnx import helper

        return helper.make_graph(self._nodes, self.name, self._inputs, self._outputs, self._constants)

    def _new_name(self, stem: str) -> str:
        self._n_names += 1
        return f"{self.name}/{stem.lower()}_{self._n_names}"


def split_shape(graph: Graph, value: str, n_axes: int) -> Tuple[str, ...]:
    """RETURNS (Tuple[str, ...]): The sizes of the first axes of a value, each with one axis."""
    shape = graph.add("Shape", value)
    return tuple(graph.add("Gather", shape, graph.integers(i), axis=0) for i in range(n_axes))


def _describe(name: str, kind: str, axes: Axes) -> Any:
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(name, getattr(TensorProto, kind), list(axes))
