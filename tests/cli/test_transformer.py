"""The recipe of the transformer, and every command on the resulting model."""

from pathlib import Path

import numpy as np
import pytest
import srsly
from thinc.api import Config
from typer.testing import CliRunner

from spacy_elmo import load_bilm
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.cli._app import app
from spacy_elmo.pretraining.config import PretrainConfig

CONFIG = Path(__file__).parents[2] / "configs" / "pretrain_transformer.cfg"
TEXT = "the cat sat on the mat .\nthe mat was under the cat .\n" * 30
SMALL = [
    *("--pretraining.batch_size", "4", "--pretraining.unroll_steps", "16", "--pretraining.max_tokens", "320"),
    *("--pretraining.max_sentence_tokens", "15", "--pretraining.eval_every", "5", "--pretraining.max_passes", "0"),
    *("--pretraining.precision", "float32", "--pretraining.optimizer.learn_rate", "0.01", "--bilm.n_layers", "2"),
    *("--bilm.char_cnn.filters", "[[1,4],[2,8]]", "--bilm.projection_width", "16"),
    *("--bilm.transformer.feedforward_width", "16"),
]


def run(*arguments, exit_code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == exit_code, result.output
    return result.output


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    path.write_text(TEXT, encoding="utf8")
    return path


@pytest.fixture(scope="module")
def model(text, tmp_path_factory):
    """The folder of a small model, trained with the recipe."""
    output = tmp_path_factory.mktemp("runs") / "out"
    run("pretrain", CONFIG, output, "--paths.train", text, "--paths.valid", text, *SMALL)
    return output / "model-last"


def test_recipe_has_as_many_parameters_as_en_elmo_sm():
    bilm = BiLMConfig.from_dict(Config().from_disk(CONFIG)["bilm"])
    width, hidden = bilm.projection_width, bilm.transformer.feedforward_width
    n_parameters = 2 * bilm.n_layers * (4 * width**2 + 2 * width * hidden)
    assert n_parameters == pytest.approx(4 * (128 * 4 * 640 * 2 + 640 * 128), rel=0.02)


def test_recipe_names_every_setting():
    config = Config().from_disk(CONFIG)
    record = BiLMConfig.from_dict(config["bilm"]).to_dict()
    assert config["bilm"]["char_cnn"].pop("projection") == "after_highway"  # the default, which is not written
    assert record == {**config["bilm"], "n_words": None}
    assert PretrainConfig.from_dict(config["pretraining"]).to_dict() == config["pretraining"]


@pytest.mark.slow
def test_perplexity_is_that_of_sentences(model, text):
    found = srsly.json_loads(run("perplexity", model, text, "--json"))
    assert found == srsly.json_loads(run("perplexity", model, text, "--json", "--state", "reset"))
    assert 1 < found["mean"] < 15 and found["n_dropped"] == 0
    assert "EL340" in run("perplexity", model, text, "--state", "carry", exit_code=1)


@pytest.mark.slow
def test_inspect_shows_its_layers(model):
    report = srsly.json_loads(run("inspect", model, "--json"))
    assert report["settings"]["transformer.feedforward_width"] == 16 and "cell_width" not in report["settings"]
    assert {"transformer layer 1", "transformer layer 2", "output norm"} <= set(report["n_parameters"])
    assert [gate[0] for gate in report["gates"]] == ["highway 1"]


@pytest.mark.slow
def test_embed_writes_its_vectors(model, text, tmp_path):
    run("embed", model, text, tmp_path / "out.npz", "--tokenized", "--store", "both")
    with np.load(tmp_path / "out.npz") as arrays:
        assert arrays["layers"].shape[::2] == (3, 32)


@pytest.mark.slow
def test_convert_writes_native_and_refuses_bilm_tf(model, tmp_path):
    run("convert", model, tmp_path / "half", "--dtype", "float16")
    assert load_bilm(tmp_path / "half").config == load_bilm(model).config
    assert "cannot be saved in the" in run("convert", model, tmp_path / "tf", "--to", "bilm-tf", exit_code=1)


@pytest.mark.slow
def test_training_continues_from_it(model, text, tmp_path):
    output = tmp_path / "adapted"
    run("pretrain", CONFIG, output, "--paths.train", text, "--paths.valid", text, *SMALL, "--paths.init", model)
    sentences = [line.split() for line in TEXT.splitlines()]
    after, before = (load_bilm(path).perplexity(sentences).mean for path in (output / "model-last", model))
    assert after < before
