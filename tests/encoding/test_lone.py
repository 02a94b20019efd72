"""A sentence by itself, or with little company, takes another way through the LSTMs, to the same vectors."""

import numpy as np
import pytest
import torch

from spacy_elmo.bilm import lone as layers
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.model import BiLMNetwork
from spacy_elmo.bilm.stepper import PackedLayer
from spacy_elmo.encoding import lone, runner
from spacy_elmo.encoding.facade import BiLM

CHARACTERS = {"embedding_width": 4, "filters": [[1, 8], [2, 8]], "n_highway": 1}
SIZES = {"char_cnn": CHARACTERS, "cell_width": 24, "projection_width": 8}
VARIANTS = {
    "plain": {},
    "forward": {"directions": "forward"},
    "no projection": {"cell_width": 8},
    "no skip": {"has_skip": False},
    "highway between layers": {"has_skip": False, "highway_between": True},
    "no clips": {"cell_clip": None, "projection_clip": None},
    "small clips": {"cell_clip": 0.05, "projection_clip": 0.02},
    "four layers": {"n_layers": 4},
}
# Products of less than 400 multiplications are not made by the library that makes the larger ones.
LONE_VARIANTS = {
    **VARIANTS,
    "odd width": {"projection_width": 7},
    "width of two parts": {"projection_width": 6},
    "larger products": {"cell_width": 128, "projection_width": 16},
    "larger products, no projection": {"cell_width": 32, "projection_width": 32},
}
SENTENCE = "the river runs past the old mill and the bank of the river".split()


def make_bilm(**changes):
    torch.manual_seed(3)
    network = BiLMNetwork(BiLMConfig.from_dict({**SIZES, **changes}))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2.0)  # so that gates move and clips clip
    return BiLM(network)


def both_ways(monkeypatch, compute):
    """RETURNS (Tuple[Any, Any]): What the lone way gives, and what the lanes give; the first must have been taken."""
    calls = []
    run = lone.LoneRunner.run
    monkeypatch.setattr(lone.LoneRunner, "run", lambda *args: calls.append(1) or run(*args))
    found = compute()
    assert calls
    monkeypatch.setattr(runner, "is_lone", lambda plan, device: False)
    n_calls = len(calls)
    wanted = compute()
    assert len(calls) == n_calls
    return found, wanted


@pytest.fixture(params=["_run_together", "_run_direction"])
def way(monkeypatch, request):
    """How a lone layer goes, which must have been called: both directions together, or one after the other."""
    calls = []
    run = getattr(layers.LoneLayer, request.param)
    monkeypatch.setattr(layers.LoneLayer, request.param, lambda *args: calls.append(1) or run(*args))
    monkeypatch.setattr(layers, "TOGETHER_WEIGHTS", 0 if request.param == "_run_direction" else 2**20)
    yield request.param
    assert calls


@pytest.mark.parametrize("state", ["reset", "steady", "carry"])
@pytest.mark.parametrize("variant", LONE_VARIANTS)
def test_vectors_are_those_of_the_lanes(monkeypatch, way, variant, state):
    bilm = make_bilm(**LONE_VARIANTS[variant])
    found, wanted = both_ways(monkeypatch, lambda: bilm.embed([SENTENCE], state=state, boundaries=True)[0])
    assert found.any() and np.ptp(found) > 0.01
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=5e-6)


def few_ways(monkeypatch, compute):
    """RETURNS (Tuple[Any, Any]): What the way of few lanes gives, and that of many; each must have been taken."""
    found = compute()
    steps = []
    step = PackedLayer.step
    monkeypatch.setattr(PackedLayer, "step", lambda *args: steps.append(1) or step(*args))
    compute()
    assert not steps
    monkeypatch.setattr(runner, "AT_ONCE", 0)
    wanted = compute()
    assert steps
    return found, wanted


@pytest.mark.parametrize("state", ["reset", "steady"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_vectors_of_a_few_sentences_are_those_of_many_lanes(monkeypatch, variant, state):
    bilm = make_bilm(**VARIANTS[variant])
    sentences = [SENTENCE, SENTENCE[3:7], SENTENCE[:9], [], SENTENCE[2:]]
    found, wanted = few_ways(monkeypatch, lambda: bilm.embed(sentences, state=state, boundaries=True))
    for one, other in zip(found, wanted):
        assert np.ptp(one) > 0.01
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_the_lanes_and_weights_decide_how_directions_go(monkeypatch):
    bilm = make_bilm()
    n_weights = 8 * 4 * 24
    monkeypatch.setattr(runner, "FEW", 3 * n_weights)
    monkeypatch.setattr(runner, "AT_ONCE", 5 * n_weights)
    ways, vectors = [], []
    for owner, name in ((layers.LoneLayer, "step"), (runner, "run_side_by_side"), (PackedLayer, "step")):
        original = getattr(owner, name)
        label = f"{getattr(owner, '__name__', '')}.{name}"
        monkeypatch.setattr(owner, name, lambda *args, f=original, label=label: ways.append(label) or f(*args))
    for n_lanes in (2, 3, 4, 5):
        ways.clear()
        vectors.append(bilm.embed([SENTENCE] * n_lanes)[0])
        found = {way.split(".")[-2] + "." + way.split(".")[-1] for way in ways}
        wanted = {2: {"LoneLayer.step"}, 5: {"runner.run_side_by_side", "PackedLayer.step"}}
        assert found == wanted.get(n_lanes, {"PackedLayer.step"}), n_lanes
    np.testing.assert_array_equal(vectors[1], vectors[3])
    np.testing.assert_allclose(vectors[0], vectors[1], rtol=1e-5, atol=1e-5)


def test_states_of_a_few_sentences_go_in_and_come_out(monkeypatch):
    bilm = make_bilm()
    _, start = bilm.embed([["a"], ["b", "c"], ["d"]], return_state=True)
    (_, end), (_, wanted) = few_ways(
        monkeypatch, lambda: bilm.embed([SENTENCE, SENTENCE[::-1]], state=start, return_state=True)
    )
    for name in ("h", "c"):
        found, other = getattr(end, name), getattr(wanted, name)
        assert torch.allclose(found, other, atol=5e-6)
        assert torch.equal(found[:, 2:], getattr(start, name)[:, 2:])
        assert not torch.equal(found[:, :2], getattr(start, name)[:, :2])


def test_blocks_of_steps_change_nothing(monkeypatch, way):
    bilm = make_bilm()
    whole = bilm.embed([SENTENCE * 5])[0]
    monkeypatch.setattr(lone, "BLOCK_BYTES", 1)  # four steps
    np.testing.assert_allclose(bilm.embed([SENTENCE * 5])[0], whole, atol=5e-6)


def test_states_go_in_and_come_out(monkeypatch, way):
    bilm = make_bilm()
    # Values of 3 with weights that double a difference: 1.1e-5 was seen where layer 1 is 4e-7 apart.
    tolerance = 5e-6 if way == "_run_together" else 2e-5
    _, start = bilm.embed([["a"], ["b", "c"], ["d"]], return_state=True)

    def go_on():
        return bilm.embed([[], SENTENCE, []][1:2], state=start, return_state=True)

    (vectors, end), (wanted, wanted_end) = both_ways(monkeypatch, go_on)
    np.testing.assert_allclose(vectors[0], wanted[0], rtol=0, atol=tolerance)
    for name in ("h", "c"):
        found, other = getattr(end, name), getattr(wanted_end, name)
        assert torch.allclose(found, other, rtol=0, atol=tolerance)
        assert torch.equal(found[:, 1:], getattr(start, name)[:, 1:])  # rows beyond the batch keep theirs
        assert not torch.equal(found[:, 0], getattr(start, name)[:, 0])


def test_empty_sentences_beside_it(monkeypatch):
    bilm = make_bilm()
    found, wanted = both_ways(monkeypatch, lambda: bilm.embed([[], SENTENCE, []]))
    assert [len(rows[0]) for rows in found] == [0, len(SENTENCE), 0]
    np.testing.assert_allclose(found[1], wanted[1], atol=5e-6)


@pytest.mark.parametrize("at_once", [runner.AT_ONCE, 0])
def test_weights_that_have_changed_are_seen(monkeypatch, at_once):
    monkeypatch.setattr(runner, "AT_ONCE", at_once)
    bilm = make_bilm()
    before = bilm.embed([SENTENCE])[0]
    bilm.embed([SENTENCE, SENTENCE])
    with torch.no_grad():
        for layer in bilm.network.lstm:
            layer.projection_weight.mul_(0.5)
            layer.input_weight.mul_(0.9)
    bilm.refresh()
    after = bilm.embed([SENTENCE])[0]
    assert np.abs(after - before).max() > 1e-3
    np.testing.assert_allclose(after, bilm.embed([SENTENCE, SENTENCE])[0], atol=5e-6)
