"""The component `biaffine_parser`: trees, sentences, white space, partial annotation, saving and mistakes."""

import os
import pickle
from typing import Any, List, Optional, Tuple

import numpy
import pytest
import spacy
from spacy.language import Language
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from thinc.api import Adam, fix_random_seed

from .tiny import CNN, LISTENER, TEXTS, add_elmo, task_encoder

SMALL = {"@architectures": "spacy-elmo.BiaffineParser.v1", "arc_width": 16, "label_width": 16, "dropout": 0.0}
TRAINED: List[Tuple[str, List[int], List[str]]] = [
    (
        "She ate cake . Dogs bark !",
        [1, 1, 1, 1, 5, 5, 5],
        ["nsubj", "ROOT", "obj", "punct", "nsubj", "ROOT", "punct"],
    ),
    # Kuebler et al. (2009): "on the issue" depends on "hearing", across the verb.
    (
        "A hearing is scheduled on the issue today .",
        [1, 3, 3, 3, 1, 6, 4, 3, 3],
        ["det", "nsubj", "aux", "ROOT", "prep", "det", "pobj", "tmod", "punct"],
    ),
    ("Dogs ate .", [1, 1, 1], ["nsubj", "ROOT", "punct"]),
]
BESIDE_WORDS = {"@architectures": "spacy-elmo.Tok2VecWithElmo.v1", "embed": CNN, "elmo": LISTENER}


def _doc(nlp: Language, text: str, **annotation: Any) -> Doc:
    return Doc(nlp.vocab, words=text.split(" "), **annotation)


def _make_example(nlp: Language, text: str, heads: Any = None, deps: Any = None, **annotation: Any) -> Example:
    return Example(_doc(nlp, text), _doc(nlp, text, heads=heads, deps=deps, **annotation))


def _make_examples(nlp: Language) -> List[Example]:
    return [_make_example(nlp, *trained) for trained in TRAINED]


def _make_nlp(tok2vec: Optional[Any] = None, *, n_updates: int = 0, **elmo: Any) -> Language:
    fix_random_seed(0)
    nlp = spacy.blank("en")
    if tok2vec is not None:
        add_elmo(nlp, **elmo)
    nlp.add_pipe("biaffine_parser", config={"model": {**SMALL, "tok2vec": tok2vec or {**CNN, "width": 32}}})
    nlp.initialize(lambda: _make_examples(nlp))
    optimizer = Adam(0.02)
    for _ in range(n_updates):
        nlp.update(_make_examples(nlp), sgd=optimizer)
    return nlp


@pytest.fixture(scope="module")
def trained() -> Language:
    """A pipeline that has learned its examples by heart."""
    return _make_nlp(n_updates=40)


def _read(doc: Doc) -> List[Tuple[int, str]]:
    return [(token.head.i, token.dep_) for token in doc]


def _starts(doc: Doc) -> List[int]:
    return [sent.start for sent in doc.sents]


# Training and prediction


def test_component_alone_learns_trees_and_sentences(trained: Language) -> None:
    for text, heads, deps in TRAINED:
        doc = trained(_doc(trained, text))
        assert _read(doc) == list(zip(heads, deps))
        assert _starts(doc) == ([0, 4] if "Dogs bark" in text else [0])
        assert doc.has_annotation("DEP") and doc.has_annotation("SENT_START")
    assert [token.text for token in trained(_doc(trained, TRAINED[1][0]))[1].rights] == ["on"]
    assert [
        token.text for token in trained(_doc(trained, TRAINED[1][0]))[1].subtree
    ] == "A hearing on the issue".split()
    scores = trained.evaluate(_make_examples(trained))
    assert scores["dep_uas"] == scores["dep_las"] == scores["sents_f"] == 1.0
    assert scores["dep_las_per_type"]["pobj"]["f"] == 1.0


def test_default_network_is_that_of_the_paper() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("biaffine_parser")
    model = nlp.config["components"]["biaffine_parser"]["model"]
    assert {name: model[name] for name in ("arc_width", "label_width", "dropout")} == {
        **{"arc_width": 400, "label_width": 100, "dropout": 0.33}
    }
    assert model["tok2vec"]["@architectures"] == "spacy.HashEmbedCNN.v2"


@pytest.mark.parametrize(
    "tok2vec", [LISTENER, BESIDE_WORDS, task_encoder("both")], ids=["listener", "beside words", "task encoder"]
)
@pytest.mark.parametrize("frozen", [True, False])
def test_component_learns_on_elmo_layers(tok2vec: Any, frozen: bool) -> None:
    nlp = _make_nlp(tok2vec, model={"frozen": frozen})
    bilm = nlp.get_pipe("elmo").model.shims[0].bilm
    before = [parameter.clone() for parameter in bilm.network.parameters()]
    optimizer = nlp.resume_training(sgd=Adam(0.02))
    losses = [nlp.update(_make_examples(nlp), sgd=optimizer)["biaffine_parser"] for _ in range(12)]
    assert losses[-1] < 0.9 * losses[0]
    is_same = [bool((old == new).all()) for old, new in zip(before, bilm.network.parameters())]
    assert all(is_same) == frozen
    parses = [_read(doc) for doc in nlp.pipe(TEXTS)]
    nlp.replace_listeners("elmo", "biaffine_parser", _listener_paths(nlp))
    nlp.remove_pipe("elmo")
    assert [_read(doc) for doc in nlp.pipe(TEXTS)] == parses


def _listener_paths(nlp: Language) -> List[str]:
    tok2vec = nlp.get_pipe_config("biaffine_parser")["model"]["tok2vec"]
    names = [
        name
        for name, block in tok2vec.items()
        if isinstance(block, dict) and block["@architectures"].endswith("Listener.v1")
    ]
    return [f"model.tok2vec.{name}" for name in names] or ["model.tok2vec"]


def test_dropout_follows_the_training_or_is_fixed() -> None:
    def losses(dropout: Any, drop: float) -> List[float]:
        nlp = spacy.blank("en")
        config = {"model": {**SMALL, "dropout": dropout, "tok2vec": CNN}}
        parser = nlp.add_pipe("biaffine_parser", config=config)
        nlp.initialize(lambda: _make_examples(nlp))
        fix_random_seed(0)
        layer = parser.model.get_ref("biaffine")
        for name in layer.param_names:
            layer.set_param(name, numpy.random.normal(size=layer.get_param(name).shape).astype("float32"))
        return [parser.update(_make_examples(nlp), drop=drop)["biaffine_parser"] for _ in range(2)]

    for dropout, drop, is_random in ((None, 0.5, True), (None, 0.0, False), (0.5, 0.0, True)):
        first, second = losses(dropout, drop)
        assert (first != second) == is_random, (dropout, drop)


def test_parses_do_not_depend_on_the_batch_or_on_processes() -> None:
    nlp = _make_nlp(LISTENER)
    layer = nlp.get_pipe("biaffine_parser").model.get_ref("biaffine")
    rng = numpy.random.default_rng(0)
    for name in ("arcs", "labels", "starts_W", "arc_root"):
        layer.set_param(name, rng.normal(size=layer.get_param(name).shape).astype("float32"))
    alone = [_read(nlp(text)) for text in TEXTS]
    assert sum(head != i for parse in alone for i, (head, _) in enumerate(parse)) > 10
    for batch_size in (2, 6):
        assert [_read(doc) for doc in nlp.pipe(TEXTS[::-1], batch_size=batch_size)][::-1] == alone


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_workers_give_the_same_parses(trained: Language) -> None:
    texts = [text for text, _, _ in TRAINED] * 2
    wanted = [_read(doc) for doc in trained.pipe(texts)]
    assert [_read(doc) for doc in trained.pipe(texts, n_process=2, batch_size=2)] == wanted


@pytest.mark.parametrize("text", ["", " \n ", "London"])
def test_short_docs_are_read(trained: Language, text: str) -> None:
    doc = trained(text)
    assert all(token.dep_ == "ROOT" and token.head == token for token in doc[:1])
    assert len(list(doc.sents)) == (len(doc) > 0)
    assert [_read(other) for other in trained.pipe([text] * 2)] == [_read(doc)] * 2
    losses = trained.get_pipe("biaffine_parser").update([Example(trained.make_doc(text), doc)])
    assert losses["biaffine_parser"] < 5.0


# Sentence boundaries and white space


@pytest.mark.parametrize("starts", [[1, -1, 1, -1, -1, -1, -1], [1, -1, -1, 1, -1, 0, 0], [0, 0, 0, 0, -1, 0, 0]])
def test_boundaries_that_are_set_are_kept_and_others_predicted(trained: Language, starts: List[int]) -> None:
    wanted = [i for i in range(7) if i == 0 or starts[i] == 1 or (starts[i] == 0 and i == 4)]
    doc = trained(_doc(trained, TRAINED[0][0], sent_starts=starts))
    assert _starts(doc) == wanted
    assert sum(token.head == token for token in doc) == len(wanted)
    assert all(token.head.sent == token.sent for token in doc)


def test_boundaries_of_a_sentencizer_are_kept(trained: Language) -> None:
    doc = _doc(trained, "She ate . \n cake Dogs ! \n\n")
    sentencizer = Sentencizer()
    wanted = _starts(sentencizer(doc.copy()))
    doc = trained(sentencizer(doc))
    assert _starts(doc) == wanted == [0, 3, 7]
    assert _read(doc)[3] == (4, "dep") and _read(doc)[7] == (7, "ROOT"), "next word; a sentence of white space"


@pytest.mark.parametrize("space, wanted", [("\n\n", [0, 3]), ("\r\n \r\n", [0, 3]), ("\n", [0]), ("  ", [0])])
def test_a_blank_line_ends_a_sentence(trained: Language, space: str, wanted: List[int]) -> None:
    words = ["She", "ate", space, "cake", "."]
    doc = trained(Doc(trained.vocab, words=words))
    assert _starts(doc) == wanted
    assert all(token.head.sent == token.sent for token in doc)
    known = trained(Doc(trained.vocab, words=words, sent_starts=[1, -1, -1, -1, -1]))
    assert _starts(known) == [0], "a boundary that is known is kept"


def test_white_space_depends_on_the_word_before_it(trained: Language) -> None:
    words = ["\n", "She", " ", "ate", "cake", ".", " ", "\n", "Dogs", "bark", "!", " "]
    doc = trained(Doc(trained.vocab, words=words))
    spaces = [(token.i, token.head.i, token.dep_) for token in doc if token.is_space]
    assert spaces == [(i, head, "dep") for i, head in ((0, 1), (2, 1), (6, 5), (7, 5), (11, 10))]
    assert _starts(doc) == [0, 8]
    without = [(words[token.head.i], token.dep_) for token in doc if not token.is_space]
    assert without == [(token.head.text, token.dep_) for token in trained(_doc(trained, TRAINED[0][0]))]


def test_crossing_arcs_do_not_move_sentence_boundaries() -> None:
    """Of trees in which every arc crosses others, spaCy does not find the left edge in ten passes."""
    nlp = _make_nlp()
    parser = nlp.get_pipe("biaffine_parser")
    layer = parser.model.get_ref("biaffine")
    rng = numpy.random.default_rng(0)
    layer.set_param("arcs", rng.normal(size=layer.get_param("arcs").shape).astype("float32"))
    words = [f"{word}{i}" for i, word in enumerate(["a", "B", "c.", "1"] * 30)]
    starts = [1 if i in (0, 50, 80) else -1 for i in range(len(words))]
    doc = nlp(Doc(nlp.vocab, words=words, sent_starts=starts))
    assert _starts(doc) == [0, 50, 80]
    assert all(token.head.sent == token.sent for token in doc)
    copies = [doc.copy(), Doc(nlp.vocab).from_bytes(doc.to_bytes())]
    copies += DocBin(docs=[doc]).get_docs(nlp.vocab)
    assert all(_read(copy) == _read(doc) for copy in copies)


# Annotation


def test_missing_annotation_has_no_loss() -> None:
    nlp = _make_nlp()
    parser = nlp.get_pipe("biaffine_parser")

    def loss(heads: Any = None, deps: Any = None, **annotation: Any) -> float:
        example = _make_example(nlp, "She ate cake .", heads, deps, **annotation)
        return float(parser.get_loss([example], parser.model.begin_update([example.predicted])[0])[0])

    assert loss() == 0.0
    start = numpy.log(2)  # of an untrained model, which has two outcomes for a start, and as many heads as words
    head, label = numpy.log(4), numpy.log(len(parser.labels))
    assert loss([1, 1, 1, 1], ["nsubj", "ROOT", "obj", "punct"]) == pytest.approx(4 * (start + head + label), rel=1e-5)
    # The first word may belong to the sentence or not, so that spaCy's boundary before the second one is ignored.
    partial = start + 2 * (head + label)
    assert loss([0, 1, 1, 3], ["", "ROOT", "obj", ""]) == pytest.approx(partial, rel=1e-5)
    assert loss(sent_starts=[1, -1, 0, 1]) == pytest.approx(3 * start, rel=1e-5)
    assert loss([1, 1, 1, 1], ["nsubj", "ROOT", "new", "punct"]) == pytest.approx(
        4 * (start + head) + 3 * label, rel=1e-5
    ), "a label that is not known has a head"


def test_annotation_of_other_tokens_is_aligned() -> None:
    nlp = _make_nlp()
    parser = nlp.get_pipe("biaffine_parser")

    def gradient(predicted: List[str], reference: Doc) -> List[numpy.ndarray]:
        example = Example(Doc(nlp.vocab, words=predicted), reference)
        scores, _ = parser.model.begin_update([example.predicted])
        loss, d_scores = parser.get_loss([example], scores)
        assert numpy.isfinite(loss)
        return [loss, *d_scores.weights.values()]

    text, heads, deps = TRAINED[0]
    words = text.split(" ")
    full = Doc(nlp.vocab, words=words, heads=heads, deps=deps)
    spaced = ["\n", *words[:4], "\n", *words[4:], " "]
    for found, wanted in zip(
        gradient(words, full), gradient(words, Doc(nlp.vocab, words=words, heads=heads, deps=deps))
    ):
        numpy.testing.assert_array_equal(found, wanted)
    # White space in either Doc changes nothing.
    assert gradient(spaced, full)[0] == pytest.approx(gradient(words, full)[0])
    moved = [0, 2, 2, 2, 2, 2, 7, 7, 7, 7]
    with_space = Doc(nlp.vocab, words=spaced, heads=[1, *moved[1:]], deps=["dep", *deps[:4], "dep", *deps[4:], "dep"])
    assert gradient(words, with_space)[0] == pytest.approx(gradient(words, full)[0])
    # "cake ." is one token: it has no annotation, nor has what depends on it.
    merged = Doc(nlp.vocab, words=["She", "ate", "cake.", "Dogs", "bark", "!"])
    assert gradient([token.text for token in merged], full)[0] < gradient(words, full)[0]
    assert gradient(words, merged)[0] == 0.0


def test_a_tokenizer_may_differ_from_the_annotation(trained: Language) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("biaffine_parser", config={"model": {**SMALL, "tok2vec": CNN}})
    reference = Doc(nlp.vocab, words=["cannot", "sleep", "."], heads=[1, 1, 1], deps=["aux", "ROOT", "punct"])
    examples = [Example(nlp.make_doc(reference.text), reference)]
    nlp.initialize(lambda: examples)
    assert nlp.get_pipe("biaffine_parser").labels == ("ROOT", "aux", "punct")
    assert numpy.isfinite(nlp.update(examples)["biaffine_parser"])


def test_other_components_can_be_trained_while_it_is_frozen(trained: Language) -> None:
    nlp = pickle.loads(pickle.dumps(trained))
    nlp.add_pipe("crf_ner", config={"model": {"tok2vec": CNN}})
    example = Example.from_dict(_doc(nlp, "She ate cake ."), {"entities": ["O", "O", "U-FOOD", "O"]})
    with nlp.select_pipes(enable="crf_ner"):
        nlp.initialize(lambda: [example])
        nlp.update([example])
    assert _read(nlp(_doc(nlp, TRAINED[2][0]))) == list(zip(*TRAINED[2][1:]))


def test_labels_of_white_space_are_not_collected() -> None:
    nlp = spacy.blank("en")
    parser = nlp.add_pipe("biaffine_parser", config={"model": {**SMALL, "tok2vec": CNN}})
    doc = Doc(nlp.vocab, words=["\n", "Go", "!"], heads=[1, 1, 1], deps=["white", "root", "punct"])
    nlp.initialize(lambda: [Example(Doc(nlp.vocab, words=["\n", "Go", "!"]), doc)])
    assert parser.labels == ("punct", "root")
    assert nlp(Doc(nlp.vocab, words=["Go"]))[0].dep_ == "root", "the label of roots in the data"
