"""Scores of text categories equal those of spaCy's scorer; Docs are drawn as a whole."""

import numpy as np
import pytest
import spacy
from spacy.scorer import Scorer
from spacy.training import Example

from spacy_elmo.analysis.answers import DocAnswers, score_answers
from spacy_elmo.analysis.category_scores import CategoryTable, label_f, macro_auc, macro_f, score_categories

LABELS = ("joy", "fear", "anger", "never")


def _draw_tables(n_docs=60):
    """Annotations and scores with ties of two pipelines; no Doc has the last category."""
    rng = np.random.default_rng(0)
    gold = (rng.random((n_docs, 4)) < [0.5, 0.3, 0.2, 0.0]).astype("float64")
    tables = []
    for noise in (0.3, 3.0):
        scores = np.round(np.clip(gold + noise * rng.normal(size=gold.shape), 0, 1), 1)
        tables.append(CategoryTable(LABELS, gold, (scores >= 0.5).astype("float64"), gold, scores))
    return tables


def test_scores_are_those_of_spacy():
    nlp, (table, _) = spacy.blank("en"), _draw_tables()
    examples = []
    for gold, scores in zip(table.gold, table.scores):
        example = Example(nlp.make_doc("a"), nlp.make_doc("a"))
        example.reference.cats, example.predicted.cats = dict(zip(LABELS, gold)), dict(zip(LABELS, scores))
        examples.append(example)
    wanted = Scorer.score_cats(examples, "cats", labels=LABELS, multi_label=True, threshold=0.5)
    everything = np.ones(len(examples))
    assert macro_f(table, everything) == pytest.approx(wanted["cats_macro_f"])
    assert macro_auc(table, everything) == pytest.approx(wanted["cats_macro_auc"])
    assert label_f("fear")(table, everything) == pytest.approx(wanted["cats_f_per_type"]["fear"]["f"])


@pytest.mark.parametrize("metric", [macro_f, macro_auc, label_f("joy")])
def test_a_difference_has_an_interval_and_equals_none_of_itself(metric):
    ours, theirs = _draw_tables()
    value, baseline, score = score_categories(metric, ours, theirs, seed=0)
    assert score.value == pytest.approx(value - baseline) and 0 < score.low < score.value < score.high and score.n == 60
    same = score_categories(metric, ours, ours, seed=0)[2]
    assert (same.low, same.value, same.high) == (0, 0, 0)


def test_categories_are_drawn_as_docs_and_compared_in_their_own_places():
    """Ours gives each Doc its category, theirs always the first one."""
    docs = {}
    for name, is_right in (("ours", True), ("theirs", False)):
        docs[name] = []
        for i in range(40):
            label = "ab"[i % 4 == 0]
            chosen = label if is_right else "a"
            gold, predicted = ({"cats_macro_f": {(0, 4, answer)}} for answer in (label, chosen))
            values = [{"a": float(answer == "a"), "b": float(answer == "b")} for answer in (label, chosen)]
            docs[name].append(DocAnswers(("w",) * 4, (0, 2), gold, predicted, *values))
    (outcome,) = score_answers(docs["ours"], docs["theirs"])
    assert outcome.ours == 1.0 and outcome.theirs == pytest.approx(0.5 * 2 * 30 / (40 + 30))
    assert outcome.score.n == 40 and [len(places) for places in outcome.listed] == [10, 0]
    assert outcome.score.low < outcome.score.value < outcome.score.high
    assert outcome.by_label() == [("b", 10, 0)]
