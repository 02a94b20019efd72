"""The recurrence: gradients against finite differences and autograd; CUDA graphs against the loop."""

import copy

import pytest
import torch

from spacy_elmo.bilm import lstm
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.layers import GraphCache
from spacy_elmo.bilm.lstm import LSTMStack, run_recurrence

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


DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
SIZES = {"plain": {"projection_width": 24}, "projected": {}, "clipped": {"cell_clip": 0.05, "projection_clip": 0.02}}


def make_stack(device, graphs=True, **sizes):
    config = {"n_words": 9, "char_cnn": None, "cell_width": 24, "projection_width": 8, "n_layers": 2, **sizes}
    torch.manual_seed(0)
    stack = LSTMStack(BiLMConfig.from_dict(config)).to(device).train()
    for layer in stack.layers if graphs else ():
        layer.graphs = graphs if isinstance(graphs, GraphCache) else GraphCache(torch.device(device), "Layers are")
    return stack


def train(
    stack, device, *, n_updates=5, n_lanes=(4,) * 9, n_steps=(6,) * 9, precision=None, dropout=0.0, with_resets=True
):
    """RETURNS: Outputs, states, gradients and weights of some updates, on the CPU."""
    generator = torch.Generator().manual_seed(1)
    found = []
    torch.manual_seed(2)
    state = stack.zero_state(n_lanes[0])
    for update in range(n_updates):
        shape = (n_steps[update], n_lanes[update])
        vectors = torch.randn(9, stack.config.projection_width, generator=generator).to(device).requires_grad_()
        index = torch.randint(0, 9, (2, *shape), generator=generator).to(device)
        resets = (torch.rand(shape, generator=generator) < 0.2).to(device) if with_resets else None
        if n_lanes[update] != state.layers[0].h.shape[1]:
            state = stack.zero_state(n_lanes[update])
        with torch.autocast(device, precision or torch.bfloat16, enabled=precision is not None):
            layers, state = stack(vectors, index, state, resets=resets, recurrent_dropout=dropout)
        d_outputs = torch.randn(layers[-1].shape, generator=generator).to(device)
        (layers[-1] * d_outputs).sum().backward()
        kept = [layer.detach() for layer in layers] + [part for layer in state.layers for part in layer]
        kept += [vectors.grad, *(parameter.grad for parameter in stack.parameters())]
        found += [tensor.cpu().clone() for tensor in kept]
        if update % 2:  # gradients of two updates are added
            with torch.no_grad():
                for parameter in stack.parameters():
                    parameter -= 0.1 * parameter.grad
                    parameter.grad = None
    return found + [parameter.detach().cpu() for parameter in stack.parameters()]


def check(device, found, wanted, precision=None):
    assert len(found) == len(wanted)
    limit = {"rtol": 0, "atol": 0} if device == "cpu" else {"rtol": 1e-4, "atol": 1e-5 if precision is None else 2e-3}
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other, **limit)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", [None, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(
    "settings", [{}, {"with_resets": False}, {"dropout": 0.3}], ids=["resets", "carried", "dropout"]
)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_updates_equal_those_of_the_loop(device, precision, settings, sizes):
    wanted = train(make_stack(device, graphs=False, **sizes), device, precision=precision, **settings)
    stack = make_stack(device, **sizes)
    check(device, train(stack, device, precision=precision, **settings), wanted, precision)
    assert all(any(layer.graphs.graphs.values()) for layer in stack.layers)


def test_the_loop_computes_when_a_capture_fails(monkeypatch, caplog):
    wanted = train(make_stack("cpu", graphs=False), "cpu")

    def fail(*_):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(lstm, "CudaGraph", fail)
    stack = make_stack("cpu")
    check("cpu", train(stack, "cpu"), wanted)
    assert "out of memory" in caplog.text and not any(layer.graphs.graphs for layer in stack.layers)


@pytest.mark.parametrize("device", DEVICES)
def test_what_was_computed_stays_as_it_is(device):
    stack = make_stack(device)
    index = torch.zeros(2, 3, 4, dtype=torch.long, device=device)
    state, kept = stack.zero_state(4), []
    for update in range(5):
        vectors = torch.full((1, 8), 0.1 * update, device=device, requires_grad=True)
        layers, state = stack(vectors, index, state)
        tensors = [*layers, *(part for layer in state.layers for part in layer)]
        kept += [(tensor, tensor.detach().clone()) for tensor in tensors]
        layers[-1].sum().backward()
        kept += [(vectors.grad, vectors.grad.clone())]
    assert all(torch.equal(tensor, copied) for tensor, copied in kept)


@pytest.mark.parametrize("device", DEVICES)
def test_a_backward_pass_that_comes_too_late_is_refused(device):
    stack = make_stack(device)
    vectors, index = torch.ones(1, 8, device=device), torch.zeros(2, 3, 4, dtype=torch.long, device=device)
    for _ in range(2):
        stack(vectors, index, stack.zero_state(4))[0][-1].sum().backward()
    first = stack(vectors, index, stack.zero_state(4))[0][-1].sum()
    stack(vectors, index, stack.zero_state(4))
    with pytest.raises(RuntimeError, match="SPACY_ELMO_CUDA_GRAPHS to 0"):
        first.backward()


@pytest.mark.parametrize("device", DEVICES)
def test_without_gradients_and_in_a_copy(device):
    stack = make_stack(device)
    wanted = train(make_stack(device, graphs=False), device)
    check(device, train(stack, device), wanted)
    with torch.no_grad():
        n_graphs = [len(layer.graphs.graphs) for layer in stack.layers]
        stack(
            torch.ones(1, 8, device=device), torch.zeros(2, 3, 2, dtype=torch.long, device=device), stack.zero_state(2)
        )
        assert n_graphs == [len(layer.graphs.graphs) for layer in stack.layers]
    stack.zero_grad()  # which a copy does not have
    again = copy.deepcopy(stack)
    assert not any(layer.graphs.graphs for layer in again.layers)
    check(device, train(again, device), train(stack, device))
