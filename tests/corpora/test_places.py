"""Folders, patterns, files and links to them."""

import gzip
import lzma
import os
from pathlib import Path

import pytest
import spacy
from corpora.reading import names, read
from spacy.tokens import Doc, DocBin

from spacy_elmo.corpora.places import find_sources
from spacy_elmo.corpora.shards import find_shards, read_shards


@pytest.fixture
def folder(tmp_path):
    """A corpus in files of all kinds, at two depths, among files that are none of it."""
    root = tmp_path / "corpus"
    (root / "deep" / "er").mkdir(parents=True)
    (root / ".hidden").mkdir()
    contents = {
        "b.txt": b"b\n",
        "a.gz": gzip.compress(b"a\n"),
        "deep/c.txt.xz": lzma.compress(b"c\n"),
        "deep/er/d.jsonl.gz": gzip.compress(b'{"text": "d"}\n'),
        ".hidden/x.txt": b"x\n",
        "notes.md": b"n\n",
        "archive.tar.gz": b"",
        "settings.json": b"{}",
    }
    for name, content in contents.items():
        (root / name).write_bytes(content)
    DocBin(docs=[Doc(spacy.blank("xx").vocab, words=["e"])]).to_disk(root / "deep" / "e.spacy")
    return root


def test_folders_are_searched_at_any_depth_patterns_and_files_are_taken_as_they_are(folder):
    assert names(folder) == ["a.gz", "b.txt", "c.txt.xz", "e.spacy", "d.jsonl.gz"]
    assert read(str(folder))[0] == [["a"], ["b"], ["c"], ["e"], ["d"]]
    assert names(str(folder / "*.txt")) == ["b.txt"]
    assert names(str(folder / "**" / "*.gz")) == ["a.gz", "archive.tar.gz", "d.jsonl.gz"]
    assert names([folder / "notes.md", str(folder / "b.txt")]) == ["notes.md", "b.txt"]
    assert read([folder / "notes.md", folder / "b.txt"])[0] == [["n"], ["b"]]


def test_files_left_out_of_a_folder_are_reported(folder):
    told = []
    assert len(find_shards(folder, on_message=told.append)) == 5
    assert len(told) == 1 and "archive.tar.gz, notes.md, settings.json" in told[0] and ".hidden" not in told[0]
    for i in range(9):
        (folder / f"{i}.en").write_text("x\n")
    find_shards(folder, on_message=told.append)
    assert "4.en and 7 more" in told[1]
    find_shards(folder / "b.txt", on_message=told.append)
    assert len(told) == 2


def test_a_file_named_twice_is_read_once(folder):
    told = []
    places = [folder / "b.txt", str(folder / "deep" / ".." / "*.txt"), folder, folder / "b.txt"]
    assert [shard.name for shard in find_shards(places, on_message=told.append)] == [
        *("b.txt", "a.gz", "c.txt.xz", "e.spacy", "d.jsonl.gz")
    ]
    assert "read once" in told[-1] and told[-1].count("b.txt") == 3


def test_a_file_of_a_folder_with_two_names_is_read_once_by_every_reader(tmp_path):
    (tmp_path / "1.txt").write_text("a b .\n", encoding="utf8")
    (tmp_path / "same.txt").symlink_to(tmp_path / "1.txt")
    for find in (find_sources, find_shards):
        told = []
        assert [Path(source.name).name for source in find(str(tmp_path), on_message=told.append)] == ["1.txt"]
        assert "read once" in told[0] and "same.txt" in told[0]


FORMS = [os.fsencode, str, Path, lambda path: [os.fsencode(path), str(path)], lambda path: f"~/{path.name}"]


@pytest.mark.parametrize("convert", FORMS, ids=["bytes", "text", "Path", "list", "home"])
def test_places_are_paths_of_every_type(tmp_path, monkeypatch, convert):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.txt").write_text("the cat", encoding="utf8")
    for place in ("a.txt", "*.txt"):
        assert list(read_shards(find_shards(convert(tmp_path / place)))) == [["the", "cat"]]
