"""The registry of published biLMs: complete, without duplicates, with safe addresses."""

import re
from pathlib import Path

import pytest

from spacy_elmo import BiLMConfig, CharCNNConfig
from spacy_elmo.weights.download import check_url
from spacy_elmo.weights.published import find_published, list_published
from spacy_elmo.weights.tensor_map import count_numbers, network_shapes


def test_registry_is_consistent() -> None:
    assert {"small", "medium", "original", "large", "pt", "pubmed"} <= {
        published.name for published in list_published()
    }
    assert len([published for published in list_published() if published.name.startswith("manylangs-")]) == 44
    assert find_published("5.5B").name == "large" and find_published("nlpl-142").name == "manylangs-de"
    names = [name for published in list_published() for name in (published.name, *published.aliases)]
    assert len(names) == len(set(names))
    for published in list_published():
        assert published.mirrors and published.files and published.language and check_url(published.documented)
        assert all(check_url(mirror).endswith("/") for mirror in published.mirrors)
        # The names of files have the sizes: cell, projection, filters, highways.
        sizes = re.search(r"/2x(\d+)_(\d+)_2048cnn_(\d)xhighway", published.files[0].path)
        if sizes and published.n_parameters:
            cell_width, projection_width, n_highway = map(int, sizes.groups())
            config = BiLMConfig(
                CharCNNConfig(n_highway=n_highway), cell_width=cell_width, projection_width=projection_width
            )
            assert round(sum(count_numbers(network_shapes(config)).values()), -5) == published.n_parameters
        for file in published.files:
            assert Path(file.name).name == file.name and ".." not in file.path and not file.path.startswith("/")
            assert file.sha256 is None or len(file.sha256) == 64


def test_any_number_of_nlpl_is_known() -> None:
    assert [file.path for file in find_published("nlpl-999").files] == ["999.zip"]
    assert find_published("nlpl-999").mirrors[0] == "http://vectors.nlpl.eu/repository/20/"
    with pytest.raises(ValueError, match="NUMBER is any entry of the NLPL"):
        find_published("nlpl-../1")
    with pytest.raises(ValueError, match=r"'smal' in the registry\. Some names: small, medium"):
        find_published("smal")
