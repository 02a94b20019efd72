"""Corpora in files, folders, patterns and data sets, in every format."""

import gzip
import io
import json
import lzma
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import spacy
from spacy.tokens import Doc, DocBin
from typer.testing import CliRunner

from spacy_elmo import util
from spacy_elmo.cli._app import app
from spacy_elmo.corpora.lines import Counts
from spacy_elmo.corpora.places import find_sources
from spacy_elmo.corpora.records import read_records
from spacy_elmo.corpora.shards import find_shards, read_shards
from spacy_elmo.corpora.sources import make_source
from spacy_elmo.corpora.texts import PunctuationCheck, SentenceCutter, find_word, make_nlp, make_splitter, to_doc
from spacy_elmo.explorer.reading import TextSplitter

RUNNING = "She sat on the bank. It was late!\nNobody came."
TOKENIZED = "she sat .\nit was late ."


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


def _read(places, **settings):
    counts = Counts()
    return [tokens for shard in find_shards(places, **settings) for tokens in shard.read(counts)], counts


def _names(places, **settings):
    return [shard.name for shard in find_shards(places, **settings)]


def test_folders_are_searched_at_any_depth_patterns_and_files_are_taken_as_they_are(folder):
    assert _names(folder) == ["a.gz", "b.txt", "c.txt.xz", "e.spacy", "d.jsonl.gz"]
    assert _read(str(folder))[0] == [["a"], ["b"], ["c"], ["e"], ["d"]]
    assert _names(str(folder / "*.txt")) == ["b.txt"]
    assert _names(str(folder / "**" / "*.gz")) == ["a.gz", "archive.tar.gz", "d.jsonl.gz"]
    assert _names([folder / "notes.md", str(folder / "b.txt")]) == ["notes.md", "b.txt"]
    assert _read([folder / "notes.md", folder / "b.txt"])[0] == [["n"], ["b"]]


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


@pytest.mark.issue(59)
def test_a_file_of_a_folder_with_two_names_is_read_once_by_every_reader(tmp_path):
    (tmp_path / "1.txt").write_text("a b .\n", encoding="utf8")
    (tmp_path / "same.txt").symlink_to(tmp_path / "1.txt")
    for find in (find_sources, find_shards):
        told = []
        assert [Path(source.name).name for source in find(str(tmp_path), on_message=told.append)] == ["1.txt"]
        assert "read once" in told[0] and "same.txt" in told[0]


def test_language_tokenizes_raw_text(tmp_path):
    path = tmp_path / "raw.txt"
    path.write_bytes(b"She didn't  sit.\n\n  \nIt\xff was.")
    sentences, counts = _read(path, lang="en")
    assert sentences == [["She", "did", "n't", "sit", "."], ["It", "\ufffd", "was", "."]]
    assert counts == Counts(n_empty=2, n_undecodable=1)
    with pytest.raises(ValueError, match="'qq'"):
        find_shards(path, lang="qq")


def test_all_commands_split_at_the_same_spaces(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("a\tb\u00a0c\u3000d\u2028e\x85f  g\u200bh\r\n", encoding="utf8")
    words = ["a", "b", "c", "d", "e", "f", "g\u200bh"]
    assert _read(path)[0] == _read(path, running_text=True)[0] == [words]
    (record,) = read_records(make_source(path), spacy.blank("xx"), Counts(), is_tokenized=True)
    assert record.item == words
    for command in ("embed", "vocab", "perplexity"):
        assert "any Unicode white space" in " ".join(CliRunner().invoke(app, [command, "--help"]).output.split())


def test_running_text_is_cut_into_sentences(tmp_path):
    path = tmp_path / "raw.txt"
    path.write_text(RUNNING, encoding="utf8")
    assert list(map(len, _read(path, lang="en", running_text=True)[0])) == [6, 4, 3]
    path.write_text('" she sat . " it was late !\nnobody came', encoding="utf8")
    assert list(map(len, _read(path, running_text=True)[0])) == [5, 4, 2]


def test_jsonl_has_texts_or_words(tmp_path):
    path = tmp_path / "lines.jsonl"
    rows = [{"text": "one two. Three."}, {"tokens": ["a b", "\n", "c\nd", ""]}, {"words": []}, {"text": "\ud800x"}]
    path.write_text("\n".join([*map(json.dumps, rows[:2]), "", *map(json.dumps, rows[2:])]), encoding="utf8")
    sentences, counts = _read(path)
    assert sentences == [["one", "two.", "Three."], ["a b", "c d"], ["\ufffdx"]]
    assert counts == Counts(n_empty=2, n_undecodable=1)
    assert _read(path, lang="en", running_text=True)[0][:3] == [["one", "two", "."], ["Three", "."], ["a b", "c d"]]


def test_docbin_is_read_by_sentences(tmp_path):
    vocab = spacy.blank("en").vocab
    docs = [
        Doc(vocab, words=["a", ".", " ", "b", "."], sent_starts=[True, False, False, True, False]),
        Doc(vocab, words=["c", ".", "d"]),
        Doc(vocab, words=["\n"]),
    ]
    DocBin(docs=docs, attrs=["ORTH", "SENT_START"]).to_disk(tmp_path / "docs.spacy")
    sentences, counts = _read(tmp_path / "docs.spacy")
    assert sentences == [["a", "."], ["b", "."], ["c", ".", "d"]] and counts == Counts(n_empty=1)
    assert _read(tmp_path / "docs.spacy", running_text=True)[0][2:] == [["c", "."], ["d"]]
    (tmp_path / "docs.spacy.gz").write_bytes(gzip.compress((tmp_path / "docs.spacy").read_bytes()))
    assert _read(tmp_path / "docs.spacy.gz") == (sentences, counts)


def test_stdin_is_a_place(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TOKENIZED.encode("utf8"))))
    assert _names("-") == ["stdin"]
    assert _read("-")[0] == [["she", "sat", "."], ["it", "was", "late", "."]]


LINE = "=" * 700


@pytest.mark.issue(48)
@pytest.mark.parametrize(
    "read",
    [
        lambda text: [token.text for token in to_doc(text, make_nlp("en"))],
        lambda text: SentenceCutter("en").cut(text)[0],
        lambda text: find_word(make_splitter("en"), text, LINE)[0],
        lambda text: [token.text for token in TextSplitter("en").read(text)],
    ],
    ids=["embed", "corpora", "words", "explorer"],
)
def test_a_long_run_of_signs_is_one_token(read):
    words = ["It", "'s", "(", "a", ")", LINE, "(", "b", ")", ",", "too", "."]
    assert read(f"It's (a) {LINE} (b), too.") == words


@pytest.mark.issue(48)
@pytest.mark.parametrize("text", [f"a{LINE}", f"{LINE}  b\n{LINE}\n", f"\n {LINE} {LINE}", f"{LINE} "])
def test_tokens_of_long_runs_join_to_the_text(text):
    assert to_doc(text, make_nlp("en")).text == text
    assert len(to_doc("\u6c49" * 700, spacy.blank("zh"))) == 700  # its tokenizer needs no white space


def test_texts_longer_than_spacy_likes_are_read():
    assert SentenceCutter("en").cut(" " * 1_000_001 + "x") == [["x"]]


@pytest.mark.parametrize("kind", ["text", "jsonl", "docbin", "json", "rows"])
def test_every_kind_continues_from_a_stored_position(package, tmp_path, kind):
    path = tmp_path / "corpus"
    texts = [RUNNING.replace("\n", " "), "", *(f"Sentence {i}. And {i}." for i in range(300))]
    if kind == "docbin":
        nlp = spacy.blank("en")
        DocBin(docs=[nlp.make_doc(text) for text in texts]).to_disk(path)
    elif kind == "json":
        path.write_text(json.dumps([{"text": text} for text in texts]), encoding="utf8")
    else:
        lines = texts if kind == "text" else [json.dumps({"text": text}) for text in texts]
        path.write_text("\n".join(lines), encoding="utf8")
    format = {"json": "jsonl", "rows": "auto"}.get(kind, kind)
    (shard,) = find_shards("hf:text" if kind == "rows" else path, lang="en", format=format, running_text=True)
    records = list(shard.read_records(Counts()))
    for n_records in (1, 2, len(records) // 2, len(records)):
        assert list(shard.read_records(Counts(), skip=n_records)) == records[n_records:]
    with pytest.raises(ValueError, match=f"record {len(records) + 2}|ends before"):
        list(shard.read_records(Counts(), skip=len(records) + 2))
    with pytest.raises(ValueError, match="'csv'"):
        find_shards(path, format="csv")


RECORDS = [{"words": ["the", "cat"]}, {"text": "sat on"}, {"tokens": ["m\u00e4t"]}, {"text": ""}]
WANTED = [["the", "cat"], ["sat", "on"], ["m\u00e4t"]]


@pytest.mark.parametrize("indent", [None, 2], ids=["one line", "several lines"])
@pytest.mark.parametrize("name", ["a.json", "a.ndjson", "a.json.gz"])
def test_array_of_objects_is_read_like_json_lines(tmp_path, name, indent):
    content = ("\n " + json.dumps(RECORDS, indent=indent, ensure_ascii=False)).encode("utf8")
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert list(read_shards(find_shards(tmp_path / name))) == WANTED


FORMS = [os.fsencode, str, Path, lambda path: [os.fsencode(path), str(path)], lambda path: f"~/{path.name}"]


@pytest.mark.parametrize("convert", FORMS, ids=["bytes", "text", "Path", "list", "home"])
def test_places_are_paths_of_every_type(tmp_path, monkeypatch, convert):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.txt").write_text("the cat", encoding="utf8")
    for place in ("a.txt", "*.txt"):
        assert list(read_shards(find_shards(convert(tmp_path / place)))) == [["the", "cat"]]


ROWS = {
    "text": [{"id": 1, "text": "a b"}, {"id": 2, "text": ""}, {"id": 3, "text": "c"}],
    "nulls": [{"text": "a b"}, {"text": None}, {"text": "c"}],
    "tokens": [{"tokens": ["a", "b"]}, {"tokens": []}, {"tokens": ["c"]}],
    "null words": [{"tokens": ["a", None], "text": "a b"}],
}


class _Rows(list):
    split = None

    def skip(self, n):
        if n >= len(self):
            raise IndexError(n)  # as `datasets.Dataset` does
        return _Rows(self[n:])


@pytest.fixture
def package(monkeypatch):
    """A package that stands in for `datasets`, and remembers what it was asked for."""
    calls = []

    def load_dataset(name, config, *, split, streaming):
        calls.append((name, config, split, streaming))
        if name not in ROWS:
            raise FileNotFoundError(f"no {name}")
        return _Rows(ROWS[name])

    def load_from_disk(name):
        return {"train": _Rows(ROWS["text"])} if "split" in name else _Rows(ROWS["tokens"])

    fake = SimpleNamespace(load_dataset=load_dataset, load_from_disk=load_from_disk)
    monkeypatch.setattr(util, "has_datasets", True)
    monkeypatch.setitem(sys.modules, "datasets", fake)
    return calls


def _read_rows(place):
    counts = Counts()
    (shard,) = find_shards(place)
    return shard.name, list(shard.read(counts)), counts


@pytest.mark.parametrize(
    "place, call",
    [
        ("hf:text", ("text", None, "train", True)),
        ("hf:text:validation", ("text", None, "validation", True)),
        ("hf:text@raw:test:text", ("text", "raw", "test", True)),
        ("hf:tokens", ("tokens", None, "train", True)),
        ("hf:nulls", ("nulls", None, "train", True)),
        ("hf:nulls:dev:text", ("nulls", None, "dev", True)),
    ],
)
def test_place_names_data_set_split_and_column(package, place, call):
    name, sentences, counts = _read_rows(place)
    assert package == [call] and call[2] in name
    assert sentences == [["a", "b"], ["c"]] and counts == Counts(n_empty=1)


@pytest.mark.parametrize("marker, name", [("dataset_dict.json", "with_splits"), ("state.json", "one")])
@pytest.mark.parametrize("prefix", ["", "hf:"])
def test_saved_folder_is_opened(package, tmp_path, marker, name, prefix):
    (tmp_path / name).mkdir()
    (tmp_path / name / marker).write_text("{}")
    shard_name, sentences, _ = _read_rows(f"{prefix}{tmp_path / name}")
    assert shard_name == f"hf:{name}:train" and sentences == [["a", "b"], ["c"]]


@pytest.mark.issue(52)
def test_texts_of_data_sets_that_differ_have_other_identities(package, monkeypatch):
    places = ("hf:text", "hf:text:dev", "hf:text@raw", "hf:text:train:text", "hf:tokens")
    identities = [str(shard.identity()) for place in places for shard in find_shards(place)]
    monkeypatch.setattr(_Rows, "_fingerprint", "1a2b", raising=False)
    assert len({*identities, str(find_shards("hf:text")[0].identity())}) == 6


def test_errors_say_what_is_missing(package, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="'hf:none:train'.*: no none"):
        find_shards("hf:none")
    with pytest.raises(ValueError, match=r"it has id \(int\), text \(str\), should have id"):
        _read_rows("hf:text:train:id")
    for name, message in (
        ("one", "no split 'dev', only"),
        ("splits", "no split 'dev', only: train"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "state.json").write_text("{}")
        with pytest.raises(ValueError, match=message):
            find_shards(f"hf:{tmp_path / name}:dev")
    monkeypatch.setattr(util, "has_datasets", False)
    with pytest.raises(ValueError, match="pip install datasets"):
        find_shards("hf:text")


@pytest.mark.parametrize(
    "text, is_raw",
    [
        ('He said "quoted". She sat, too.', True),
        ('He said " quoted " . She sat , too .', False),
        ("Das Haus, das er sah, war alt.", True),
        ("Das Haus , das er sah , war alt .", False),
        ("我们坐在河边。 天气很好！", True),
        ("我们 坐 在 河 边 。 天气 很 好 ！", False),
        ("the dogs' bowls and well-known things - ... --", False),
        ("", False),
    ],
)
def test_raw_text_is_told_from_tokens(text, is_raw):
    check = PunctuationCheck()
    assert list(check.watch([text.split()])) == [text.split()]
    assert ("WL103" in (check.warning(["a.txt"]) or "")) == is_raw


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
    "no files": ("*.none", None, "There are no texts"),
    "surrogate": ("hf:caf\udce9:train", None, r"caf\\\\udce9"),
    "surrogate in a name": ("caf\udce9.txt", "a\n", r"caf\\\\udce9"),
}


@pytest.mark.issue(48)
@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_read_is_named_by_its_place(case, package, tmp_path):
    name, content, problem = BAD[case]
    if isinstance(content, dict):
        pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
        pytest.importorskip("pyarrow.parquet", reason="needs pyarrow").write_table(pa.table(content), tmp_path / name)
    elif content is not None:
        (tmp_path / name).write_text(content, encoding="utf8")
    with pytest.raises(ValueError, match=problem):
        _read(name if name.startswith("hf:") else str(tmp_path / ("" if name.startswith("caf") else name)))


@pytest.mark.issue(48)
def test_a_number_of_words_beside_a_text_is_no_list_of_words(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"words": 2, "text": "In 1999"}\n{"tokens": 2, "text": "a b"}', encoding="utf8")
    assert _read(tmp_path / "a.jsonl")[0] == [["In", "1999"], ["a", "b"]]
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    parquet.write_table(pa.table({"tokens": [2], "text": ["a b"]}), tmp_path / "a.parquet")
    assert _read(tmp_path / "a.parquet")[0] == [["a", "b"]]
