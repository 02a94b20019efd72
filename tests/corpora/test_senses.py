"""Sentences with word senses are read as they are written, and wrong lines named."""

import codecs
import gzip
import json
import os
from pathlib import Path

import pytest

from spacy_elmo.corpora.senses import SenseUse, read_senses

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
    with pytest.raises(ValueError, match=r"EL240.*senses.jsonl:2") as error:
        list(read_senses(path))
    assert problem in str(error.value)


@pytest.mark.issue(37)
@pytest.mark.parametrize("content", [json.dumps([LINE, LINE], indent=1), "\r".join([json.dumps(LINE)] * 2)])
def test_arrays_and_old_line_ends_are_read(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf" + content.encode("utf8"))
    assert [sentence.tokens for sentence in read_senses(os.fsencode(tmp_path / "a.json"))] == [LINE["tokens"]] * 2
