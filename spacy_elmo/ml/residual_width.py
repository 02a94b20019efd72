"""Widths of residual layers behind a listener, whose own width is not known when a model is built.

spaCy's entity linker puts a residual layer after its tok2vec. Thinc would give it the width of the model's output.
"""

from typing import Any

from thinc.api import Model
from thinc.layers.residual import init as init_residual


def infer_residual_widths(model: Model[Any, Any]) -> None:
    """Let residual layers take their width from their input: what they add to it is as wide.

    model (Model): The model of a component that listens.
    """
    for node in model.walk():
        if node.init is init_residual and node.layers[0].has_dim("nO") is None:
            node.init = init_from_input


def init_from_input(model: Model[Any, Any], X: Any = None, Y: Any = None) -> None:
    """Initialize a residual layer: its output has the shape of its input.

    model (Model): The residual layer.
    X (Any): A sample of its input.
    Y (Any): Not used: a sample of the output of the whole model.
    """
    init_residual(model, X, X)
