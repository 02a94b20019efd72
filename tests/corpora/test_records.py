"""Lines of JSON, arrays, rows and Docs, and what cannot be read of them."""

import gzip
import json

import pytest
import spacy
from corpora.reading import read
from source_kinds import (
    CONTENTS,
    make_docbin,
)
from spacy.tokens import Doc, DocBin

from spacy_elmo.corpora.lines import Counts
from spacy_elmo.corpora.shards import find_shards, read_shards


def test_jsonl_has_texts_or_words(tmp_path):
    path = tmp_path / "lines.jsonl"
    rows = [{"text": "one two. Three."}, {"tokens": ["a b", "\n", "c\nd", ""]}, {"words": []}, {"text": "\ud800x"}]
    path.write_text("\n".join([*map(json.dumps, rows[:2]), "", *map(json.dumps, rows[2:])]), encoding="utf8")
    sentences, counts = read(path)
    assert sentences == [["one", "two.", "Three."], ["a b", "c d"], ["\ufffdx"]]
    assert counts == Counts(n_empty=2, n_undecodable=1)
    assert read(path, lang="en", running_text=True)[0][:3] == [["one", "two", "."], ["Three", "."], ["a b", "c d"]]


def test_docbin_is_read_by_sentences(tmp_path):
    vocab = spacy.blank("en").vocab
    docs = [
        Doc(vocab, words=["a", ".", " ", "b", "."], sent_starts=[True, False, False, True, False]),
        Doc(vocab, words=["c", ".", "d"]),
        Doc(vocab, words=["\n"]),
    ]
    DocBin(docs=docs, attrs=["ORTH", "SENT_START"]).to_disk(tmp_path / "docs.spacy")
    sentences, counts = read(tmp_path / "docs.spacy")
    assert sentences == [["a", "."], ["b", "."], ["c", ".", "d"]] and counts == Counts(n_empty=1)
    assert read(tmp_path / "docs.spacy", running_text=True)[0][2:] == [["c", "."], ["d"]]
    (tmp_path / "docs.spacy.gz").write_bytes(gzip.compress((tmp_path / "docs.spacy").read_bytes()))
    assert read(tmp_path / "docs.spacy.gz") == (sentences, counts)


RECORDS = [{"words": ["the", "cat"]}, {"text": "sat on"}, {"tokens": ["m\u00e4t"]}, {"text": ""}]

WANTED = [["the", "cat"], ["sat", "on"], ["m\u00e4t"]]


@pytest.mark.parametrize("indent", [None, 2], ids=["one line", "several lines"])
@pytest.mark.parametrize("name", ["a.json", "a.ndjson", "a.json.gz"])
def test_array_of_objects_is_read_like_json_lines(tmp_path, name, indent):
    content = ("\n " + json.dumps(RECORDS, indent=indent, ensure_ascii=False)).encode("utf8")
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert list(read_shards(find_shards(tmp_path / name))) == WANTED


BAD = {
    "cut": ("a.jsonl", '{"text": "a"}\n{"text"', "a.jsonl:2 .*column 8"),
    "no text": ("a.jsonl", '{"title": "a"}\n', "title"),
    "number in words": (
        "a.jsonl",
        '{"words": ["In", 1999, ","], "text": "a"}',
        r"a.jsonl:1 .*1999 \(int\) among its words",
    ),
    "null in words": ("a.jsonl", '{"words": ["In", null], "text": "a"}', "a.jsonl:1 .*a null among its words"),
    "list in words": ("a.jsonl", '{"tokens": [["In"]], "text": "a"}', r"\['In'\] \(list\) among its words"),
    "null for words": ("a.jsonl", '{"tokens": null, "text": "a"}', "a list of strings"),
    "text for words": ("a.jsonl", '{"words": "In 1999", "text": "a"}', "a list of strings"),
    "element": ("a.json", '[{"text": "a"}, 5]', r"element 2 is '5'"),
    "strings": ("a.json", '["a", "b"]', r"element 1 is '\"a\"'"),
    "cut array": ("a.json", '[{"text": "a"}\n', "array of objects"),
    "two arrays": ("a.json", '[{"text": "a"}]\n[{"text": "b"}]', "array of objects"),
    "deep": ("a.json", "[" * 5000, "array of objects"),
    "object": ("a.json", '{\n"text": "a"\n}', "one JSON object per line"),
    "docbin": ("a.spacy", "x", r"[^.]\. Write"),
    "null in Parquet": ("a.parquet", {"words": [["a"], ["a", None]]}, "a.parquet, row 2 has a null"),
    "data set": ("hf:null words", None, "column 'tokens' of the data set 'hf:null words:train' has a null"),
    "no files": ("*.none", None, "There are no texts .*: no file or folder has this path, or matches"),
    "no texts": ("", None, "There are no texts .*: the folder has no files that end in .txt, "),
    "surrogate": ("hf:caf\udce9:train", None, r"caf\\\\udce9"),
    "surrogate in a name": ("caf\udce9.txt", "a\n", r"caf\\\\udce9"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_read_is_named_by_its_place(case, package, tmp_path):
    name, content, problem = BAD[case]
    if isinstance(content, dict):
        pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
        pytest.importorskip("pyarrow.parquet", reason="needs pyarrow").write_table(pa.table(content), tmp_path / name)
    elif content is not None:
        (tmp_path / name).write_text(content, encoding="utf8")
    with pytest.raises(ValueError, match=problem):
        read(name if name.startswith("hf:") else str(tmp_path / ("" if name.startswith("caf") else name)))


def test_a_number_of_words_beside_a_text_is_no_list_of_words(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"words": 2, "text": "In 1999"}\n{"tokens": 2, "text": "a b"}', encoding="utf8")
    assert read(tmp_path / "a.jsonl")[0] == [["In", "1999"], ["a", "b"]]
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    parquet.write_table(pa.table({"tokens": [2], "text": ["a b"]}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet")[0] == [["a", "b"]]


@pytest.mark.parametrize(
    "kind, message", [("text", "it is text"), ("JSON lines", "it is text"), ("Parquet", "it is a Parquet file")]
)
def test_what_is_no_docbin_is_named(kind, message, tmp_path):
    (tmp_path / "docs.spacy").write_bytes(CONTENTS[kind][1]())
    with pytest.raises(ValueError, match=f"docs.spacy' cannot be read as a DocBin: {message}. Write"):
        list(read_shards(find_shards(tmp_path / "docs.spacy", format="docbin")))


@pytest.mark.parametrize("content", [b"", make_docbin()[:-50], b"\xff\xfe\x01" * 50])
def test_a_damaged_docbin_is_not_named_as_text(content, tmp_path):
    (tmp_path / "docs.spacy").write_bytes(content)
    with pytest.raises(ValueError, match="docs.spacy' cannot be read as a DocBin: ") as error:
        list(read_shards(find_shards(tmp_path / "docs.spacy", format="docbin")))
    assert "it is text." not in str(error.value)
