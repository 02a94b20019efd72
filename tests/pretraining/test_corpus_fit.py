"""The length of a run, its warm-up and its softmax follow the text."""

import pytest
from list_shard import ListShard
from pretraining.small_run import make_run, write_text

from spacy_elmo.pretraining.config import PretrainConfig
from spacy_elmo.pretraining.corpus_fit import FULL_SOFTMAX_WORDS, corpus_warnings, count_predictions, fit_to_corpus
from spacy_elmo.pretraining.run_identity import changed_settings


def _config(**settings):
    return PretrainConfig.from_dict({"batch_size": 4, "unroll_steps": 8, **settings})


@pytest.mark.issue(15)
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
    fitted = fit_to_corpus(_config(**limits), n_words=50, n_predictions=1000)
    assert fitted.max_tokens == wanted and fit_to_corpus(fitted, n_words=50, n_predictions=1000) == fitted


@pytest.mark.issue(15)
def test_one_limit_is_needed():
    with pytest.raises(ValueError, match="EL100.*max_tokens and max_passes are 0"):
        _config(max_tokens=0)
    assert count_predictions([ListShard("a", [["a", "b"], [], ["c"]])]) == 3 + 2


@pytest.mark.issue(15)
def test_a_run_counts_the_passes_through_its_text(tmp_path):
    text = write_text(tmp_path / "text.txt")
    n_tokens = sum(len(line.split()) + 1 for line in text.read_text().splitlines())
    run = make_run(tmp_path / "run", text, max_tokens=0, max_passes=1.5, softmax={"kind": "auto"})
    assert run.config.max_tokens == round(1.5 * n_tokens) and run.config.softmax.kind == "full"


@pytest.mark.issue(15)
@pytest.mark.parametrize(
    "n_words, settings, kind",
    [
        (FULL_SOFTMAX_WORDS, {}, "full"),
        (FULL_SOFTMAX_WORDS + 1, {}, "sampled"),
        (100, {"optimizer": {"sparse": True}}, "sampled"),
        (100, {"softmax": {"kind": "adaptive"}}, "adaptive"),
    ],
)
def test_a_small_vocabulary_gets_the_full_softmax(n_words, settings, kind):
    assert fit_to_corpus(_config(**settings), n_words=n_words, n_predictions=None).softmax.kind == kind


@pytest.mark.issue(15)
def test_the_warm_up_is_a_share_of_the_run():
    config = _config(max_tokens=32 * 200)
    assert (config.n_updates, config.warmup_updates) == (200, 10)
    assert _config(max_tokens=32 * 200, schedule={"warmup_steps": 500}).warmup_updates == 500


@pytest.mark.issue(15)
@pytest.mark.parametrize(
    "settings, counted, code",
    [
        ({"schedule": {"warmup_steps": 500}}, {}, "WL101"),
        ({}, {"n_unknown": 0}, "WL102"),
        ({}, {"n_predictions": 100}, "WL104"),
        ({"patience": 2}, {"n_predictions": 100, "n_unknown": 5}, None),
        ({"schedule": {"warmup_steps": 500, "name": "slanted_triangular"}}, {}, None),
    ],
)
def test_settings_that_do_not_fit_the_text_are_told(settings, counted, code):
    found = corpus_warnings(_config(max_tokens=32 * 200, **settings), **counted)
    assert [text[1:6] for text in found] == ([code] if code else [])


@pytest.mark.issue(15)
def test_a_run_that_is_older_than_a_setting_can_be_resumed():
    now = {"settings": _config(schedule={"warmup_steps": 5}).to_dict(), "bilm": {}, "vocabulary": "x"}
    then = {**now, "settings": {**now["settings"], "schedule": {**now["settings"]["schedule"]}}}
    del then["settings"]["max_passes"], then["settings"]["schedule"]["warmup_share"]
    assert changed_settings(then, now) == []
