"""The recipes of biLMs: each names every setting, trains, and gives a model that every command takes."""

from pathlib import Path

import numpy as np
import pytest
import spacy
import srsly
from cli.calls import SMALL_BILM, SMALL_RUN, as_options, call, call_json, told
from thinc.api import Config

from spacy_elmo import load_bilm
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.pipeline import component  # noqa: F401  registers the factory where the package is not installed
from spacy_elmo.pretraining.run_config import PretrainConfig

CONFIGS = Path(__file__).parents[2] / "configs"
KIM, TRANSFORMER = "pretrain_kim2016.cfg", "pretrain_transformer.cfg"
TEXT = "the cat sat on the mat .\nthe mat was under the cat .\n" * 30
LARGER = {"pretraining.unroll_steps": 16, "pretraining.max_sentence_tokens": 15, "pretraining.max_passes": 0}
SMALL = {
    KIM: {**SMALL_BILM, "bilm.projection_width": 16},
    TRANSFORMER: {
        **{**LARGER, "pretraining.optimizer.learn_rate": 0.01, "bilm.n_layers": 2, "bilm.projection_width": 16},
        **{"bilm.char_cnn.filters": "[[1,4],[2,8]]", "bilm.transformer.feedforward_width": 16},
    },
}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    path.write_text(TEXT, encoding="utf8")
    return path


def _train(name, text, output, *changes):
    paths, settings = ("--paths.train", text, "--paths.valid", text), as_options({**SMALL_RUN, **SMALL[name]})
    call("pretrain", CONFIGS / name, output, *paths, *settings, *changes)
    return output / "model-last"


@pytest.fixture(scope="module")
def forward(text, tmp_path_factory):
    """A small forward model of Kim et al. (2016)."""
    return _train(KIM, text, tmp_path_factory.mktemp("runs") / "kim")


@pytest.fixture(scope="module")
def transformer(text, tmp_path_factory):
    """A small transformer."""
    return _train(TRANSFORMER, text, tmp_path_factory.mktemp("runs") / "transformer")


# Settings that recipes need not name.
RARE = {"encoder_depth": 1, "always_project": False, "projection": "after_highway", "has_layer_norm": False}


@pytest.mark.parametrize("path", [*CONFIGS.glob("pretrain_*.cfg"), CONFIGS / "adapt.cfg"], ids=lambda path: path.stem)
def test_recipe_names_every_setting(path):
    config, text = Config().from_disk(path), path.read_text(encoding="utf8")
    assert PretrainConfig(**config["pretraining"]).to_dict() == config["pretraining"]
    if "bilm" in config:  # not for adaptation, whose sizes are those of the biLM to go on from
        given = {**dict.fromkeys(["n_words", "transformer", "token_embedder"]), **config["bilm"]}
        record = BiLMConfig.from_dict(config["bilm"]).to_dict()
        for read, written in ((record, given), (record["char_cnn"] or {}, given.get("char_cnn") or {})):
            for name in RARE.keys() - written.keys():
                assert read.pop(name, RARE[name]) == RARE[name]
        assert record == given
    assert (
        text.split("[corpus]")[1].split("[")[0] == (CONFIGS / KIM).read_text("utf8").split("[corpus]")[1].split("[")[0]
    )


def test_recipes_have_the_sizes_of_their_papers():
    bilm = BiLMConfig.from_dict(Config().from_disk(CONFIGS / KIM)["bilm"])
    assert bilm.char_cnn.n_filters == 525 and (bilm.n_layers, bilm.cell_width) == (2, 300)
    assert not bilm.has_projection and bilm.n_directions == 1 and bilm.output_width == 300
    bilm = BiLMConfig.from_dict(Config().from_disk(CONFIGS / TRANSFORMER)["bilm"])
    width, hidden = bilm.projection_width, bilm.transformer.feedforward_width
    n_parameters = 2 * bilm.n_layers * (4 * width**2 + 2 * width * hidden)
    assert n_parameters == pytest.approx(4 * (128 * 4 * 640 * 2 + 640 * 128), rel=0.02), "as many as en_elmo_sm"


def test_commands_and_the_component_take_a_forward_model(forward, text, tmp_path):
    found = call_json("perplexity", forward, text)
    assert found["backward"] is None and found["mean"] == found["forward"] < 15
    assert all(row["backward"] is None for row in srsly.read_jsonl(forward.with_name("log.jsonl")))
    call("embed", forward, text, tmp_path / "out.npz", "--store", "both")
    with np.load(tmp_path / "out.npz") as arrays:
        assert arrays["layers"].shape[::2] == (3, 16)
    assert "forward direction only" in told("inspect", forward)
    call("convert", forward, tmp_path / "tf", "--to", "bilm-tf")
    words = [["the", "cat", "sat"]]
    np.testing.assert_array_equal(load_bilm(tmp_path / "tf").embed(words)[0], load_bilm(forward).embed(words)[0])
    for state in ("reset", "steady", "carry"):
        nlp = spacy.blank("en")
        nlp.add_pipe("elmo", config={"model": {"state": state}}).load_weights(forward)
        doc = nlp("the cat sat")
        assert doc._.elmo.shape == (3, 16) and np.isfinite(doc._.elmo).all()


@pytest.mark.slow
def test_commands_take_a_transformer_and_its_training_continues(transformer, text, tmp_path):
    perplexity = call_json("perplexity", transformer, text)
    assert perplexity == call_json("perplexity", transformer, text, "--state", "reset")
    assert 1 < perplexity["mean"] < 15 and perplexity["n_dropped"] == 0
    assert "EL340" in told("perplexity", transformer, text, "--state", "carry", code=1)
    report = call_json("inspect", transformer)
    assert report["settings"]["transformer.feedforward_width"] == 16 and "cell_width" not in report["settings"]
    assert {"transformer layer 1", "transformer layer 2", "output norm"} <= set(report["n_parameters"])
    call("embed", transformer, text, tmp_path / "out.npz", "--store", "both")
    adapted = _train(TRANSFORMER, text, tmp_path / "adapted", "--paths.init", transformer)
    assert call_json("perplexity", adapted, text)["mean"] < perplexity["mean"]
