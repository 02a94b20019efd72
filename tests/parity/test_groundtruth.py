"""All arrays computed by bilm-tf and AllenNLP with seeded weights."""

import pytest
from inference.forcing import force_engine
from parity.cases import CASES, SLOW_CASES, Case, limit_of


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW_CASES else name for name in CASES]
)
@pytest.mark.parametrize("engine", ["native", "torch"])
def test_groundtruth_with_and_without_the_native_kernel(engine, name, shared_data, tmp_path, monkeypatch):
    if engine == "torch":
        force_engine(monkeypatch, engine)
    case = Case(shared_data.parent, name, tmp_path)
    limit = limit_of(case.bilm.config.n_layers)
    assert not {array: value for array, value in case.differences() if value > limit}


FLOAT64_CASES = ("tiny-2layer", "tiny-3layer-tanh", "tiny-odd-4layer")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FLOAT64_CASES else [pytest.mark.slow]) for name in CASES]
)
def test_vectors_are_within_half_of_the_limit_of_float64(name, shared_data, tmp_path):
    """The rest is for the rounding of the reference."""
    case = Case(shared_data.parent, name, tmp_path)
    limit = limit_of(case.bilm.config.n_layers) / 2
    too_large = {array: error for array, _, error, _ in case.rounding() if error > limit}
    assert not too_large


def test_every_stored_case_is_in_the_table(shared_data):
    stored = {path.parent.name for path in (shared_data / "elmo-groundtruth").glob("*/case.json")}
    assert stored == set(CASES)
