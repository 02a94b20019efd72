"""Checkpoints that TensorFlow itself wrote, see tests/fixtures/tensorflow/README.md."""

import json
from pathlib import Path

import pytest
from reference.seeded_weights import WORDS, make_arrays, make_softmax, write_model

from spacy_elmo import load_bilm
from spacy_elmo.weights.tensorflow import find_checkpoint, open_checkpoint

FIXTURES = Path(__file__).parents[1] / "fixtures" / "tensorflow"
OPTIONS = json.loads((FIXTURES / "options.json").read_text())


@pytest.fixture
def folder():
    return FIXTURES / "v2"


@pytest.fixture
def arrays():
    return {**make_arrays(OPTIONS), **make_softmax(OPTIONS)}


def test_every_variable_has_its_values(folder, arrays):
    checkpoint = open_checkpoint(find_checkpoint(folder))
    values = checkpoint.read(checkpoint.variables)
    assert len(values) == 2 * len(arrays) + 2
    assert values["global_step"] == 7.0
    for name in ("char_embed", "CNN/W_cnn_0", "softmax/W", "softmax/b"):
        assert (values[f"lm/{name}"] == arrays[name]).all()
        assert values[f"lm/{name}/Adagrad"] == pytest.approx(1 + arrays[name] ** 2, rel=1e-6)


def test_the_model_equals_that_of_its_hdf5_file(folder, arrays, tmp_path):
    wanted = load_bilm(write_model(tmp_path, OPTIONS, arrays, WORDS))
    found = load_bilm(options=FIXTURES / "options.json", weights=folder, vocab=tmp_path / "vocab.txt")
    for one, other in ((found.network, wanted.network), (found.head, wanted.head)):
        for key, tensor in other.state_dict().items():
            assert (one.state_dict()[key] == tensor).all(), key
