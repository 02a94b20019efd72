"""The hand-written backward pass against finite differences and against autograd."""

import pytest
import torch

from spacy_elmo.bilm.recurrence import run_recurrence

D, STEPS, LANES, CELL, OUT = 2, 4, 3, 5, 3


def _inputs(dtype, *, with_projection=True):
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, dtype=dtype, generator=generator)

    width = OUT if with_projection else CELL
    weights = [draw(D, STEPS, LANES, 4 * CELL), draw(D, width, 4 * CELL)]
    if with_projection:
        weights.append(draw(D, CELL, OUT))
    return [weight.requires_grad_() for weight in weights], draw(D, LANES, width), draw(D, LANES, CELL)


def _resets():
    resets = torch.zeros(STEPS, LANES, dtype=torch.bool)
    resets[0, 0] = resets[2, 1] = True
    return resets


def _plain(gates, recurrent, projection, h, c, resets, cell_clip, projection_clip):
    """The equations, step by step, for autograd."""
    outputs = []
    for s in range(gates.shape[1]):
        if resets is not None:
            h = torch.where(resets[s][:, None], torch.zeros_like(h), h)
            c = torch.where(resets[s][:, None], torch.zeros_like(c), c)
        i, j, f, o = (gates[:, s] + h @ recurrent).chunk(4, dim=2)
        c = torch.sigmoid(i) * torch.tanh(j) + torch.sigmoid(f) * c
        c = c if cell_clip is None else c.clamp(-cell_clip, cell_clip)
        h = torch.sigmoid(o) * torch.tanh(c)
        if projection is not None:
            h = h @ projection
            h = h if projection_clip is None else h.clamp(-projection_clip, projection_clip)
        outputs.append(h)
    return torch.stack(outputs, dim=1), h, c


@pytest.mark.parametrize("resets", [None, _resets()], ids=["carried", "reset"])
@pytest.mark.parametrize("with_projection", [True, False], ids=["projected", "plain"])
@pytest.mark.parametrize("clips", [(None, None), (0.6, 0.7)], ids=["free", "clipped"])
def test_gradients_equal_autograd_through_the_equations(resets, with_projection, clips):
    weights, h, c = _inputs(torch.float64, with_projection=with_projection)
    gates, recurrent, projection = (*weights, None)[:3]
    wanted, last_h, last_c = _plain(gates, recurrent, projection, h, c, resets, *clips)
    found, found_h, found_c = run_recurrence(
        gates, recurrent, projection, h, c, resets=resets, cell_clip=clips[0], projection_clip=clips[1]
    )
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close((found_h, found_c), (last_h, last_c))
    seed = torch.randn(wanted.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for got, want in zip(torch.autograd.grad(found, weights, seed), torch.autograd.grad(wanted, weights, seed)):
        torch.testing.assert_close(got, want)


def test_gradients_equal_finite_differences():
    weights, h, c = _inputs(torch.float64)

    def outputs(*parts):
        return run_recurrence(*parts, h, c, resets=_resets(), cell_clip=0.8, projection_clip=0.9)[0]

    assert torch.autograd.gradcheck(outputs, weights)


def test_state_comes_out_without_gradient():
    weights, h, c = _inputs(torch.float32)
    _, last_h, last_c = run_recurrence(*weights, h, c)
    assert not last_h.requires_grad and not last_c.requires_grad


def test_bfloat16_products_stay_close():
    weights, h, c = _inputs(torch.float32)
    exact, _, _ = run_recurrence(*weights, h, c, cell_clip=3.0)
    rough, _, last_c = run_recurrence(weights[0].bfloat16(), *weights[1:], h, c, cell_clip=3.0)
    assert rough.dtype == last_c.dtype == torch.float32
    assert 0 < float((exact - rough).detach().abs().max()) < 0.1
