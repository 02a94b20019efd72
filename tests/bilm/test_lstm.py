"""The hand-written backward pass against finite differences and against autograd."""

import pytest
import torch

from spacy_elmo.bilm import lstm
from spacy_elmo.bilm.lstm import run_recurrence

D, STEPS, LANES, CELL, OUT = 2, 4, 3, 5, 3


@pytest.fixture(params=["c", "torch"], autouse=True)
def implementation(request, monkeypatch):
    if request.param == "torch":
        monkeypatch.setattr(lstm, "one_pass", None)
    elif lstm.one_pass is None:
        pytest.skip("spacy_elmo.bilm._recurrence was not compiled at installation")
    return request.param


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


def _mask(width):
    kept = torch.rand(D, LANES, width, generator=torch.Generator().manual_seed(2)) < 0.6
    return kept / 0.6


def _clip(values, bound):
    """`tf.clip_by_value`, which bilm-tf uses: it passes the gradient on unless a value lies beyond the bound.

    torch.clamp up to 2.13 does the same; from 2.14 on it passes nothing on at the bound itself.
    """
    if bound is None:
        return values
    bound = torch.tensor(bound, dtype=values.dtype)
    return torch.where(values.abs() > bound, bound.copysign(values.detach()), values)


def _plain(gates, recurrent, projection, h, c, resets, cell_clip, projection_clip, mask=None):
    """The equations, step by step, for autograd."""
    outputs = []
    for s in range(gates.shape[1]):
        if resets is not None:
            h = torch.where(resets[s][:, None], torch.zeros_like(h), h)
            c = torch.where(resets[s][:, None], torch.zeros_like(c), c)
        read = h if mask is None else h * mask
        i, j, f, o = (gates[:, s] + read @ recurrent).chunk(4, dim=2)
        c = torch.sigmoid(i) * torch.tanh(j) + torch.sigmoid(f) * c
        c = _clip(c, cell_clip)
        h = torch.sigmoid(o) * torch.tanh(c)
        if projection is not None:
            h = h @ projection
            h = _clip(h, projection_clip)
        outputs.append(h)
    return torch.stack(outputs, dim=1), h, c


@pytest.mark.parametrize("resets", [None, _resets()], ids=["carried", "reset"])
@pytest.mark.parametrize("with_projection", [True, False], ids=["projected", "plain"])
@pytest.mark.parametrize("clips", [(None, None), (0.6, 0.7)], ids=["free", "clipped"])
@pytest.mark.parametrize("has_mask", [False, True], ids=["whole", "masked"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_gradients_equal_autograd_through_the_equations(resets, with_projection, clips, has_mask, dtype):
    weights, h, c = _inputs(dtype, with_projection=with_projection)
    gates, recurrent, projection = (*weights, None)[:3]
    mask = _mask(h.shape[2]).to(dtype) if has_mask else None
    wanted, last_h, last_c = _plain(gates, recurrent, projection, h, c, resets, *clips, mask)
    found, found_h, found_c = run_recurrence(
        gates, recurrent, projection, h, c, resets=resets, mask=mask, cell_clip=clips[0], projection_clip=clips[1]
    )
    close = {} if dtype == torch.float64 else {"atol": 2e-6, "rtol": 1e-5}
    torch.testing.assert_close(found, wanted, **close)
    torch.testing.assert_close((found_h, found_c), (last_h, last_c), **close)
    seed = torch.randn(wanted.shape, dtype=dtype, generator=torch.Generator().manual_seed(1))
    for got, want in zip(torch.autograd.grad(found, weights, seed), torch.autograd.grad(wanted, weights, seed)):
        torch.testing.assert_close(got, want, **({} if dtype == torch.float64 else {"atol": 1e-5, "rtol": 1e-4}))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("place, has_gradient", [("inside", True), ("at", True), ("beyond", False)])
@pytest.mark.parametrize("part", ["cell", "output"])
def test_gradient_at_the_clip(part, place, has_gradient, sign, dtype):
    """Gates of zero let half through, exactly: 0.5 * 2 clip = clip, of the old cell or, since a cell of 100 has the
    hyperbolic tangent 1, of the output.
    """
    clip = 0.6 if part == "cell" else 0.7
    number = 2 * _moved(clip, place, dtype) * sign
    weights, h, c = _zeros(dtype, [clip, number] if part == "cell" else [0.0, 200.0])
    if part == "output":
        weights[2].data[0, 1, 0] = number
    clips = (clip, None) if part == "cell" else (None, clip)
    found, _, last_c = run_recurrence(*weights, h, c, cell_clip=clips[0], projection_clip=clips[1])
    wanted, _, _ = _plain(*weights, h, c, None, *clips)
    value = last_c[0, 0, 1] if part == "cell" else found.detach()[0, 0, 0, 0]
    assert float(value) == pytest.approx(clip * sign, abs=1e-6)
    gradients = torch.autograd.grad(found.sum(), weights)
    for got, want in zip(gradients, torch.autograd.grad(wanted.sum(), weights)):
        torch.testing.assert_close(got, want)
    # Of the candidate below a clipped cell, of the output gate below a clipped output.
    looked_at = gradients[0][0, 0, 0, 3 if part == "cell" else 7]
    assert bool(looked_at != 0) == has_gradient


def _moved(clip, place, dtype):
    """The clip as the type holds it, or the next number inside or beyond."""
    number = torch.tensor(clip, dtype=dtype)
    towards = {"inside": 0.0, "at": float(number), "beyond": 9.0}[place]
    return float(torch.nextafter(number, torch.tensor(towards, dtype=dtype)))


def _zeros(dtype, cells):
    """One lane of one step, no gates, two cells of which the second is looked at, and an output of one."""
    shapes = (1, 1, 1, 8), (1, 1, 8), (1, 2, 1)
    weights = [torch.zeros(shape, dtype=dtype) for shape in shapes]
    weights[2][0, 1, 0] = 1.0
    c = torch.tensor(cells, dtype=dtype).view(1, 1, 2)
    return [weight.requires_grad_() for weight in weights], torch.ones(1, 1, 1, dtype=dtype), c


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_not_finite_do_not_go_unnoticed(value):
    weights, h, c = _inputs(torch.float32)
    weights[0].data[0, 1, 2, [3, 3 + CELL]] = value
    found, _, _ = run_recurrence(*weights, h, c, cell_clip=1.0, projection_clip=1.0)
    is_finite = found.isfinite().all(dim=-1)
    assert is_finite[1].all() and is_finite[0, :, :2].all() and is_finite[0, 0].all()
    assert value == value or not is_finite[0, 1:, 2].any()


@pytest.mark.parametrize("resets", [None, _resets()], ids=["carried", "reset"])
def test_results_do_not_depend_on_the_layout_of_the_arguments(resets):
    weights, h, c = _inputs(torch.float32)
    others = [part.detach().transpose(0, -1).contiguous().transpose(0, -1).requires_grad_() for part in weights]
    rows = [part.permute(1, 0, 2).contiguous().permute(1, 0, 2) for part in (h, c)]
    repeated = [part.repeat(1, 2, 1)[:, :LANES] for part in (h, c)]
    found = []
    for arguments in ((*weights, h, c), (*others, *rows), (*others, *repeated)):
        results = run_recurrence(*arguments, resets=resets, cell_clip=0.6)
        found.append((results, torch.autograd.grad((results[0] ** 2).sum(), arguments[:3])))
    for other in found[1:]:
        torch.testing.assert_close(other, found[0])


def test_second_derivatives_are_refused():
    (gates, recurrent, projection), h, c = _inputs(torch.float32)
    outputs, _, _ = run_recurrence(gates, recurrent, projection, h, c)
    (gradient,) = torch.autograd.grad((outputs**2).sum(), recurrent, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        (gradient**2).sum().backward()


def test_half_precision_is_near_float32():
    weights, h, c = _inputs(torch.float32)
    wanted, _, _ = run_recurrence(*weights, h, c, resets=_resets(), cell_clip=0.6, projection_clip=0.7)
    wanted.sum().backward()
    half = weights[0].detach().bfloat16().requires_grad_()
    found, _, _ = run_recurrence(half, *weights[1:], h, c, resets=_resets(), cell_clip=0.6, projection_clip=0.7)
    torch.testing.assert_close(found, wanted, atol=0.03, rtol=0.03)
    (d_gates,) = torch.autograd.grad(found.sum(), half)
    torch.testing.assert_close(d_gates.float(), weights[0].grad, atol=0.05, rtol=0.05)
