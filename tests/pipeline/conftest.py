"""Pipelines around a tiny biLM with random weights."""

import pytest
import spacy
from spacy.language import Language

from .tiny import add_elmo


@pytest.fixture
def nlp() -> Language:
    """A blank pipeline with a tiny ELMo component."""
    blank = spacy.blank("en")
    add_elmo(blank)
    return blank
