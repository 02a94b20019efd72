"""A bidirectional LSTM over sequences by torch: packed sequences and their gradients, in any batch, under autocast."""

import pytest
import torch
from torch import nn

from spacy_elmo.inference import lstm_sequences
from spacy_elmo.inference.kernel_lstm import PackedLSTM
from spacy_elmo.inference.lstm_sequences import bucket_lengths, run_buckets, run_lstm, run_packed

LENGTHS = [9, 2, 0, 5, 1, 9, 40]


def make_lstm(n_inputs=4, width=3):
    torch.manual_seed(0)
    lstm = nn.LSTM(n_inputs, width, bidirectional=True)
    return lstm, [weight for direction in lstm.all_weights for weight in direction]


@pytest.mark.parametrize("run", [run_buckets, run_packed, lambda *inputs: run_lstm(*inputs, PackedLSTM())])
@pytest.mark.parametrize("is_training", [False, True])
def test_outputs_and_gradients_are_those_of_packed_sequences(run, is_training):
    lstm, weights = make_lstm()
    rows = torch.randn(sum(LENGTHS), 4)
    sequences = [sequence for sequence in rows.split(LENGTHS) if len(sequence)]
    with torch.set_grad_enabled(is_training):
        packed, _ = lstm(nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False))
        outputs, expected = run(rows, LENGTHS, weights), torch.cat(nn.utils.rnn.unpack_sequence(packed))
    torch.testing.assert_close(outputs, expected, atol=1e-6, rtol=0)
    if is_training:
        d_outputs = torch.randn(outputs.shape)
        for one, other in zip(*(torch.autograd.grad(computed, weights, d_outputs) for computed in (outputs, expected))):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


def test_bucket_lengths_leaves_at_most_half_to_padding():
    buckets = bucket_lengths(LENGTHS)
    assert [sizes.tolist() for _, sizes in buckets] == [[40], [9, 9, 5], [2, 1]]
    assert [starts.tolist() for starts, _ in buckets] == [[26], [0, 17, 11], [9, 16]]
    assert bucket_lengths([0, 0]) == []


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("is_emulated", [False, True])
def test_autocast_gives_its_type_on_every_processor(is_training, dtype, is_emulated, monkeypatch):
    if is_emulated:
        monkeypatch.setattr(lstm_sequences, "has_bfloat16_units", lambda: False)
    _, weights = make_lstm()
    rows = torch.randn(10, 4)
    expected = run_lstm(rows, [5, 5], weights, PackedLSTM())
    with torch.set_grad_enabled(is_training), torch.autocast("cpu", dtype=dtype):
        outputs = run_lstm(rows, [5, 5], weights, PackedLSTM())
    assert outputs.dtype == dtype
    torch.testing.assert_close(outputs.float(), expected, atol=2e-2, rtol=0)
    if is_training:
        outputs.float().sum().backward()
        assert all(weight.grad is not None for weight in weights)
