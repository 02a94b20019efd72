"""Every array that bilm-tf and AllenNLP gave for seeded weights."""

import pytest
from parity.cases import CASES, SLOW_CASES, Case, limit_of

from spacy_elmo.bilm import stepper
from spacy_elmo.encoding import runner


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW_CASES else name for name in CASES]
)
def test_groundtruth(name, shared_data, tmp_path):
    case = Case(shared_data.parent, name, tmp_path)
    limit = limit_of(case.bilm.config.n_layers)
    differences = dict(case.differences())
    too_large = {array: value for array, value in differences.items() if value > limit}
    assert not too_large


def test_every_stored_case_is_in_the_table(shared_data):
    stored = {path.parent.name for path in (shared_data / "elmo-groundtruth").glob("*/case.json")}
    assert stored == set(CASES)


@pytest.mark.parametrize(
    "at_once, joint_weights",
    [(0, stepper.JOINT_WEIGHTS), pytest.param(0, 0, marks=pytest.mark.slow), (float("inf"), 0)],
)
@pytest.mark.parametrize("name", [name for name in CASES if name not in SLOW_CASES])
def test_groundtruth_on_the_ways_of_larger_batches(
    name, at_once, joint_weights, shared_data, tmp_path, monkeypatch
):
    """These texts are short: by themselves they would not meet packed weights."""
    monkeypatch.setattr(runner, "AT_ONCE", at_once)
    monkeypatch.setattr(stepper, "JOINT_WEIGHTS", joint_weights)
    monkeypatch.setattr(runner, "FEW", 0)
    monkeypatch.setattr(runner, "is_lone", lambda plan, device: False)
    case = Case(shared_data.parent, name, tmp_path)
    limit = limit_of(case.bilm.config.n_layers)
    assert not {array: value for array, value in case.differences() if value > limit}
