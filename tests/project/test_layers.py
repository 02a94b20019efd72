"""Scores of layers: rows, baselines, the file, and errors before any work."""

import gzip
from pathlib import Path
from typing import Any, Callable, Dict

import pytest
import spacy
import srsly
from nn.tiny import make_bilm
from spacy.tokens import Doc, DocBin

from spacy_elmo import save_bilm

SENSES = [
    {"doc": "a", "tokens": ["The", "bank", "lends"], "senses": [[1, "bank", "NOUN", "money"]]},
    {"doc": "a", "tokens": ["A", "bank", "pays"], "senses": [[1, "bank", "NOUN", "money"]]},
    {"doc": "a", "tokens": ["The", "river", "bank"], "senses": [[2, "bank", "NOUN", "river"]]},
]
TAGGED = [(["We", "fish", "here"], ["PRON", "VERB", "ADV"]), (["They", "eat", "fish"], ["PRON", "VERB", "NOUN"])]


@pytest.fixture
def script(import_script: Callable[[str], Any]) -> Any:
    return import_script("layers")


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    (tmp_path / "wsd").mkdir()
    (tmp_path / "ud" / "en_ewt").mkdir(parents=True)
    vocab = spacy.blank("en").vocab
    docs = [Doc(vocab, words=words, pos=tags) for words, tags in TAGGED]
    for part in ("train", "test"):
        with gzip.open(tmp_path / "wsd" / f"semcor-noad-{part}.jsonl.gz", "wt") as file:
            file.writelines(srsly.json_dumps(line) + "\n" for line in SENSES)
    for part in ("train", "dev", "test"):
        DocBin(docs=docs).to_disk(tmp_path / "ud" / "en_ewt" / f"{part}.spacy")
    save_bilm(make_bilm(), tmp_path / "bilm")
    return tmp_path


def _scores(path: Path) -> Dict[Any, Dict[str, Any]]:
    return {row["layer"]: row for row in srsly.read_json(path)["rows"]}


def test_senses_of_each_layer_beside_the_first_sense(
    script: Any, invoke: Callable[..., Any], assets: Path, tmp_path: Path
) -> None:
    output = tmp_path / "results" / "senses.json"
    result = invoke(script.layers_cli, "senses", output, "--assets-dir", assets, "--bilm", tmp_path / "bilm")
    assert result.exit_code == 0, result.output
    scores = _scores(output)
    assert list(scores) == ["first sense", 0, 1, 2, "mean"]
    assert scores["first sense"]["value"] == pytest.approx(200 / 3) and scores["first sense"]["gain"] is None
    # Only the words around differ, which the token layer does not see: its three vectors of "bank" are equal.
    assert scores[0]["value"] == scores["first sense"]["value"]
    assert 0 <= scores[1]["low"] <= scores[1]["value"] <= scores[1]["high"] <= 100


def test_parts_of_speech_beside_baselines(
    script: Any, invoke: Callable[..., Any], assets: Path, tmp_path: Path
) -> None:
    pytest.importorskip("sklearn")
    output = tmp_path / "pos.json"
    assert invoke(script.layers_cli, "pos", output, "-a", assets, "-b", tmp_path / "bilm").exit_code == 0
    scores = _scores(output)
    assert list(scores) == ["most frequent tag", "most frequent tag of the word", 0, 1, 2, "mean"]
    assert scores["most frequent tag"]["value"] == pytest.approx(100 / 3)
    assert scores["most frequent tag of the word"]["value"] == pytest.approx(500 / 6)
    assert srsly.read_json(output)["n_train"] == 6


@pytest.mark.issue(16)
def test_parts_of_speech_are_read_from_conllu(
    script: Any, invoke: Callable[..., Any], assets: Path, tmp_path: Path
) -> None:
    pytest.importorskip("sklearn")
    for path in (assets / "ud" / "en_ewt").iterdir():
        rows = [[f"{i}\t{word}\t_\t{tag}" + "\t_" * 6 for i, (word, tag) in enumerate(zip(*s), 1)] for s in TAGGED]
        path.with_suffix(".conllu").write_text("\n".join("\n".join([*lines, ""]) for lines in rows), encoding="utf8")
        path.unlink()
    result = invoke(script.layers_cli, "pos", tmp_path / "pos.json", "-a", assets, "-b", tmp_path / "bilm")
    assert result.exit_code == 0, result.output
    assert srsly.read_json(tmp_path / "pos.json")["n_train"] == 6
    assert _scores(tmp_path / "pos.json")["most frequent tag"]["value"] == pytest.approx(100 / 3)


def test_a_finished_experiment_is_kept(script: Any, invoke: Callable[..., Any], assets: Path, tmp_path: Path) -> None:
    output = tmp_path / "senses.json"
    digest = script.digest_bilm(str(tmp_path / "bilm"))
    known = f'{{"bilm": "bilm", "bilm_digest": "{digest}"}}'
    output.write_text(known)
    result = invoke(script.layers_cli, "senses", output, "-a", assets, "-b", tmp_path / "bilm")
    assert result.exit_code == 0 and "--force" in result.output
    other = invoke(script.layers_cli, "senses", output, "-a", assets, "-b", tmp_path / "other")
    assert other.exit_code == 1 and "not 'other'" in " ".join(other.output.split())
    assert output.read_text() == known
    output.write_text(known.replace(digest, "of-older-weights"))
    assert invoke(script.layers_cli, "senses", output, "-a", assets, "-b", tmp_path / "bilm").exit_code == 0
    assert srsly.read_json(output)["bilm_digest"] == digest and "rows" in srsly.read_json(output)


@pytest.mark.parametrize("name, wanted", [("chunks", "no experiment"), ("pos", "missing below")])
def test_errors_come_before_the_bilm_is_read(
    script: Any, invoke: Callable[..., Any], tmp_path: Path, name: str, wanted: str
) -> None:
    result = invoke(script.layers_cli, name, tmp_path / "out.json", "-a", tmp_path, "-b", "no_such_bilm")
    assert result.exit_code == 1 and wanted in result.output and not (tmp_path / "out.json").exists()
