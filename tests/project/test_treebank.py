"""Treebanks as Docs and words, the tokenizer fitted to them, and the measures of CoNLL 2018."""

import pytest
import spacy
from spacy.tokens import Doc
from spacy.vocab import Vocab

ROWS = """\
1\tShe\tshe\tPRON\tPRP\tNumber=Sing|Style=Coll\t2\tnsubj\t_\t_
2-3\tdidn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdid\tdo\tAUX\tVBD\tTense=Past\t0\troot\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod:neg\t_\t_
3.1\tcome\tcome\tVERB\tVB\t_\t_\t_\t2:conj\t_
4\tthere\tthere\tADV\tRB\t_\t2\tadvmod\t_\tSpaceAfter=No
5\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_
"""
FRENCH = """\
1\tVenue\tvenir\tVERB\t_\t_\t0\troot\t_\t_
2-3\tdu\t_\t_\t_\t_\t_\t_\t_\t_
2\tde\tde\tADP\t_\t_\t4\tcase\t_\t_
3\tle\tle\tDET\t_\t_\t4\tdet\t_\t_
4\tnord\tnord\tNOUN\t_\t_\t1\tobl\t_\t_
"""


@pytest.fixture
def treebank(import_script):
    return import_script("treebank")


@pytest.fixture
def write(tmp_path):
    def call(*sentences):
        (tmp_path / "bank.conllu").write_text("\n".join(sentences) + "\n", encoding="utf8")
        return tmp_path / "bank.conllu"

    return call


@pytest.mark.issue(51)
def test_a_doc_is_a_paragraph_and_its_words_are_those_of_the_text(treebank, write):
    path = write("# newdoc id = 1\n" + ROWS, ROWS, "# newpar id = 2\n" + ROWS, "# newdoc\n" + FRENCH)
    docs = list(treebank.make_docs(path))
    assert [len(list(doc.sents)) for doc in docs] == [2, 1, 1]
    assert docs[1].text.strip() == "She didn't there."
    assert [token.text for token in docs[1]] == ["She", "did", "n't", "there", "."]
    assert [token.text for token in docs[2]] == ["Venue", "du", "nord"]
    assert [len(list(doc.sents)) for doc in treebank.make_docs(path, 1)] == [1, 1, 1, 1]
    path.write_text(ROWS.replace("\t", " "), encoding="utf8")
    with pytest.raises(ValueError, match="1 columns, but CoNLL-U has 10"):
        list(treebank.make_docs(path))


# What a pipeline annotates in place of a text of the treebank, and the scores that are below 1.
UNDIVIDED = "2\tdidn't\tdo\tAUX\tVBD\tTense=Past\t0\troot\t_\t_\n"
DIVIDED = ROWS[ROWS.index("2-3") : ROWS.index("3.1")]
CHANGES = {
    "nothing": ("", "", {}),
    "one token of two words": (DIVIDED, UNDIVIDED, {"Words": 2 * 3 / 9, "UPOS": 2 * 3 / 9, "UAS": 0.0}),
    "a feature that is not universal": ("|Style=Coll", "", {}),
    "a universal feature": ("Number=Sing", "Number=Plur", {"UFeats": 0.8}),
    "a subtype": ("advmod:neg", "advmod", {}),
    "a relation": ("2\tadvmod\t_\tSpace", "2\tobj\t_\tSpace", {"LAS": 0.8}),
    "a head": ("5\t.\t.\tPUNCT\t.\t_\t2", "5\t.\t.\tPUNCT\t.\t_\t4", {"UAS": 0.8, "LAS": 0.8}),
    "a tag": ("VBD", "VBN", {"XPOS": 0.8}),
    "a lemma": ("\tnot\t", "\tn't\t", {"Lemmas": 0.8}),
    "two sentences": (
        "5\t.\t.\tPUNCT\t.\t_\t2\tpunct",
        "\n1\t.\t.\tPUNCT\t.\t_\t0\troot",
        {"Sentences": 0.0, "UAS": 0.8},
    ),
}


@pytest.mark.issue(51)
@pytest.mark.parametrize("change", CHANGES)
def test_measures_count_what_is_right_by_its_place_in_the_text(change, treebank, write, import_script):
    old, new, expected = CHANGES[change]
    gold = treebank.read_words(write(ROWS))
    scores = import_script("conll18").evaluate(
        gold, treebank.read_words(write(ROWS.replace(old, new) if old else ROWS))
    )
    assert {name: scores[name] for name in expected} == pytest.approx(expected)
    if "Words" not in expected:
        others = set(scores) - set(expected) - ({"LAS"} if "UAS" in expected else set())
        assert {name: scores[name] for name in others} == pytest.approx(dict.fromkeys(others, 1.0))


@pytest.mark.issue(51)
def test_words_within_another_token_count_as_missed(treebank, write, import_script):
    conll18 = import_script("conll18")
    path = write(FRENCH)
    gold = treebank.read_words(path)
    scores = conll18.evaluate(gold, treebank.words_of(treebank.make_docs(path)))
    assert scores["Words"] == pytest.approx(2 * 2 / (4 + 3)) and scores["Sentences"] == 1.0
    assert "XPOS" not in scores and "Lemmas" in scores
    with pytest.raises(ValueError, match="characters"):
        conll18.evaluate(gold, treebank.words_of([Doc(Vocab(), words=["Venue"], heads=[0], deps=["ROOT"])]))


@pytest.mark.issue(51)
def test_tokenizer_learns_rules_and_exceptions_and_a_pipeline_keeps_them(import_script, tmp_path):
    nlp = spacy.blank("en")
    sentences = [["non-stop", "____"], ["Wait", "---", "alot"], ["a", "non-event", "?!"], ["gim", "me", "it"]]
    sentences += [["well", "-", "known", "!!!"], ["hand", "-", "made"]]
    spaces = dict.fromkeys(("gim", "non-event", "well", "hand", "-", "known"), False)
    docs = [Doc(nlp.vocab, words=words, spaces=[spaces.get(word, True) for word in words]) for words in sentences * 3]
    import_script("tokenizer").fit_tokenizer(nlp, docs)
    nlp.to_disk(tmp_path)
    for one in (nlp, spacy.load(tmp_path)):
        words = ["non-fiction", "?!", "ill", "-", "fated", "gim", "me", "!!!!!", "_____"]
        assert [token.text for token in one("non-fiction?! ill-fated gimme!!!!! _____")] == words
