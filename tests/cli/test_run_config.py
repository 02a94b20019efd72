"""Errors in the config of `elmo pretrain`, reported before training starts."""

from dataclasses import replace
from pathlib import Path

import pytest
from thinc.api import Config
from typer.testing import CliRunner

from spacy_elmo.cli._app import app
from spacy_elmo.cli._run_config import check_config, read_config

CONFIG = Path(__file__).parents[2] / "configs" / "pretrain_en_elmo_sm.cfg"


def test_all_values_of_wrong_types_are_named_at_once():
    wrong = {
        "paths": {"train": ["a.txt", 3], "valid": 3},
        "vocabulary": {"n_words": "all", "new_head": 5},
        "bilm": {"n_layers": "2", "char_cnn": {"filters": [[1]]}},
        "pretraining": {
            **{"unroll_steps": 2.5, "seed": 1.5, "report_every": 2.5, "scale_loss": "maybe", "batch_size": 4.5},
            **{"dropout": "x", "softmax": {"cutoffs": 5}, "optimizer": {"learn_rate": "fast", "grad_clip": None}},
        },
        "meta": 3,
    }
    with pytest.raises(ValueError, match="EL170.*16 setting") as error:
        check_config(wrong)
    for text in (
        "paths.train is ['a.txt', 3], should be a string or a list of strings or null",
        "vocabulary.n_words is 'all', should be an integer or null",
        "bilm.char_cnn.filters is [[1]]",
        "pretraining.optimizer.grad_clip is None, should be a number",
        "pretraining.batch_size is 4.5, should be an integer",
        "meta is 3, should be a block of settings",
    ):
        assert text in str(error.value)


def test_whole_numbers_may_be_written_with_an_exponent():
    assert check_config({"pretraining": {"max_tokens": 1e3}}).pretraining.max_tokens == 1000


def test_settings_have_the_defaults_of_the_config_file():
    file, none = check_config(Config().from_disk(CONFIG)), check_config({})
    words = replace(none.words, min_count=1)  # that recipe has more than n_words words that occur twice
    assert (file.paths, file.corpus, file.words) == (none.paths, none.corpus, words)


@pytest.mark.parametrize(
    "override, meant",
    [
        ("pretraning.batch_size", "did you mean pretraining?"),
        ("pretraining.grad_clip", "did you mean pretraining.optimizer.grad_clip?"),
        ("bilm.cell_widht", "did you mean cell_width?"),
        ("bilm.char_cnn.filter", "did you mean filters?"),
        ("paths.tarin", "did you mean train?"),
    ],
)
def test_misspelt_overrides_say_what_is_meant(override, meant):
    with pytest.raises(ValueError) as error:
        read_config(CONFIG, {override: 3})
    assert meant in str(error.value)
    assert read_config(CONFIG, {"pretraining.batch_size": 3})["pretraining"]["batch_size"] == 3


def test_messages_of_thinc_are_next_to_the_cross(tmp_path):
    path = tmp_path / "bad.cfg"
    path.write_text("[paths]\ntrain = null\n[corpus.more]\nx = 1\n")
    result = CliRunner().invoke(app, ["pretrain", str(path), str(tmp_path / "out")])
    assert result.exit_code == 1 and "✘ Error parsing config section" in result.stderr


def test_overrides_may_name_blocks_that_the_file_lacks(tmp_path):
    path = tmp_path / "short.cfg"
    path.write_text('[paths]\ntrain = "a.txt"\n', encoding="utf8")
    overrides = {"bilm.char_cnn.filters": [[1, 4]], "pretraining.optimizer.learn_rate": 0.5, "corpus.lang": "en"}
    settings = check_config(read_config(path, {**overrides, "paths.valid": "b.txt"}))
    assert (settings.paths.train, settings.paths.valid, settings.corpus.lang) == ("a.txt", "b.txt", "en")
    assert settings.bilm == {"char_cnn": {"filters": ((1, 4),)}}
    assert settings.pretraining.optimizer.learn_rate == 0.5
