"""Layers of the networks of tasks: encoders with ELMo, a bidirectional LSTM, dropout."""

from functools import partial
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy
import torch
from spacy.tokens import Doc
from thinc.api import Dropout, Linear, Model, chain, concatenate, glorot_uniform_init, with_array
from thinc.layers.residual import init as init_residual
from thinc.types import Floats2d, Ints1d
from thinc.util import get_width, torch2xp, xp2torch
from torch import Tensor

from ..inference.kernel_lstm import PackedLSTM
from ..inference.lstm_sequences import run_lstm
from ..inference.runtime import isolated, register_fork_handlers
from ..settings import Count, Even, Probability, check_arguments
from .crf import find_words

ELMO_LAYERS = ("elmo-listener", "elmo_tok2vec")  # names in `listener.py` and `replaced_listener.py`


def has_elmo(model: Model[Any, Any]) -> bool:
    """RETURNS (bool): Whether a model has a listener or its own biLM."""
    return any(node.name in ELMO_LAYERS for node in model.walk())


Sequences = List[Floats2d]


def _make_dropout(dropout: Optional[float]) -> Model[Sequences, Sequences]:
    """A layer that acts in training only. None: the `dropout` of [training], which spaCy sets before each update."""
    return Dropout() if dropout is None else Model("fixed_dropout", partial(_forward_dropout, dropout))


def _forward_dropout(
    rate: float, model: Model[Any, Any], sequences: Sequences, is_train: bool
) -> Tuple[Sequences, Callable[[Sequences], Sequences]]:
    """Drop values of arrays of any shape with probability `rate`, and scale the others by 1 / (1 - rate)."""
    if not (is_train and rate):
        return sequences, _pass_gradient
    masks = [model.ops.get_dropout_mask(sequence.shape, rate) for sequence in sequences]

    def backprop(d_outputs: Sequences) -> Sequences:
        return [d_output * mask for d_output, mask in zip(d_outputs, masks)]

    return [sequence * mask for sequence, mask in zip(sequences, masks)], backprop


def _pass_gradient(d_outputs: Sequences) -> Sequences:
    return d_outputs


# Attribute of an encoder that takes input of any width; others take input that is as wide as their output.
ANY_WIDTH = "takes_any_width"
PACKED = "packed_weights"  # attribute of a BiLSTM; it is not saved
N_GATES = 4  # in the order of torch: input, forget, cell, output
FORGET = 1


@check_arguments
def BiLSTMEncoder(
    width: Even,
    depth: Count = 1,
    dropout: Optional[Probability] = None,
) -> Model[Sequences, Sequences]:
    """A bidirectional LSTM over each Doc; takes the place of `spacy.MaxoutWindowEncoder.v2`.

    A sequence is one input array: in a `tok2vec`, a Doc. Its output does not depend on other sequences of the batch. On
    a CPU the native kernel predicts, where a sequence has the same bits in every batch; torch trains.
    width (int): Width of the output, both directions together; even. The input may have any width.
    depth (int): Number of layers; each reads both directions of the layer below.
    dropout (Optional[float]): Dropout of the output of each layer, 0 to below 1; null for the dropout of [training].
    RETURNS (Model[List[Floats2d], List[Floats2d]]): The encoder.
    RAISES (ValueError): For invalid settings.
    """
    layers = [layer for _ in range(depth) for layer in (BiLSTMLayer(width), _make_dropout(dropout))]
    encoder: Model[Sequences, Sequences] = chain(*layers)
    encoder.set_dim("nO", width)
    encoder.attrs[ANY_WIDTH] = True
    return encoder


def BiLSTMLayer(width: int) -> Model[Sequences, Sequences]:
    """One layer, from arrays (n, nI) to (n, nO); nO is the width of both directions together. Parameter: `W`, all
    weights and biases, in the layout of cuDNN.
    """
    register_fork_handlers()
    return Model(
        "bilstm",
        _forward_bilstm,
        init=_init_bilstm,
        dims={"nO": width, "nI": None},
        params={"W": None},
        attrs={PACKED: PackedLSTM()},
    )


def _init_bilstm(model: Model[Sequences, Sequences], X: Optional[Sequences] = None, Y: Any = None) -> None:
    """Draw the weights: Glorot and Bengio (2010); biases 0, but 1 at the forget gate (Jozefowicz et al. 2015)."""
    if X is not None:
        model.set_dim("nI", get_width(X))
    matrices = []
    for shape in _shapes(model):
        if len(shape) == 2:
            gates = [glorot_uniform_init(model.ops, (shape[0] // N_GATES, shape[1])) for _ in range(N_GATES)]
        else:  # half the bias: torch adds one of the input and one of the state
            gates = [
                model.ops.alloc1f(shape[0] // N_GATES) + (0.5 if gate == FORGET else 0.0) for gate in range(N_GATES)
            ]
        matrices += [gate.ravel() for gate in gates]
    model.set_param("W", model.ops.xp.concatenate(matrices))


@isolated
def _forward_bilstm(
    model: Model[Sequences, Sequences], sequences: Sequences, is_train: bool
) -> Tuple[Sequences, Callable[[Sequences], Sequences]]:
    """Map arrays (n, nI) to (n, nO); n may be 0."""
    lengths = [len(sequence) for sequence in sequences]
    if not sum(lengths):
        return _empty(model, len(sequences), "nO"), lambda d_outputs: _empty(model, len(sequences), "nI")
    weights = xp2torch(model.get_param("W"), requires_grad=is_train)
    rows = xp2torch(model.ops.xp.concatenate(sequences), requires_grad=is_train)  # (T, nI)
    with torch.set_grad_enabled(is_train):
        outputs = run_lstm(rows, lengths, _split_weights(model, weights), model.attrs[PACKED])  # (T, nO)

    @isolated
    def backprop(d_outputs: Sequences) -> Sequences:
        d_rows = xp2torch(model.ops.xp.concatenate(d_outputs), device=outputs.device)
        d_inputs, d_weights = torch.autograd.grad(outputs, (rows, weights), d_rows)
        model.inc_grad("W", torch2xp(d_weights))
        return _divide(model, torch2xp(d_inputs), lengths)

    return _divide(model, torch2xp(outputs.detach()), lengths), backprop


def _divide(model: Model[Any, Any], rows: Floats2d, lengths: List[int]) -> Sequences:
    sequences: Sequences = model.ops.unflatten(rows, model.ops.asarray1i(lengths))
    return sequences


def _empty(model: Model[Any, Any], n_sequences: int, dim: str) -> Sequences:
    return [model.ops.alloc2f(0, model.get_dim(dim)) for _ in range(n_sequences)]


def _split_weights(model: Model[Any, Any], weights: Tensor) -> List[Tensor]:
    """RETURNS (List[Tensor]): For each direction the weights of input and state, and their biases."""
    shapes = _shapes(model)
    flat = weights.split([int(numpy.prod(shape)) for shape in shapes])
    matrices = [matrix.view(shape) for matrix, shape in zip(flat, shapes)]
    return [*matrices[0:2], *matrices[4:6], *matrices[2:4], *matrices[6:8]]


def _shapes(model: Model[Any, Any]) -> List[Tuple[int, ...]]:
    """RETURNS (List[Tuple[int, ...]]): For each direction the weights of input and state; then the biases likewise."""
    half, n_inputs = model.get_dim("nO") // 2, model.get_dim("nI")
    matrices: List[Tuple[int, ...]] = [(N_GATES * half, n_inputs), (N_GATES * half, half)]
    return 2 * matrices + 4 * [(N_GATES * half,)]


Tok2Vec = Model[List[Doc], Sequences]
READS_DOCS = ("extract_features", "tok2vec-listener", *ELMO_LAYERS)  # names of layers


@check_arguments
def ElmoTaskEncoder(
    embed: Tok2Vec,
    encode: Model[Sequences, Sequences],
    elmo_input: Optional[Tok2Vec] = None,
    elmo_output: Optional[Tok2Vec] = None,
    dropout: Optional[Probability] = None,
) -> Tok2Vec:
    """ELMo at the input or the output of this component's encoder, or both: Peters et al. (2018), sec. 3.3 and 5.2.

    embed (Model[List[Doc], List[Floats2d]]): x, the task's own word features, such as `spacy.MultiHashEmbed.v2`.
    encode (Model[List[Floats2d], List[Floats2d]]): The encoder. `spacy-elmo.BiLSTMEncoder.v1` reads the joined vectors
        as they are; others, such as `spacy.MaxoutWindowEncoder.v2`, read a linear projection to their width.
    elmo_input (Optional[Model[List[Doc], List[Floats2d]]]): `spacy-elmo.ElmoListener.v1`, or any other listener, whose
        vectors are joined to the encoder's input; null for none.
    elmo_output (Optional[Model[List[Doc], List[Floats2d]]]): A second listener, with its own mix, whose vectors are
        joined to the encoder's output; null for none.
    dropout (Optional[float]): Dropout of the encoder's input, 0 to below 1; null for the dropout of [training].
    RETURNS (Model[List[Doc], List[Floats2d]]): A `tok2vec` layer.
    RAISES (ValueError): For invalid settings, or without any listener.
    """
    _check_layers({"embed": embed, "elmo_input": elmo_input, "elmo_output": elmo_output}, encode)
    projection = [] if encode.attrs.get(ANY_WIDTH) else [_make_projection(encode)]
    hidden = _encode_words(_join_listener(embed, elmo_input), _make_dropout(dropout), *projection, encode)  # h
    encoder = _join_listener(hidden, elmo_output)  # [h; ELMo']
    for name, layer in (("embed", embed), ("encode", encode), ("elmo_input", elmo_input), ("elmo_output", elmo_output)):
        encoder.set_ref(name, layer)
    return encoder


def Tok2VecWithElmo(embed: Tok2Vec, elmo: Tok2Vec, encode: Optional[Model[Sequences, Sequences]] = None) -> Tok2Vec:
    """An `ElmoTaskEncoder` with one listener, at the input, and without dropout: [x; ELMo] -> projection -> encoder.

    embed (Model[List[Doc], List[Floats2d]]): An embedding or a whole tok2vec, such as `spacy.MultiHashEmbed.v2` or
        `spacy.HashEmbedCNN.v2`.
    elmo (Model[List[Doc], List[Floats2d]]): `spacy-elmo.ElmoListener.v1`, or any other listener, for instance of a
        transformer.
    encode (Optional[Model[List[Floats2d], List[Floats2d]]]): An encoder with equal input and output width, such as
        `spacy.MaxoutWindowEncoder.v2`; null for the concatenated vectors themselves.
    RETURNS (Model[List[Doc], List[Floats2d]]): A `tok2vec` layer.
    RAISES (ValueError): For a block in the wrong place.
    """
    _check_layers({"embed": embed, "elmo": elmo}, encode)
    joined = _join_listener(embed, elmo)
    return joined if encode is None else chain(joined, _make_projection(encode), encode)


def _encode_words(reader: Tok2Vec, *layers: Model[Sequences, Sequences]) -> Tok2Vec:
    """A chain whose layers, behind the one that reads Docs, do not see white space; its rows are zeros."""
    chained: Tok2Vec = chain(reader, *layers)
    dims = {name: chained.maybe_get_dim(name) for name in chained.dim_names}
    return Model(chained.name, _forward_words, init=chained.init, dims=dims, layers=chained.layers)


def _forward_words(
    model: Tok2Vec, docs: List[Doc], is_train: bool
) -> Tuple[Sequences, Callable[[Sequences], List[Doc]]]:
    reader, *layers = model.layers
    vectors, backprop_reader = reader(docs, is_train)
    words = [model.ops.asarray1i(find_words(doc)) for doc in docs]
    rows = _take_words(vectors, words)
    backprops = []
    for layer in layers:
        rows, backprop_layer = layer(rows, is_train)
        backprops.append(backprop_layer)

    def backprop(d_outputs: Sequences) -> List[Doc]:
        d_rows = _take_words(d_outputs, words)
        for backprop_layer in reversed(backprops):
            d_rows = backprop_layer(d_rows)
        d_docs: List[Doc] = backprop_reader(_place_words(model, d_rows, words, docs))
        return d_docs

    return _place_words(model, rows, words, docs), backprop


def _take_words(sequences: Sequences, words: List[Ints1d]) -> Sequences:
    return [rows if len(rows) == len(doc_words) else rows[doc_words] for rows, doc_words in zip(sequences, words)]


def _place_words(model: Tok2Vec, rows: Sequences, words: List[Ints1d], docs: List[Doc]) -> Sequences:
    """RETURNS (List[Floats2d]): A row for each token, zeros for white space."""
    placed = []
    for doc, doc_words, doc_rows in zip(docs, words, rows):
        if len(doc_rows) < len(doc):
            tokens = model.ops.alloc2f(len(doc), doc_rows.shape[1])
            tokens[doc_words] = doc_rows
            doc_rows = tokens
        placed.append(doc_rows)
    return placed


def _join_listener(layer: Tok2Vec, listener: Optional[Tok2Vec]) -> Tok2Vec:
    if listener is None:
        return layer
    if not has_elmo(listener):
        listener = Model("other_listener", forward_listener, init=init_listener, layers=[listener], dims={"nO": None})
    joined: Tok2Vec = concatenate(layer, listener)
    return joined


def init_listener(model: Tok2Vec, X: Any = None, Y: Any = None) -> None:
    """Initialize the listener of another package, and copy its width."""
    model.layers[0].initialize(X=X)
    model.set_dim("nO", model.layers[0].get_dim("nO"), force=True)


def forward_listener(
    model: Tok2Vec, docs: List[Doc], is_train: bool
) -> Tuple[Sequences, Callable[[Sequences], List[Doc]]]:
    """Give the vectors of a listener, and an empty gradient of the Docs where its own is None: the one of
    spacy-transformers only stores the gradient of its vectors if others listen too, and `concatenate` cannot add None.
    """
    vectors, backprop = model.layers[0](docs, is_train)
    return vectors, lambda d_vectors: backprop(d_vectors) or []


def _make_projection(encode: Model[Sequences, Sequences]) -> Model[Sequences, Sequences]:
    """RETURNS (Model[List[Floats2d], List[Floats2d]]): A linear layer to the width that the encoder reads."""
    projection: Model[Sequences, Sequences] = with_array(Linear(encode.maybe_get_dim("nO")))
    return projection


def _check_layers(readers: Dict[str, Optional[Tok2Vec]], encode: Optional[Model[Sequences, Sequences]]) -> None:
    """RAISES (ValueError): For an encoder where Docs are read, and anything but an encoder where vectors are."""
    problems = [
        f"{name} is the encoder '{layer.name}', should read Docs, such as spacy.MultiHashEmbed.v2 or a listener"
        for name, layer in readers.items()
        if layer is not None and layer.attrs.get(ANY_WIDTH)
    ]
    if encode is not None and any(node.name in READS_DOCS for node in encode.walk()):
        kind = "an encoder of vectors, such as spacy-elmo.BiLSTMEncoder.v1"
        problems.append(f"encode is '{encode.name}', which reads Docs, should be {kind}")
    elif encode is not None and not encode.attrs.get(ANY_WIDTH) and encode.maybe_get_dim("nO") is None:
        problems.append(f"encode is '{encode.name}' of unknown width, should be an encoder with a `width`")
    if all(layer is None for name, layer in readers.items() if name != "embed"):
        problems.append("elmo_input and elmo_output are both null, should be a listener, one or both")
    if problems:
        raise ValueError(f"The network with ELMo has invalid settings: {'; '.join(problems)}. Correct these blocks.")


def infer_residual_widths(model: Model[Any, Any]) -> None:
    """Make residual layers infer their width from their input, which has the width of their output."""
    for node in model.walk():
        if node.init is init_residual and node.layers[0].has_dim("nO") is None:
            node.init = _init_from_input


def _init_from_input(model: Model[Any, Any], X: Any = None, Y: Any = None) -> None:
    """Initialize a residual layer, whose output has the shape of its input; `Y`, of the whole model, is not used."""
    init_residual(model, X, X)
