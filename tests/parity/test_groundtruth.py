"""All arrays computed by bilm-tf and AllenNLP with seeded weights."""

import pytest
from inference.forcing import force_large_batches, force_path
from parity.cases import CASES, SLOW_CASES, Case, limit_of

from spacy_elmo.inference.dispatch import Path


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW_CASES else name for name in CASES]
)
def test_groundtruth(name, shared_data, tmp_path):
    case = Case(shared_data.parent, name, tmp_path)
    limit = limit_of(case.bilm.config.n_layers)
    differences = dict(case.differences())
    too_large = {array: value for array, value in differences.items() if value > limit}
    assert not too_large


FLOAT64_CASES = ("tiny-2layer", "tiny-3layer-tanh", "tiny-odd-4layer")


@pytest.mark.issue(37)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FLOAT64_CASES else [pytest.mark.slow]) for name in CASES]
)
def test_both_sides_are_within_half_of_the_limit_of_float64(name, shared_data, tmp_path):
    """So their difference is below the limit on every processor, whatever the order of its sums."""
    case = Case(shared_data.parent, name, tmp_path)
    limit = limit_of(case.bilm.config.n_layers) / 2
    too_large = {array: errors for array, _, *errors in case.rounding() if max(errors) > limit}
    assert not too_large


def test_every_stored_case_is_in_the_table(shared_data):
    stored = {path.parent.name for path in (shared_data / "elmo-groundtruth").glob("*/case.json")}
    assert stored == set(CASES)


# Joint products: one case of each depth, with and without projection; the others have other characters or clips.
JOINT_CASES = ("tiny-1layer", "tiny-2layer", "tiny-odd-4layer", "tiny-noproj", "small")
LARGER_BATCHES = [
    pytest.param(name, batches, marks=[pytest.mark.slow] if is_slow else [])
    for name in CASES
    if name not in SLOW_CASES
    for batches, is_slow in (("joint", name not in JOINT_CASES), ("separate", True), ("few", False))
]


@pytest.mark.parametrize("name, batches", LARGER_BATCHES)
def test_groundtruth_on_the_paths_of_larger_batches(name, batches, shared_data, tmp_path, monkeypatch):
    """These texts are short: they would not be computed with packed weights."""
    if batches == "few":
        force_path(monkeypatch, Path.FEW_LANES)
    else:
        force_large_batches(monkeypatch, batches)
    case = Case(shared_data.parent, name, tmp_path)
    limit = limit_of(case.bilm.config.n_layers)
    assert not {array: value for array, value in case.differences() if value > limit}
