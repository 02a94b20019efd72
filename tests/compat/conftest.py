"""The tiny biLM for all tests of this folder, and a writer of models of ELMoForManyLangs."""

import pytest
from compat.tiny import files  # noqa: F401  a fixture
from reference.seeded_manylangs import make_architecture, write_manylangs


@pytest.fixture
def make_manylangs(tmp_path):
    """Write a model with changed settings. RETURNS: its folder, and the same model in NumPy."""

    def write(**changes):
        folder = tmp_path / "manylangs"
        return folder, write_manylangs(folder, make_architecture(**changes))

    return write
