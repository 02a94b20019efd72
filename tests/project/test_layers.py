"""Scores of layers: rows, baselines, the file, and errors before any work."""

import gzip

import pytest
import spacy
import srsly
from nn.tiny import make_bilm
from spacy.tokens import Doc, DocBin

from spacy_elmo import save_bilm
from spacy_elmo.weights.identity import digest_bilm

SCRIPT = "layers"
SENSES = [
    {"doc": "a", "tokens": ["The", "bank", "lends"], "senses": [[1, "bank", "NOUN", "money"]]},
    {"doc": "a", "tokens": ["A", "bank", "pays"], "senses": [[1, "bank", "NOUN", "money"]]},
    {"doc": "a", "tokens": ["The", "river", "bank"], "senses": [[2, "bank", "NOUN", "river"]]},
]
TAGGED = [(["We", "fish", "here"], ["PRON", "VERB", "ADV"]), (["They", "eat", "fish"], ["PRON", "VERB", "NOUN"])]


@pytest.fixture
def assets(tmp_path):
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


def _scores(path):
    return {row["layer"]: row for row in srsly.read_json(path)["rows"]}


def test_senses_and_parts_of_speech_of_each_layer_beside_baselines(script, invoke, assets, tmp_path):
    pytest.importorskip("sklearn")
    output = tmp_path / "results" / "senses.json"
    invoke(script.layers_cli, "senses", output, "--assets-dir", assets, "--bilm", tmp_path / "bilm")
    scores = _scores(output)
    assert list(scores) == ["first sense", 0, 1, 2, "mean"]
    assert scores["first sense"]["value"] == pytest.approx(200 / 3) and scores["first sense"]["gain"] is None
    # Only the words around differ, which the token layer does not see: its three vectors of "bank" are equal.
    assert scores[0]["value"] == scores["first sense"]["value"]
    assert 0 <= scores[1]["low"] <= scores[1]["value"] <= scores[1]["high"] <= 100
    output = tmp_path / "pos.json"
    invoke(script.layers_cli, "pos", output, "-a", assets, "-b", tmp_path / "bilm")
    scores = _scores(output)
    assert list(scores) == ["most frequent tag", "most frequent tag of the word", 0, 1, 2, "mean"]
    assert scores["most frequent tag"]["value"] == pytest.approx(100 / 3)
    assert scores["most frequent tag of the word"]["value"] == pytest.approx(500 / 6)
    assert srsly.read_json(output)["n_train"] == 6


def test_a_finished_experiment_is_kept(script, invoke, assets, tmp_path):
    output = tmp_path / "senses.json"
    digest = digest_bilm(tmp_path / "bilm")
    known = f'{{"bilm": "bilm", "bilm_digest": "{digest}"}}'
    output.write_text(known)
    result = invoke(script.layers_cli, "senses", output, "-a", assets, "-b", tmp_path / "bilm")
    assert "--force" in result.output
    other = invoke(script.layers_cli, "senses", output, "-a", assets, "-b", tmp_path / "other", code=1)
    assert "not 'other'" in " ".join(other.output.split())
    assert output.read_text() == known
    for name, problem in (("chunks", "no experiment"), ("pos", "missing below")):  # before the biLM is read
        arguments = (name, tmp_path / "out.json", "-a", tmp_path / "ud", "-b", "no_such_bilm")
        assert problem in invoke(script.layers_cli, *arguments, code=1).output
    output.write_text(known.replace(digest, "of-older-weights"))
    invoke(script.layers_cli, "senses", output, "-a", assets, "-b", tmp_path / "bilm")
    assert srsly.read_json(output)["bilm_digest"] == digest and "rows" in srsly.read_json(output)
