"""torch's LSTM over sequences of different lengths: in groups of similar length, and packed."""

import pytest
import torch

from spacy_elmo.inference.lstm_sequences import run_groups, run_packed

N_INPUTS, H = 5, 3


def make_weights():
    generator = torch.Generator().manual_seed(0)
    shapes = 2 * [(4 * H, N_INPUTS), (4 * H, H), (4 * H,), (4 * H,)]
    return [torch.randn(*shape, generator=generator).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("lengths", [[4], [1, 0, 1], [2, 0, 9, 1, 3, 40, 8, 0], [7, 7, 7]])
def test_groups_and_packed_sequences_are_equal_and_so_are_gradients(lengths):
    weights, generator = make_weights(), torch.Generator().manual_seed(1)
    rows = torch.randn(sum(lengths), N_INPUTS, generator=generator).requires_grad_()
    d_outputs = torch.randn(sum(lengths), 2 * H, generator=generator)
    found, wanted = run_groups(rows, lengths, weights), run_packed(rows, lengths, weights)
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=0)
    of_groups = torch.autograd.grad(found, [rows, *weights], d_outputs)
    of_packed = torch.autograd.grad(wanted, [rows, *weights], d_outputs)
    for ours, theirs in zip(of_groups, of_packed):
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=0)
