"""Groups of uses, their picture and their page."""

import re

import numpy as np
import pytest
from page_texts import Elements

from spacy_elmo.analysis.neighbors import Use
from spacy_elmo.analysis.sense_map import cluster_uses, describe_senses, render_senses

pytest.importorskip("sklearn")
HOSTILE = ["</li></script><script>alert(1)</script>", "bank", '" onload="x', "\u202e$x_{$", "&amp;", "\x00"]


def _make_uses(n: int):
    return [Use("bank", [f"left{i}", "bank", "right"], 1, "doc") for i in range(n)]


@pytest.fixture(scope="module")
def groups():
    """Three clouds of 12, 9 and 5 uses."""
    rng = np.random.default_rng(0)
    centers = np.eye(16)[:3]
    labels = np.repeat([1, 0, 2], [9, 12, 5])
    vectors = (centers[labels] + 0.1 * rng.standard_normal((26, 16))).astype("float32")
    uses = _make_uses(26)
    uses[0] = Use("bank", HOSTILE, 1, "<b>doc</b>")
    return uses, vectors, labels, cluster_uses(uses, vectors)


def test_clusters_are_found_and_sorted_by_size(groups):
    _, vectors, labels, found = groups
    assert found.sizes == [12, 9, 5] and found.silhouette > 0.4
    assert found.labels.tolist() == labels.tolist()
    assert found.points.shape == (26, 2) and np.isfinite(found.points).all()
    assert [labels[place] for place in found.exemplars] == [0, 1, 2]
    again = cluster_uses(groups[0], vectors)
    assert again.labels.tolist() == found.labels.tolist() and np.array_equal(again.points, found.points)


def test_number_of_senses_can_be_given(groups):
    uses, vectors, *_ = groups
    assert len(cluster_uses(uses, vectors, 2).sizes) == 2
    one = cluster_uses(uses, vectors, 1)
    assert one.sizes == [26] and np.isnan(one.silhouette) and "26 uses in one group" in describe_senses(uses, one)
    for n_senses in (0, 8):
        with pytest.raises(ValueError, match="cannot be clustered.*n_senses is [08], should be 1 to 7"):
            cluster_uses(uses, vectors, n_senses)


def test_few_and_equal_uses():
    for n in (1, 2, 5):
        uses = _make_uses(n)
        found = cluster_uses(uses, np.ones((n, 16), dtype="float32"))
        assert found.sizes == [n] and found.points.shape == (n, 2)
        assert 'class="point"' in render_senses(uses, found)
    for n in (3, 4):
        found = cluster_uses(_make_uses(n), np.eye(n, 16, dtype="float32") + 0.1)
        assert sum(found.sizes) == n and len(found.sizes) > 1 and np.isfinite(found.points).all()
    with pytest.raises(ValueError, match="cannot be clustered"):
        cluster_uses([], np.empty((0, 16), dtype="float32"))


def test_page_escapes_and_needs_nothing_else(groups):
    uses, _, _, found = groups
    page = render_senses(uses, found)
    reader = Elements(page)
    assert (
        reader.tags.count("script") == 1
        and len({shape for name, shape in reader.attributes if name == "d"}) == 3
        and reader.tags.count("li") == 26
    )
    assert not {"img", "link", "iframe"} & set(reader.tags)
    names = {name for name, _ in reader.attributes}
    assert not {"src", "href"} & names and not any(name.startswith("on") for name in names)
    assert "default-src 'none'" in page and not re.search(r"https?:", page)
    assert "alert(1)" in reader.text  # as text
    assert not set("\u202e\x00") & set(page) and "\ufffd$x_{$" in reader.text
    shown = [value for name, value in reader.attributes if name == "tabindex"]
    assert shown.count("0") == 1 and shown.count("-1") == 25
    assert {value for name, value in reader.attributes if name == "data-use"} == set(map(str, range(26)))
