"""The LSTM of task models: packed sequences, in any batch."""

import copy
import pickle

import pytest
import torch
from inference.forcing import needs_kernel
from torch import nn

from spacy_elmo.inference import lstm_sequences
from spacy_elmo.nn import BiLSTM


def pack_and_run(model, rows, lengths):
    packed = nn.utils.rnn.pack_padded_sequence(rows, lengths, batch_first=True, enforce_sorted=False)
    return nn.utils.rnn.pad_packed_sequence(model.lstm(packed)[0], batch_first=True)[0]


@pytest.mark.parametrize("is_training", [False, True])
def test_it_equals_packed_sequences_and_so_do_gradients(is_training):
    torch.manual_seed(0)
    model, rows, lengths = BiLSTM(4, 3), torch.randn(3, 9, 4), torch.tensor([9, 2, 5])
    mask = torch.arange(9) < lengths.unsqueeze(1)
    with torch.set_grad_enabled(is_training):
        found, wanted = model(rows, mask), pack_and_run(model, rows, lengths)
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=0)
    if is_training:
        d_outputs = torch.randn(found.shape)
        weights = list(model.parameters())
        ours, theirs = (torch.autograd.grad(outputs, weights, d_outputs) for outputs in (found, wanted))
        for one, other in zip(ours, theirs):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


def test_sentences_without_words_have_zeros_and_others_do_not_depend_on_them():
    torch.manual_seed(0)
    model, rows = BiLSTM(4, 3), torch.randn(3, 5, 4)
    mask = torch.arange(5) < torch.tensor([[4], [0], [1]])
    found = model(rows, mask)
    assert found.shape == (3, 5, 6) and not found[~mask].any()
    torch.testing.assert_close(found[:1, :4], model(rows[:1, :4], mask[:1, :4]), atol=1e-6, rtol=0)
    with torch.no_grad():  # as in training, within rounding
        torch.testing.assert_close(model(rows, mask), found, atol=1e-6, rtol=0)
    nothing = model(rows, torch.zeros_like(mask))
    assert not nothing.any() and nothing.shape == (3, 5, 6)


@needs_kernel
@pytest.mark.issue(61)
@torch.no_grad()
def test_without_gradients_a_sentence_has_the_same_bits_in_every_batch():
    torch.manual_seed(0)
    model, rows, lengths = BiLSTM(30, 33), torch.randn(40, 50, 30), torch.arange(40)
    mask = torch.arange(50) < lengths.unsqueeze(1)
    encoded = model(rows, mask)
    torch.testing.assert_close(encoded[1:, :39], pack_and_run(model, rows[1:], lengths[1:]), atol=1e-5, rtol=0)
    for number, length in enumerate(lengths.tolist()):
        assert torch.equal(model(rows[number, None], mask[number, None])[0], encoded[number])
        alone = model(rows[number, None, : length + 1], mask[number, None, : length + 1])
        assert torch.equal(alone[0], encoded[number, : length + 1])


def unpickle(model):
    return pickle.loads(pickle.dumps(model))


def load_state(model):
    other = BiLSTM(30, 33)
    other(torch.randn(1, 2, 30), torch.ones(1, 2, dtype=torch.bool))  # with other weights
    other.load_state_dict(model.state_dict())
    return other


@pytest.mark.issue(61)
@pytest.mark.parametrize("make", [copy.deepcopy, unpickle, load_state])
@torch.no_grad()
def test_copies_use_their_own_weights(make):
    torch.manual_seed(0)
    model, rows, mask = BiLSTM(30, 33), torch.randn(3, 5, 30), torch.ones(3, 5, dtype=torch.bool)
    encoded, names = model(rows, mask), list(model.state_dict())
    other = make(model)
    assert torch.equal(other(rows, mask), encoded) and list(other.state_dict()) == names
    other.lstm.weight_hh_l0_reverse.mul_(2.0)
    torch.testing.assert_close(other(rows, mask), other.lstm(rows)[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(model(rows, mask), model.lstm(rows)[0], atol=1e-5, rtol=0)


@pytest.mark.issue(61)
def test_evaluation_after_each_update_uses_the_new_weights():
    torch.manual_seed(0)
    model, rows, mask = BiLSTM(4, 3), torch.randn(3, 5, 4), torch.ones(3, 5, dtype=torch.bool)
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=0.1), []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(rows, mask).square().sum()
        loss.backward()
        with torch.no_grad():
            torch.testing.assert_close(model(rows, mask).square().sum(), loss.detach())
        optimizer.step()
        losses.append(loss.item())
    assert losses[2] < 0.9 * losses[0]
    model.double()
    with torch.no_grad():
        torch.testing.assert_close(model(rows.double(), mask), model.lstm(rows.double())[0])


@pytest.mark.issue(61)
@pytest.mark.filterwarnings("ignore:`torch.jit.trace")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@torch.no_grad()
def test_a_trace_computes_from_its_input():
    model, rows, mask = BiLSTM(4, 3), torch.randn(2, 2, 5, 4), torch.ones(2, 5, dtype=torch.bool)
    traced = torch.jit.trace(model, (rows[0], mask))
    torch.testing.assert_close(traced(rows[1], mask), model(rows[1], mask), atol=1e-6, rtol=0)


@pytest.mark.issue(48)
@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("is_emulated", [False, True])
def test_it_runs_in_autocast_on_every_processor(is_training, dtype, is_emulated, monkeypatch):
    if is_emulated:
        monkeypatch.setattr(lstm_sequences, "has_bfloat16_units", lambda: False)
    torch.manual_seed(0)
    model, rows, mask = BiLSTM(4, 3), torch.randn(2, 5, 4), torch.ones(2, 5, dtype=torch.bool)
    wanted = model(rows, mask)
    with torch.set_grad_enabled(is_training), torch.autocast("cpu", dtype=dtype):
        found = model(rows, mask)
    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), wanted, atol=2e-2, rtol=0)
    if is_training:
        found.float().sum().backward()
        assert all(weight.grad is not None for weight in model.parameters())


def test_bad_sizes_rows_and_masks_are_named():
    with pytest.raises(ValueError, match="EL060.*BiLSTM.*input_width is 0, .*width is 1.5"):
        BiLSTM(0, 1.5)
    model, mask = BiLSTM(4, 3), torch.ones(2, 5, dtype=torch.bool)
    for wrong in (torch.zeros(2, 5, 3), torch.zeros(10, 4), [[0.0] * 4], torch.zeros(2, 5, 4).double()):
        with pytest.raises(ValueError, match=r"\(B, S, 4\)"):
            model(wrong, mask)
    for wrong in (mask[:1], mask.long(), None):
        with pytest.raises(ValueError, match="The mask has"):
            model(torch.zeros(2, 5, 4), wrong)
