"""The component `crf_ner`: training, alignment, entities that are there, labels, mistakes."""

from typing import Any, List, Optional, Tuple

import numpy
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from .tiny import CNN, LISTENER, TEXTS, add_elmo

TRAINED = [
    ("Ada Lovelace met Charles in New York City .", "B-PER L-PER O U-PER O B-LOC I-LOC L-LOC O".split()),
    ("London is big .", "U-LOC O O O".split()),
    ("Charles likes London .", "U-PER O U-LOC O".split()),
]
BESIDE_WORDS = {"@architectures": "spacy-elmo.Tok2VecWithElmo.v1", "embed": CNN, "elmo": LISTENER}


def _make_example(nlp: Language, text: str, tags: List[str]) -> Example:
    words = text.split(" ")
    return Example.from_dict(Doc(nlp.vocab, words=words), {"words": words, "entities": tags})


def _make_examples(nlp: Language) -> List[Example]:
    return [_make_example(nlp, *found) for found in TRAINED]


def _make_nlp(tok2vec: Optional[Any] = None, *, n_updates: int = 0, **elmo: Any) -> Language:
    nlp = spacy.blank("en")
    if tok2vec is not None:
        add_elmo(nlp, **elmo)
    nlp.add_pipe("crf_ner", config={"model": {"tok2vec": tok2vec}} if tok2vec else {})
    optimizer = nlp.initialize(lambda: _make_examples(nlp))
    for _ in range(n_updates):
        nlp.update(_make_examples(nlp), sgd=optimizer)
    return nlp


@pytest.fixture(scope="module")
def trained() -> Language:
    """A pipeline that knows its examples by heart."""
    return _make_nlp(n_updates=25)


def _read(doc: Doc) -> List[Tuple[str, str]]:
    return [(ent.text, ent.label_) for ent in doc.ents]


def _doc(nlp: Language, text: str, **annotation: Any) -> Doc:
    return Doc(nlp.vocab, words=text.split(" "), **annotation)


def _bias(nlp: Language, *tags: int) -> None:
    """Let the untrained model prefer some tags, whatever the word."""
    emit = nlp.get_pipe("crf_ner").model.get_ref("emit")
    bias = numpy.zeros_like(emit.get_param("b"))
    bias[list(tags)] = 5.0
    emit.set_param("b", bias)


# Training and prediction


def test_component_alone_learns_entities(trained: Language) -> None:
    assert trained.get_pipe("crf_ner").labels == ("LOC", "PER")
    found = [_read(trained(_doc(trained, text))) for text, _ in TRAINED]
    assert found[0] == [("Ada Lovelace", "PER"), ("Charles", "PER"), ("New York City", "LOC")]
    assert found[1:] == [[("London", "LOC")], [("Charles", "PER"), ("London", "LOC")]]
    assert trained.evaluate(_make_examples(trained))["ents_f"] == 1.0
    assert {token.ent_iob_ for token in trained(_doc(trained, "Charles likes London ."))} == {"B", "O"}


@pytest.mark.parametrize("tok2vec", [LISTENER, BESIDE_WORDS], ids=["listener", "beside words"])
@pytest.mark.parametrize("frozen", [True, False])
def test_component_learns_on_elmo_layers(tok2vec: Any, frozen: bool) -> None:
    nlp = _make_nlp(tok2vec, model={"frozen": frozen})
    bilm = nlp.get_pipe("elmo").model.shims[0].bilm
    before = [parameter.clone() for parameter in bilm.network.parameters()]
    optimizer = nlp.create_optimizer()
    optimizer.learn_rate = 0.05
    losses = [nlp.update(_make_examples(nlp), sgd=optimizer)["crf_ner"] for _ in range(4)]
    assert losses[-1] < 0.9 * losses[0]
    is_same = [bool((old == new).all()) for old, new in zip(before, bilm.network.parameters())]
    assert all(is_same) == frozen


def test_entities_do_not_depend_on_the_batch() -> None:
    nlp = _make_nlp(LISTENER)
    emit = nlp.get_pipe("crf_ner").model.get_ref("emit")
    emit.set_param("W", numpy.random.default_rng(0).normal(size=emit.get_param("W").shape).astype("float32"))
    alone = [_read(nlp(text)) for text in TEXTS]
    assert any(alone)
    for batch_size in (2, 6):
        assert [_read(doc) for doc in nlp.pipe(TEXTS[::-1], batch_size=batch_size)][::-1] == alone


@pytest.mark.parametrize("text", ["", " \n ", "London"])
def test_short_docs_are_read(trained: Language, text: str) -> None:
    doc = trained(text)
    assert len(doc.ents) == (text == "London")
    assert [_read(doc) for doc in trained.pipe([text] * 2)] == [_read(doc)] * 2
    examples = [Example(trained.make_doc(text), doc)]
    assert trained.get_pipe("crf_ner").update(examples)["crf_ner"] < 0.1


def test_white_space_is_inside_entities_but_not_at_their_ends() -> None:
    nlp = _make_nlp()
    _bias(nlp, 5, 6, 7)  # B, I and L of PER, in words of any kind
    doc = nlp(Doc(nlp.vocab, words=["\n", "a", " ", "b", "\n"]))
    assert [(ent.start, ent.end) for ent in doc.ents] == [(1, 4)]
    assert nlp(Doc(nlp.vocab, words=["\n", " "])).ents == ()


# Annotation


@pytest.mark.parametrize(
    "tags, n_all, n_admitted",
    [
        (["O"], 3, 1),
        (["O"] * 2, 11, 1),
        (["O"] * 3, 41, 1),
        (["U-DATE", "O"], 11, 1),  # a label that is not known counts as outside
        (["-"] * 3, 41, 41),
        (["-", "O", "O"], 41, 3),
        (["-", "-", "O"], 41, 11),
    ],
)
def test_loss_of_an_untrained_model_counts_the_sequences(tags: List[str], n_all: int, n_admitted: int) -> None:
    """Of n words and 2 labels: c(n) = 3 c(n-1) + 2 sum of c(n-k) over entities of k > 1 words; 1, 3, 11, 41.

    All are equally probable. A missing tag admits each of them, and so teaches nothing.
    """
    nlp = _make_nlp()
    crf_ner, example = nlp.get_pipe("crf_ner"), _make_example(nlp, "a b c"[: 2 * len(tags) - 1], tags)
    scores, _ = crf_ner.model.begin_update([example.predicted])
    assert crf_ner.get_loss([example], scores)[1].emissions[0].any() == (n_admitted < n_all)
    assert crf_ner.update([example])["crf_ner"] == pytest.approx(numpy.log(n_all / n_admitted), rel=1e-5)


def test_annotation_of_other_tokens_is_aligned() -> None:
    nlp = _make_nlp()
    crf_ner = nlp.get_pipe("crf_ner")
    reference = Doc(nlp.vocab, words=["New York", "is", "big", "."], ents=["B-LOC", "O", "O", "O"])
    predicted = Doc(nlp.vocab, words=["New", "York", "is", "big."])
    same = _make_example(nlp, "New York is big.", ["B-LOC", "L-LOC", "O", "O"])
    assert crf_ner.update([Example(predicted, reference)]) == crf_ner.update([same])


@pytest.mark.parametrize("label", ["LOC", "DATE"])
def test_entities_that_are_there_are_kept(trained: Language, label: str) -> None:
    doc = _doc(trained, "Ada Lovelace met Charles in New York City .")
    doc.set_ents([Span(doc, 1, 4, label=label, kb_id="Q1")], default="missing")
    found = trained(doc)
    assert (1, 4, label, "Q1") in [(ent.start, ent.end, ent.label_, ent.kb_id_) for ent in found.ents]
    assert ("New York City", "LOC") in _read(found) and ("Charles", "PER") not in _read(found)
    assert _read(trained(found.copy())) == _read(found)
    assert "" not in {token.ent_iob_ for token in found}


def test_blocked_tokens_get_no_entity(trained: Language) -> None:
    doc = _doc(trained, "Charles likes London .")
    doc.set_ents([], blocked=[doc[2:3]], default="missing")
    assert _read(trained(doc)) == [("Charles", "PER")]


@pytest.mark.parametrize("is_blocked", [True, False])
def test_white_space_that_is_preset_is_in_no_other_entity(trained: Language, is_blocked: bool) -> None:
    words = ["Ada", "lives", "in", "New", "York", "\n", "City", "."]
    assert (3, 7) in [(ent.start, ent.end) for ent in trained(Doc(trained.vocab, words=words)).ents]
    doc = Doc(trained.vocab, words=words)
    white = Span(doc, 5, 6, label="" if is_blocked else "PER")
    doc.set_ents([] if is_blocked else [white], blocked=[white] if is_blocked else [], default="missing")
    found = [(ent.start, ent.end, ent.label_) for ent in trained(doc).ents if ent.end > 3]
    assert found == ([] if is_blocked else [(5, 6, "PER")])
