"""Errors by kind: what is counted, what is refused, and the section drawn from the counts."""

from typing import Set, Tuple

import spacy
import srsly
from spacy.tokens import Doc, Span

from spacy_elmo.analysis.answers import DocAnswers

SCRIPT = "errors"
WORDS = ("Ann", "met", "Bo", "Cy", "in", "Oslo")
GOLD = {(0, 1, "PER"), (2, 4, "PER"), (5, 6, "LOC")}
Answers = Set[Tuple[int, int, str]]


def _doc(name, gold, predicted):
    return DocAnswers(WORDS, (0,), {name: gold}, {name: predicted})


def test_entities_are_counted_by_kind_of_error(script):
    doc = Doc(spacy.blank("en").vocab, words=["Oslo", "Ann"])
    doc.ents = [Span(doc, 0, 1, label="LOC"), Span(doc, 1, 2, label="ORG")]
    theirs = _doc("ents", GOLD, {(0, 1, "LOC"), (1, 2, "PER"), (2, 3, "PER")})
    ours = _doc("ents", GOLD, {(0, 1, "PER"), (5, 6, "LOC")})
    found = script.count_entities([doc], [ours], [theirs])
    assert found["rows"] == [
        {"kind": "in the training data", "n": 1, "without": 0, "with": 1},
        {"kind": "not in the training data", "n": 2, "without": 0, "with": 1},
    ]
    assert [(row["kind"], row["without"], row["with"]) for row in found["errors"]] == [
        ("missed", 1, 1),
        ("wrong label", 1, 0),
        ("wrong boundaries", 1, 0),
        ("spurious", 1, 0),
    ]


def _keep(nlp, folder, condition, **settings):
    path = folder / f"sample-{condition}-100pct-seed0"
    nlp.to_disk(path)
    srsly.write_json(path / "result.json", {"settings": {"task": "sample", **settings}})


def _make_ruler(pattern):
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([pattern])
    return nlp


def test_kept_pipelines_are_compared(script, invoke, tmp_path):
    title, nothing = ({"label": "PERSON", "pattern": [{name: True}]} for name in ("IS_TITLE", "LIKE_EMAIL"))
    _keep(_make_ruler(title), tmp_path, "elmo", bilm="en_elmo_sm", bilm_digest="0123456789ab")
    _keep(_make_ruler(nothing), tmp_path, "baseline")
    invoke(script.errors_cli, "sample", "--pipelines", tmp_path, "--results", tmp_path / "out")
    found = srsly.read_json(tmp_path / "out" / "errors-sample.json")
    assert (found["bilm_digest"], found["kind"], found["seed"]) == ("0123456789ab", "entities", 0)
    errors = {row["kind"]: row for row in found["errors"]}
    assert errors["missed"]["with"] < errors["missed"]["without"] == sum(row["n"] for row in found["rows"])
    assert errors["spurious"]["with"] > errors["spurious"]["without"] == 0
    for task, folder, problem in (("glue", tmp_path, "'glue'"), ("sample", "none", "sample-elmo-100pct-seed0")):
        assert problem in invoke(script.errors_cli, task, "--pipelines", tmp_path / folder, code=1).output
