"""Data sets of the `datasets` package: the calls to the package, and the sentences of its rows."""

import sys
from types import SimpleNamespace

import pytest

from spacy_elmo import _compat
from spacy_elmo.corpora.find import find_shards
from spacy_elmo.corpora.shards import Counts

ROWS = {
    "text": [{"id": 1, "text": "a b"}, {"id": 2, "text": ""}, {"id": 3, "text": "c"}],
    "nulls": [{"text": "a b"}, {"text": None}, {"text": "c"}],
    "tokens": [{"tokens": ["a", "b"]}, {"tokens": []}, {"tokens": ["c"]}],
}


class _Rows(list):
    split = None

    def skip(self, n):
        if n >= len(self):
            raise IndexError(n)  # as `datasets.Dataset` does
        return _Rows(self[n:])


@pytest.fixture
def package(monkeypatch):
    """A package that stands in for `datasets`, and remembers what it was asked for."""
    calls = []

    def load_dataset(name, config, *, split, streaming):
        calls.append((name, config, split, streaming))
        if name not in ROWS:
            raise FileNotFoundError(f"no {name}")
        return _Rows(ROWS[name])

    def load_from_disk(name):
        return {"train": _Rows(ROWS["text"])} if "split" in name else _Rows(ROWS["tokens"])

    fake = SimpleNamespace(load_dataset=load_dataset, load_from_disk=load_from_disk)
    monkeypatch.setattr(_compat, "has_datasets", True)
    monkeypatch.setitem(sys.modules, "datasets", fake)
    return calls


def _read(place):
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
    name, sentences, counts = _read(place)
    assert package == [call] and call[2] in name
    assert sentences == [["a", "b"], ["c"]] and counts == Counts(n_empty=1)


@pytest.mark.parametrize("marker, name", [("dataset_dict.json", "with_splits"), ("state.json", "one")])
@pytest.mark.parametrize("prefix", ["", "hf:"])
def test_saved_folder_is_opened(package, tmp_path, marker, name, prefix):
    (tmp_path / name).mkdir()
    (tmp_path / name / marker).write_text("{}")
    shard_name, sentences, _ = _read(f"{prefix}{tmp_path / name}")
    assert shard_name == f"hf:{name}:train" and sentences == [["a", "b"], ["c"]]


def test_rows_are_skipped_by_the_package(package):
    (shard,) = find_shards("hf:text")
    assert list(shard.read_records(Counts(), skip=2)) == [[["c"]]]
    assert list(shard.read_records(Counts(), skip=3)) == []
    with pytest.raises(ValueError, match="EL109.*record 4"):
        list(shard.read_records(Counts(), skip=4))


def test_errors_say_what_is_missing(package, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="EL141.*'hf:none:train'.*: no none"):
        find_shards("hf:none")
    with pytest.raises(ValueError, match=r"EL142.*found id \(int\), text \(str\); wanted id"):
        _read("hf:text:train:id")
    for name, message in (
        ("one", "EL144.*no split 'dev', only"),
        ("splits", "EL144.*no split 'dev', only: train"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "state.json").write_text("{}")
        with pytest.raises(ValueError, match=message):
            find_shards(f"hf:{tmp_path / name}:dev")
    monkeypatch.setattr(_compat, "has_datasets", False)
    with pytest.raises(ValueError, match="EL106.*pip install datasets"):
        find_shards("hf:text")
