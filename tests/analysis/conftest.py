"""An index that many tests read."""

import pytest

from spacy_elmo.analysis.neighbors import NeighborIndex

from .indexes import BILM, build_index


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    path = tmp_path_factory.mktemp("exact") / "index"
    build_index(path, BILM)
    with NeighborIndex.open(path) as index:
        yield index
