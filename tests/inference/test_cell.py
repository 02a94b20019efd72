"""The update of LSTM cells: one formula, computed in C in one pass, or by operations of torch."""

import pytest
import torch

from spacy_elmo.inference import lstm
from spacy_elmo.inference.lstm import update_cell

WIDTH = 37  # not a multiple of any vector register


def make_step(n_rows=5, d=2, scale=3.0, width=WIDTH):
    rng = torch.Generator().manual_seed(n_rows)
    acts = scale * torch.randn(d, n_rows, 4 * width, generator=rng)
    return acts, 2.0 * torch.randn(d, n_rows, width, generator=rng)


def reference(acts, c2, clip2):
    """Equations of Peters et al. (2018), sec. 3.1, with the memory cell clipped, in float64."""
    i, j, f, o = acts.double().chunk(4, dim=2)
    j = j / 2.0  # pre-activations of the candidate come doubled
    c = torch.sigmoid(i) * torch.tanh(j) + torch.sigmoid(f) * c2.double() / 2.0
    c = c if clip2 is None else c.clamp(-clip2 / 2.0, clip2 / 2.0)
    return 2.0 * c, 0.5 * torch.sigmoid(o) * torch.tanh(c)


@pytest.fixture(params=["c", "torch"])
def implementation(request, monkeypatch):
    if request.param == "torch":
        monkeypatch.setattr(lstm, "update_in_one_pass", None)
    elif lstm.update_in_one_pass is None:
        pytest.skip("installed without a C compiler")
    return request.param


@pytest.mark.parametrize("clip2", [None, 1.5])
@pytest.mark.parametrize(("d", "n_rows", "scale"), [(1, 1, 3.0), (2, 1, 3.0), (2, 5, 3.0), (2, 5, 1e6)])
def test_update_cell_matches_equation(implementation, d, n_rows, scale, clip2):
    acts, c2 = make_step(n_rows, d, scale)
    wanted_c2, wanted = reference(acts, c2, clip2)
    half = update_cell(acts, c2, clip2)
    assert half.shape == wanted.shape and half.is_contiguous()
    torch.testing.assert_close(c2.double(), wanted_c2, rtol=0, atol=2e-6)
    torch.testing.assert_close(half.double(), wanted, rtol=0, atol=5e-7)


@pytest.mark.issue(41)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_input_side_is_added_in_every_type(implementation, dtype):
    acts, c2 = make_step(n_rows=4)
    acts, gates = acts.to(dtype), torch.randn(2, 3, 4, 4 * WIDTH).to(dtype)  # three steps
    wanted_c2, wanted = reference(acts.float() + gates[:, 1].float(), c2, 6.0)
    half = update_cell(acts, c2, 6.0, added=gates[:, 1])
    torch.testing.assert_close(c2.double(), wanted_c2, rtol=0, atol=2e-6)
    torch.testing.assert_close(half.double(), wanted, rtol=2**-8 if dtype is torch.bfloat16 else 0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("gate", range(4))
def test_nan_and_infinity_stay_in_their_row(implementation, gate, bad, dtype):
    acts, c2 = make_step()
    acts, rtol = acts.to(dtype), 0.0 if dtype is torch.float32 else 2**-8
    acts[1, 2, gate * WIDTH + 4] = bad
    wanted_c2, wanted = reference(acts, c2, None)
    half = update_cell(acts, c2, None)
    others = torch.ones(2, 5, dtype=torch.bool)
    others[1, 2] = False
    torch.testing.assert_close(half[others].double(), wanted[others], rtol=rtol, atol=5e-7)
    if implementation == "c" or bad != bad:  # a sigmoid of infinity is a number: C marks the row all the same
        assert half[1, 2].isnan().any()
