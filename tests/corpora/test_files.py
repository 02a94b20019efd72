"""Lines of plain and compressed files."""

import gzip
import io
import lzma

import pytest

from spacy_elmo import util
from spacy_elmo.corpora.files import decode, open_bytes, read_lines

TEXT = "der Fluß fließt .\n\nsie saß\n".encode() * 50
CHINESE = "水边的老磨坊".encode() * 20


def _zstd(content):
    return pytest.importorskip("zstandard").ZstdCompressor().compress(content)


def _read(path, content):
    path.write_bytes(content)
    with open_bytes(path) as file:
        return list(read_lines(file))


def _lines(content, **settings):
    return list(read_lines(io.BytesIO(content), **settings))


@pytest.mark.parametrize(
    "suffix, compress", [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress), (".zst", _zstd)]
)
def test_files_are_decompressed_by_suffix_or_first_bytes_with_all_their_members(tmp_path, suffix, compress):
    for name in (f"text{suffix}", "text.txt"):
        assert _read(tmp_path / name, compress(TEXT) * 2) == (TEXT * 2).splitlines(keepends=True)


@pytest.mark.parametrize("suffix, compress", [(".gz", gzip.compress), (".xz", lzma.compress), (".zst", _zstd)])
def test_damaged_files_are_errors(tmp_path, suffix, compress):
    content = compress(TEXT)
    for damaged in (b"x" * 50, content[:-20]):
        with pytest.raises(ValueError, match=rf"EL108.*text\{suffix}"):
            _read(tmp_path / f"text{suffix}", damaged)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_text_in_another_encoding_is_named_with_what_to_do(tmp_path, encoding, compress):
    with pytest.raises(ValueError, match=rf"text.txt' is text in {encoding.upper()}.*Save it as UTF-8"):
        _read(tmp_path / "text.txt", compress(TEXT.decode().encode(encoding)))


def test_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(util, "has_zstandard", False)
    with pytest.raises(ValueError, match="pip install zstandard"):
        _read(tmp_path / "text.zst", b"")


@pytest.mark.parametrize("longest", [10, 16, 29])
@pytest.mark.parametrize(
    "content",
    [*(b"aa bbb cccc d\n" + b"eeeee " * n + b"f\ng" for n in range(1, 40)), b"xx " + b"abcdefgh\t" * 9 + b"\nyy"]
    + [CHINESE, CHINESE + b"\n" + CHINESE],
)
def test_long_lines_are_split_between_tokens_or_characters_with_and_without_a_byte_order_mark(content, longest):
    pieces = _lines(content, longest=longest)
    assert b"".join(pieces) == content and all(len(piece) < 2 * longest for piece in pieces)
    assert b" ".join(pieces).split() == content.split() or content.startswith(CHINESE)
    assert all(decode(piece)[1] == 0 for piece in pieces)
    assert _lines(b"\xef\xbb\xbf" + content, longest=longest) == pieces


def test_decode_counts_what_it_replaces():
    assert decode("saß\n".encode()) == ("saß\n", 0)
    assert decode(b"sa\xdf and \xff") == ("sa\ufffd and \ufffd", 2)
    assert decode("\ufffd ".encode("utf8") + b"\xdf") == ("\ufffd \ufffd", 1)


@pytest.mark.parametrize("longest", [1 << 20, 4, 3, 2])
@pytest.mark.parametrize(
    "content", [b"a b\rc\r\rd", b"a\r\nb\rc\n", b"a\r\r\nb\r", b"\r\n\r\n", b"\r", b"caf\xc3\xa9\r\nx", b""]
)
def test_lines_end_in_cr_lf_or_both_as_python_reads_them(content, longest):
    found = _lines(content, longest=longest)
    assert b"".join(found) == content
    if longest > len(content):
        wanted = io.TextIOWrapper(io.BytesIO(content), encoding="utf8")
        assert [line.rstrip(b"\r\n").decode() for line in found] == [line.rstrip("\n") for line in wanted]
        assert _lines(b"\xef\xbb\xbf" + content) == found
    else:  # no chunk has the ends of two lines
        assert all(len(chunk.splitlines()) == 1 for chunk in found)
