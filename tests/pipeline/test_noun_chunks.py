"""`doc.noun_chunks` of parsers with the labels of Universal Dependencies."""

import pickle

import pytest
import spacy
from spacy.tokens import Doc, DocBin

from spacy_elmo.pipeline.noun_chunks import NOUN_CHUNKS, find_noun_chunks, lacks_ud_rules

CONFIG = {"after_creation": {"@callbacks": NOUN_CHUNKS}}
# A sentence, with part of speech, head (from 1; 0 for the root) and relation of each word, and its noun chunks.
SENTENCES = {
    "objects, obliques and names": (
        "Ada PROPN 3 nsubj / Lovelace PROPN 1 flat / met VERB 0 root / Charles PROPN 3 obj / Babbage PROPN 4 flat / "
        "in ADP 7 case / London PROPN 3 obl / . PUNCT 3 punct",
        ["Ada Lovelace", "Charles Babbage", "London"],
    ),
    "a predicate noun has neither subject nor copula": (
        "She PRON 5 nsubj / is AUX 5 cop / not PART 5 advmod / a DET 5 det / mathematician NOUN 0 root",
        ["She", "a mathematician"],
    ),
    "a predicate noun in a clause": (
        "He PRON 2 nsubj / says VERB 0 root / that SCONJ 7 mark / it PRON 7 nsubj / was AUX 7 cop / a DET 7 det / "
        "mistake NOUN 2 ccomp",
        ["He", "it", "a mistake"],
    ),
    "nmod is a phrase, a possessor is a part": (
        "The DET 4 det / king NOUN 4 nmod:poss / 's PART 2 case / crown NOUN 0 root / of ADP 7 case / "
        "pure ADJ 7 amod / gold NOUN 4 nmod",
        ["The king 's crown", "pure gold"],
    ),
    "coordination": (
        "Bread NOUN 0 root / , PUNCT 4 punct / salted ADJ 4 amod / butter NOUN 1 conj / and CCONJ 6 cc / "
        "jam NOUN 1 conj",
        ["Bread", "salted butter", "jam"],
    ),
    "iobj, appos and a relative clause": (
        "They PRON 2 nsubj / gave VERB 0 root / me PRON 2 iobj / Rex PROPN 2 obj / , PUNCT 7 punct / a DET 7 det / "
        "dog NOUN 4 appos / that PRON 9 nsubj / barks VERB 7 acl:relcl",
        ["They", "me", "Rex", "a dog", "that"],
    ),
    "there is no noun in an expletive": (
        "There PRON 2 expl / were VERB 0 root / about ADV 4 advmod / 50 NUM 5 nummod / guests NOUN 2 nsubj",
        ["about 50 guests"],
    ),
    "a measure inside": (
        "A DET 4 det / year NOUN 3 obl:unmarked / old ADJ 4 amod / horse NOUN 5 nsubj:pass / sold VERB 0 root / "
        "by ADP 7 case / Windows PROPN 5 obl:agent / 98 NUM 7 nummod",
        ["A year old horse", "Windows 98"],
    ),
    "a word on the right": (
        "Something PRON 3 nsubj / useful ADJ 1 amod / happened VERB 0 root / on ADP 6 case / all DET 6 det:predet / "
        "Mondays PROPN 3 obl / never ADV 3 advmod",
        ["Something useful", "all Mondays"],
    ),
    "nouns without a phrase": ("Thank VERB 0 root / you PRON 1 obj / , PUNCT 1 punct / no INTJ 1 discourse", ["you"]),
}


def _make_doc(vocab, sentence):
    rows = [row.split() for row in sentence.split(" / ")]
    heads = [int(head) - 1 if int(head) else i for i, (_, _, head, _) in enumerate(rows)]
    deps = [dep.replace("root", "ROOT") for *_, dep in rows]
    return Doc(vocab, words=[row[0] for row in rows], pos=[row[1] for row in rows], heads=heads, deps=deps)


@pytest.mark.parametrize("name", SENTENCES)
def test_noun_chunks_are_base_phrases(name):
    sentence, expected = SENTENCES[name]
    nlp = spacy.blank("en", config={"nlp": CONFIG})
    doc = _make_doc(nlp.vocab, sentence)
    chunks = list(doc.noun_chunks)
    assert [chunk.text for chunk in chunks] == expected
    assert {chunk.label_ for chunk in chunks} == {"NP"}
    assert [chunk.text for chunk in doc[:].noun_chunks] == expected


def test_noun_chunks_of_a_treebank(shared_data):
    """Sentences of UD English-EWT, checked by hand."""
    expected = {
        "Guerrillas threatened": "Guerrillas|Prime Minister Iyad Allawi|Minister of Defense Hazem Shaalan"
        "|retaliation|the attack",
        "Please find attached a credit worksheet": "a credit worksheet|a Master Firm contract|the above mentioned "
        "counterparty",
        "Ben Goodger is the lead engineer": "Ben Goodger|the lead engineer|Mozilla Firefox",
        "And I gave it all my heart": "I|it|all my heart|all my energy|principles|that|I|the Oval Office",
        "The US National": "The US National Hurricane Center|Rita|a top-level category five storm|"
        "the Saffir-Simpson scale",
    }
    nlp = spacy.blank("en", config={"nlp": CONFIG})
    docs = DocBin().from_disk(shared_data / "ud" / "en_ewt" / "dev.spacy").get_docs(nlp.vocab)
    found = {}
    for sentence in (sentence for doc in docs for sentence in doc.sents):
        for start in expected:
            if sentence.text.startswith(start):
                found[start] = "|".join(chunk.text for chunk in sentence.noun_chunks)
    assert found == expected


def test_noun_chunks_need_a_parse_and_parts_of_speech():
    nlp = spacy.blank("en", config={"nlp": CONFIG})
    with pytest.raises(ValueError, match="E029"):
        list(Doc(nlp.vocab, words=["one"], pos=["NUM"]).noun_chunks)
    with pytest.raises(ValueError, match="E1019"):
        list(Doc(nlp.vocab, words=["one"], deps=["ROOT"], heads=[0]).noun_chunks)
    assert not list(nlp("").noun_chunks)


def test_noun_chunks_survive_saving_pickling_and_processes(tmp_path):
    nlp = spacy.blank("de", config={"nlp": CONFIG})
    nlp.to_disk(tmp_path / "one")
    spacy.load(tmp_path / "one").to_disk(tmp_path / "two")
    sentence, expected = SENTENCES["coordination"]
    for loaded in (nlp, spacy.load(tmp_path / "two"), pickle.loads(pickle.dumps(nlp))):
        assert [chunk.text for chunk in _make_doc(loaded.vocab, sentence).noun_chunks] == expected
        for doc in loaded.pipe(["Brot", "Brot und Salz"], n_process=2):
            assert doc.noun_chunks_iterator is find_noun_chunks


@pytest.mark.parametrize("lang, expected", [("en", True), ("de", True), ("xx", True), ("ru", True), ("fr", False)])
def test_languages_whose_rules_read_ud_keep_them(lang, expected):
    assert lacks_ud_rules(lang) == expected
