"""Answers are counted as spaCy's scorers count them; places, verdicts and intervals of two pipelines on equal Docs."""

import numpy as np
import pytest
import spacy
from spacy.cli.evaluate import evaluate
from spacy.kb import InMemoryLookupKB
from spacy.scorer import Scorer, get_ner_prf
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Corpus, Example

from spacy_elmo.analysis.answers import (
    NOTHING,
    DocAnswers,
    answer_kind,
    find_kinds,
    get_question,
    read_answers,
    score_answers,
)

ENTITIES = [
    {"label": "ORG", "pattern": "Acme"},
    {"label": "PER", "pattern": "Ada Lovelace"},
    {"label": "LOC", "pattern": "today"},
]
WORDS = {"Acme": ("PROPN", "Number=Sing"), "hired": ("VERB", "Tense=Past"), "today": ("NOUN", ""), "Ada": ("X", "")}


@pytest.fixture
def nlp():
    """Rules in place of trained components: right on some words, wrong on others."""
    nlp = spacy.blank("en")
    tags = nlp.add_pipe("attribute_ruler")
    for word, (tag, morph) in WORDS.items():
        tags.add([[{"ORTH": word}]], {"TAG": tag, "POS": tag, "MORPH": morph})
    entities = nlp.add_pipe("entity_ruler")
    entities.add_patterns(ENTITIES)
    return nlp


@pytest.fixture
def path(nlp, tmp_path):
    """Docs that spaCy tokenizes as they are, in another way ("don't"), and without any entity annotation."""
    docs = [
        _make(nlp, "Acme hired Ada Lovelace today", [True] * 5, [(0, 1, "ORG"), (2, 4, "PER")]),
        _make(nlp, "I don't like Acme today", [True] * 5, [(2, 4, "ORG")]),
        _make(nlp, "Acme-hired Ada Lovelace", [True] * 3, [(0, 1, "ORG"), (1, 3, "PER")]),
        _make(nlp, "Acme hired", [True, False], None),
    ]
    DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "test.spacy")
    return tmp_path / "test.spacy"


def _make(nlp, text, spaces, ents):
    words = text.split()
    tags = ["PROPN" if word[0].isupper() else "" for word in words]
    doc = Doc(nlp.vocab, words=words, spaces=spaces, tags=tags, pos=tags, morphs=["" for _ in words])
    if ents is not None:
        doc.set_ents([Span(doc, start, end, label=label) for start, end, label in ents])
    return doc


def test_scores_are_those_of_spacy(nlp, path):
    answers = read_answers(nlp, path)
    found = {outcome.name: outcome.ours for outcome in score_answers(answers)}
    assert found == {name: pytest.approx(score) for name, score in _score(nlp, path).items()}
    assert 0 < found["ents"] < 1 and 0 < found["tag"] < 1
    assert "ents" in answers[0].gold and "ents" not in answers[3].gold
    assert all(set(doc.predicted) <= set(doc.gold) for doc in answers)
    assert [doc.predicted for doc in read_answers(spacy.blank("en"), path)] == [{}] * 4


def _score(nlp, path):
    examples = list(Corpus(path)(nlp))
    for example in examples:
        example.predicted = nlp(example.predicted)
    scores = {"ents": get_ner_prf(examples)["ents_f"]}
    for name in ("tag", "pos"):
        scores[name] = Scorer.score_token_attr(examples, name)[f"{name}_acc"]
    morph = Scorer.score_token_attr(examples, "morph", getter=lambda token, attr: token.morph.key)
    return {**scores, "morph": morph["morph_acc"]}


def test_sentences_begin_where_the_data_say_and_other_files_are_refused(tmp_path):
    nlp = spacy.blank("en")
    doc = Doc(nlp.vocab, words=["Hi", ".", "Bye", "."], tags=["X"] * 4, sent_starts=[True, False, True, False])
    DocBin(docs=[doc, Doc(nlp.vocab)]).to_disk(tmp_path / "test.spacy")
    (answers,) = read_answers(nlp, tmp_path / "test.spacy")
    assert answers.starts == (0, 2) and answers.words == ("Hi", ".", "Bye", ".")
    for content, problem in (
        (b"", "cannot be read as annotated Docs"),
        (b"x\x9cK", "cannot be read as annotated Docs"),
        (DocBin(docs=[Doc(nlp.vocab)]).to_bytes(), "no Doc with tokens"),
    ):
        (tmp_path / "test.spacy").write_bytes(content)
        with pytest.raises(ValueError, match=problem):
            read_answers(nlp, tmp_path / "test.spacy")


@pytest.mark.issue(62)
def test_what_no_component_sets_is_not_scored(nlp, tmp_path):
    """A Doc of one token has sentences, to spaCy, and an empty one has everything."""
    nlp.remove_pipe("attribute_ruler")
    docs = [Doc(nlp.vocab, words=["Acme"], tags=["X"], ents=["B-ORG"], sent_starts=[True]), Doc(nlp.vocab)]
    docs.append(Doc(nlp.vocab, words=["Hi", "Acme"], ents=["O", "B-ORG"], sent_starts=[True, False]))
    docs[1].cats = {"empty": 1.0}
    DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "test.spacy")
    answers = read_answers(nlp, tmp_path / "test.spacy")
    assert [outcome.name for outcome in score_answers(answers)] == ["ents"]
    nlp.add_pipe("sentencizer")
    outcomes = score_answers(read_answers(nlp, tmp_path / "test.spacy"))
    assert [(outcome.name, outcome.ours) for outcome in outcomes] == [("ents", 1.0), ("sents", 1.0)]


NAMES = tuple("Ada Lovelace met Acme in New York .".split())


def _answer(gold, predicted, starts=(0,)):
    return DocAnswers(NAMES, starts, {"ents": gold}, {"ents": predicted})


def _compare(gold, ours, theirs, starts=(0,)):
    (outcome,) = score_answers([_answer(gold, ours, starts)], [_answer(gold, theirs, starts)])
    return outcome


PER, LOC = (0, 2, "PER"), (5, 7, "LOC")


@pytest.mark.parametrize(
    "gold, ours, theirs, wanted",
    [
        ({PER}, {PER}, {(1, 3, "PER")}, [(0, 3, True, False)]),  # overlapping answers are one place
        (
            {(0, 1, "PER"), (1, 2, "PER")},
            {(0, 1, "PER"), (1, 2, "ORG")},
            {(0, 1, "PER")},
            [(0, 1, True, True), (1, 2, False, False)],
        ),
        ({PER, LOC}, {PER, (7, 8, "LOC")}, {PER, LOC}, [(0, 2, True, True), (5, 7, False, True), (7, 8, False, True)]),
    ],
)
def test_every_verdict_is_counted(gold, ours, theirs, wanted):
    outcome = _compare(gold, ours, theirs)
    assert wanted == sorted((one.start, one.end, *key) for key, places in outcome.places.items() for one in places)


def test_changes_and_errors_are_counted_by_right_label():
    gold = {PER, (3, 4, "ORG"), LOC}
    ours, theirs = {PER, (3, 4, "ORG"), (7, 8, "LOC")}, {PER, LOC}
    outcome = _compare(gold, ours, theirs)
    assert outcome.by_label() == [(NOTHING, 0, 1), ("LOC", 0, 1), ("ORG", 1, 0)]
    assert (outcome.ours, outcome.theirs) == (pytest.approx(2 * 2 / 6), pytest.approx(2 * 2 / 5))
    (alone,) = score_answers([_answer(gold, ours)])
    assert alone.by_label() == [(NOTHING, 0, 1), ("LOC", 0, 1), ("ORG", 1, 0), ("PER", 1, 0)]
    assert alone.score.value == alone.ours == outcome.ours and alone.theirs is None


def test_interval_covers_the_difference_and_is_reproducible():
    rng = np.random.default_rng(1)
    gold = {(3, 4, "ORG")}
    found = [[gold if rng.random() < share else set() for _ in range(60)] for share in (0.9, 0.4)]
    ours, theirs = ([_answer(gold, answers) for answers in answers_of_docs] for answers_of_docs in found)
    (outcome,) = score_answers(ours, theirs)
    assert outcome.theirs is not None and outcome.score.n == 60
    assert 0 < outcome.score.low < outcome.score.value < outcome.score.high < 1
    assert outcome.score.value == pytest.approx(outcome.ours - outcome.theirs)
    assert score_answers(ours, theirs)[0].score == outcome.score
    (same,) = score_answers(ours, ours)
    assert (same.score.low, same.score.value, same.score.high) == (0, 0, 0)
    sentences = _compare({PER, LOC}, {PER, LOC}, {PER}, starts=(0, 4)).score  # drawn where there are boundaries
    assert (sentences.n, sentences.low, sentences.high) == (2, 0.0, 1.0)


def test_what_is_not_asked_or_not_answered_counts_for_nobody():
    gold = {PER}
    silent = [DocAnswers(NAMES, (0,), {"ents": gold}, {})]
    assert score_answers([_answer(gold, gold)], silent) == []
    assert [outcome.theirs for outcome in score_answers([_answer(gold, gold)], [_answer(gold, set())])] == [0.0]
    unknown = DocAnswers(NAMES, (0,), {}, {"ents": {(0, 1, "PER")}})
    (outcome,) = score_answers([_answer(gold, gold), unknown])
    assert outcome.ours == 1.0 and [len(places) for places in outcome.listed] == [1, 0]


TASKS = {
    "words": ["tagger", "morphologizer", "trainable_lemmatizer"],
    "heads and sentences": ["parser"],
    "spans": ["spancat"],
    "span candidates": ["span_finder"],
    "one category": ["senter", "textcat"],
    "one of two categories": ["textcat"],
    "several categories": ["textcat_multilabel"],
}
CONFIGS = {"parser": {"min_action_freq": 1}, "trainable_lemmatizer": {"min_tree_freq": 1}}
CONFIGS |= {"textcat_multilabel": {"threshold": 0.4}, "spancat": {"threshold": 0.3}, "span_finder": {"threshold": 0.3}}


def _annotate(nlp, rng, labels, *, is_exclusive):
    """A Doc of words in random order with random annotations; some words are divided otherwise by the tokenizer."""
    words = [str(word) for word in rng.permutation("Ada Lovelace met Acme today and don't like very-much".split())]
    n = len(words)
    choose = lambda values: [str(rng.choice(values)) for _ in words]  # noqa: E731
    deps = ["ROOT", *choose(["nsubj", "OBJ", "punct"])[1:]]
    annotated = {"tags": choose(["A", "B"]), "pos": choose(["NOUN", "VERB"]), "morphs": choose(["Number=Sing", "_"])}
    doc = Doc(nlp.vocab, words, lemmas=words, heads=[max(0, i - 1) for i in range(n)], deps=deps, **annotated)
    doc.ents = [Span(doc, 0, 2, label="PER")]
    doc.spans["sc"] = [Span(doc, 0, 2, label="X"), Span(doc, 1, 3, label="Y")]
    true = set(rng.choice(labels, 1 if is_exclusive else 2))
    doc.cats = {label: float(label in true) for label in labels if is_exclusive or rng.random() < 0.9}
    return doc


@pytest.mark.parametrize("task", TASKS)
def test_each_task_is_scored_and_named_as_by_spacy_evaluate(task, tmp_path, capsys):
    """All that `init-config` writes: the numbers of `spacy evaluate`, under the names that it prints."""
    rng, nlp = np.random.default_rng(0), spacy.blank("en")
    for name in TASKS[task]:
        nlp.add_pipe(name, config=CONFIGS.get(name, {}))
    labels = ["joy", "fear"] if "two" in task else ["joy", "fear", "anger", "rare"]
    docs = [_annotate(nlp, rng, labels[:3], is_exclusive="several" not in task) for _ in range(30)]
    examples = [Example(Doc(nlp.vocab, [token.text for token in doc]), doc) for doc in docs]
    if "textcat" in nlp.pipe_names:
        settings = {"labels": labels, **({"positive_label": "fear"} if len(labels) == 2 else {})}
        nlp.config["initialize"]["components"]["textcat"] = settings
    nlp.initialize(lambda: examples)
    for _ in range(4):
        nlp.update(examples)
    empty = Doc(nlp.vocab)
    empty.cats = dict(docs[0].cats)
    DocBin(docs=[*docs, empty], store_user_data=True).to_disk(tmp_path / "test.spacy")
    scores = nlp.evaluate(list(Corpus(tmp_path / "test.spacy")(nlp)))
    nlp.to_disk(tmp_path / "model")
    evaluate(str(tmp_path / "model"), tmp_path / "test.spacy", silent=False)
    printed = [line.split("  ")[0].strip() for line in capsys.readouterr().out.splitlines()]
    outcomes = score_answers(read_answers(nlp, tmp_path / "test.spacy"))
    kinds = {answer_kind(outcome.name) for outcome in outcomes}
    assert all(kinds & assigned for assigned in find_kinds(nlp).values()), kinds
    for outcome in outcomes:
        question = get_question(outcome.name)
        assert outcome.ours == pytest.approx(scores[question.score]), outcome.name
        assert question.score_name in (*printed, "TEXTCAT (micro F)"), printed
        assert outcome.score.low <= outcome.ours <= outcome.score.high and outcome.score.n >= len(docs)
        assert 0 < outcome.ours <= 1 and (outcome.ours == 1 or outcome.score.low < outcome.score.high), outcome.name


@pytest.mark.parametrize("use_gold_ents", [True, False])
def test_links_are_scored_as_by_spacy_evaluate(use_gold_ents, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    ruler = nlp.add_pipe("entity_ruler")
    linker = nlp.add_pipe("entity_linker", config={"use_gold_ents": use_gold_ents})
    docs = []
    for i, kb_id in enumerate(("Q1", "Q1", "Q2", "NIL", "Q1", "Q2")):
        doc = Doc(nlp.vocab, words=["Ada" if i % 2 else "Acme", "left", "."])
        doc.ents = [Span(doc, 0, 1, "PER", kb_id=kb_id)]
        docs.append(doc)
    DocBin(docs=docs).to_disk(tmp_path / "test.spacy")
    linker.set_kb(_make_base)
    nlp.initialize(lambda: [Example(nlp.make_doc(doc.text), doc) for doc in docs])
    linker.set_kb(_make_base)
    ruler.add_patterns([{"label": "PER", "pattern": "Ada"}])
    scores = nlp.evaluate(list(Corpus(tmp_path / "test.spacy")(nlp)))
    found = {outcome.name: outcome.ours for outcome in score_answers(read_answers(nlp, tmp_path / "test.spacy"))}
    assert found["nel"] == pytest.approx(scores["nel_micro_f"]) and found["nel"] > 0


def _make_base(vocab):
    base = InMemoryLookupKB(vocab, entity_vector_length=2)
    for name in ("Q1", "Q2"):
        base.add_entity(name, freq=1, entity_vector=[1, 0])
    for alias in ("Ada", "Acme"):
        base.add_alias(alias, ["Q1", "Q2"], [0.6, 0.4])
    return base
