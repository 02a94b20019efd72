"""`elmo perplexity`: scores, what was read, and mistakes."""

import gzip
import pickle

import pytest
import torch
from cli.calls import call, call_json, refused, told

from spacy_elmo.weights import save_bilm

TEXT = "the cat sat on the mat .\nthe dog sat .\n" * 8


@pytest.fixture
def corpus_path(tmp_path):
    (tmp_path / "corpus.txt").write_text(TEXT, encoding="utf8")
    return tmp_path / "corpus.txt"


def test_scores_are_those_of_plain_and_gzipped_text(bilm, bilm_path, corpus_path):
    shown = call("perplexity", bilm_path, corpus_path).stdout
    for text in ("forward", "backward", "mean", "Std. error", "<UNK>"):
        assert text in shown
    zipped = corpus_path.with_suffix(".txt.gz")
    zipped.write_bytes(gzip.compress(TEXT.encode("utf8")))
    found, other = (call_json("perplexity", bilm_path, path, "--state", "reset") for path in (corpus_path, zipped))
    assert found == other and found["n_tokens"] == 8 * (8 + 5) and found["unk_rate"] == pytest.approx(1 / 13)
    assert 3 < found["forward"] < 30, "a random model of 9 words is about as good as a die of nine sides"
    for state in ("carry", "reset"):
        counts = []
        result = bilm.perplexity([["the", "cat"]] * 400, state=state, batch_size=4, on_progress=counts.append)
        assert sum(counts) == result.n_tokens and len(counts) > 1


@pytest.mark.issue(15)
def test_what_was_read_is_told(bilm_path, corpus_path):
    corpus_path.write_bytes(b"the cat sat\n\n" * 9 + b"caf\xe9 \xff\n")
    shown = told("perplexity", bilm_path, corpus_path, corpus_path)
    for part in ("29 tokens in 10 sentences", "9 empty lines", "2 invalid UTF-8 sequences", "read once"):
        assert part in shown
    read = call_json("perplexity", bilm_path, corpus_path)["text"]
    assert read["n_undecodable"] == 2 and read["n_empty"] == 9
    corpus_path.write_text("The cat sat. On the mat.\n" * 9, encoding="utf8")
    assert "WL103" in told("perplexity", bilm_path, corpus_path)
    shown = told("perplexity", bilm_path, corpus_path, "--lang", "en", "--running-text")
    assert "WL103" not in shown and "72 tokens in 18 sentences" in shown


@pytest.mark.issue(15)
def test_weights_that_are_not_finite_are_named(bilm, corpus_path, tmp_path):
    broken = pickle.loads(pickle.dumps(bilm))
    with torch.no_grad():
        broken.head.weight.copy_(torch.where(torch.arange(9) % 2 == 0, 9e17, -9e17).unsqueeze(1))
    save_bilm(broken, tmp_path / "broken")
    for options in ([], ["--json"]):
        shown = refused("perplexity", tmp_path / "broken", corpus_path, *options)
        assert "not finite" in shown and "softmax.weight" in shown
