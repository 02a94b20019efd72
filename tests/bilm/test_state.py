"""Recurrent states as values: rows, layouts of directions, errors."""

import pytest
import torch

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.state import BiLMState, LSTMState, State

CONFIG = BiLMConfig(n_words=3, n_layers=2, cell_width=5, projection_width=3)


def make_state(n_rows=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    draw = [torch.randn(2, n_rows, width, generator=generator) for width in (3, 5, 3, 5)]
    return State((LSTMState(*draw[:2]), LSTMState(*draw[2:])))


def test_rows_that_are_cut_and_concatenated_are_the_state():
    state = make_state()
    parts = [state.rows(0, 1), state.rows(1, 3), state.rows(3, None)]
    assert State.cat(parts).distance(state) == 0 and state.distance(make_state(seed=1)) > 0.1
    assert parts[0].expand(4).distance(state.rows(0, 1)) == 0
    assert State(()).distance(State(())) == 0 and State.cat([State(()), State(())]) == State(())


def test_tensors_by_name_are_the_state():
    state = make_state()
    named = state.named_tensors()
    assert list(named) == ["0.h", "0.c", "1.h", "1.c"]
    assert make_state(seed=1).replace_tensors(named).distance(state) == 0


def test_a_bilm_state_has_both_directions_beside_each_other():
    state = make_state()
    converted = BiLMState.from_state(state)
    assert converted.h.shape == (2, 4, 6) and converted.c.shape == (2, 4, 10) and converted.n_rows == 4
    assert torch.equal(converted.h[1, 2], torch.cat([state.layers[1].h[0, 2], state.layers[1].h[1, 2]]))
    converted.check(CONFIG)
    assert converted.to_state(CONFIG).distance(state) == 0
    padded = converted.pad(6)
    assert torch.equal(padded.h[:, :4], converted.h) and not padded.c[:, 4:].any() and padded.pad(2) is padded
    assert torch.equal(padded.row(3).c, converted.c[:, 3:4])


@pytest.mark.parametrize(
    "h, c, message",
    [
        (torch.zeros(2, 1, 5), torch.zeros(2, 1, 10), r"tensor h of the state has shape \(2, 1, 5\), but should have"),
        (torch.zeros(2, 1, 6), torch.zeros(2, 2, 10), r"tensor c.*\(2, 2, 10\), but should have \(2, 1, 10\)"),
        (torch.zeros(6), torch.zeros(2, 1, 10), "tensor h.*rows"),
        ([0.0], torch.zeros(2, 1, 10), "h and c of type list and Tensor.*from_numpy"),
    ],
)
def test_a_state_that_does_not_fit_is_an_error(h, c, message):
    with pytest.raises(ValueError, match=message):
        BiLMState(h, c).check(CONFIG)
