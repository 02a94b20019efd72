"""Small parts of networks: highways, CUDA graphs and their switch, TF32."""

import pytest
import torch

from spacy_elmo.bilm.layers import CUDA_GRAPHS, MAX_GRAPHS, GraphCache, Highway, LayerHighway, no_tf32, uses_graphs


def test_highways_mix_input_and_transform_by_their_gate():
    """Srivastava et al. (2015): y = g * H(x) + (1 - g) * x."""
    torch.manual_seed(0)
    highway, rows = Highway(4), torch.randn(5, 4)
    transform, gate = (rows @ highway.weight.t() + highway.bias).chunk(2, dim=1)
    expected = gate.sigmoid() * transform.relu() + (1 - gate.sigmoid()) * rows
    torch.testing.assert_close(highway(rows), expected)
    layer, inputs, outputs = LayerHighway(2, 4), torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4)
    gate = (torch.einsum("dsbi,dij->dsbj", inputs, layer.weight) + layer.bias.view(2, 1, 1, 4)).sigmoid()
    torch.testing.assert_close(layer(inputs, outputs), gate * outputs + (1 - gate) * inputs)


def test_graph_cache_captures_a_key_when_it_comes_again():
    cache, captured = GraphCache(torch.device("cpu"), "Layers are"), []

    def find(key):
        return cache.find(key, lambda pool: captured.append(key) or f"graph {key}")

    assert [find("a"), find("a"), find("a")] == [None, "graph a", "graph a"] and captured == ["a"]
    for key in range(2 * MAX_GRAPHS):
        assert find(key) is None
    assert len(cache.graphs) == MAX_GRAPHS and find("a") == "graph a"


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
