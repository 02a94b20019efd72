"""Shares of senses over years, authors and documents: groups of values, intervals, table and picture."""

import csv
import io

import numpy as np
import pytest

from spacy_elmo.analysis.intervals import find_design_effect, score_share
from spacy_elmo.analysis.neighbors import Use
from spacy_elmo.analysis.shares import count_shares, draw_shares, make_groups, write_table


def _labels(values, width=None):
    return [group.label for group in make_groups(values, "year", width)]


@pytest.mark.parametrize(
    "values, width, labels",
    [
        ([1901, 1848, 1848], None, ["1848", "1901"]),
        (["1848", 1848, "1848-05-01", "1901-01"], None, ["1848", "1901"]),
        ([1848, 1849, 1851], 10, ["1840–1849", "1850–1859"]),
        (list(range(1840, 1920)), None, [f"{year}–{year + 9}" for year in range(1840, 1920, 10)]),
        (list(range(1840, 1852)), None, [f"{year}–{year + 1}" for year in range(1840, 1852, 2)]),
        ([-430, -44, 14], 100, ["-500 to -401", "-100 to -1", "0–99"]),
        ([0.1, 0.25, 0.3], 0.1, ["0.1–0.2", "0.2–0.3", "0.3–0.4"]),
        ([i / 100 for i in range(100)], None, [f"{i / 10:g}–{(i + 1) / 10:g}" for i in range(10)]),
        (["Eliot", "austen", "Brontë"], None, ["austen", "Brontë", "Eliot"]),
        (["1848", "unknown"], None, ["1848", "unknown"]),
        (["1840s", "1850s"], None, ["1840s", "1850s"]),
        (["unknown", 1900, 850, "1900", 12.5], None, ["12.5", "850", "1900", "unknown"]),
    ],
)
def test_values_are_joined_into_groups(values, width, labels):
    assert _labels(values, width) == labels
    joined = [value for group in make_groups(values, "year", width) for value in group.values]
    assert len(joined) == len(set(joined)) and set(joined) == set(values)
    with pytest.raises(ValueError, match="`bin_width` does not fit the field 'year'.*'unknown'.*null"):
        make_groups([1848, "unknown"], "year", 10)


def test_intervals_hold_for_few_uses_and_for_documents():
    # Wilson (1927): published values for 0 of 10 and 5 of 10.
    for hits, low, high in ((0, 0.0, 0.2775), (5, 0.2366, 0.7634)):
        score = score_share(hits, 10)
        assert (score.low, score.high) == pytest.approx((low, high), abs=1e-4)
    rng = np.random.default_rng(0)
    documents = np.repeat(np.arange(400), 5)
    alone = find_design_effect(rng.integers(0, 2, 2000), documents, documents % 2)
    same = find_design_effect(np.repeat(rng.integers(0, 2, 400), 5), documents, documents % 2)
    assert alone < 1.1 and same == pytest.approx(5, rel=0.05)  # one sense per document: as few uses as documents
    assert find_design_effect([0, 1], ["a", "b"], [1, 2]) == 1
    narrow, wide = score_share(50, 100), score_share(50, 100, effect=5)
    assert wide.low < narrow.low < 0.5 < narrow.high < wide.high


def _count(field="year", n=40):
    """The first sense in the even places of 1840 to 1849, the second in all places of 1900."""
    uses = [Use("train", ["a", "train"], 1, f"d{i % 8}") for i in range(n)]
    values = [None if i == 0 else 1840 + i % 10 if i < n // 2 else 1900 for i in range(n)]
    labels = [i % 2 if i < n // 2 else 1 for i in range(n)]
    return count_shares(uses, labels, values, field, 10)


def test_shares_are_counted_in_groups():
    shares = _count()
    assert shares.n_without == 1 and [group.label for group in shares.groups] == ["1840–1849", "1900–1909"]
    assert [(row["value"], row["group"], row["n"], row["uses"]) for row in shares.rows] == [
        ("1840–1849", 1, 9, 19),
        ("1840–1849", 2, 10, 19),
        ("1900–1909", 1, 0, 20),
        ("1900–1909", 2, 20, 20),
    ]
    assert all(0 <= row["low"] <= row["share"] <= row["high"] <= 1 for row in shares.rows)
    table = list(csv.DictReader(io.StringIO(write_table(shares))))
    assert [(row["from"], row["to"], row["share"]) for row in table][2] == ("1900", "1909", "0.0")
    assert "\r" not in write_table(shares)
    with pytest.raises(ValueError, match="No use of 'train' is in a document with the field 'year'"):
        count_shares([Use("train", ["train"], 0, "d")], [0], [None], "year")


@pytest.mark.parametrize("n_values", [1, 2, 10])
@pytest.mark.parametrize("is_text", [False, True])
def test_points_of_a_value_stand_at_its_tick(n_values, is_text, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    saved = []
    monkeypatch.setattr("spacy_elmo.analysis.shares.save_figure", lambda figure, *_, **__: saved.append(figure))
    values = [f"value {i % n_values}" if is_text else 1900 + 50 * (i % n_values) for i in range(60)]
    uses = [Use("train", ["train"], 0, f"{i}") for i in range(60)]
    draw_shares(count_shares(uses, [i % 7 for i in range(60)], values, "period"), tmp_path / "a.png", title="")
    (axes,) = saved[0].axes
    low, high = axes.get_xlim()
    for places in zip(*(container[0].get_xdata() for container in axes.containers)):  # of one value
        middle = (low + high) / 2 if n_values == 1 else min(axes.get_xticks(), key=lambda tick: abs(tick - places[3]))
        width = (high - low) / max(n_values, 3)
        assert len(places) == 7 and max(abs(place - middle) for place in places) < width / 2


def test_shares_of_any_text_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    draw_shares(_count("$year_{$"), tmp_path / "a.png", title="$x", captions=["$a", "b" * 200])
    names = [f"/novels/{'x' * 50}/{i}.txt" for i in range(30)]
    uses = [Use("train", ["train"], 0, name) for name in names]
    draw_shares(count_shares(uses, [0] * 30, names, "document"), tmp_path / "b.png", title="many")
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("a.png", "b.png"))
