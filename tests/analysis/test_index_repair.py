"""Search files that are missing or damaged are made again from the stored vectors, and files are closed."""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from spacy_elmo.analysis.neighbors import NeighborIndex, check_recall
from spacy_elmo.analysis.token_store import FILE
from spacy_elmo.analysis.vector_search import repair_search
from spacy_elmo.cli._app import app

from .indexes import build_index, is_open, make_bilm, make_sentences, open_builder

pytest.importorskip("faiss")
needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux lists the files of a process")
BILM = make_bilm()


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """An index with approximate search."""
    build_index(tmp_path / "index", BILM, {"a": make_sentences(80, 1), "b": make_sentences(4, 2)}, exact_tokens=100)
    return tmp_path / "index"


def _damage(index: Path, how: str) -> None:
    (file,) = index.glob("vectors-*")
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-9])


@pytest.mark.issue(18)
@pytest.mark.parametrize("how", ["missing", "cut"])
@pytest.mark.parametrize("way", ["repaired", "finished", "changed"])
def test_lost_search_file_is_made_again(index, how, way):
    _damage(index, how)
    with pytest.raises(ValueError, match="EL406.*index .* makes the file again"):
        NeighborIndex.open(index)
    if way == "repaired":
        assert repair_search(index, exact_tokens=100) and not repair_search(index, exact_tokens=100)
    else:
        builder = open_builder(index, BILM, exact_tokens=100)
        if way == "changed":
            builder.delete("b")
        builder.finish()
        builder.store.close()
    found = NeighborIndex.open(index)
    assert found.search is not None and found.search.index.ntotal == found.n_tokens
    assert check_recall(found, n_queries=20).recall > 0.95


@pytest.mark.issue(18)
def test_lost_vectors_are_not_hidden_by_a_new_file(index):
    _damage(index, "missing")
    with closing(sqlite3.connect(index / FILE)) as file, file:
        file.execute("DELETE FROM token WHERE id = 5")
    assert not repair_search(index, exact_tokens=100)
    builder = open_builder(index, BILM, exact_tokens=100)
    builder.finish()
    builder.store.close()
    with pytest.raises(ValueError, match="EL392"):
        NeighborIndex.open(index)


@pytest.mark.issue(18)
def test_command_makes_the_file_again(index):
    assert "Nothing to do with the index" in CliRunner().invoke(app, ["index", str(index)]).output
    _damage(index, "cut")
    result = CliRunner().invoke(app, ["index", str(index)])
    assert result.exit_code == 0 and "Made the search file again" in result.stderr, result.output
    NeighborIndex.open(index).close()


@needs_proc
@pytest.mark.issue(37)
def test_a_block_closes_the_index_also_after_an_error(tmp_path):
    build_index(tmp_path, BILM)
    with pytest.raises(KeyError), NeighborIndex.open(tmp_path) as index:
        assert is_open(tmp_path) and index.words["nowhere"]
    assert not is_open(tmp_path)
    index.close()  # again
    with pytest.raises(ValueError, match="EL392"):
        index.query(np.ones(16))


@needs_proc
@pytest.mark.issue(37)
@pytest.mark.parametrize("make", [NeighborIndex.open, lambda path: open_builder(path, BILM)], ids=["index", "builder"])
def test_an_index_that_is_dropped_closes_its_file(tmp_path, make):
    build_index(tmp_path, BILM)
    opened = make(tmp_path)
    assert is_open(tmp_path)
    del opened
    assert not is_open(tmp_path)
    build_index(tmp_path, BILM)  # nor is it locked


@needs_proc
@pytest.mark.issue(37)
@pytest.mark.parametrize("sql", ["DELETE FROM token", "UPDATE meta SET value = '{}' WHERE key = 'settings'"])
def test_an_index_that_cannot_be_opened_closes_its_file(tmp_path, sql):
    build_index(tmp_path, BILM)
    with closing(sqlite3.connect(tmp_path / FILE)) as file, file:
        file.execute(sql)
    for use in (NeighborIndex.open, lambda path: open_builder(path, make_bilm(), layer=1)):
        with pytest.raises((ValueError, KeyError)) as caught:
            use(tmp_path)
        assert not is_open(tmp_path) and caught.tb is not None  # which still has the frames
