"""Residual layers behind a listener: their width is that of their input."""

import numpy as np
from thinc.api import Maxout, Model, chain, expand_window, residual

from spacy_elmo.pipeline.task_layers import infer_residual_widths, init_from_input


def make_encoder() -> Model:
    """Two residual layers in a chain, whose name begins as theirs do."""
    layers = [residual(chain(expand_window(1), Maxout(nO=None, nP=2))) for _ in range(2)]
    return chain(*layers)


def test_residual_layers_take_the_width_of_their_input():
    encoder = make_encoder()
    infer_residual_widths(encoder)
    found = np.zeros((3, 6), dtype="float32")
    encoder.initialize(X=found, Y=np.zeros((3, 2), dtype="float32"))
    assert encoder.predict(found).shape == (3, 6)


def test_no_other_layer_is_changed():
    encoder = make_encoder()
    infer_residual_widths(encoder)
    assert [node.name for node in encoder.walk() if node.init is init_from_input] == [
        layer.name for layer in encoder.layers
    ]
