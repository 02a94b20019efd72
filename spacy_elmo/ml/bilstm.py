"""The encoder of the task networks of Peters et al. (2018): a bidirectional LSTM over each sequence.

torch computes it, as in Thinc's `PyTorchLSTM`. The weights are Thinc's, in one array: they are saved as an array (a
`PyTorchShim` pickles), averaged and moved to a GPU with those of all other layers.
"""

from typing import Any, Callable, List, Optional, Tuple

import numpy
import torch
from thinc.api import Model, chain, glorot_uniform_init
from thinc.types import Floats2d
from thinc.util import get_width, torch2xp, xp2torch
from torch import Tensor

from .._settings import find_texts
from ..errors import Errors
from ..inference.isolation import isolated
from ..inference.lstm_sequences import run_lstm
from ..inference.threads import register_fork_handlers
from .dropout import check_dropout, make_dropout

Sequences = List[Floats2d]
# Attribute of an encoder that takes input of any width; others take input that is as wide as their output.
ANY_WIDTH = "takes_any_width"
N_GATES = 4  # in the order of torch: input, forget, cell, output
FORGET = 1


def BiLSTMEncoder(width: int, depth: int = 1, dropout: Optional[float] = None) -> Model[Sequences, Sequences]:
    """Encode each sequence by a bidirectional LSTM; takes the place of `spacy.MaxoutWindowEncoder.v2`.

    A sequence is what comes in as one array: in a `tok2vec`, a Doc. It does not depend on the others of its batch.
    width (int): Width of the output, both directions together; even. The input may have any width.
    depth (int): Number of layers; each reads both directions of the layer below.
    dropout (Optional[float]): Dropout of the output of each layer; null for that of [training].
    RETURNS (Model[List[Floats2d], List[Floats2d]]): The encoder.
    RAISES (ValueError): EL060 for settings that make no sense.
    """
    problems = find_texts(width=width, depth=depth) + check_dropout(dropout)
    if not problems:
        checks = [
            (width >= 2 and width % 2 == 0, f"width is {width}, should be an even number from 2"),
            (depth >= 1, f"depth is {depth}, should be 1 or more"),
        ]
        problems = [text for is_fine, text in checks if not is_fine]
    if problems:
        raise ValueError(Errors.EL060.format(block="BiLSTM encoder", problems="; ".join(problems)))
    layers = [layer for _ in range(depth) for layer in (BiLSTM(width), make_dropout(dropout))]
    encoder: Model[Sequences, Sequences] = chain(*layers)
    encoder.set_dim("nO", width)
    encoder.attrs[ANY_WIDTH] = True
    return encoder


def BiLSTM(width: int) -> Model[Sequences, Sequences]:
    """One layer. Parameter: `W`, all weights and biases, laid out as cuDNN wants them.

    width (int): Width of the output, both directions together.
    RETURNS (Model[List[Floats2d], List[Floats2d]]): From arrays (n, nI) to arrays (n, nO).
    """
    register_fork_handlers()
    return Model("bilstm", forward, init=init, dims={"nO": width, "nI": None}, params={"W": None})


def init(model: Model[Sequences, Sequences], X: Optional[Sequences] = None, Y: Any = None) -> None:
    """Draw the weights: Glorot and Bengio (2010); biases 0, but 1 at the forget gate (Jozefowicz et al. 2015)."""
    if X is not None:
        model.set_dim("nI", get_width(X))
    parts = []
    for shape in _shapes(model):
        if len(shape) == 2:
            gates = [glorot_uniform_init(model.ops, (shape[0] // N_GATES, shape[1])) for _ in range(N_GATES)]
        else:  # half the bias: torch adds one of the input and one of the state
            gates = [
                model.ops.alloc1f(shape[0] // N_GATES) + (0.5 if gate == FORGET else 0.0) for gate in range(N_GATES)
            ]
        parts += [gate.ravel() for gate in gates]
    model.set_param("W", model.ops.xp.concatenate(parts))


@isolated
def forward(
    model: Model[Sequences, Sequences], sequences: Sequences, is_train: bool
) -> Tuple[Sequences, Callable[[Sequences], Sequences]]:
    """sequences (List[Floats2d]): Arrays (n, nI); n may be 0.
    is_train (bool): Whether a gradient will come back.
    RETURNS (Tuple[List[Floats2d], Callable]): Arrays (n, nO), and the callback from their gradients to those of the
        input.
    """
    lengths = [len(sequence) for sequence in sequences]
    if not sum(lengths):
        return _empty(model, len(sequences), "nO"), lambda d_outputs: _empty(model, len(sequences), "nI")
    weights = xp2torch(model.get_param("W"), requires_grad=is_train)
    rows = xp2torch(model.ops.xp.concatenate(sequences), requires_grad=is_train)  # (T, nI)
    with torch.set_grad_enabled(is_train):
        outputs = run_lstm(rows, lengths, _matrices(model, weights))  # (T, nO)

    @isolated
    def backprop(d_outputs: Sequences) -> Sequences:
        d_rows = xp2torch(model.ops.xp.concatenate(d_outputs), device=outputs.device)
        d_inputs, d_weights = torch.autograd.grad(outputs, (rows, weights), d_rows)
        model.inc_grad("W", torch2xp(d_weights))
        return _divide(model, torch2xp(d_inputs), lengths)

    return _divide(model, torch2xp(outputs.detach()), lengths), backprop


def _divide(model: Model[Any, Any], rows: Floats2d, lengths: List[int]) -> Sequences:
    """RETURNS (List[Floats2d]): An array for each sequence."""
    found: Sequences = model.ops.unflatten(rows, model.ops.asarray1i(lengths))
    return found


def _empty(model: Model[Any, Any], n_sequences: int, dim: str) -> Sequences:
    return [model.ops.alloc2f(0, model.get_dim(dim)) for _ in range(n_sequences)]


def _matrices(model: Model[Any, Any], weights: Tensor) -> List[Tensor]:
    """RETURNS (List[Tensor]): For each direction the weights of input and state, and their biases."""
    shapes = _shapes(model)
    parts = weights.split([int(numpy.prod(shape)) for shape in shapes])
    matrices = [part.view(shape) for part, shape in zip(parts, shapes)]
    return [*matrices[0:2], *matrices[4:6], *matrices[2:4], *matrices[6:8]]


def _shapes(model: Model[Any, Any]) -> List[Tuple[int, ...]]:
    """RETURNS (List[Tuple[int, ...]]): For each direction the weights of input and state; then the biases likewise."""
    half, n_inputs = model.get_dim("nO") // 2, model.get_dim("nI")
    matrices: List[Tuple[int, ...]] = [(N_GATES * half, n_inputs), (N_GATES * half, half)]
    return 2 * matrices + 4 * [(N_GATES * half,)]
