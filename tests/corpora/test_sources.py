"""Compression by content, streams that are looked at."""

import bz2
import gzip
import lzma
import os
from pathlib import Path

import pytest
import spacy
from source_kinds import (
    CONTENTS,
    N_TOKENS,
    PLAIN,
    SENTENCES,
    make_zstd,
    needs_pipes,
    open_pipe,
)

from spacy_elmo import util
from spacy_elmo.corpora.lines import Counts, read_lines
from spacy_elmo.corpora.records import read_records
from spacy_elmo.corpora.shards import choose_cutter, find_shards, read_first, read_shards
from spacy_elmo.corpora.sources import COMPRESSION_SUFFIXES, make_source

TEXT = "der Flu\u00df flie\u00dft .\n\nsie sa\u00df\n".encode() * 50


def _read(path, content):
    path.write_bytes(content)
    with make_source(path).open_as_text() as file:
        return list(read_lines(file))


@pytest.mark.parametrize(
    "suffix, compress",
    [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".zst", make_zstd)],
)
def test_files_are_decompressed_by_suffix_or_first_bytes_with_all_their_members(tmp_path, suffix, compress):
    for name in (f"text{suffix}", "text.txt"):
        assert _read(tmp_path / name, compress(TEXT) * 2) == (TEXT * 2).splitlines(keepends=True)


@pytest.mark.parametrize(
    "suffix, compress",
    [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".zst", make_zstd)],
)
def test_damaged_files_are_errors(tmp_path, suffix, compress):
    content = compress(TEXT)
    # The second member too: its beginning, its middle (Zstandard has no checksum), its end; and what is no member.
    places = (0, 1) if suffix == ".zst" else (0, 1, len(content) // 2)
    members = [content + content[:n] + b"x" + content[n + 1 :] for n in places]
    for damaged in (b"x" * 50, content[:-20], *members, content + content[:-20], content + b"x" * 50):
        with pytest.raises(ValueError, match=rf"EL108.*text\{suffix}"):
            _read(tmp_path / f"text{suffix}", damaged)


@pytest.mark.parametrize("suffix, compress", [(".bz2", bz2.compress), (".xz", lzma.compress)])
def test_zeros_between_and_after_compressed_streams_are_no_text(tmp_path, suffix, compress):
    content = compress(TEXT) + bytes(8)
    assert _read(tmp_path / f"text{suffix}", content * 2) == (TEXT * 2).splitlines(keepends=True)


@pytest.mark.parametrize("suffix, compress", [(".bz2", bz2.compress), (".xz", lzma.compress)])
def test_much_text_in_a_small_compressed_file_is_read_in_parts(tmp_path, suffix, compress):
    (tmp_path / f"text{suffix}").write_bytes(compress(b"a b c\n" * 2_000_000))
    with make_source(tmp_path / f"text{suffix}").open_as_text() as file:
        assert sum(map(len, iter(lambda: file.read1(1 << 20), b""))) == 12_000_000


def test_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(util, "has_zstandard", False)
    with pytest.raises(ValueError, match="pip install zstandard"):
        _read(tmp_path / "text.zst", b"")


@pytest.mark.parametrize("kind", CONTENTS)
def test_compression_and_format_are_those_of_the_content(kind, tmp_path):
    name, make = CONTENTS[kind]
    (tmp_path / name).write_bytes(make())
    counts = Counts()
    assert [*read_shards(find_shards(tmp_path / name), counts)] == SENTENCES
    assert counts.n_undecodable == 0
    records = read_records(make_source(tmp_path / name), spacy.blank("xx"), Counts(), is_tokenized=True)
    assert sum(len(record.item) for record in records) == N_TOKENS
    searched = {".txt", ".jsonl", ".spacy", ".parquet"}
    if searched.intersection(suffix.lower() for suffix in Path(name).suffixes):
        assert [shard.name for shard in find_shards(tmp_path)] == [name]


@needs_pipes
def test_a_stream_is_looked_at_often_and_read_once():
    with open_pipe(PLAIN) as name:
        shards = find_shards(name)
        for _ in range(2):
            assert next(read_first(shards)) == SENTENCES[0]
        assert len(list(read_shards(choose_cutter(shards, lang="en")))) == 300
        with pytest.raises(ValueError, match=f"'{name}' can be read only once"):
            list(read_shards(shards))


def test_devices_are_streams():
    assert make_source(os.devnull).stream is not None
    assert list(read_shards(find_shards(os.devnull))) == []
    if Path("/dev/zero").exists():
        with pytest.raises(ValueError, match="NUL bytes"):
            list(read_shards(find_shards("/dev/zero")))


def test_recipes_of_a_pretraining_name_every_compression_and_format():
    for config in (Path(__file__).parents[2] / "configs").glob("pretrain_*.cfg"):
        line = next(line for line in config.read_text("utf8").splitlines() if line.startswith("# Training text"))
        assert [
            suffix for suffix in (*COMPRESSION_SUFFIXES, ".jsonl", ".spacy", ".parquet") if suffix not in line
        ] == []
