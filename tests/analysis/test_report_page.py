"""Errors in their contexts: what is shown of many."""

import pytest

from spacy_elmo.analysis.answers import DocAnswers, score_answers
from spacy_elmo.analysis.report_page import N_AROUND, N_SHOWN, render_errors, render_outcomes


def _compare(n_docs):
    """Docs of one entity, found by the first pipeline only."""
    ours, theirs = [], []
    for i in range(n_docs):
        gold = {"ents": {(0, 1, "L")}}
        ours.append(DocAnswers((f"<w{i}>", "is"), (0,), gold, gold))
        theirs.append(DocAnswers((f"<w{i}>", "is"), (0,), gold, {"ents": set()}))
    outcomes = score_answers(ours, theirs)
    return render_outcomes(outcomes, ours, "<data>"), render_errors(outcomes, ours)


def test_many_errors_are_shown_evenly():
    table, errors = _compare(10 * N_SHOWN)
    assert f"{10 * N_SHOWN} errors fixed by ELMo, {N_SHOWN} of them shown" in errors
    assert "No error was introduced" in errors
    assert errors.count("<li>") == N_SHOWN
    assert all(f"<mark>&lt;w{10 * i}&gt;</mark>" in errors for i in range(N_SHOWN))
    assert "On &lt;data&gt;" in table and "<td>+100.00</td>" in table and "+100.00 to +100.00" in table


@pytest.mark.parametrize(
    "starts, words",
    [((0, 100, 103), {100, 101, 102}), ((0,), set(range(101 - N_AROUND, 102 + N_AROUND)))],
)
def test_context_is_the_sentence_or_a_part_of_it(starts, words):
    gold = {"ents": {(101, 102, "L")}}
    doc = DocAnswers(tuple(f"w{i}" for i in range(200)), starts, gold, gold)
    outcomes = score_answers([doc], [DocAnswers(doc.words, starts, gold, {"ents": set()})])
    errors = render_errors(outcomes, [doc])
    assert {i for i in range(200) if f"w{i} " in errors or f"w{i}<" in errors} == words
    assert ("\u2026" in errors) == (len(words) > 3)
