"""CoNLL-U becomes Docs: syntactic words, documents where they are marked."""

import codecs
import gzip
import json
import os
from pathlib import Path

import pytest
from spacy.vocab import Vocab

from spacy_elmo.corpora.labelled import SenseUse, read_conllu, read_senses

FIRST = """# sent_id = 1
1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdo\tdo\tAUX\tVBP\tMood=Ind\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\tSpaceAfter=No
2.1\tgo\tgo\tVERB\t_\t_\t_\t_\t_\t_
3\tgo\tgo\tVERB\t_\t_\t0\troot\t_\t_
"""
SECOND = "1\tGo\tgo\t_\tVB\t_\t0\troot\t_\t_\r\n"


@pytest.mark.issue(18)
@pytest.mark.parametrize("ending", ["", "\n", "\n\n\n"])
def test_sentences_become_docs(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "a.conllu.gz"
    path.write_bytes(gzip.compress(f"{FIRST}\n\n{SECOND}{ending}".encode()))
    first, second = read_conllu(path, Vocab())
    assert [token.text for token in first] == ["do", "n't", "go"] and [token.text for token in second] == ["Go"]
    assert [token.pos_ for token in first] == ["AUX", "PART", "VERB"] and second[0].pos_ == ""
    assert [token.tag_ for token in first] == ["VBP", "RB", ""] and str(first[0].morph) == "Mood=Ind"
    assert [token.dep_ for token in first] == ["aux", "advmod", "root"]


@pytest.mark.issue(18)
def test_documents_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(f"# newdoc id = a\n{FIRST}\n{SECOND}\n# newdoc id = b\n{SECOND}\n", encoding="utf8", newline="")
    first, second = read_conllu(path, Vocab())
    assert [token.is_sent_start for token in first] == [True, False, False, True] and len(second) == 1


@pytest.mark.issue(18)
def test_empty_file_has_no_docs(tmp_path: Path) -> None:
    (tmp_path / "a.conllu").write_text("\n# comment\n\n")
    assert list(read_conllu(tmp_path / "a.conllu", Vocab())) == []


@pytest.mark.issue(18)
@pytest.mark.parametrize(
    "line, problem",
    [
        ("1\tthe", "2 columns"),
        ("1\t\udcff", "not UTF-8"),
        ("x" + FIRST.splitlines()[2][1:], "no number"),
        (FIRST.splitlines()[2].replace("AUX", "VBZ"), "'VBZ' is not a universal part of speech"),
    ],
)
def test_other_lines_are_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(f"\ufeff{FIRST}\n{line}\n", encoding="utf8", errors="surrogateescape")
    with pytest.raises(ValueError, match=rf"a.conllu:8.*{problem}"):
        list(read_conllu(path, Vocab()))


@pytest.mark.issue(37)
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    for content in (FIRST, SECOND, f"# newdoc\n{FIRST}"):
        (tmp_path / "a.conllu").write_text(content, encoding="utf-8-sig")
        (doc,) = read_conllu(tmp_path / "a.conllu", Vocab())
        assert doc[0].text in ("do", "Go")


def test_line_ends_of_every_system_are_read(tmp_path: Path) -> None:
    for end in ("\n", "\r\n", "\r"):
        content = f"{FIRST}\n{SECOND}".replace("\r\n", "\n").replace("\n", end)
        (tmp_path / "a.conllu").write_bytes(content.encode("utf8"))
        assert [len(doc) for doc in read_conllu(os.fsencode(tmp_path / "a.conllu"), Vocab())] == [3, 1]


LINE = {
    "doc": "a",
    "tokens": ["The", "bank", "lends"],
    "senses": [[2, "lend", "VERB", "l.1"], [1, "bank", "NOUN", "b.1", ["k"], "m"]],
}  # noqa: E501


@pytest.mark.issue(16)
@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_sentences_have_tokens_and_uses_in_order(tmp_path: Path, suffix: str) -> None:
    content = (json.dumps(LINE) + "\n\n" + json.dumps({**LINE, "senses": []}) + "\n").encode("utf8")
    path = tmp_path / f"senses{suffix}"
    content = codecs.BOM_UTF8 + content
    path.write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
    first, second = read_senses(path)
    assert first.document == "a" and first.tokens == ["The", "bank", "lends"] and second.uses == []
    assert first.uses == [SenseUse(1, "bank", "NOUN", "b.1"), SenseUse(2, "lend", "VERB", "l.1")]


@pytest.mark.issue(16)
@pytest.mark.parametrize(
    "line, problem",
    [
        ("{", "not valid JSON"),
        ("[1]", "it is a list"),
        ('{"tokens": ["a"], "senses": []}', "'doc' is not a string"),
        ('{"doc": "a", "tokens": "a", "senses": []}', "'tokens' is not a list"),
        ('{"doc": "a", "tokens": [""], "senses": []}', "not empty"),
        ('{"doc": "a", "tokens": ["a"]}', "'senses' is not a list"),
        ('{"doc": "a", "tokens": ["a"], "senses": [[1, "a", "NOUN", "s"]]}', "of a token"),
        ('{"doc": "a", "tokens": ["a"], "senses": [[true, "a", "NOUN", "s"]]}', "of a token"),
        ('{"doc": "a", "tokens": ["a"], "senses": [[0, "a", "NOUN"]]}', "of a token"),
        ('{"doc": "a", "tokens": ["a"], "senses": ["a"]}', "of a token"),
    ],
)
def test_wrong_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "senses.jsonl"
    path.write_text(json.dumps(LINE) + "\n" + line + "\n", encoding="utf8")
    with pytest.raises(ValueError, match=r"senses.jsonl:2") as error:
        list(read_senses(path))
    assert problem in str(error.value)


@pytest.mark.issue(37)
@pytest.mark.parametrize("content", [json.dumps([LINE, LINE], indent=1), "\r".join([json.dumps(LINE)] * 2)])
def test_arrays_and_old_line_ends_are_read(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf" + content.encode("utf8"))
    assert [sentence.tokens for sentence in read_senses(os.fsencode(tmp_path / "a.json"))] == [LINE["tokens"]] * 2
