"""The LSTM of task models: packed sequences, in any batch."""

import pytest
import torch
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
    nothing = model(rows, torch.zeros_like(mask))
    assert not nothing.any() and nothing.shape == (3, 5, 6)


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
