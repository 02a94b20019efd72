"""Rows of Parquet: their texts, further columns, vectors of tokens, and columns that are no texts."""

import numpy as np
import pytest

from spacy_elmo.corpora.parquet import read_parquet
from spacy_elmo.corpora.sources import make_source

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")


def _rows(path, columns, *arguments):
    parquet.write_table(pa.table(columns), path)
    return list(read_parquet(make_source(path), *arguments))


def test_rows_have_their_place_their_text_and_further_columns(tmp_path):
    columns = {"text": ["a b", None], "year": [1850, 1900], "vector": [[0.5], [1.0]]}
    (place, (first, row)), (_, (second, _)) = _rows(tmp_path / "a.parquet", columns, ["year"])
    assert place == f"{tmp_path / 'a.parquet'}, row 1" and (first, second) == ("a b", "")
    assert row == {"text": "a b", "year": 1850}
    every = _rows(tmp_path / "a.parquet", columns, None)
    assert every[1][1][1] == {"text": None, "year": 1900}  # without lists, such as vectors


def test_vectors_are_those_of_tokens_that_are_not_blank(tmp_path):
    vectors = np.arange(12, dtype="float32").reshape(6, 2)
    lists = pa.ListArray.from_arrays([0, 4, 6], pa.FixedSizeListArray.from_arrays(vectors.ravel(), 2))
    columns = {"words": [["a", " ", "", "b"], ["c", "d"]], "elmo": lists}
    rows = [row for _, (_, row) in _rows(tmp_path / "a.parquet", columns, (), "elmo")]
    assert rows[0].vectors.tolist() == vectors[[0, 3]].tolist() and rows[1].vectors.tolist() == vectors[4:].tolist()


@pytest.mark.parametrize(
    "columns, problem",
    [
        ({"title": ["a"]}, r"has the columns title, should have text \(or words\), year"),
        ({"text": ["a"]}, r"has the columns text, should have text \(or words\), year"),
        ({"text": [1.5], "year": [1]}, "The column 'text' of .* has the type double, should be strings"),
    ],
)
def test_columns_that_are_no_texts_or_missing_are_named(tmp_path, columns, problem):
    with pytest.raises(ValueError, match=problem):
        _rows(tmp_path / "a.parquet", columns, ["year"])
    (tmp_path / "a.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-9])
    with pytest.raises(ValueError, match="a.parquet' cannot be read as Parquet"):
        list(read_parquet(make_source(tmp_path / "a.parquet")))
