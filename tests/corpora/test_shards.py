"""Files and data sets, read from the start or from a stored position."""

import io
import json
import sys

import pytest
import spacy
from corpora.reading import Rows, names, read
from spacy.tokens import DocBin

from spacy_elmo import util
from spacy_elmo.corpora.lines import Counts
from spacy_elmo.corpora.shards import find_shards

RUNNING = "She sat on the bank. It was late!\nNobody came."


def test_stdin_is_a_place(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"she sat .\nit was late .")))
    assert names("-") == ["stdin"]
    assert read("-")[0] == [["she", "sat", "."], ["it", "was", "late", "."]]


@pytest.mark.parametrize("kind", ["text", "jsonl", "docbin", "json", "rows"])
def test_every_kind_continues_from_a_stored_position(package, tmp_path, kind):
    path = tmp_path / "corpus"
    texts = [RUNNING.replace("\n", " "), "", *(f"Sentence {i}. And {i}." for i in range(300))]
    if kind == "docbin":
        nlp = spacy.blank("en")
        DocBin(docs=[nlp.make_doc(text) for text in texts]).to_disk(path)
    elif kind == "json":
        path.write_text(json.dumps([{"text": text} for text in texts]), encoding="utf8")
    else:
        lines = texts if kind == "text" else [json.dumps({"text": text}) for text in texts]
        path.write_text("\n".join(lines), encoding="utf8")
    format = {"json": "jsonl", "rows": "auto"}.get(kind, kind)
    (shard,) = find_shards("hf:text" if kind == "rows" else path, lang="en", format=format, running_text=True)
    records = list(shard.read_records(Counts()))
    for n_records in (1, 2, len(records) // 2, len(records)):
        assert list(shard.read_records(Counts(), skip=n_records)) == records[n_records:]
    with pytest.raises(ValueError, match=f"record {len(records) + 2}|ends before"):
        list(shard.read_records(Counts(), skip=len(records) + 2))
    with pytest.raises(ValueError, match="'csv'"):
        find_shards(path, format="csv")


def _read_rows(place):
    counts = Counts()
    (shard,) = find_shards(place)
    return shard.name, list(shard.read(counts)), counts


@pytest.mark.parametrize(
    "place, call",
    [
        ("hf:text", ("text", None, "train", True)),
        ("hf:text:validation", ("text", None, "validation", True)),
        ("hf:text@raw:test:text", ("text", "raw", "test", True)),
        ("hf:tokens", ("tokens", None, "train", True)),
        ("hf:nulls", ("nulls", None, "train", True)),
        ("hf:nulls:dev:text", ("nulls", None, "dev", True)),
    ],
)
def test_place_names_data_set_split_and_column(package, place, call):
    name, sentences, counts = _read_rows(place)
    assert package == [call] and call[2] in name
    assert sentences == [["a", "b"], ["c"]] and counts == Counts(n_empty=1)


@pytest.mark.parametrize("marker, name", [("dataset_dict.json", "with_splits"), ("state.json", "one")])
@pytest.mark.parametrize("prefix", ["", "hf:"])
def test_saved_folder_is_opened(package, tmp_path, marker, name, prefix):
    (tmp_path / name).mkdir()
    (tmp_path / name / marker).write_text("{}")
    shard_name, sentences, _ = _read_rows(f"{prefix}{tmp_path / name}")
    assert shard_name == f"hf:{name}:train" and sentences == [["a", "b"], ["c"]]


def test_texts_of_data_sets_that_differ_have_other_identities(package, monkeypatch):
    places = ("hf:text", "hf:text:dev", "hf:text@raw", "hf:text:train:text", "hf:tokens")
    identities = [str(shard.identity()) for place in places for shard in find_shards(place)]
    monkeypatch.setattr(Rows, "_fingerprint", "1a2b", raising=False)
    assert len({*identities, str(find_shards("hf:text")[0].identity())}) == 6


def test_errors_say_what_is_missing(package, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="'hf:none:train'.*: no none"):
        find_shards("hf:none")
    with pytest.raises(ValueError, match=r"it has id \(int\), text \(str\), should have id"):
        _read_rows("hf:text:train:id")
    for name, message in (("one", "no split 'dev', only"), ("splits", "no split 'dev', only: train")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "state.json").write_text("{}")
        with pytest.raises(ValueError, match=message):
            find_shards(f"hf:{tmp_path / name}:dev")
    monkeypatch.setattr(util, "has_datasets", False)
    with pytest.raises(ValueError, match="pip install datasets"):
        find_shards("hf:text")
