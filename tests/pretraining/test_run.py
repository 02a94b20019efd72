"""A run end to end, small."""

import gzip

import pytest
import srsly
import torch

from spacy_elmo import load_bilm
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.pretraining.config import PretrainConfig
from spacy_elmo.pretraining.corpus import count_vocabulary, read_sentences
from spacy_elmo.pretraining.run import pretrain

BILM = BiLMConfig.from_dict(
    {
        "char_cnn": {"embedding_width": 4, "filters": [[1, 8], [3, 8]], "n_highway": 1},
        "cell_width": 24,
        "projection_width": 8,
    }
)
SETTINGS = {
    "batch_size": 4,
    "unroll_steps": 8,
    "max_tokens": 32 * 60,
    "eval_every": 30,
    "learn_rate": 0.02,
    "warmup_steps": 5,
    "n_negatives": 7,
}


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    words = "the river runs past the old mill and the bank of the town where she sat and read".split()
    lines = [" ".join(words[i % 7 : i % 7 + 3 + i % 9]) for i in range(50)]
    path.write_text("\n".join(lines), encoding="utf8")
    return path


def _pretrain(text, output, *, bilm=BILM, **settings):
    vocabulary = count_vocabulary(read_sentences([text]), 100)
    config = PretrainConfig.from_dict({**SETTINGS, **settings})
    return list(pretrain(bilm, config, vocabulary, [text], [text], output, meta={"name": "tiny"}))


@pytest.mark.parametrize("softmax", ["sampled", "full"])
@pytest.mark.parametrize("directions", ["both", "forward"])
def test_perplexity_falls_and_the_model_can_be_used(text, tmp_path, softmax, directions):
    bilm_config = BiLMConfig.from_dict({**BILM.to_dict(), "directions": directions})
    if softmax == "sampled":
        reports = _pretrain(text, tmp_path / "out", bilm=bilm_config, max_tokens=32 * 60)
    else:
        reports = _pretrain(text, tmp_path / "out", bilm=bilm_config, softmax="full")
    scores = [report.validation.forward for report in reports if report.validation is not None]
    assert len(scores) == 2 and scores[-1] < scores[0] < 15
    bilm = load_bilm(tmp_path / "out" / "model-last")
    assert bilm.config == bilm_config and bilm.meta["name"] == "tiny"
    assert bilm.meta["training"]["n_tokens"] == 32 * 60
    again = bilm.perplexity(list(read_sentences([text])), batch_size=4)
    assert again.forward == pytest.approx(scores[-1], rel=1e-5)


def test_log_has_a_line_per_report(text, tmp_path):
    reports = _pretrain(text, tmp_path / "out")
    rows = list(srsly.read_jsonl(tmp_path / "out" / "log.jsonl"))
    assert [row["step"] for row in rows] == [report.progress.step for report in reports] == [20, 30, 40, 60]
    assert rows[-1]["n_tokens"] == 32 * 60 and "forward" in rows[-1]


def test_the_same_seed_gives_the_same_model(text, tmp_path):
    for name in ("a", "b"):
        _pretrain(text, tmp_path / name, dropout=0.1, max_tokens=320)
    first, second = (load_bilm(tmp_path / name / "model-last").network.state_dict() for name in ("a", "b"))
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_word_input_trains_too(text, tmp_path):
    n_words = len(count_vocabulary(read_sentences([text]), 100))
    bilm = BiLMConfig(n_words=n_words, cell_width=12, projection_width=6)
    reports = _pretrain(text, tmp_path / "out", bilm=bilm, softmax="full", dropout=0.1)
    assert reports[-1].validation.forward < 15


def test_an_existing_run_is_not_overwritten(text, tmp_path):
    _pretrain(text, tmp_path / "out", max_tokens=64)
    with pytest.raises(ValueError, match="exists already"):
        _pretrain(text, tmp_path / "out")


def test_a_loss_that_is_not_finite_stops_the_run(text, tmp_path, monkeypatch):
    from spacy_elmo.pretraining import loop

    monkeypatch.setattr(loop.nn.utils, "clip_grad_norm_", lambda parameters, _: parameters[0].data.fill_(float("nan")))
    with pytest.raises(ValueError, match="not a finite number at step 1"):
        _pretrain(text, tmp_path / "out")


def test_gzip_text_reads_the_same(text, tmp_path):
    packed = tmp_path / "text.txt.gz"
    packed.write_bytes(gzip.compress(text.read_bytes()))
    assert list(read_sentences([packed])) == list(read_sentences([text]))


def test_vocabulary_is_sorted_by_frequency_then_spelling():
    vocabulary = count_vocabulary([["b", "a", "c"], ["c", "<UNK>", "<S>"]], 3)
    assert vocabulary.words == ["<S>", "</S>", "<UNK>", "c", "a", "b"]


@pytest.mark.parametrize(
    "settings, message",
    [({"n_negatives": 50}, "distinct negatives"), ({"softmax": "half"}, "softmax"), ({"lerning_rate": 1}, "lerning")],
)
def test_wrong_settings_are_errors(text, tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        _pretrain(text, tmp_path / "out", **settings)


def test_an_empty_corpus_is_an_error(tmp_path):
    path = tmp_path / "empty.txt"
    path.write_text("\n\n")
    with pytest.raises(ValueError, match="no sentences"):
        _pretrain(path, tmp_path / "out")
