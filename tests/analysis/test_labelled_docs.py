"""Labels, keys and sentences of tokens; files of probes, their splits and samples, and what is wrong with them."""

import pytest
import srsly
from spacy.tokens import Doc, DocBin

from spacy_elmo.analysis.labelled_docs import (
    label_senses,
    label_tokens,
    load_probe_data,
    read_labelled,
    sample_documents,
    split_documents,
)

from .labelled_texts import MONEY, PIECE, RIVER, VOCAB, make_doc, make_uses

CAT = [("the", "DET"), ("cat", "NOUN")]
RAN = [("it", "PRON"), ("ran", "VERB"), ("", "")]


def _write(path, *docs):
    DocBin(docs=docs).to_disk(path)
    return path


@pytest.fixture
def tagged(tmp_path):
    return _write(tmp_path / "a.spacy", *(make_doc(CAT, RAN[:2]) for _ in range(10)))


def test_documents_are_split_and_drawn_by_seed(tagged):
    whole = read_labelled(tagged, "pos")
    train, test = split_documents(whole, tagged, 0)
    assert (len(train.docs), len(test.docs)) == (8, 2)
    texts = [doc.to_bytes() for doc in whole.docs]
    assert sorted(doc.to_bytes() for doc in (*train.docs, *test.docs)) == sorted(texts)
    splits = {seed: split_documents(whole, tagged, seed)[1].docs for seed in (0, 0, 1, 2)}
    assert splits[0] == test.docs and len({tuple(map(id, docs)) for docs in splits.values()}) > 1
    sample = sample_documents(whole, 10, 0)
    assert len(sample.labels) == 10 and len(sample.docs) == 3
    assert sample_documents(whole, 99, 0) is whole and sample_documents(whole, None, 0) is whole


def _sense(document, sense):
    return {"doc": document, "tokens": ["bank"], "senses": [[0, "bank", "NOUN", sense]]}


def test_senses_are_split_by_document(tmp_path):
    path = tmp_path / "senses.jsonl"
    srsly.write_jsonl(path, [_sense(f"doc {i // 2}", f"sense {i % 2}") for i in range(8)])
    found = load_probe_data(path, "sense")
    assert len(found.train.docs) == 3 and len(found.test.labels) == 2 and set(found.test.keys) == {"bank NOUN"}


def test_mistakes_have_codes(tagged, tmp_path):
    lines = tmp_path / "senses.jsonl"
    lines.write_text('{"doc": "a", "tokens": ["a"], "senses": []}\n')
    empty = tmp_path / "empty.conllu"
    empty.write_text("")
    one, same = _write(tmp_path / "one.spacy", make_doc(CAT)), _write(tmp_path / "same.spacy", make_doc(CAT[:1]))
    cases = [
        (
            r"cannot be read for `attr=.*\.spacy or \.conllu, or one of them with \.gz, \.bz2, \.xz, \.zst",
            (lines, "pos"),
            None,
        ),
        ("cannot be split.*1 document", (one, "pos"), None),
        ("A probe cannot be trained on.*DET", (one, "pos"), same),
        ("has no token with the attribute.*10 documents.*have: pos", (tagged, "dep"), None),
        ("has no token with the attribute.*0 documents.*nothing", (empty, "pos"), None),
        ("has no token with the attribute.*nothing", (lines, "sense"), None),
    ]
    for pattern, (path, attr), train in cases:
        with pytest.raises(ValueError, match=pattern):
            load_probe_data(path, attr, train=train)
    with pytest.raises(ValueError, match="Unknown attribute.*colour.*pos, tag"):
        label_tokens([make_doc(CAT)], "colour")


DOCS = [
    make_doc([("We", "PRON"), ("sat", "VERB")], [("\n", "SPACE"), ("Yes", "INTJ")]),
    Doc(VOCAB),
    make_doc([("uh", ""), ("Rain", "NOUN"), ("fell", "VERB")]),
]


def test_tokens_with_an_attribute_are_labelled_but_no_white_space():
    found = label_tokens(DOCS, "pos")
    assert found.rows.tolist() == [0, 1, 3, 5, 6]
    assert found.labels == ["PRON", "VERB", "INTJ", "NOUN", "VERB"]
    assert found.words() == ["We", "sat", "Yes", "Rain", "fell"]
    assert found.sentences.tolist() == [0, 0, 1, 2, 2]
    assert set(found.keys) == {""}


def test_senses_of_a_document_are_in_one_doc():
    sentences = make_uses(("the bank lends", MONEY), ("a bank of mud", RIVER))
    sentences += make_uses(("one piece", PIECE), document="b")
    found = label_senses(sentences, VOCAB)
    assert [[len(sent) for sent in doc.sents] for doc in found.docs] == [[3, 4], [2]]
    assert found.words() == ["bank", "bank", "piece"] and found.rows.tolist() == [1, 4, 8]
    assert found.labels == [MONEY, RIVER, PIECE]
    assert found.keys == ["bank NOUN", "bank NOUN", "piece NOUN"]
    assert found.sentences.tolist() == [0, 1, 2]
