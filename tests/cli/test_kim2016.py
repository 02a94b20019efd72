"""The recipe of Kim et al. (2016), and every command on the resulting forward model."""

from pathlib import Path

import numpy as np
import pytest
import spacy
import srsly
from thinc.api import Config
from typer.testing import CliRunner

from spacy_elmo import load_bilm
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.cli._app import app
from spacy_elmo.pipeline import elmo  # noqa: F401  registers the factory where the package is not installed
from spacy_elmo.pretraining.config import PretrainConfig

CONFIG = Path(__file__).parents[2] / "configs" / "pretrain_kim2016.cfg"
SMALL = [
    *("--pretraining.batch_size", "4", "--pretraining.unroll_steps", "8", "--pretraining.max_tokens", "320"),
    *("--pretraining.eval_every", "5", "--bilm.char_cnn.filters", "[[1,4],[2,8]]"),
    *("--bilm.cell_width", "16", "--bilm.projection_width", "16"),
]


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    path.write_text("the cat sat on the mat .\nthe mat was under the cat .\n" * 30, encoding="utf8")
    return path


@pytest.fixture(scope="module")
def model(text, tmp_path_factory):
    """The folder of a small model, trained with the recipe."""
    output = tmp_path_factory.mktemp("runs") / "out"
    run("pretrain", CONFIG, output, "--paths.train", text, "--paths.valid", text, *SMALL)
    return output / "model-last"


def test_recipe_has_the_sizes_of_the_paper():
    config = Config().from_disk(CONFIG)
    bilm = BiLMConfig.from_dict(config["bilm"])
    assert bilm.char_cnn.n_filters == 525 and (bilm.n_layers, bilm.cell_width) == (2, 300)
    assert not bilm.has_projection and bilm.n_directions == 1 and bilm.output_width == 300


def test_recipe_names_every_setting():
    config = Config().from_disk(CONFIG)
    assert BiLMConfig.from_dict(config["bilm"]).to_dict() == {**config["bilm"], "n_words": None}
    assert PretrainConfig.from_dict(config["pretraining"]).to_dict() == config["pretraining"]


def test_perplexity_is_that_of_one_direction(model, text):
    found = srsly.json_loads(run("perplexity", model, text, "--json"))
    assert found["backward"] is None and found["mean"] == found["forward"] < 15


def test_vectors_are_one_direction_wide(model, text, tmp_path):
    run("embed", model, text, tmp_path / "out.npz", "--tokenized", "--store", "both")
    with np.load(tmp_path / "out.npz") as arrays:
        assert arrays["layers"].shape[::2] == (3, 16)


def test_inspect_says_that_it_is_a_forward_model(model):
    assert "forward direction only" in run("inspect", model)


def test_export_has_the_regular_names_and_the_same_vectors(model, tmp_path):
    run("convert", model, tmp_path / "tf", "--to", "bilm-tf")
    import h5py

    with h5py.File(tmp_path / "tf" / "weights.hdf5", "r") as file:
        assert list(file["RNN_0/RNN/MultiRNNCell"]) == ["Cell0", "Cell1"] and "RNN_1" not in file
        assert file["RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"].shape == (32, 64)
    words = [["the", "cat", "sat"]]
    np.testing.assert_array_equal(load_bilm(tmp_path / "tf").embed(words)[0], load_bilm(model).embed(words)[0])


@pytest.mark.parametrize("state", ["reset", "steady", "carry"])
def test_component_uses_it(model, state):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": {"state": state}})
    nlp.config["initialize"]["components"]["elmo"] = {
        "loader": {"@misc": "spacy-elmo.BiLMLoader.v1", "path": str(model)}
    }
    nlp.initialize()
    doc = nlp("the cat sat")
    assert doc._.elmo.shape == (3, 16) and np.isfinite(doc._.elmo).all()


def test_gradients_reach_every_weight(model):
    bilm = load_bilm(model)
    bilm.encode_with_grad([["the", "cat"], ["sat"]]).square().sum().backward()
    assert all(parameter.grad is not None for parameter in bilm.network.parameters())


def test_settled_state_is_kept(model):
    assert "steady.h" in _keys(model / "weights.safetensors")


def _keys(path):
    from safetensors import safe_open

    with safe_open(path, framework="np") as file:
        return list(file.keys())
