"""Errors in the config of `elmo pretrain`, reported before training starts."""

from pathlib import Path

import pytest

from spacy_elmo.bilm.config import BiLMConfig, CharCNNConfig
from spacy_elmo.pretraining.prepare import corpus_warnings
from spacy_elmo.pretraining.run_config import FULL_SOFTMAX_WORDS, check_config, read_run_config

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
    with pytest.raises(ValueError, match="config is invalid") as error:
        check_config(wrong)
    for text in (
        "paths.train[1] is 3, should be a valid string",
        "paths.valid is 3, should be a valid list",
        "vocabulary.n_words is 'all', should be a valid integer",
        "bilm.char_cnn.filters[0][1] is missing",
        "pretraining.optimizer.grad_clip is None, should be a valid number",
        "pretraining.batch_size is 4.5, should be a valid integer",
        "meta is 3, should be a block of settings",
    ):
        assert text in str(error.value)
    assert check_config({"pretraining": {"max_tokens": 1e3}}).pretraining.max_tokens == 1000


@pytest.mark.parametrize(
    "override, text",
    [
        ("pretraning.batch_size", ": pretraning. Known settings: paths, "),
        ("pretraining.grad_clip", ": pretraining.grad_clip. Known settings: "),
        ("bilm.cell_widht", ": bilm.cell_widht. Known settings: "),
        ("bilm.char_cnn.filter", ": bilm.char_cnn.filter. Known settings: "),
        ("paths.tarin", ": paths.tarin. Known settings: train, "),
    ],
)
def test_misspelt_overrides_are_named_with_the_known_settings(override, text):
    with pytest.raises(ValueError) as error:
        check_config(read_run_config(CONFIG, {override: 3}))
    assert text in str(error.value)
    assert read_run_config(CONFIG, {"pretraining.batch_size": 3})["pretraining"]["batch_size"] == 3


def test_words_of_a_bilm_with_word_input_are_given_when_they_are_counted():
    sizes = {"n_layers": 1, "cell_width": 8, "projection_width": 4}
    words, characters = (check_config({"bilm": {**sizes, **more}}).bilm for more in ({}, {"char_cnn": {}}))
    assert words.n_words is None and words.with_words(7) == BiLMConfig(n_words=7, **sizes)
    assert characters.with_words(7) == BiLMConfig(char_cnn=CharCNNConfig(), **sizes)
    assert check_config({"bilm": {}}).bilm is None
    for wrong in ({"n_words": 7, "char_cnn": {}}, {"token_embedder": {"n_words": 5, "word_width": 4}}):
        with pytest.raises(ValueError, match="bilm: char_cnn should be set, or for word input"):
            check_config({"bilm": wrong})


def _config(**settings):
    return check_config({"pretraining": {"batch_size": 4, "unroll_steps": 8, **settings}}).pretraining


@pytest.mark.parametrize(
    "limits, wanted",
    [
        ({"max_tokens": 0, "max_passes": 2}, 2000),
        ({"max_tokens": 500, "max_passes": 2.0}, 500),
        ({"max_tokens": 5000, "max_passes": 0.5}, 500),
        ({"max_tokens": 5000}, 5000),
    ],
)
def test_a_run_ends_at_the_limit_that_comes_first(limits, wanted):
    fitted = _config(**limits).fit_to_corpus(n_words=50, n_predictions=1000)
    assert fitted.max_tokens == wanted and fitted.fit_to_corpus(n_words=50, n_predictions=1000) == fitted
    with pytest.raises(ValueError, match="max_tokens and max_passes are 0"):
        _config(max_tokens=0)


def test_a_small_vocabulary_gets_the_full_softmax():
    for n_words, settings, kind in (
        (FULL_SOFTMAX_WORDS, {}, "full"),
        (FULL_SOFTMAX_WORDS + 1, {}, "sampled"),
        (100, {"optimizer": {"sparse": True}}, "sampled"),
        (100, {"softmax": {"kind": "adaptive"}}, "adaptive"),
    ):
        assert _config(**settings).fit_to_corpus(n_words=n_words, n_predictions=None).softmax.kind == kind


@pytest.mark.parametrize(
    "settings, counted, told",
    [
        ({"schedule": {"warmup_steps": 500}}, {}, "The warm-up of the learning rate"),
        ({}, {"n_unknown": 0}, "WL102"),
        ({}, {"n_predictions": 100}, "The run reads the text"),
        ({"patience": 2}, {"n_predictions": 100, "n_unknown": 5}, None),
        ({"schedule": {"warmup_steps": 500, "name": "slanted_triangular"}}, {}, None),
    ],
)
def test_settings_that_do_not_fit_the_text_are_told(settings, counted, told):
    found = corpus_warnings(_config(max_tokens=32 * 200, **settings), **counted)
    assert len(found) == bool(told) and all(told in text for text in found)


@pytest.mark.issue(60)
@pytest.mark.parametrize("batch_size, is_large", [(64, True), (16, False)])
def test_few_updates_do_not_advise_the_config_that_is_used(batch_size, is_large):
    """That for a text of a few MB has `batch_size` 16."""
    (text,) = corpus_warnings(_config(max_tokens=32 * batch_size, batch_size=batch_size), is_new=True)
    assert "The run ends after" in text and ("init-pretraining --text" in text) == is_large
