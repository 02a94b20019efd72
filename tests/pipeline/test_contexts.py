"""Docs are split into runs: every word in exactly one kept slice, space tokens in none."""

import numpy
import pytest
import spacy
from spacy.tokens import Doc

from spacy_elmo.pipeline.contexts import read_docs
from spacy_elmo.pipeline.model import ElmoModel, get_settings

NLP = spacy.blank("en")


def make_settings(**given):
    return get_settings(ElmoModel(**given))


def make_doc(words, starts=None):
    return Doc(NLP.vocab, words=words, sent_starts=starts)


def test_runs_have_the_words_and_their_rows():
    docs = [
        make_doc([" ", "It", "rains", "\n", "We", "stay"], [True, False, False, False, True, False]),
        make_doc([]),
        make_doc(["\n", " "]),
        make_doc(["Yes"]),
    ]
    found = read_docs(docs, make_settings())
    assert found.runs == [["It", "rains"], ["We", "stay"], ["Yes"]]
    assert found.doc_runs == [2, 0, 0, 1] and found.lengths == [6, 0, 2, 1]
    positions, rows = found.gather(0, 3)
    assert positions.tolist() == [0, 1, 2, 3, 4] and rows.tolist() == [1, 2, 4, 5, 8]
    positions, rows = found.gather(1, 2)
    assert positions.tolist() == [0, 1] and rows.tolist() == [4, 5]
    assert [part.tolist() for part in found.gather(1, 1)] == [[], []]


@pytest.mark.parametrize("state", ["reset", "carry"])
@pytest.mark.parametrize("n_words", [7, 8, 9, 30])
def test_windows_keep_each_word_once(n_words, state):
    settings = make_settings(contexts="doc", state=state, max_tokens=8, overlap=0 if state == "carry" else 3)
    words = [f"w{i}" for i in range(n_words)]
    found = read_docs([make_doc([" ", *words]), make_doc(words)], settings)
    assert all(len(run) <= 8 for run in found.runs)
    positions, rows = found.gather(0, len(found.runs))
    read = [word for run in found.runs for word in run]
    assert [read[position] for position in positions] == 2 * words
    assert rows.tolist() == [i for i in range(2 * n_words + 1) if i]


@pytest.mark.parametrize("starts", [[False, False, True], [None, None, True], [True, False, True]])
def test_the_first_token_starts_a_sentence_whatever_its_annotation(starts):
    found = read_docs([make_doc(["a", "b", "c"], starts)], make_settings())
    assert found.runs == [["a", "b"], ["c"]] and found.gather(0, 2)[1].tolist() == [0, 1, 2]


def test_docs_of_several_vocabularies_can_be_mixed():
    strange = Doc(spacy.blank("en").vocab, words=["xylophone", "rains"])
    assert read_docs([make_doc(["It", "rains"]), strange], make_settings()).runs == [
        ["It", "rains"],
        ["xylophone", "rains"],
    ]


@pytest.mark.parametrize("first", [[2, 4], [4, 2, 4], []])
def test_sentences_of_a_user_hook_need_not_be_in_order_nor_have_all_tokens(first):
    doc = make_doc(["Title", ":", "It", "rains", "We", "stay"], [True, False, False, False, True, False])
    doc.user_hooks["sents"] = lambda doc: [doc[start : start + 2] for start in first]
    found = read_docs([doc], make_settings())
    assert [len(run) for run in found.runs] == ([2, 2, 2] if first else [6])
    numpy.testing.assert_array_equal(found.gather(0, len(found.runs))[1], numpy.arange(6))
