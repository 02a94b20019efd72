"""How the ELMo model reads Docs: sentences, windows, white space; each step once in a call."""

import sys

import numpy
import pytest
import spacy
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_elmo.pipeline.component import ElmoComponent
from spacy_elmo.pipeline.model import (
    ElmoModel,
    ensure_bilm,
    get_settings,
    make_random_bilm,
    read_docs,
    split_windows,
)

from .tiny import BILM, N_LAYERS, TEXTS, WIDTH, add_elmo, make_examples, make_tagger, with_elmo

# What a call does


def count_calls(use, *functions):
    """RETURNS (List[int]): How often each function is called."""
    codes = [function.__code__ for function in functions]
    counts = [0] * len(codes)

    def count(frame, event, _):
        if event == "call" and frame.f_code in codes:
            counts[codes.index(frame.f_code)] += 1

    sys.setprofile(count)
    try:
        use()
    finally:
        sys.setprofile(None)
    return counts


@pytest.mark.parametrize("frozen", [True, False])
def test_docs_are_read_and_the_bilm_is_looked_up_once_in_a_call(frozen):
    nlp = make_tagger(model={"frozen": frozen})
    elmo, functions = nlp.get_pipe("elmo"), (read_docs, ElmoComponent.ensure_bilm, ensure_bilm)
    assert count_calls(lambda: elmo.predict([nlp.make_doc(text) for text in TEXTS]), *functions) == [1, 1, 0]
    for _ in range(2):  # of a frozen biLM: the second update reads the layers from the cache
        assert count_calls(lambda: elmo.update(make_examples(nlp)), *functions) == [1, 1, 1]


# Contexts


def test_auto_context_is_sentences_where_they_are_set(nlp):
    words = ["It", "rains", ".", "We", "stay", "."]
    starts = [True, False, False, True, False, False]
    with_sents = nlp(Doc(nlp.vocab, words=words, sent_starts=starts))
    alone = nlp(Doc(nlp.vocab, words=words[3:]))
    whole = nlp(Doc(nlp.vocab, words=words))
    numpy.testing.assert_allclose(with_sents._.elmo[3:], alone._.elmo, atol=1e-6)
    assert abs(with_sents._.elmo - whole._.elmo).max() > 1e-4
    ignoring = with_elmo(model={"contexts": "doc"})
    doc = ignoring(Doc(ignoring.vocab, words=words, sent_starts=starts))
    numpy.testing.assert_allclose(doc._.elmo, whole._.elmo, atol=1e-6)


@pytest.mark.parametrize("state", ["reset", "steady", "carry"])
def test_windows_keep_the_centre(state):
    nlp, words = spacy.blank("en"), [f"w{i}" for i in range(50)]
    add_elmo(nlp, model={"max_tokens": 20, "overlap": 8, "state": state})
    doc = nlp(Doc(nlp.vocab, words=words))
    assert doc._.elmo_layers.shape == (N_LAYERS, len(words), WIDTH)
    bilm = make_random_bilm(BILM, 1)
    if state == "carry":
        expected = bilm.encode([words[0:20], words[20:40], words[40:50]], state="carry", group_lengths=[3])
        numpy.testing.assert_allclose(doc._.elmo_layers, expected.numpy(), atol=1e-5)
    else:
        expected = bilm.embed([words[12:32]], state=state)[0]  # the second window; kept from the middle of the overlap
        numpy.testing.assert_allclose(doc._.elmo_layers[:, 16:28], expected[:, 4:16], atol=1e-5)


# Docs are split into sequences: every word in exactly one kept slice, space tokens in none


@pytest.mark.parametrize("starts", [[False, False, True], [None, None, True], [True, False, True]])
def test_the_first_token_starts_a_sentence_whatever_its_annotation(starts):
    doc_sequences = read_docs([Doc(Vocab(), words=["a", "b", "c"], sent_starts=starts)], get_settings(ElmoModel()))
    assert doc_sequences.sequences == [["a", "b"], ["c"]] and doc_sequences.gather(0, 2)[1].tolist() == [0, 1, 2]


@pytest.mark.parametrize("first", [[2, 4], [4, 2, 4], []])
def test_sentences_of_a_user_hook_need_not_be_in_order_nor_have_all_tokens(first):
    starts = [True, False, False, False, True, False]
    doc = Doc(Vocab(), words=["Title", ":", "It", "rains", "We", "stay"], sent_starts=starts)
    doc.user_hooks["sents"] = lambda doc: [doc[start : start + 2] for start in first]
    doc_sequences = read_docs([doc], get_settings(ElmoModel()))
    assert [len(sequence) for sequence in doc_sequences.sequences] == ([2, 2, 2] if first else [6])
    numpy.testing.assert_array_equal(doc_sequences.gather(0, len(doc_sequences.sequences))[1], numpy.arange(6))


@pytest.mark.parametrize("n_tokens", [0, 1, 7, 10, 11, 19, 20, 21, 100, 1003])
@pytest.mark.parametrize("overlap", [0, 1, 4])
def test_split_windows_keeps_each_token_once_where_it_is_most_central(n_tokens, overlap):
    windows = split_windows(n_tokens, 10, overlap)
    kept = [(i, window) for window in windows for i in range(window.central_start, window.central_end)]
    assert [i for i, _ in kept] == list(range(n_tokens))
    assert all(window.end - window.start <= 10 for window in windows)
    assert all(b.start <= a.end - overlap for a, b in zip(windows, windows[1:]))

    def distance(window, i):
        left = i - window.start if window.start else 10**6
        right = window.end - 1 - i if window.end < n_tokens else 10**6
        return min(left, right)

    for i, window in kept:
        best = max(distance(other, i) for other in windows if other.start <= i < other.end)
        assert distance(window, i) >= best - 1  # the middle of an overlap is a tie
