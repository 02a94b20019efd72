"""Labels, keys and sentences belong to the right tokens."""

import pytest
from spacy.tokens import Doc

from spacy_elmo.analysis.labelled import label_senses, label_tokens

from .labelled_texts import MONEY, PIECE, RIVER, VOCAB, make_doc, make_uses

DOCS = [
    make_doc([("We", "PRON"), ("sat", "VERB")], [("\n", "SPACE"), ("Yes", "INTJ")]),
    Doc(VOCAB),
    make_doc([("uh", ""), ("Rain", "NOUN"), ("fell", "VERB")]),
]


@pytest.mark.issue(16)
def test_tokens_with_an_attribute_are_labelled_but_no_white_space() -> None:
    found = label_tokens(DOCS, "pos")
    assert found.rows.tolist() == [0, 1, 3, 5, 6]
    assert found.labels == ["PRON", "VERB", "INTJ", "NOUN", "VERB"]
    assert found.words() == ["We", "sat", "Yes", "Rain", "fell"]
    assert found.sentences.tolist() == [0, 0, 1, 2, 2]
    assert set(found.keys) == {""}


@pytest.mark.issue(16)
def test_docs_without_boundaries_are_one_sentence_each() -> None:
    docs = [Doc(VOCAB, words=["a", "b"], tags=["X", "Y"]), Doc(VOCAB, words=["c"], tags=["X"])]
    found = label_tokens(docs, "tag")
    assert found.sentences.tolist() == [0, 0, 1]


@pytest.mark.issue(16)
def test_senses_of_a_document_are_in_one_doc() -> None:
    sentences = make_uses(("the bank lends", MONEY), ("a bank of mud", RIVER))
    sentences += make_uses(("one piece", PIECE), document="b")
    found = label_senses(sentences, VOCAB)
    assert [[len(sent) for sent in doc.sents] for doc in found.docs] == [[3, 4], [2]]
    assert found.words() == ["bank", "bank", "piece"] and found.rows.tolist() == [1, 4, 8]
    assert found.labels == [MONEY, RIVER, PIECE]
    assert found.keys == ["bank NOUN", "bank NOUN", "piece NOUN"]
    assert found.sentences.tolist() == [0, 1, 2]


@pytest.mark.issue(16)
def test_nothing_to_label_is_an_error() -> None:
    with pytest.raises(ValueError, match="Unknown attribute.*colour.*pos, tag"):
        label_tokens(DOCS, "colour")
    with pytest.raises(ValueError, match="None of the 3 Docs.*'dep'"):
        label_tokens(DOCS, "dep")
    with pytest.raises(ValueError, match="None of the 0 Docs.*'sense'"):
        label_senses([], VOCAB)
