"""A biLM in the files of bilm-tf, with its softmax and words, for all tests of this folder."""

from pathlib import Path

import pytest
from reference.seeded_weights import WORDS, make_arrays, make_options, make_softmax, write_model

from spacy_elmo import BiLM, load_bilm


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    options = make_options()
    return write_model(tmp_path / "original", options, {**make_arrays(options), **make_softmax(options)}, WORDS)


@pytest.fixture
def bilm(folder: Path) -> BiLM:
    return load_bilm(folder)
