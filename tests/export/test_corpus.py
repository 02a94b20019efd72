"""`embed_corpus`: Python can do what `elmo embed` does, with the names of its parameters in errors."""

from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
import srsly
from cli.calls import call
from export.running import make_bilm

from spacy_elmo import save_bilm
from spacy_elmo.export import embed_corpus
from spacy_elmo.export.parts import Progress

RECORDS = [{"id": "a", "words": ["the", "cat"]}, {"id": "b", "words": ["a", "dog", "sat"]}, {"id": "a", "words": []}]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a biLM and three texts."""
    save_bilm(make_bilm(), tmp_path / "bilm")
    srsly.write_jsonl(tmp_path / "in.jsonl", RECORDS)
    return tmp_path


def _list_files(output: Path) -> List[Path]:
    return sorted(output.glob("part-*")) if output.is_dir() else [output]


@pytest.mark.parametrize(
    "output, settings, options",
    [
        ("out.npz", {"store": "both"}, ["--store", "both"]),
        ("out.hdf5", {"store": "top", "forget_sentences": True}, ["--store", "top", "--forget-sentences"]),
        ("out.spacy", {"pool": "max", "dtype": "float16"}, ["--pool", "max", "--dtype", "float16"]),
        ("out", {"to": "docbin", "docs_per_file": 2}, ["--to", "docbin", "--docs-per-file", "2"]),
    ],
)
def test_a_call_writes_what_the_command_writes(output: str, settings: Any, options: List[str], place: Path) -> None:
    total = embed_corpus(place / "bilm", place / "in.jsonl", place / output, **settings)
    assert (total.n_texts, total.n_tokens, total.n_skipped) == (3, 5, 0)
    call("embed", place / "bilm", place / "in.jsonl", place / "command" / output, *options)
    written, others = (_list_files(folder / output) for folder in (place, place / "command"))
    assert [path.name for path in written] == [path.name for path in others] and written
    if output == "out.npz":
        with np.load(written[0]) as arrays, np.load(others[0]) as expected:
            assert all(np.array_equal(arrays[name], expected[name]) for name in expected)
    else:
        assert [path.read_bytes() for path in written] == [path.read_bytes() for path in others]


def test_a_folder_is_continued_with_fields_and_repeated_ids_are_named(place: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    read: List[Any] = []
    progress = Progress(on_read=lambda name, position: read.append(position))
    arguments: Any = {"docs_per_file": 2, "keep": ["id", "words:text"]}
    with pytest.warns(UserWarning, match="1 text has an id that an earlier text has, for instance 'a'.* out of `keep`"):
        total = embed_corpus(place / "bilm", place / "in.jsonl", place / "out", progress=progress, **arguments)
    assert total.n_parts == 2 and read == sorted(read) and read[-1] == (place / "in.jsonl").stat().st_size
    table = parquet.read_table(place / "out" / "part-00000-00000.parquet")
    assert table.column("id").to_pylist() == ["a", "b"] and table.column("words").to_pylist()[0] == '["the", "cat"]'
    (place / "out" / "part-00000-00001.parquet").unlink()
    with pytest.warns(UserWarning, match="an id that"):
        again = embed_corpus(place / "bilm", place / "in.jsonl", place / "out", **arguments)
    assert (again.n_texts, again.n_existing) == (1, 1)


@pytest.mark.parametrize(
    "output, settings, message",
    [
        ("out.npz", {"store": "top"}, '`store="top"` cannot be used here'),
        ("out.npz", {"shard": "1/2"}, "`shard` .* write a folder"),
        ("out", {"to": "npz"}, "Choose one of these, and leave out `to`"),
        ("out", {"shard": "3/2"}, "`shard` is '3/2'"),
        ("out", {"workers": 2}, "`workers` is for Ray"),
        ("out.npz", {"pool": "median", "batch_size": 0}, "pool is 'median'.*batch_size is 0, should be"),
    ],
)
def test_arguments_that_do_not_fit_are_named(output: str, settings: Any, message: str, place: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    with pytest.raises(ValueError, match=message):
        embed_corpus(place / "bilm", place / "in.jsonl", place / output, **settings)
    assert not list(place.glob("out*"))
