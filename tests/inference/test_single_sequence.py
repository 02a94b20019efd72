"""The paths of a single sequence, few lanes and large batches give the same vectors."""

import numpy as np
import pytest
import torch
from inference.forcing import force_path

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.model import BiLMNetwork
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.inference.dispatch import Path

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
# Products of fewer than 400 multiplications are computed by other kernels than larger ones.
SINGLE_VARIANTS = {
    **VARIANTS,
    "odd width": {"projection_width": 7},
    "width of two parts": {"projection_width": 6},
    "larger products": {"cell_width": 128, "projection_width": 16},
    "larger products, no projection": {"cell_width": 32, "projection_width": 32},
}
SINGLE = [Path.SINGLE_TOGETHER, Path.SINGLE_IN_TURN]
SENTENCE = "the river runs past the old mill and the bank of the river".split()


def make_bilm(**changes):
    torch.manual_seed(3)
    network = BiLMNetwork(BiLMConfig.from_dict({**SIZES, **changes}))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2.0)  # so that gates move and clips clip
    return BiLM(network)


def on_paths(monkeypatch, compute, *paths):
    """RETURNS (List[Any]): What is computed on each path."""
    found = []
    for path in paths:
        with monkeypatch.context() as patch:
            force_path(patch, path)
            found.append(compute())
    return found


@pytest.mark.parametrize("state", ["reset", "steady", "carry"])
@pytest.mark.parametrize("variant", SINGLE_VARIANTS)
@pytest.mark.parametrize("path", SINGLE)
def test_vectors_are_those_of_lanes(monkeypatch, path, variant, state):
    bilm = make_bilm(**SINGLE_VARIANTS[variant])
    found, wanted = on_paths(
        monkeypatch, lambda: bilm.embed([SENTENCE], state=state, boundaries=True)[0], path, Path.IN_TURN
    )
    assert found.any() and np.ptp(found) > 0.01
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=5e-6)


@pytest.mark.parametrize("state", ["reset", "steady"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_vectors_of_a_few_sentences_are_those_of_many_lanes(monkeypatch, variant, state):
    bilm = make_bilm(**VARIANTS[variant])
    sentences = [SENTENCE, SENTENCE[3:7], SENTENCE[:9], [], SENTENCE[2:]]
    found, wanted = on_paths(
        monkeypatch, lambda: bilm.embed(sentences, state=state, boundaries=True), Path.FEW_LANES, Path.PARALLEL
    )
    for one, other in zip(found, wanted):
        assert np.ptp(one) > 0.01
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("path, n", [(Path.FEW_LANES, 2), *((path, 1) for path in SINGLE)])
def test_states_go_in_and_come_out(monkeypatch, path, n):
    bilm = make_bilm()
    tolerance = 2e-5  # values of 3, and weights that double a difference: 1.1e-5 was seen where layer 1 is 4e-7 apart
    _, start = bilm.embed([["a"], ["b", "c"], ["d"]], return_state=True)
    (vectors, end), (wanted, wanted_end) = on_paths(
        monkeypatch,
        lambda: bilm.embed([SENTENCE, SENTENCE[::-1]][:n], state=start, return_state=True),
        *(path, Path.IN_TURN if n == 1 else Path.PARALLEL),
    )
    np.testing.assert_allclose(vectors, wanted, rtol=0, atol=tolerance)
    for name in ("h", "c"):
        found, other = getattr(end, name), getattr(wanted_end, name)
        assert torch.allclose(found, other, rtol=0, atol=tolerance)
        assert torch.equal(found[:, n:], getattr(start, name)[:, n:])  # rows beyond the batch keep theirs
        assert not torch.equal(found[:, :n], getattr(start, name)[:, :n])
