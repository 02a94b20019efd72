"""The training steps of bilm-tf and TensorFlow's sampled softmax."""

import pytest
from parity.cases import LIMIT, LM_CASES
from parity.training import LIMIT_TRAINED, sampled_difference, training_differences


@pytest.mark.parametrize("name", LM_CASES)
def test_six_training_steps(name, shared_data):
    differences = training_differences(shared_data.parent, name)
    assert not {array: value for array, value in differences if value > LIMIT_TRAINED}


@pytest.mark.parametrize("sparse", [False, True])
def test_sampled_softmax(sparse, shared_data):
    assert sampled_difference(shared_data.parent, sparse=sparse) < LIMIT
