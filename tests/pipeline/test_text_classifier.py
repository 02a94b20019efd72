"""Text classifiers: n-grams beside ELMo, and vectors that are pooled as by spaCy."""

import numpy
import pytest
import spacy
from spacy.training import Example
from spacy.util import fix_random_seed, registry

from .tiny import add_elmo, task_encoder

LISTENER = {"@architectures": "spacy-elmo.ElmoListener.v1", "layer_norm": "token", "mix": "concat"}
TEXTS = [
    "Play the next song",
    "It may rain today",
    "Play some music",
    "Will it rain?",
    "The song is loud",
    "Rain again",
]
LABELS = ["music", "weather"] * 3
NGRAMS = {"@architectures": "spacy-elmo.TextCatNgrams.v1", "width": 512}
POOLED = {f"use_reduce_{kind}": True for kind in ("first", "last", "max", "mean")}
POOLED["@architectures"] = "spacy-elmo.TextCatReduce.v1"


def train(factory="textcat", tok2vec=LISTENER, steps=30, model=NGRAMS):
    fix_random_seed(0)
    nlp = spacy.blank("en")
    if tok2vec:
        add_elmo(nlp)
    nlp.add_pipe(factory, config={"model": {**model, "tok2vec": tok2vec, "exclusive_classes": factory == "textcat"}})
    cats = [{"music": float(label == "music"), "weather": float(label == "weather")} for label in LABELS]
    examples = [Example.from_dict(nlp.make_doc(text), {"cats": each}) for text, each in zip(TEXTS, cats)]
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(steps):
        nlp.update(examples, sgd=optimizer)
    return nlp


def scores(nlp, texts, **settings):
    return numpy.array([list(doc.cats.values()) for doc in nlp.pipe(texts, **settings)])


def vectors_of(texts, seen, width=8192):
    """The n-gram vectors of texts, with frequencies of others."""
    nlp = spacy.blank("en")
    build = registry.architectures.get("spacy-elmo.TextCatNgrams.v1")
    (layer,) = [node for node in build(None, True, width=width, nO=2).walk() if node.name == "ngram_vectors"]
    layer.initialize()
    layer([nlp.make_doc(text) for text in seen], True)
    return layer.predict([nlp.make_doc(text) for text in texts])


STATIC = {"@architectures": "spacy.MultiHashEmbed.v2", "width": 8, "attrs": ["NORM"], "rows": [50]}


def test_token_vectors_beside_ngrams_may_contain_static_vectors():
    """Of another width than there are categories."""
    nlp = spacy.blank("en")
    nlp.vocab.set_vector("song", numpy.ones(5, dtype="float32"))
    tok2vec = {**STATIC, "include_static_vectors": True}
    nlp.add_pipe("textcat", config={"model": {**NGRAMS, "tok2vec": tok2vec, "exclusive_classes": True}})
    cats = [{"music": float(label == "music"), "weather": float(label == "weather")} for label in LABELS]
    examples = [Example.from_dict(nlp.make_doc(text), {"cats": each}) for text, each in zip(TEXTS, cats)]
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(20):
        nlp.update(examples, sgd=optimizer)
    assert scores(nlp, ["the song"])[0, 0] > 0.5


@pytest.mark.parametrize("factory", ["textcat", "textcat_multilabel"])
@pytest.mark.parametrize("tok2vec", [LISTENER, None], ids=["with ELMo", "n-grams alone"])
def test_it_learns_words_parts_of_words_and_is_saved(factory, tok2vec, tmp_path):
    nlp = train(factory, tok2vec)
    texts = ["Songs and musical plays", "rainy weather"]  # no word of these is in the training texts
    found = scores(nlp, texts)
    assert found[0, 0] > found[0, 1] and found[1, 1] > found[1, 0]
    nlp.to_disk(tmp_path / "one")
    numpy.testing.assert_array_equal(scores(spacy.load(tmp_path / "one"), texts), found)
    if tok2vec:
        nlp.replace_listeners("elmo", factory, ["model.tok2vec"])
        nlp.remove_pipe("elmo")
        nlp.to_disk(tmp_path / "two")
        numpy.testing.assert_allclose(scores(spacy.load(tmp_path / "two"), texts), found, atol=1e-5)


@pytest.mark.parametrize(
    "model, tok2vec",
    [(NGRAMS, LISTENER), (POOLED, LISTENER), (POOLED, task_encoder())],
    ids=["n-grams", "pooled", "pooled, task encoder"],
)
def test_scores_depend_neither_on_other_docs_nor_on_processes(model, tok2vec):
    nlp = train(model=model, tok2vec=tok2vec, steps=5)
    texts = [*TEXTS, "", " ", "It rains, it rains"]
    alone = numpy.concatenate([scores(nlp, [text]) for text in texts])
    numpy.testing.assert_allclose(scores(nlp, texts), alone, atol=1e-5)
    numpy.testing.assert_allclose(scores(nlp, texts, batch_size=2, n_process=2), alone, atol=1e-5)
    assert not alone[len(TEXTS)].any(), "a Doc without tokens"


@pytest.mark.parametrize("factory", ["textcat", "textcat_multilabel"])
def test_pooled_vectors_score_as_with_spacy(factory):
    ours = train(factory, model=POOLED, steps=3)
    spacys = train(factory, model={**POOLED, "@architectures": "spacy.TextCatReduce.v1"}, steps=3)
    numpy.testing.assert_allclose(scores(ours, TEXTS), scores(spacys, TEXTS))


@pytest.mark.parametrize("model", [NGRAMS, POOLED], ids=["n-grams", "pooled"])
@pytest.mark.parametrize("factory", ["textcat", "textcat_multilabel"])
def test_a_category_added_later_is_saved_and_learned(factory, model):
    nlp = train(factory, model=model, steps=3)
    before = scores(nlp, TEXTS)
    nlp.get_pipe(factory).add_label("sports")
    numpy.testing.assert_allclose(scores(nlp, TEXTS)[:, :2], before, atol=1e-4)
    if model is NGRAMS:
        assert scores(nlp, TEXTS)[:, 2].max() < 0.01, "it is not predicted before it is learned"
    copied = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    numpy.testing.assert_array_equal(scores(copied, TEXTS), scores(nlp, TEXTS))
    if model is POOLED and factory == "textcat":
        return  # its new categories are those of spaCy, with a bias of -5000
    cats = dict.fromkeys(nlp.get_pipe(factory).labels, 0.0)
    examples = [Example.from_dict(nlp.make_doc("They won the match"), {"cats": {**cats, "sports": 1.0}})]
    optimizer = nlp.resume_training()
    optimizer.learn_rate = 0.01
    for _ in range(100):
        nlp.update(examples, sgd=optimizer, exclude=["elmo"])
    assert scores(nlp, ["They won the match"])[0, 2] > 0.9


def test_the_first_texts_may_be_empty():
    nlp = spacy.blank("en")
    nlp.add_pipe("textcat", config={"model": {**NGRAMS, "tok2vec": None, "exclusive_classes": True}})
    examples = [Example.from_dict(nlp.make_doc(""), {"cats": {"music": 1.0, "weather": 0.0}})] * 10
    nlp.initialize(lambda: examples)
    assert scores(nlp, TEXTS).shape == (len(TEXTS), 2)


def test_products_of_vectors_are_those_of_tf_idf():
    sklearn = pytest.importorskip("sklearn.feature_extraction.text")
    options = {"sublinear_tf": True, "tokenizer": str.split, "token_pattern": None}
    words = sklearn.TfidfVectorizer(ngram_range=(1, 2), **options).fit(TEXTS)
    characters = sklearn.TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True).fit(TEXTS)
    texts = ["play a song", "the songs will play", "playing some music", "rain rain rain"]
    wanted = sum((matrix @ matrix.T).toarray() for matrix in (words.transform(texts), characters.transform(texts)))
    found = vectors_of(texts, seen=TEXTS)
    numpy.testing.assert_allclose(found @ found.T, wanted, atol=0.05)
    assert not vectors_of(["qzq"], seen=TEXTS).any(), "n-grams that training has not seen"


@pytest.mark.parametrize("width", [0, 7, 512.5, "wide"])
def test_invalid_widths_are_refused_by_name(width):
    with pytest.raises(ValueError, match="width"):
        registry.architectures.get("spacy-elmo.TextCatNgrams.v1")(None, True, width=width)


@pytest.mark.parametrize("factory", ["textcat", "textcat_multilabel"])
def test_its_gradient_is_that_of_the_cross_entropy(factory):
    nlp = train(factory, tok2vec=None, steps=1)
    model = nlp.get_pipe("textcat" if factory == "textcat" else factory).model
    found, backprop = model([nlp.make_doc(text) for text in TEXTS], True)
    differences = found - numpy.eye(2, dtype="float32")[[0, 1] * 3]
    backprop(differences)
    (scorer,) = [node for node in model.walk() if node.has_grad("b")]
    numpy.testing.assert_allclose(scorer.get_grad("b"), differences.sum(axis=0), atol=1e-6)
