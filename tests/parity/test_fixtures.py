"""The published test fixtures of bilm-tf and AllenNLP."""

import pytest
from parity.cases import FIXTURES, LIMIT, fixture_differences


@pytest.mark.parametrize("name", FIXTURES)
def test_published_fixture(name, shared_data):
    differences = dict(fixture_differences(shared_data.parent, name))
    assert not {array: value for array, value in differences.items() if value > LIMIT}
    assert len(differences) == (4 if name == "allennlp" else 3)
