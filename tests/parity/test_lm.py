"""Losses and perplexities of bilm-tf's test program and of AllenNLP's language model."""

import pytest
from parity.cases import LIMIT, LM_CASES, lm_differences


@pytest.mark.parametrize("name", LM_CASES)
def test_language_model_losses(name, shared_data):
    differences = dict(lm_differences(shared_data.parent, name))
    too_large = {array: value for array, value in differences.items() if value > LIMIT}
    assert not too_large


def test_every_stored_language_model_is_in_the_table(shared_data):
    stored = {path.parent.name for path in (shared_data / "elmo-groundtruth" / "lm").glob("*/bilm_tf.json")}
    assert stored == set(LM_CASES)
