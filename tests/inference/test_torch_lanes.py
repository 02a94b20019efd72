"""Vectors by CUDA graphs are those of the loop. On a CPU a graph calls its function: all but the capture is tested."""

import numpy
import pytest
from inference.forcing import force_engine
from nn.tiny import make_network

from spacy_elmo.inference import torch_lanes
from spacy_elmo.inference.bilm import BiLM

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
KINDS = {
    "skip": {},
    "highway": {"has_skip": False, "highway_between": True},
    "clipped": {"cell_clip": 0.05, "projection_clip": 0.02},
    "one width": {"cell_width": 8},
}


@pytest.fixture(autouse=True)
def without_kernel(monkeypatch):
    """As on a GPU."""
    force_engine(monkeypatch, "torch")


def make_bilm(device, **sizes):
    return BiLM(make_network(**{"cell_width": 24, **sizes})).to(device)


def make_sentences(n, seed=0, longest=45):
    random = numpy.random.default_rng(seed)
    return [[f"w{k}" for k in random.integers(0, 50, random.integers(0, longest))] for _ in range(n)]


def embed(monkeypatch, bilm, is_on, batches, **choices):
    monkeypatch.setenv("SPACY_ELMO_CUDA_GRAPHS", "1" if is_on else "0")
    bilm.clear_caches()
    return [array for sentences in batches for array in bilm.embed(sentences, **choices)]


@pytest.fixture
def graphs(monkeypatch):
    """The functions that were captured, each in one of the graphs."""
    captured, make_graph = [], torch_lanes.CudaGraph

    def capture(function, *settings):
        captured.append(function)
        return make_graph(function, *settings)

    monkeypatch.setattr(torch_lanes, "CudaGraph", capture)
    return captured


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("state", ["reset", "steady", "carry"])
def test_vectors_are_those_of_the_loop(monkeypatch, graphs, device, kind, state):
    bilm = make_bilm(device, **kind)
    batches = [make_sentences(n, seed=n) for n in (40, 40, 1, 33, 200, 1, 90)] + [[["sea"] * 300, ["a"], []]] * 3
    wanted = embed(monkeypatch, bilm, False, batches, state=state, boundaries=True)
    assert not graphs
    found = embed(monkeypatch, bilm, True, batches, state=state, boundaries=True)
    assert bool(graphs) == (state != "carry")
    for one, other in zip(found, wanted, strict=True):
        numpy.testing.assert_allclose(one, other, atol=2e-6, rtol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_vectors_in_reduced_precision_are_those_of_the_loop(monkeypatch, graphs, precision):
    bilm = make_bilm("cuda").set_precision(precision)
    batches = [make_sentences(40)] * 3
    wanted = embed(monkeypatch, bilm, False, batches)
    found = embed(monkeypatch, bilm, True, batches)
    assert graphs
    for one, other in zip(found, wanted, strict=True):
        numpy.testing.assert_allclose(one, other, atol=2e-3)
