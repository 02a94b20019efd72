"""The BiLSTM encoder: torch's LSTM over each sequence, with weights that Thinc keeps."""

import numpy
import pytest
import torch
from thinc.api import Adam, Model, chain, fix_random_seed, set_dropout_rate

from spacy_elmo.pipeline.task_layers import BiLSTM, BiLSTMEncoder

LENGTHS = [3, 0, 5, 1, 5]
N_INPUTS, WIDTH = 7, 6


def make_sequences(lengths=LENGTHS, width=N_INPUTS, seed=0):
    rng = numpy.random.default_rng(seed)
    return [rng.normal(size=(length, width)).astype("float32") for length in lengths]


def make_encoder(seed=0, **settings):
    fix_random_seed(seed)
    encoder = BiLSTMEncoder(WIDTH, **settings)
    encoder.initialize(X=make_sequences())
    return encoder


def torch_twin(layer):
    """torch's own module with the weights of a layer."""
    twin = torch.nn.LSTM(layer.get_dim("nI"), layer.get_dim("nO") // 2, bidirectional=True)
    flat = torch.from_numpy(layer.get_param("W"))
    kinds = ["weight_ih", "weight_hh"], ["bias_ih", "bias_hh"]
    names = [f"{kind}_l0{direction}" for group in kinds for direction in ("", "_reverse") for kind in group]
    start = 0
    for name in names:
        parameter = getattr(twin, name)
        parameter.data = flat[start : start + parameter.numel()].view(parameter.shape).clone()
        start += parameter.numel()
    assert start == len(flat)
    return twin


def test_layer_equals_torch_and_so_do_its_gradients():
    layer, sequences = BiLSTM(WIDTH), make_sequences()
    layer.initialize(X=sequences)
    twin = torch_twin(layer)
    inputs = [torch.from_numpy(sequence).requires_grad_() for sequence in sequences]
    wanted = [twin(tensor)[0] if len(tensor) else tensor.new_zeros(0, WIDTH) for tensor in inputs]
    found, backprop = layer(sequences, is_train=True)
    d_outputs = make_sequences(width=WIDTH, seed=1)
    sum((a * torch.from_numpy(b)).sum() for a, b in zip(wanted, d_outputs)).backward()
    d_inputs = backprop(d_outputs)
    for ours, torchs, d_ours, tensor in zip(found, wanted, d_inputs, inputs):
        numpy.testing.assert_allclose(ours, torchs.detach(), atol=1e-6)
        numpy.testing.assert_allclose(d_ours, 0 if tensor.grad is None else tensor.grad, atol=1e-6)
    order = ("weight_ih_l0", "weight_hh_l0", "weight_ih_l0_reverse", "weight_hh_l0_reverse")
    order += ("bias_ih_l0", "bias_hh_l0", "bias_ih_l0_reverse", "bias_hh_l0_reverse")
    d_weights = torch.cat([getattr(twin, name).grad.ravel() for name in order])
    numpy.testing.assert_allclose(layer.get_grad("W"), d_weights, atol=1e-5)


@pytest.mark.parametrize("is_train", [False, True])
def test_encoding_does_not_depend_on_the_batch(is_train):
    encoder, sequences = make_encoder(depth=2), make_sequences()
    together = encoder(sequences, is_train)[0]
    for sequence, found in zip(sequences, together):
        assert found.shape == (len(sequence), WIDTH)
        numpy.testing.assert_allclose(encoder.predict([sequence])[0], found, atol=1e-6)


@pytest.mark.parametrize("lengths", [[], [0], [0, 0]])
def test_nothing_gives_nothing(lengths):
    encoder = make_encoder(depth=2)
    outputs, backprop = encoder(make_sequences(lengths), is_train=True)
    assert [output.shape for output in outputs] == [(0, WIDTH) for _ in lengths]
    assert [d_input.shape for d_input in backprop(outputs)] == [(0, N_INPUTS) for _ in lengths]


def test_weights_are_saved_as_arrays_and_loaded_into_other_ones():
    encoder, other = make_encoder(0, depth=2), make_encoder(1, depth=2)
    assert not any(node.shims for node in encoder.walk()), "a shim of torch would pickle"
    sequences = make_sequences()
    wanted = encoder.predict(sequences)
    assert abs(other.predict(sequences)[0] - wanted[0]).max() > 1e-3
    for copied in (other.from_bytes(encoder.to_bytes()), encoder.copy()):
        for ours, theirs in zip(copied.predict(sequences), wanted):
            numpy.testing.assert_array_equal(ours, theirs)


def test_encoder_learns():
    encoder, sequences, optimizer = make_encoder(depth=2), make_sequences(), Adam(0.02)
    wanted = [numpy.sin(sequence[:, :WIDTH]) * 0.5 for sequence in sequences]
    losses = []
    for _ in range(60):
        outputs, backprop = encoder(sequences, is_train=True)
        d_outputs = [found - target for found, target in zip(outputs, wanted)]
        losses.append(sum(float((d**2).sum()) for d in d_outputs))
        backprop(d_outputs)
        encoder.finish_update(optimizer)
    assert losses[-1] < 0.2 * losses[0]


def n_zeros(model: Model, *, is_train: bool = True) -> int:
    return sum(int((output == 0).sum()) for output in model(make_sequences([50]), is_train)[0])


def test_dropout_follows_the_training_or_has_a_rate_of_its_own():
    following, fixed = make_encoder(), make_encoder(dropout=0.5)
    assert n_zeros(following) == 0 and n_zeros(fixed) > 50
    for encoder in (following, fixed):
        set_dropout_rate(encoder, 0.9)
    assert n_zeros(following) > 200 and n_zeros(fixed) < 200
    assert n_zeros(following, is_train=False) == n_zeros(fixed, is_train=False) == 0


def test_encoder_has_known_widths_in_a_chain():
    first = BiLSTMEncoder(4)
    assert first.get_dim("nO") == 4 and first.has_dim("nI") is None
    both = chain(first, BiLSTMEncoder(2))
    both.initialize(X=make_sequences())
    assert both.get_dim("nI") == N_INPUTS and both.get_dim("nO") == 2


@pytest.mark.parametrize("settings", [{"width": 5}, {"width": 0}, {"depth": 0}, {"dropout": 1.0}])
def test_invalid_settings_are_an_error(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        BiLSTMEncoder(**{"width": 4, **settings})
