"""The component `suffix_lemmatizer`: lemmas of forms that were seen, and of others."""

import pickle

import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

TRAINED = [
    # form, part of speech, lemma
    "Dogs NOUN dog / walked VERB walk / here ADV here / . PUNCT .",
    "Cats NOUN cat / jumped VERB jump / and CCONJ and / ate VERB eat / mice NOUN mouse",
    "Rome PROPN Rome / was AUX be / raided VERB raid / . PUNCT .",
    "Birds NOUN bird / saw VERB see / a DET a / saw NOUN saw / Paris PROPN Paris / US PROPN US",
    "We PRON we / liked VERB like / baking VERB bake / and CCONJ and / making VERB make",
]


def make_doc(nlp, text, *, has_lemmas=True):
    words, pos, lemmas = zip(*(row.split(" ") for row in text.split(" / ")))
    return Doc(nlp.vocab, words=list(words), pos=list(pos), lemmas=list(lemmas) if has_lemmas else None)


def make_nlp(texts=TRAINED, **config):
    nlp = spacy.blank("en")
    nlp.add_pipe("suffix_lemmatizer", config=config)
    examples = [Example(nlp.make_doc(text), make_doc(nlp, text)) for text in texts]
    nlp.initialize(lambda: examples)
    return nlp


@pytest.mark.parametrize("text", TRAINED)
def test_forms_of_the_training_data_have_their_lemmas(text):
    nlp = make_nlp()
    doc, gold = nlp(make_doc(nlp, text, has_lemmas=False)), make_doc(nlp, text)
    assert [token.lemma_ for token in doc] == [token.lemma_ for token in gold]
    assert nlp.evaluate([Example(make_doc(nlp, text, has_lemmas=False), gold)])["lemma_acc"] == 1.0


@pytest.mark.parametrize(
    "form, pos, lemma",
    [
        ("rivers", "NOUN", "river"),  # a suffix of several forms
        ("Rivers", "NOUN", "river"),  # most lemmas of nouns are in lower case
        ("Rivers", "PROPN", "Rivers"),  # those of names are not
        ("WALKED", "VERB", "walk"),  # a form that was seen in lower case
        ("talked", "VERB", "talk"),
        ("taking", "VERB", "take"),  # the longest suffix decides
        ("rome", "PROPN", "Rome"),  # a name that was seen, in another case
        ("ate", "NOUN", "ate"),  # the part of speech counts
        ("walked", "X", "walked"),  # a part of speech that was not seen
        ("s", "NOUN", "s"),  # nothing would be left
    ],
)
def test_other_forms_follow_the_rules_of_their_suffix(form, pos, lemma):
    nlp = make_nlp()
    assert nlp(Doc(nlp.vocab, words=[form], pos=[pos]))[0].lemma_ == lemma


def test_lemmas_and_short_words_are_not_cut():
    texts = [*TRAINED, "sprang VERB spring / shaking VERB shake / joking VERB joke / taking VERB take"]
    lemmatizer = make_nlp(texts).get_pipe("suffix_lemmatizer")
    assert lemmatizer.lemmatize("smoking", "VERB") == "smoke"
    assert [lemmatizer.lemmatize(form, "VERB") for form in ("spring", "king", "Spring")] == ["spring", "king", "spring"]


def test_the_most_frequent_lemma_is_chosen():
    nlp = make_nlp(["left VERB leave", "left VERB left", "left VERB leave"])
    assert nlp(Doc(nlp.vocab, words=["left"], pos=["VERB"]))[0].lemma_ == "leave"


@pytest.mark.parametrize("overwrite, lemma", [(False, "given"), (True, "dog")])
def test_lemmas_that_a_doc_has_stay_without_overwrite(overwrite, lemma):
    nlp = make_nlp(overwrite=overwrite)
    doc = nlp(Doc(nlp.vocab, words=["Dogs", "cats"], pos=["NOUN", "NOUN"], lemmas=["given", ""]))
    assert [token.lemma_ for token in doc] == [lemma, "cat"]


def test_other_annotation_stays():
    nlp = make_nlp()
    words = {"words": ["Dogs", "walked", "Cats", "ate"], "pos": ["NOUN", "VERB"] * 2, "spaces": [True, False] * 2}
    parse = {"heads": [1, 1, 3, 3], "deps": ["nsubj", "root"] * 2, "ents": ["B-X", "O", "O", "O"]}
    doc = nlp(Doc(nlp.vocab, **words, **parse))
    assert [sent.text for sent in doc.sents] == ["Dogs walked", "Cats ate"] and str(doc.ents) == "(Dogs,)"
    assert [token.head.i for token in doc] == parse["heads"] and [token.lemma_ for token in doc][::2] == ["dog", "cat"]


def test_tokens_without_a_part_of_speech_keep_their_form_with_a_warning():
    nlp = make_nlp()
    with pytest.warns(UserWarning, match="W108"):
        assert [token.lemma_ for token in nlp("Dogs walked")] == ["Dogs", "walked"]
    assert len(nlp("")) == 0


def read_disk(nlp, tmp_path):
    nlp.to_disk(tmp_path)
    return spacy.load(tmp_path)


def read_bytes(nlp, tmp_path):
    return spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())


def unpickle(nlp, tmp_path):
    return pickle.loads(pickle.dumps(nlp))


@pytest.mark.parametrize("copy", [read_disk, read_bytes, unpickle])
def test_copies_give_the_same_lemmas(copy, tmp_path):
    nlp = make_nlp()
    other = copy(nlp, tmp_path)
    texts = [*TRAINED, "taking VERB _ / Rivers NOUN _ / rome PROPN _"]
    for one, two in zip(*(p.pipe([make_doc(p, text, has_lemmas=False) for text in texts]) for p in (nlp, other))):
        assert [token.lemma_ for token in one] == [token.lemma_ for token in two]
        assert all(token.lemma_ for token in one)


def test_without_tables_it_is_an_error():
    nlp = spacy.blank("en")
    nlp.add_pipe("suffix_lemmatizer")
    with pytest.raises(ValueError, match="EL098.*'suffix_lemmatizer' is not initialized"):
        nlp("Dogs bark.")


def test_training_data_without_lemmas_are_an_error():
    nlp = spacy.blank("en")
    nlp.add_pipe("suffix_lemmatizer", name="lemmas")
    example = Example(nlp.make_doc("a"), Doc(nlp.vocab, words=["a"], pos=["DET"]))
    with pytest.raises(ValueError, match="'lemmas' has no tables.*token.lemma, token.pos"):
        nlp.initialize(lambda: [example])


@pytest.mark.parametrize("content, problem", [(b'{"forms": {', "are not JSON"), (b'{"forms": {}}', "have no lower")])
def test_tables_that_are_damaged_are_an_error(content, problem, tmp_path):
    make_nlp().to_disk(tmp_path)
    (tmp_path / "suffix_lemmatizer" / "tables.json").write_bytes(content)
    with pytest.raises(ValueError, match=f"'suffix_lemmatizer' {problem}"):
        spacy.load(tmp_path)
