"""All numbers of bilm-tf and AllenNLP: layers with seeded weights, published fixtures, losses, training steps."""

import pytest
from inference.forcing import force_engine
from parity.cases import (
    CASES,
    FIXTURES,
    LIMIT,
    LM_CASES,
    SLOW_CASES,
    Case,
    fixture_differences,
    limit_of,
    lm_differences,
)
from parity.training import LIMIT_TRAINED, sampled_difference, training_differences

FLOAT64_CASES = ("tiny-2layer", "tiny-3layer-tanh", "tiny-odd-4layer")


def names(are_fast):
    """CASES, of which others than those that are fast need --slow."""
    return [name if name in are_fast else pytest.param(name, marks=pytest.mark.slow) for name in CASES]


@pytest.mark.parametrize("name", names(set(CASES) - set(SLOW_CASES)))
@pytest.mark.parametrize("engine", ["native", "torch"])
def test_groundtruth_with_and_without_the_native_kernel(engine, name, shared_data, tmp_path, monkeypatch):
    if engine == "torch":
        force_engine(monkeypatch, engine)
    case = Case(shared_data.parent, name, tmp_path)
    limit = limit_of(case.bilm.config.n_layers)
    assert not {array: value for array, value in case.differences() if value > limit}


@pytest.mark.parametrize("name", names(FLOAT64_CASES))
def test_vectors_are_within_half_of_the_limit_of_float64(name, shared_data, tmp_path):
    """The rest is for the rounding of the reference."""
    case = Case(shared_data.parent, name, tmp_path)
    limit = limit_of(case.bilm.config.n_layers) / 2
    assert not {array: error for array, _, error, _ in case.rounding() if error > limit}


@pytest.mark.parametrize("name", FIXTURES)
def test_published_fixture(name, shared_data):
    differences = dict(fixture_differences(shared_data.parent, name))
    assert not {array: value for array, value in differences.items() if value > LIMIT}
    assert len(differences) == (4 if name == "allennlp" else 3)


@pytest.mark.parametrize("name", LM_CASES)
def test_language_model_losses(name, shared_data):
    """Of bilm-tf's test program and of AllenNLP's language model."""
    assert not {array: value for array, value in lm_differences(shared_data.parent, name) if value > LIMIT}


@pytest.mark.parametrize("name", LM_CASES)
def test_six_training_steps_of_bilm_tf(name, shared_data):
    differences = training_differences(shared_data.parent, name)
    assert not {array: value for array, value in differences if value > LIMIT_TRAINED}


@pytest.mark.parametrize("sparse", [False, True])
def test_sampled_softmax_of_tensorflow(sparse, shared_data):
    assert sampled_difference(shared_data.parent, sparse=sparse) < LIMIT


@pytest.mark.parametrize("pattern, cases", [("*/case.json", CASES), ("lm/*/bilm_tf.json", LM_CASES)])
def test_every_stored_case_is_in_the_table(pattern, cases, shared_data):
    assert {path.parent.name for path in (shared_data / "elmo-groundtruth").glob(pattern)} == set(cases)
