"""Pipelines around a tiny biLM with random weights."""

import pytest
from spacy.language import Language

from .tiny import with_elmo


@pytest.fixture
def nlp() -> Language:
    return with_elmo()
