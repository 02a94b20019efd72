"""What files are by their first bytes."""

import gzip

import pytest
from source_kinds import (
    NOT_TEXT,
    make_docbin,
    make_json_lines,
)

from spacy_elmo.corpora.shards import find_shards, read_shards


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_text_in_another_encoding_is_named_with_what_to_do(tmp_path, encoding, compress):
    (tmp_path / "text.txt").write_bytes(compress("der Flu\u00df flie\u00dft .\n".encode(encoding)))
    with pytest.raises(ValueError, match=rf"text.txt' is text in {encoding.upper()}.*Save it as UTF-8"):
        list(read_shards(find_shards(tmp_path / "text.txt")))


@pytest.mark.parametrize("kind", NOT_TEXT)
@pytest.mark.parametrize("name", ["corpus.txt", "corpus.jsonl", "corpus"])
def test_what_is_no_text_is_named_with_what_to_do(kind, name, tmp_path):
    make, message = NOT_TEXT[kind]
    if (name, kind) == ("corpus.jsonl", "NUL after a while"):
        pytest.skip("the lines before are not JSON")
    (tmp_path / name).write_bytes(make())
    with pytest.raises(ValueError, match=message) as error:
        list(read_shards(find_shards(tmp_path / name)))
    assert name in str(error.value) and "Convert the file to UTF-8" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    "PAR1 and PAR2|BZh is short .|GIF89a is a format .|x^2 + y^2|BM 1 .|PK lends money .|MZ|{ a }|ID3 tags|".split("|")
    + 'RIFF of the bank|[ 1 ] see below|{"a" : "text"}|ORC and elf|%PDF|\u00ff\u00fe'.split("|"),
)
def test_text_that_begins_like_another_format_is_text(text, tmp_path):
    (tmp_path / "a.txt").write_text(f"{text}\nthe end\n", encoding="utf8")
    assert [*read_shards(find_shards(tmp_path / "a.txt"))][-1] == ["the", "end"]


def test_a_chosen_format_counts_more_than_the_content(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(make_json_lines())
    assert next(read_shards(find_shards(tmp_path / "a.jsonl", format="text")))[0] == '{"id":'
    (tmp_path / "docs.spacy").write_bytes(make_docbin())
    with pytest.raises(ValueError, match="is a DocBin, should be text"):
        list(read_shards(find_shards(tmp_path / "docs.spacy", format="text")))
