"""`elmo probe`: tags and senses, files, warnings and mistakes."""

import json
from pathlib import Path
from typing import Any

import pytest
import spacy
import srsly
from cli.calls import call
from spacy.tokens import Doc, DocBin

from spacy_elmo.weights import load_bilm

pytest.importorskip("sklearn", reason="probes need scikit-learn")
TAGGED = [("the", "DET"), ("cat", "NOUN"), ("sat", "VERB"), (".", "PUNCT")]


def _run(*args: Any, code: int = 0) -> Any:
    return call("probe", *args, code=code)


@pytest.fixture
def tagged(tmp_path: Path) -> Path:
    vocab = spacy.blank("en").vocab
    words, tags = zip(*TAGGED)
    DocBin(docs=[Doc(vocab, words=words[: i % 3 + 2], pos=tags[: i % 3 + 2]) for i in range(10)]).to_disk(
        tmp_path / "tagged.spacy"
    )
    return tmp_path / "tagged.spacy"


@pytest.mark.issue(18)
def test_table_json_and_picture(bilm_path: Path, tagged: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    out, picture = tmp_path / "out" / "probe.json", tmp_path / "out" / "probe.png"
    arguments = (bilm_path, tagged, "--attr", "pos", "--control-seeds", 1, "--output", out, "--picture", picture)
    result = _run(*arguments)
    for text in ("majority baseline", "word baseline", "layer 2", "mean of all layers", "selectivity"):
        assert text in result.stdout
    told = " ".join(result.stderr.split())
    assert "split with seed 0 into 8 documents to train on and 2 to test on" in told
    record = srsly.read_json(out)
    assert record["bilm_digest"] == load_bilm(bilm_path).digest and record["is_split"] and record["seed"] == 0
    assert [len(row["control"]) for row in record["layers"]] == [1] * 4
    assert picture.read_bytes().startswith(b"\x89PNG") and sorted(out.parent.iterdir()) == [out, picture]
    assert "--force" in _run(*arguments, code=1).stderr
    _run(*arguments, "--layers", "0", "--force")
    assert len(srsly.read_json(out)["layers"]) == 1


@pytest.mark.issue(18)
def test_json_goes_to_stdout(bilm_path: Path, tagged: Path, tmp_path: Path) -> None:
    test = tmp_path / "test.conllu"
    test.write_text("1\tcat\tcat\tNOUN\tNN\t_\t0\troot\t_\t_\n2\toh\toh\tINTJ\tUH\t_\t1\tx\t_\t_\n", encoding="utf8")
    result = _run(bilm_path, test, "-a", "pos", "-t", tagged, "--layers", "0,mean", "-n", 0, "-m", 9, "-j")
    record = json.loads(result.stdout)
    assert (record["n_train"], record["n_test"], record["n_unseen"]) == (9, 2, 1) and not record["is_split"]
    assert [row["layer"] for row in record["layers"]] == [0, "mean"]
    out = tmp_path / "probe.json"
    both = _run(bilm_path, test, "-a", "pos", "-t", tagged, "--layers", "0,mean", "-n", 0, "-m", 9, "--json", "-o", out)
    assert json.loads(both.stdout) == record == srsly.read_json(out)
    told = " ".join(result.stderr.split())
    assert "have a label that no training token" in told and "1 of the 2 test tokens" in told


@pytest.mark.issue(18)
def test_stopped_probes_are_told(bilm_path: Path, tagged: Path) -> None:
    result = _run(bilm_path, tagged, "-a", "pos", "-n", 0, "--layers", "1", "--max-iter", 1)
    assert "did not converge" in result.stderr and "layer 1" in result.stderr


@pytest.mark.issue(18)
def test_senses_by_nearest_neighbor(bilm_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "senses.jsonl"
    rows = [("a", "the bank lends", "money"), ("b", "the bank floods", "river"), ("c", "a bank lends", "money")]
    senses = [
        {"doc": doc, "tokens": text.split(), "senses": [[1, "bank", "NOUN", sense]]} for doc, text, sense in rows * 2
    ]
    srsly.write_jsonl(path, senses)
    result = _run(bilm_path, path, "--attr", "sense")
    assert "most frequent training sense" in result.stdout and "several senses" in result.stdout
    assert "nearest mean" in result.stdout and "1-NN" not in result.stdout
    assert (
        "--control-seeds does not fit" in _run(bilm_path, path, "--attr", "sense", "--control-seeds", 2, code=1).stderr
    )
