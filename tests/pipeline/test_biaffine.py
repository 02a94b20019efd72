"""The biaffine parser against its formulas, written as loops, and against all trees."""

from itertools import product
from typing import Any, Dict, Iterator, List, Tuple

import numpy
import pytest
from thinc.api import Model

from spacy_elmo.pipeline.biaffine import (
    MAX_SCORED_WORDS,
    BiaffineInputs,
    BiaffineParser,
    ParseAnnotation,
    compute_parse_loss,
    predict_parses,
)

WIDTH, ARC_WIDTH, LABEL_WIDTH, N_LABELS = 6, 5, 4, 3
LENGTHS = [3, 1, 2, 4, 0, 5]  # words of Docs


def _make_inputs(lengths: List[int], seed: int = 0) -> BiaffineInputs:
    """Inputs of Docs of random vectors, with random parameters."""
    rng = numpy.random.default_rng(seed)
    vectors = [rng.normal(size=(n, WIDTH)).astype("float32") for n in lengths]
    tok2vec: Model[Any, Any] = Model("vectors", lambda model, docs, is_train: (vectors, lambda d_vectors: []))
    model = BiaffineParser(tok2vec, arc_width=ARC_WIDTH, label_width=LABEL_WIDTH)
    layer = model.get_ref("biaffine")
    layer.set_dim("nO", N_LABELS)
    model.initialize(X=[None])
    for name in layer.param_names:
        layer.set_param(name, rng.normal(size=layer.get_param(name).shape).astype("float32"))
    return model.predict([None])


def _annotate(lengths: List[int], seed: int = 0) -> List[ParseAnnotation]:
    """Random trees of one sentence for each Doc, with random labels; some words have no annotation."""
    rng, annotations = numpy.random.default_rng(seed), []
    for n in lengths:
        order = rng.permutation(n)
        heads = numpy.zeros(n, dtype="int64")
        for i, word in enumerate(order):
            heads[word] = order[rng.integers(i)] if i else word
        labels = rng.integers(N_LABELS, size=n)
        is_missing = rng.random(n) < 0.2
        heads[is_missing] = labels[is_missing] = -1
        starts = numpy.where(numpy.arange(n) == 0, 1, rng.integers(-1, 1, size=n))
        annotations.append(ParseAnnotation(numpy.arange(n), starts, heads, labels))
    return annotations


class _Formulas:
    """Scores of the words of one Doc, in float64."""

    def __init__(self, inputs: BiaffineInputs, doc: int) -> None:
        self.weights = {name: array.astype("float64") for name, array in inputs.weights.items()}
        self.vectors = inputs.vectors[doc].astype("float64")

    def hide(self, name: str, word: int) -> numpy.ndarray:
        hidden = self.weights[f"{name}_W"] @ self.vectors[word] + self.weights[f"{name}_b"]
        return numpy.where(hidden > 0, hidden, 0.1 * hidden)

    def score_arc(self, word: int, head: int) -> float:
        h = self.weights["arc_root"] if head == word else self.hide("arc_head", head)
        return float(numpy.append(self.hide("arc_dependent", word), 1) @ self.weights["arcs"] @ h)

    def score_labels(self, word: int, head: int) -> numpy.ndarray:
        h = self.weights["label_root"] if head == word else self.hide("label_head", head)
        d = numpy.append(self.hide("label_dependent", word), 1)
        return numpy.einsum("i,irj,j->r", d, self.weights["labels"], numpy.append(h, 1))

    def score_start(self, word: int) -> float:
        return float(self.weights["starts_W"] @ self.hide("start", word) + self.weights["starts_b"][0])


def _log_softmax(scores: Any, place: int) -> float:
    return float(scores[place] - numpy.logaddexp.reduce(scores))


def _compute_loss(inputs: BiaffineInputs, annotations: List[ParseAnnotation]) -> float:
    loss = 0.0
    for i, annotation in enumerate(annotations):
        formulas = _Formulas(inputs, i)
        for word, (start, head, label) in enumerate(zip(*annotation[1:])):
            if start:
                loss += numpy.logaddexp(0, -start * formulas.score_start(word))
            if head >= 0:
                loss -= _log_softmax([formulas.score_arc(word, j) for j in range(len(annotation.words))], head)
                loss -= _log_softmax(formulas.score_labels(word, head), label)
    return loss


def test_loss_is_the_cross_entropy_of_heads_labels_and_sentence_starts() -> None:
    inputs, annotations = _make_inputs(LENGTHS), _annotate(LENGTHS)
    assert compute_parse_loss(inputs, annotations)[0] == pytest.approx(_compute_loss(inputs, annotations), rel=1e-5)
    unknown = [ParseAnnotation(a.words, 0 * a.starts, 0 * a.heads - 1, 0 * a.heads - 1) for a in annotations]
    unknown[0] = unknown[0]._replace(starts=annotations[0].starts)
    loss, d_inputs = compute_parse_loss(inputs, unknown)
    assert loss == pytest.approx(_compute_loss(inputs, unknown), rel=1e-5)
    assert d_inputs.vectors[0].any() and not any(d_vectors.any() for d_vectors in d_inputs.vectors[2:])


def _parameters(inputs: BiaffineInputs) -> Dict[str, numpy.ndarray]:
    return {**inputs.weights, **{f"Doc {i}": vectors for i, vectors in enumerate(inputs.vectors)}}


def test_gradient_agrees_with_finite_differences() -> None:
    inputs, annotations = _make_inputs(LENGTHS), _annotate(LENGTHS)
    _, gradients = compute_parse_loss(inputs, annotations)
    arrays, rng = _parameters(inputs), numpy.random.default_rng(0)
    for name, gradient in _parameters(gradients).items():
        if not gradient.size:
            continue
        direction = rng.normal(size=gradient.shape).astype("float32")
        losses = []
        for step in (1e-3, -1e-3):
            before = arrays[name].copy()
            arrays[name] += step * direction
            losses.append(_compute_loss(inputs, annotations))
            arrays[name][...] = before
        assert (gradient * direction).sum() == pytest.approx((losses[0] - losses[1]) / 2e-3, rel=0.02, abs=0.05), name


@pytest.mark.parametrize("name", ["arcs", "labels"])
def test_a_sure_network_has_no_subnormal_gradients(name: str) -> None:
    """Processors compute with subnormal numbers many times slower."""
    inputs = _make_inputs([6])
    annotations = _predict(inputs)
    for scale in numpy.geomspace(1, 1000, 50):
        weights = {**inputs.weights, name: inputs.weights[name] * numpy.float32(scale)}
        _, gradients = compute_parse_loss(BiaffineInputs(inputs.vectors, weights), annotations)
        for array in _parameters(gradients).values():
            assert not ((array != 0) & (abs(array) < numpy.finfo("float32").tiny)).any()


def _trees(n_words: int) -> Iterator[Tuple[int, ...]]:
    """YIELDS (Tuple[int, ...]): The head of each word, itself for the root."""
    for heads in product(range(n_words), repeat=n_words):
        ancestors = heads
        for _ in range(n_words):
            ancestors = tuple(heads[head] for head in ancestors)
        if len(set(ancestors)) == 1 and heads[ancestors[0]] == ancestors[0]:
            yield heads


def _predict(inputs: BiaffineInputs, starts: Any = None, root_label: Any = None) -> List[ParseAnnotation]:
    lengths = [len(vectors) for vectors in inputs.vectors]
    starts = [numpy.full(n, -1) for n in lengths] if starts is None else starts
    return predict_parses(inputs, [numpy.arange(n) for n in lengths], starts, root_label)


@pytest.mark.parametrize("seed", range(5))
def test_prediction_is_the_best_of_all_trees_with_the_best_labels(seed: int) -> None:
    inputs = _make_inputs(LENGTHS, seed)
    for i, parse in enumerate(_predict(inputs)):
        formulas, n = _Formulas(inputs, i), LENGTHS[i]
        scores = {
            heads: sum(formulas.score_arc(word, head) for word, head in enumerate(heads)) for heads in _trees(n) if n
        }
        assert tuple(parse.heads) == max(scores, key=scores.__getitem__, default=())
        labels = [int(formulas.score_labels(word, head).argmax()) for word, head in enumerate(parse.heads)]
        assert parse.labels.tolist() == labels


def test_sentence_starts_are_predicted_where_they_are_unknown() -> None:
    inputs = _make_inputs([6, 6])
    (known, unknown) = _predict(inputs, [numpy.array([1, -1, -1, 1, -1, -1]), numpy.zeros(6, dtype="int64")])
    assert known.starts.tolist() == [1, -1, -1, 1, -1, -1]
    assert (known.heads[:3] < 3).all() and (known.heads[3:] >= 3).all()
    formulas = _Formulas(inputs, 1)
    assert unknown.starts.tolist() == [1, *(1 if formulas.score_start(word) > 0 else -1 for word in range(1, 6))]


def test_only_roots_have_the_label_of_roots() -> None:
    for parse in _predict(_make_inputs([9] * 8), root_label=1):
        assert ((parse.labels == 1) == (parse.heads == numpy.arange(9))).all()


def test_a_parse_does_not_depend_on_the_batch() -> None:
    lengths = [4, 30, 1, 17, 31, 2, 300, 16]
    inputs = _make_inputs(lengths)
    together = _predict(inputs)
    for i in range(len(lengths)):
        (alone,) = _predict(BiaffineInputs([inputs.vectors[i]], inputs.weights))
        for array, wanted in zip(alone, together[i]):
            numpy.testing.assert_array_equal(array, wanted)


def test_a_very_long_sentence_is_one_tree_of_divisions() -> None:
    n = 2 * MAX_SCORED_WORDS + 100
    inputs = _make_inputs([3, n, 2])
    _, parse, _ = _predict(inputs)
    assert (parse.starts == -1)[1:].all()
    assert (parse.heads == numpy.arange(n)).sum() == 1
    ancestors = parse.heads
    for _ in range(12):
        ancestors = ancestors[ancestors]
    assert len(set(ancestors)) == 1
    assert abs(parse.heads - numpy.arange(n)).max() <= n
    annotation = ParseAnnotation(numpy.arange(n), numpy.zeros(n), parse.heads, parse.labels)
    loss, _ = compute_parse_loss(BiaffineInputs([inputs.vectors[1]], inputs.weights), [annotation])
    assert numpy.isfinite(loss)


@pytest.mark.parametrize("settings", [{"arc_width": 0}, {"label_width": 1.5}, {"dropout": 1.0}])
def test_invalid_settings_are_errors(settings: Dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        BiaffineParser(Model("vectors", lambda model, docs, is_train: ([], lambda d_vectors: [])), **settings)
