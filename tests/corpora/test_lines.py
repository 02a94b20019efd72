"""Lines in bounded memory, as text and as JSON."""

import io

import pytest

from spacy_elmo.corpora.lines import decode_line, parse_line, read_lines

CHINESE = "水边的老磨坊".encode() * 20


def _lines(content, **settings):
    return list(read_lines(io.BytesIO(content), **settings))


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
    assert all(decode_line(piece)[1] == 0 for piece in pieces)
    assert _lines(b"\xef\xbb\xbf" + content, longest=longest) == pieces


def test_decode_counts_what_it_replaces():
    assert decode_line("saß\n".encode()) == ("saß\n", 0)
    assert decode_line(b"sa\xdf and \xff") == ("sa\ufffd and \ufffd", 2)
    assert decode_line("\ufffd ".encode("utf8") + b"\xdf") == ("\ufffd \ufffd", 1)


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


def test_lines_with_nul_bytes_are_errors_that_show_the_place():
    with pytest.raises(ValueError, match=r"a.txt has a line with NUL bytes, at b'the b\\x00ank'"):
        decode_line(b"the b\0ank", "a.txt")


@pytest.mark.parametrize("depth", [100_000])
def test_json_that_is_nested_too_deeply_is_an_error(depth):
    for start, end in (("[", "]"), ('{"a": ', "}")):
        with pytest.raises(ValueError, match="nested too deeply|column"):
            parse_line('{"text": "a", "x": ' + start * depth + "1" + end * depth + "}")
    with pytest.raises(ValueError, match="column 8"):
        parse_line('{"text"')
