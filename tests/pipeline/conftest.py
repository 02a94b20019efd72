"""Pipelines around a tiny biLM with random weights."""

from typing import Any, Callable, Dict, Optional

import pytest
import spacy
from spacy.language import Language

from .tiny import add_elmo, listening, make_examples


@pytest.fixture
def nlp() -> Language:
    """A blank pipeline with a tiny ELMo component."""
    blank = spacy.blank("en")
    add_elmo(blank)
    return blank


@pytest.fixture
def make_pipeline() -> Callable[..., Language]:
    """Makes an initialised pipeline of ELMo and a tagger that listens."""

    def make(elmo: Optional[Dict[str, Any]] = None, listener: Optional[Dict[str, Any]] = None) -> Language:
        pipeline = spacy.blank("en")
        add_elmo(pipeline, **(elmo or {}))
        pipeline.add_pipe("tagger", config=listening(**(listener or {})))
        pipeline.initialize(lambda: make_examples(pipeline))
        return pipeline

    return make
