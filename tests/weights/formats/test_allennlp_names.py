"""Tensors of AllenNLP's modules in ours: another order of gates, a forget bias of 1, highways that carry."""

import numpy as np
import pytest

from spacy_elmo import BiLMConfig, CharCNNConfig
from spacy_elmo.weights.formats.allennlp_names import allennlp_datasets
from spacy_elmo.weights.tensor_map import export_arrays, import_arrays, network_shapes

CONFIG = BiLMConfig(
    CharCNNConfig(embedding_width=4, filters=((1, 3), (2, 5)), n_highway=2, always_project=True),
    n_layers=2,
    cell_width=6,
    projection_width=3,
)
CELL = "_elmo_lstm.backward_layer_1."


@pytest.fixture
def arrays():
    draw = np.random.default_rng(0)
    table = allennlp_datasets(CONFIG)
    return {dataset.name: draw.integers(-64, 64, dataset.shape).astype("float32") for dataset in table}


def test_every_value_comes_back(arrays):
    table = allennlp_datasets(CONFIG)
    again = export_arrays(table, import_arrays(table, arrays, network_shapes(CONFIG)))
    assert set(again) == set(arrays) and all((again[name] == arrays[name]).all() for name in arrays)


def test_gates_are_reordered_and_the_forget_bias_is_left_out(arrays):
    state = import_arrays(allennlp_datasets(CONFIG), arrays, network_shapes(CONFIG))
    i, f, j, o = np.split(arrays[f"{CELL}state_linearity.bias"], 4)
    assert (state["encoder.layers.1.bias"][1] == np.concatenate([i, j, f - 1, o])).all()
    i, f, j, o = np.split(arrays[f"{CELL}input_linearity.weight"], 4)
    assert (state["encoder.layers.1.input_weight"][1] == np.concatenate([i, j, f, o]).T).all()
    projection = arrays[f"{CELL}state_projection.weight"]
    assert (state["encoder.layers.1.projection_weight"][1] == projection.T).all()


def test_gates_of_highways_are_negated(arrays):
    state = import_arrays(allennlp_datasets(CONFIG), arrays, network_shapes(CONFIG))
    values, gate = np.split(arrays["_token_embedder._highways._layers.1.bias"], 2)
    assert (state["char_cnn.highways.1.bias"] == np.concatenate([values, -gate])).all()
