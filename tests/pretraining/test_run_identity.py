"""Runs can be resumed by a newer version, whose settings have more names."""

from typing import Any, Dict

import pytest

from spacy_elmo import BiLMConfig
from spacy_elmo.pretraining.config import PretrainConfig
from spacy_elmo.pretraining.run_identity import changed_settings, describe_settings
from spacy_elmo.text.vocabulary import Vocabulary

WORDS = ["<S>", "</S>", "<UNK>", "a"]


def _described(**settings: Any) -> Dict[str, Any]:
    config = BiLMConfig.from_dict({"char_cnn": {}, "cell_width": 8, "projection_width": 4, **settings})
    return describe_settings(PretrainConfig(), config, Vocabulary(WORDS))


@pytest.mark.parametrize("name", ["highway_between", "encoder"])
def test_setting_that_a_run_does_not_know_has_its_default(name: str) -> None:
    old = _described()
    del old["bilm"][name]
    assert changed_settings(old, _described()) == []


def test_other_value_of_a_new_setting_is_a_difference() -> None:
    old = _described()
    del old["bilm"]["highway_between"]
    other = _described()
    other["bilm"]["highway_between"] = True
    (difference,) = changed_settings(old, other)
    assert "bilm.highway_between" in difference
