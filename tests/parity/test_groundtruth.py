"""Every array that bilm-tf and AllenNLP gave for seeded weights."""

import pytest
from parity.cases import CASES, SLOW_CASES, Case, limit_of


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
