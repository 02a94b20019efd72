"""Widths of residual layers after a listener, whose width is unknown when a model is created.

The entity linker of spaCy has a residual layer after its tok2vec. Thinc would give it the output width of the model.
"""

from typing import Any

from thinc.api import Model
from thinc.layers.residual import init as init_residual


def infer_residual_widths(model: Model[Any, Any]) -> None:
    """Make residual layers infer their width from their input, which has the width of their output.

    model (Model): The model of a component with a listener.
    """
    for node in model.walk():
        if node.init is init_residual and node.layers[0].has_dim("nO") is None:
            node.init = init_from_input


def init_from_input(model: Model[Any, Any], X: Any = None, Y: Any = None) -> None:
    """Initialize a residual layer, whose output has the shape of its input.

    model (Model): The residual layer.
    X (Any): A sample of its input.
    Y (Any): A sample of the output of the whole model; not used.
    """
    init_residual(model, X, X)
