"""The recurrence by CUDA graphs equals the loop. On a CPU a graph calls its function: all but the capture is tested."""

import copy

import pytest
import torch

from spacy_elmo.bilm import lstm
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.layers import CUDA_GRAPHS, GraphCache, no_tf32, uses_graphs
from spacy_elmo.bilm.lstm import LSTMStack

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


@pytest.mark.parametrize(
    "value, wanted", [("0", False), ("False", False), (" off ", False), ("1", True), ("yes", True), ("", False)]
)
def test_the_switch_takes_the_usual_words(value, wanted, monkeypatch):
    monkeypatch.setenv(CUDA_GRAPHS, value)
    assert uses_graphs(torch.device("cpu")) == wanted


def test_threads_forbid_tf32_together():
    flags = torch.backends.cudnn.rnn if hasattr(torch.backends.cudnn, "rnn") else torch.backends.cudnn
    name, exact = ("fp32_precision", "ieee") if flags is not torch.backends.cudnn else ("allow_tf32", False)
    before, device = getattr(flags, name), torch.device("cuda")
    first, second = no_tf32(device), no_tf32(device)
    first.__enter__(), second.__enter__()
    first.__exit__(None, None, None)
    assert getattr(flags, name) == exact
    second.__exit__(None, None, None)
    assert getattr(flags, name) == before


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
