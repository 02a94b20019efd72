"""Lines of plain and compressed files."""

import gzip
import io
import lzma

import pytest

from spacy_elmo import util
from spacy_elmo.corpora.files import decode, open_bytes, read_lines, skip_items

TEXT = "der Fluß fließt .\n\nsie saß\n".encode() * 50


def _lines(content, **settings):
    return list(read_lines(io.BytesIO(content), **settings))


@pytest.mark.parametrize("suffix, compress", [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_files_are_decompressed_by_suffix(tmp_path, suffix, compress):
    path = tmp_path / f"text.txt{suffix}"
    path.write_bytes(compress(TEXT))
    with open_bytes(path) as file:
        assert list(read_lines(file)) == TEXT.splitlines(keepends=True)


@pytest.mark.issue(37)
@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_files_are_decompressed_by_their_first_bytes(tmp_path, compress):
    (tmp_path / "text.txt").write_bytes(compress(TEXT))
    with open_bytes(tmp_path / "text.txt") as file:
        assert file.read() == TEXT


@pytest.mark.issue(37)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_text_in_another_encoding_is_named_with_what_to_do(tmp_path, encoding, compress):
    (tmp_path / "text.txt").write_bytes(compress(TEXT.decode().encode(encoding)))
    with pytest.raises(ValueError, match=rf"text.txt' is text in {encoding.upper()}.*Save it as UTF-8"):
        with open_bytes(tmp_path / "text.txt"):
            pass


def test_several_members_of_one_file_are_all_read(tmp_path):
    for suffix, compress in ((".gz", gzip.compress), (".xz", lzma.compress)):
        path = tmp_path / f"text{suffix}"
        path.write_bytes(compress(TEXT) + compress(TEXT))
        with open_bytes(path) as file:
            assert file.read() == TEXT * 2


def test_zstandard_is_read(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    path = tmp_path / "text.zst"
    frame = zstandard.ZstdCompressor().compress(TEXT)
    path.write_bytes(frame + frame)
    with open_bytes(path) as file:
        assert b"".join(read_lines(file)) == TEXT * 2
    path.write_bytes(b"no such thing")
    with pytest.raises(ValueError, match="EL108"), open_bytes(path) as file:
        list(read_lines(file))


def test_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(util, "has_zstandard", False)
    (tmp_path / "text.zst").write_bytes(b"")
    with pytest.raises(ValueError, match="pip install zstandard"), open_bytes(tmp_path / "text.zst"):
        pass


@pytest.mark.parametrize("suffix, compress", [(".gz", gzip.compress), (".xz", lzma.compress)])
@pytest.mark.parametrize("damage", [lambda content: content[:-20], lambda content: b"x" * 50])
def test_damaged_files_are_errors(tmp_path, suffix, compress, damage):
    path = tmp_path / f"text{suffix}"
    path.write_bytes(damage(compress(TEXT)))
    with pytest.raises(ValueError, match="EL108"), open_bytes(path) as file:
        list(read_lines(file))


def test_byte_order_mark_is_no_part_of_the_text():
    assert _lines(b"\xef\xbb\xbfone\ntwo") == [b"one\n", b"two"]
    assert _lines(b"") == _lines(b"\xef\xbb\xbf") == []


@pytest.mark.parametrize("length", range(1, 40))
def test_long_lines_are_split_between_tokens(length):
    content = b"aa bbb cccc d\n" + b"eeeee " * length + b"f\ng"
    pieces = _lines(content, longest=16)
    assert b"".join(pieces) == content and all(len(piece) < 32 for piece in pieces)
    assert b" ".join(pieces).split() == content.split()


def test_long_lines_without_spaces_are_cut_between_characters():
    content = "水边的老磨坊".encode() * 20
    pieces = _lines(content, longest=10)
    assert b"".join(pieces) == content and all(decode(piece)[1] == 0 for piece in pieces)


def test_long_first_lines_are_cut_alike_with_a_byte_order_mark():
    words = b"xx " + b"abcdefgh\t" * 9
    text = "水边的老磨坊".encode() * 9
    for longest in range(10, 30):
        for content in (words, words + b"\nyy", text, text + b"\n" + text):
            pieces = _lines(b"\xef\xbb\xbf" + content, longest=longest)
            assert pieces == _lines(content, longest=longest)
            assert b" ".join(pieces).split() == content.split() or content.startswith(text)
            assert all(decode(piece)[1] == 0 for piece in pieces)


def test_decode_counts_what_it_replaces():
    assert decode("saß\n".encode()) == ("saß\n", 0)
    assert decode(b"sa\xdf and \xff") == ("sa\ufffd and \ufffd", 2)
    assert decode("\ufffd ".encode("utf8") + b"\xdf") == ("\ufffd \ufffd", 1)


def test_skip_items_wants_enough_items():
    assert list(skip_items(iter("abc"), 2, name="text")) == ["c"]
    assert list(skip_items(iter("abc"), 3, name="text")) == []
    with pytest.raises(ValueError, match="'text' .*record 4"):
        skip_items(iter("abc"), 4, name="text")


@pytest.mark.issue(37)
@pytest.mark.parametrize("longest", [1 << 20, 4, 3, 2])
@pytest.mark.parametrize(
    "content", [b"a b\rc\r\rd", b"a\r\nb\rc\n", b"a\r\r\nb\r", b"\r\n\r\n", b"\r", b"caf\xc3\xa9\r\nx"]
)
def test_lines_end_in_cr_lf_or_both_as_python_reads_them(content, longest):
    found = _lines(content, longest=longest)
    assert b"".join(found) == content
    if longest > len(content):
        assert [line.rstrip(b"\r\n").decode() for line in found] == [
            line.rstrip("\n") for line in io.TextIOWrapper(io.BytesIO(content), encoding="utf8")
        ]
    else:  # no chunk has the ends of two lines
        assert all(len(chunk.splitlines()) == 1 for chunk in found)
