"""An index on the disk: any text, locks, damage, closing."""

from pathlib import Path

import numpy as np
import pytest

from spacy_elmo.analysis import token_store
from spacy_elmo.analysis.index_build import (
    start_replacement,
)
from spacy_elmo.analysis.neighbors import NeighborIndex
from spacy_elmo.analysis.token_store import STORE_FILE, Use
from spacy_elmo.analysis.vector_search import repair_search

from .indexes import BILM, build_index, change_index, is_open, open_builder

needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux lists the files of a process")

HOSTILE = ["a\x00b", "\x1b[31mred", "\u202eabc", "<script>", "'; DROP TABLE token; --", "\U0001f30a", "ﬀ", "%s{}"]


def test_any_text_is_stored_as_it_is(tmp_path):
    build_index(tmp_path, BILM, {"\x1b[31m": [HOSTILE, ["x"] * 1200]})
    with NeighborIndex.open(tmp_path) as index:
        for position, word in enumerate(HOSTILE):
            assert index.uses(word)[0] == [Use(word, HOSTILE, position, "\x1b[31m")]
        assert index.uses("\ud800")[0] == [] and index.words["x"] == 1200


def test_index_that_is_being_written_is_locked(tmp_path, monkeypatch):
    monkeypatch.setattr(token_store, "LOCK_WAIT_S", 0.1)
    builder = open_builder(tmp_path / "index", BILM)
    for use in (NeighborIndex.open, lambda path: open_builder(path, BILM)):
        with pytest.raises(ValueError, match="EL401"):
            use(tmp_path / "index")
    builder.store.close()
    open_builder(tmp_path / "index", BILM).store.close()


@pytest.mark.parametrize("content", [None, b"not SQLite" * 1000, "another table"])
def test_folder_that_is_no_index(tmp_path, content):
    (tmp_path / "letter.txt").write_text("Dear index", encoding="utf8")
    if content == "another table":
        change_index(tmp_path, "CREATE TABLE other (x)")
    elif content is not None:
        (tmp_path / STORE_FILE).write_bytes(content)
    for path in (tmp_path, tmp_path / "absent", tmp_path / "letter.txt"):
        with pytest.raises(ValueError, match="EL390"):
            NeighborIndex.open(path)
    if content is None:
        with pytest.raises(ValueError, match="EL390"):
            open_builder(start_replacement(tmp_path), BILM)
    assert (tmp_path / "letter.txt").read_text(encoding="utf8") == "Dear index"


def test_damaged_index(tmp_path):
    path = tmp_path / "index"
    build_index(path, BILM)
    change_index(path, "UPDATE token SET vector = x'00' WHERE id = 5")
    with NeighborIndex.open(path) as index, pytest.raises(ValueError, match="EL392.*1 bytes"):
        index.query(np.ones(16))
    change_index(path, "DELETE FROM token WHERE id = 5")
    assert not repair_search(path, exact_tokens=100)  # lost vectors are not hidden by a new file
    for _ in range(2):
        with pytest.raises(ValueError, match="EL392") as caught:  # whose traceback has the frames of the reading
            NeighborIndex.open(path)
        assert caught.tb is not None and (not Path("/proc/self/fd").is_dir() or not is_open(path))
        content = (path / STORE_FILE).read_bytes()
        (path / STORE_FILE).write_bytes(content[: len(content) // 2])


@needs_proc
@pytest.mark.parametrize("make", [NeighborIndex.open, lambda path: open_builder(path, BILM)], ids=["index", "builder"])
def test_an_index_closes_its_file(tmp_path, make):
    build_index(tmp_path, BILM)
    opened = make(tmp_path)
    assert is_open(tmp_path)
    del opened
    assert not is_open(tmp_path)
    with pytest.raises(KeyError), NeighborIndex.open(tmp_path) as index:
        assert is_open(tmp_path) and index.words["nowhere"]
    assert not is_open(tmp_path)
    index.close()  # again
    with pytest.raises(ValueError, match="cannot be read: .*closed"):  # which is no damage
        index.query(np.ones(16))
    build_index(tmp_path, BILM)  # nor is it locked
