"""A tiny random biLM on disk, with its vocabulary and softmax."""

import pytest
from nn.tiny import make_language_model

from spacy_elmo.weights import save_bilm

SPECIAL = ["<S>", "</S>", "<UNK>"]
WORDS = [*SPECIAL, "the", "cat", "sat", "on", "mat", "."]
FRENCH = ["l'", "affaire", "est", "tr\xe8s", "d\u2019", "\u0153uvre", "."]


@pytest.fixture(scope="session")
def bilm():
    """16 wide, two layers, seeded."""
    return make_language_model(WORDS, corpus="none")


@pytest.fixture
def bilm_path(bilm, tmp_path):
    """The tiny biLM in our own format."""
    save_bilm(bilm, tmp_path / "bilm")
    return tmp_path / "bilm"


@pytest.fixture(scope="session")
def french(tmp_path_factory):
    """A biLM whose meta data say that it is French, with words that ASCII does not have."""
    path = tmp_path_factory.mktemp("french") / "bilm"
    save_bilm(make_language_model([*SPECIAL, *FRENCH, "\u6f22\u5b57"], lang="fr"), path)
    return path
