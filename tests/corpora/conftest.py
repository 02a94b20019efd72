"""A stand-in for the package `datasets`."""

import sys
from types import SimpleNamespace

import pytest
from corpora.reading import Rows

from spacy_elmo import util

ROWS = {
    "text": [{"id": 1, "text": "a b"}, {"id": 2, "text": ""}, {"id": 3, "text": "c"}],
    "nulls": [{"text": "a b"}, {"text": None}, {"text": "c"}],
    "tokens": [{"tokens": ["a", "b"]}, {"tokens": []}, {"tokens": ["c"]}],
    "null words": [{"tokens": ["a", None], "text": "a b"}],
}


@pytest.fixture
def package(monkeypatch):
    """A package that stands in for `datasets`, and remembers what it was asked for."""
    calls = []

    def load_dataset(name, config, *, split, streaming):
        calls.append((name, config, split, streaming))
        if name not in ROWS:
            raise FileNotFoundError(f"no {name}")
        return Rows(ROWS[name])

    def load_from_disk(name):
        return {"train": Rows(ROWS["text"])} if "split" in name else Rows(ROWS["tokens"])

    fake = SimpleNamespace(load_dataset=load_dataset, load_from_disk=load_from_disk)
    monkeypatch.setattr(util, "has_datasets", True)
    monkeypatch.setitem(sys.modules, "datasets", fake)
    return calls
