import gzip
import pickle
from pathlib import Path
from typing import List

import pytest
import srsly
import torch
from typer.testing import CliRunner

from spacy_elmo.cli._app import app
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.weights import save_bilm

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "on", "mat", "."]
TEXT = "the cat sat on the mat .\nthe dog sat .\n" * 8


@pytest.fixture
def corpus_path(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text(TEXT, encoding="utf8")
    return path


def test_perplexity_prints_both_directions(bilm_path: Path, corpus_path: Path) -> None:
    result = CliRunner().invoke(app, ["perplexity", str(bilm_path), str(corpus_path)])
    assert result.exit_code == 0, result.output
    for text in ("forward", "backward", "mean", "Std. error", "<UNK>"):
        assert text in result.output


def test_perplexity_prints_json_of_plain_and_gzipped_text(bilm_path: Path, corpus_path: Path) -> None:
    zipped = corpus_path.with_suffix(".txt.gz")
    zipped.write_bytes(gzip.compress(TEXT.encode("utf8")))
    results = []
    for path in (corpus_path, zipped):
        arguments = ["perplexity", str(bilm_path), str(path), "--state", "reset", "--json"]
        results.append(srsly.json_loads(CliRunner().invoke(app, arguments).output))
    assert results[0] == results[1]
    assert results[0]["n_tokens"] == 8 * (8 + 5)
    # A random model of 9 words does hardly better or worse than a die of nine sides.
    assert 3 < results[0]["forward"] < 30
    assert results[0]["unk_rate"] == pytest.approx(1 / 13)


def test_perplexity_tells_what_was_peculiar(bilm_path: Path, corpus_path: Path) -> None:
    corpus_path.write_bytes(b"the cat sat\n\n" * 9 + b"caf\xe9 \xff\n")
    arguments = ["perplexity", str(bilm_path), str(corpus_path)]
    result = CliRunner().invoke(app, [*arguments, str(corpus_path)])
    assert result.exit_code == 0, result.output
    told = " ".join(result.output.split())
    for part in ("29 tokens in 10 sentences", "9 empty lines", "2 invalid UTF-8 sequences", "read once"):
        assert part in told
    found = srsly.json_loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert found["text"]["n_undecodable"] == 2 and found["text"]["n_empty"] == 9


def test_perplexity_needs_a_softmax(bilm: BiLM, corpus_path: Path, tmp_path: Path) -> None:
    save_bilm(BiLM(bilm.network), tmp_path / "bare")
    result = CliRunner().invoke(app, ["perplexity", str(tmp_path / "bare"), str(corpus_path)])
    assert result.exit_code == 1
    assert "softmax" in result.output


def test_perplexity_on_a_gpu_that_is_not_there(bilm_path: Path, corpus_path: Path) -> None:
    result = CliRunner().invoke(app, ["perplexity", str(bilm_path), str(corpus_path), "--gpu-id", "99"])
    assert result.exit_code == 1
    assert "no GPU number 99" in result.output


@pytest.mark.issue(15)
def test_a_perplexity_that_is_not_finite_is_an_error_with_a_reason(
    bilm: BiLM, corpus_path: Path, tmp_path: Path
) -> None:
    broken = pickle.loads(pickle.dumps(bilm))
    with torch.no_grad():
        broken.head.weight.copy_(torch.where(torch.arange(len(WORDS)) % 2 == 0, 9e17, -9e17).unsqueeze(1))
    save_bilm(broken, tmp_path / "broken")
    for option in ([], ["--json"]):
        result = CliRunner().invoke(app, ["perplexity", str(tmp_path / "broken"), str(corpus_path), *option])
        assert result.exit_code == 1 and result.stdout.strip() == ""
        told = " ".join(result.stderr.split())
        assert "not finite" in told and "softmax.weight" in told


@pytest.mark.issue(15)
def test_perplexity_reads_raw_text_by_the_same_option_as_other_commands(bilm_path: Path, corpus_path: Path) -> None:
    corpus_path.write_text("The cat sat. On the mat.\n" * 9, encoding="utf8")
    arguments = ["perplexity", str(bilm_path), str(corpus_path)]
    assert "WL103" in CliRunner().invoke(app, arguments).stderr
    result = CliRunner().invoke(app, [*arguments, "--lang", "en", "--running-text"])
    assert "WL103" not in result.stderr and "72 tokens in 18 sentences" in " ".join(result.stdout.split())


@pytest.mark.issue(15)
def test_progress_is_told_for_every_prediction(bilm: BiLM) -> None:
    told: List[int] = []
    for state in ("carry", "reset"):
        result = bilm.perplexity([["the", "cat"]] * 400, state=state, batch_size=4, on_progress=told.append)
        assert sum(told) == result.n_tokens and len(told) > 1
        told.clear()
