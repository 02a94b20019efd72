"""CoNLL-U becomes Docs: syntactic words, documents where they are marked."""

import gzip
import os
from pathlib import Path

import pytest
from spacy.vocab import Vocab

from spacy_elmo.corpora.conllu import read_conllu

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
    with pytest.raises(ValueError, match=rf"EL421.*a.conllu:8.*{problem}"):
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
