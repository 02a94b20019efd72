"""CoNLL-U becomes Docs: syntactic words, documents where they are marked."""

import codecs
import gzip
import json
import os
from pathlib import Path
from typing import List

import pytest
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_elmo.corpora.labelled import SenseUse, read_conllu, read_senses

FIRST = """# sent_id = 1
1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdo\tdo\tAUX\tVBP\tMood=Ind\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\tSpaceAfter=No
2.1\tgo\tgo\tVERB\t_\t_\t_\t_\t_\t_
3\tgo\tgo\tVERB\t_\t_\t0\troot\t_\t_
"""
SECOND = "1\tGo\tgo\t_\tVB\t_\t0\troot\t_\t_\n"


def _read(path: Path, content: str) -> List[Doc]:
    path.write_bytes(content.encode("utf8", "surrogateescape"))
    return list(read_conllu(path, Vocab()))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("ending", ["", "\n", "\n\n\n"])
def test_sentences_become_docs(tmp_path: Path, ending: str, bom: str, end: str) -> None:
    content = f"{bom}{FIRST}\n\n{SECOND}{ending}".replace("\n", end).encode("utf8")
    (tmp_path / "a.conllu.gz").write_bytes(gzip.compress(content))
    first, second = read_conllu(os.fsencode(tmp_path / "a.conllu.gz"), Vocab())
    assert [token.text for token in first] == ["do", "n't", "go"] and [token.text for token in second] == ["Go"]
    assert [token.pos_ for token in first] == ["AUX", "PART", "VERB"] and second[0].pos_ == ""
    assert [token.tag_ for token in first] == ["VBP", "RB", ""] and str(first[0].morph) == "Mood=Ind"
    assert [token.dep_ for token in first] == ["aux", "advmod", "root"]


def test_documents_stay_whole(tmp_path: Path) -> None:
    marked = f"# newdoc id = a\n{FIRST}\n{SECOND}\n# newdoc id = b\n{SECOND}\n"
    for bom in ("", "\ufeff"):
        first, second = _read(tmp_path / "a.conllu", bom + marked)
        assert [token.is_sent_start for token in first] == [True, False, False, True] and len(second) == 1
    assert _read(tmp_path / "a.conllu", "\n# comment\n\n") == []


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
    with pytest.raises(ValueError, match=rf"a.conllu:8.*{problem}"):
        _read(tmp_path / "a.conllu", f"\ufeff{FIRST}\n{line}\n")


LINE = {
    "doc": "a",
    "tokens": ["The", "bank", "lends"],
    "senses": [[2, "lend", "VERB", "l.1"], [1, "bank", "NOUN", "b.1", ["k"], "m"]],
}
OTHER = {**LINE, "senses": []}


@pytest.mark.parametrize(
    "content",
    [f"{json.dumps(LINE)}{end}{end}{json.dumps(OTHER)}{end}" for end in ("\n", "\r")]
    + [json.dumps([LINE, OTHER], indent=1)],
    ids=["lines", "old line ends", "array"],
)
def test_sentences_have_tokens_and_uses_in_order(tmp_path: Path, content: str) -> None:
    encoded = codecs.BOM_UTF8 + content.encode("utf8")
    for name, written in (("a.json", encoded), ("a.jsonl.gz", gzip.compress(encoded))):
        (tmp_path / name).write_bytes(written)
        first, second = read_senses(os.fsencode(tmp_path / name))
        assert first.document == "a" and first.tokens == ["The", "bank", "lends"] and second.uses == []
        assert first.uses == [SenseUse(1, "bank", "NOUN", "b.1"), SenseUse(2, "lend", "VERB", "l.1")]


@pytest.mark.parametrize(
    "line, problem",
    [
        ("{", "not valid JSON"),
        ("[1]", "is [1], should be a block"),
        ('{"tokens": ["a"], "senses": []}', "doc is missing"),
        ('{"doc": 3, "tokens": "a", "senses": []}', "doc is 3, should be a valid string; tokens is 'a', should be a"),
        ('{"doc": "a", "tokens": [""], "senses": []}', "tokens[0] is '', should have at least 1 character"),
        ('{"doc": "a", "tokens": ["a"]}', "senses is missing"),
        (
            '{"doc": "a", "tokens": ["a"], "senses": [[1, "a", "NOUN", "s"]]}',
            "senses[0][0] should be the position of a",
        ),
        ('{"doc": "a", "tokens": ["a"], "senses": [[true, "a", "NOUN", "s"]]}', "senses[0][0] is True, should be a"),
        ('{"doc": "a", "tokens": ["a"], "senses": [[0, "a", "NOUN"]]}', "senses[0][3] is missing"),
        ('{"doc": "a", "tokens": ["a"], "senses": ["a"]}', "senses[0] is 'a', should be a"),
    ],
)
def test_wrong_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "senses.jsonl"
    path.write_text(json.dumps(LINE) + "\n" + line + "\n", encoding="utf8")
    with pytest.raises(ValueError, match=r"senses.jsonl:2") as error:
        list(read_senses(path))
    assert problem in str(error.value)
