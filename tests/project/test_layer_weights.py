"""The printed layer weights are those of the listeners."""

from types import SimpleNamespace
from typing import Any, Callable

import numpy
import pytest
from thinc.api import Linear, Model, chain


@pytest.fixture
def script(import_script: Callable[[str], Any]) -> Any:
    return import_script("layer_weights")


def _listening_model() -> Any:
    params = {"w": numpy.log(numpy.asarray([1.0, 2.0, 1.0], dtype="f")), "gamma": numpy.asarray([0.5], dtype="f")}
    mix: Any = Model("scalar_mix", lambda model, X, is_train: (X, lambda d_Y: d_Y), params=params)
    return chain(mix, Linear(2, 2))


def test_shares_sum_to_one_and_name_their_component(script: Any, tmp_path: Any) -> None:
    pipes = [("sentencizer", SimpleNamespace()), ("ner", SimpleNamespace(model=_listening_model()))]
    (mix,) = script.find_mixes(SimpleNamespace(pipeline=pipes), tmp_path)
    assert mix.component == "ner"
    assert mix.shares == pytest.approx([0.25, 0.5, 0.25])
    assert mix.gamma == pytest.approx(0.5)


def test_pipeline_without_elmo_is_an_error(script: Any, tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="no component that listens"):
        script.find_mixes(SimpleNamespace(pipeline=[("tagger", SimpleNamespace(model=Linear(2, 2)))]), tmp_path)
