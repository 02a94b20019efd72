"""Errors as HTML: what is shown of many, contexts of long sentences, escaped words."""

import pytest

from spacy_elmo.analysis.answers import DocAnswers, compare_answers
from spacy_elmo.analysis.report_page import N_AROUND, N_LABELS, N_SHOWN, render_changes, render_errors


def _compare(n_docs: int, *, labels: int = 1) -> "tuple[str, str]":
    """Docs of one entity, found by the first pipeline only."""
    ours, theirs = [], []
    for i in range(n_docs):
        gold = {"ents": {(0, 1, f"L{i % labels}")}}
        ours.append(DocAnswers((f"<w{i}>", "is"), (0,), gold, gold))
        theirs.append(DocAnswers((f"<w{i}>", "is"), (0,), gold, {"ents": set()}))
    changes = compare_answers(ours, theirs)
    return render_changes(changes, ours, "<data>"), render_errors(changes, ours)


def test_many_errors_are_shown_evenly() -> None:
    table, errors = _compare(10 * N_SHOWN)
    assert f"{10 * N_SHOWN} errors fixed by ELMo, {N_SHOWN} of them shown" in errors
    assert "No error was introduced" in errors
    assert errors.count("<li>") == N_SHOWN
    assert all(f"<mark>&lt;w{10 * i}&gt;</mark>" in errors for i in range(N_SHOWN))
    assert "On &lt;data&gt;" in table and "<td>+100.00</td>" in table and "+100.00 to +100.00" in table


def test_many_labels_are_cut() -> None:
    _, errors = _compare(2 * N_LABELS, labels=2 * N_LABELS)
    assert errors.count("<tr><td>") == N_LABELS and f"{N_LABELS} more labels" in errors


@pytest.mark.parametrize(
    "starts, words",
    [((0, 100, 103), {100, 101, 102}), ((0,), set(range(101 - N_AROUND, 102 + N_AROUND)))],
)
def test_context_is_the_sentence_or_a_part_of_it(starts: "tuple[int, ...]", words: "set[int]") -> None:
    gold = {"ents": {(101, 102, "L")}}
    doc = DocAnswers(tuple(f"w{i}" for i in range(200)), starts, gold, gold)
    changes = compare_answers([doc], [DocAnswers(doc.words, starts, gold, {"ents": set()})])
    errors = render_errors(changes, [doc])
    assert {i for i in range(200) if f"w{i} " in errors or f"w{i}<" in errors} == words
    assert ("\u2026" in errors) == (len(words) > 3)


def test_no_comparison_is_no_section() -> None:
    assert render_changes([], [], "data") == "" and render_errors([], []) == ""
