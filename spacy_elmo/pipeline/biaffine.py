"""A deep biaffine dependency parser (Dozat and Manning 2017): its network, its loss, and the trees that it predicts.

With hidden vectors d of a word as dependent and h as head, from one layer each, word j is the head of word i with score
[d_i; 1] U h_j, and label r has the score [d_i; 1] U_r [h_j; 1]. The root is a head with a learned vector. Labels have
hidden vectors of their own, and so has a third decision, whether a word begins a sentence: arcs are scored within
sentences.

Sentences of similar length are padded to a batch. One of more than `MAX_SCORED_WORDS` words is divided, so that memory
grows with its length and not with its square: each division has a tree of its own, and their roots depend on the
root of the first.
"""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy
import torch
from numpy.typing import NDArray
from spacy.tokens import Doc
from thinc.api import Model, chain, get_array_module, glorot_uniform_init
from thinc.types import Floats2d, FloatsXd
from thinc.util import get_width, torch2xp, xp2torch
from torch import Tensor
from torch.nn import functional

from ..inference.packed_weights import PackedLinear, takes_kernel
from ..inference.runtime import isolated, register_fork_handlers
from ..settings import Count, Probability, check_arguments
from .crf import MISSING, Integers, raise_other_component
from .spanning_tree import are_trees, find_best_tree
from .task_layers import PACKED

ROOT_LABEL = "root"  # in any case
ROOT_HEAD = 0  # column of the root in arc scores
MAX_SCORED_WORDS = 1000  # of a sentence whose arcs are scored at once
# What is computed at once stays in the caches of a core: words and arc scores, and words whose labels or sentence
# starts are predicted (with 64 words, labels take half the time that they take with 1,024).
MAX_GROUP_WORDS, MAX_SCORES, N_ROWS = 1024, 2**20, 64
SLOPE = 0.1  # of the leaky ReLU for negative values
TINY_GRADIENT = 1e-15  # of a score: a mistake has a gradient of up to 1, and Adam an epsilon of 1e-8
HIDDEN = ("arc_dependent", "arc_head", "label_dependent", "label_head", "start")  # hidden layers
KNOWN_START, UNKNOWN_START, KNOWN_INSIDE = 1, 0, -1  # as in `token.sent_start`


@dataclass(frozen=True)
class BiaffineInputs:
    """The input of the scores, or its gradient.

    vectors (List[Floats2d]): Shape (n, nI) for each Doc.
    weights (Dict[str, FloatsXd]): The parameters of the layer, by name.
    dropout (float): Dropout of the hidden vectors.
    packed (Dict[str, PackedLinear]): Holds the matrices for the kernel, by name.
    """

    vectors: List[Floats2d]
    weights: Dict[str, FloatsXd]
    dropout: float = 0.0
    packed: Dict[str, PackedLinear] = field(default_factory=dict)


class ParseAnnotation(NamedTuple):
    """Annotation of the n words of a Doc.

    words (Integers): Shape (n,), the tokens that are not white space.
    starts (Integers): Shape (n,), whether each word begins a sentence: 1, -1 if not, 0 if that is unknown.
    heads (Integers): Shape (n,), the word that each word depends on; itself for a root, `MISSING` if unknown.
    labels (Integers): Shape (n,), the number of the label of each dependency, or `MISSING`.
    """

    words: Integers
    starts: Integers
    heads: Integers
    labels: Integers


class _Network(NamedTuple):
    """The parameters by name, the products with matrices among them, and the dropout of the hidden vectors."""

    weights: Dict[str, Tensor]
    products: Dict[str, Callable[[Tensor], Tensor]]
    dropout: float = 0.0


@check_arguments
def BiaffineParser(
    tok2vec: Model[List[Doc], List[Floats2d]],
    arc_width: Count = 400,
    label_width: Count = 100,
    dropout: Optional[Probability] = 0.33,
) -> Model[List[Doc], BiaffineInputs]:
    """Deep biaffine attention, as in Dozat and Manning (2017), over any `tok2vec`.

    tok2vec (Model[List[Doc], List[Floats2d]]): Any layer that gives a vector for each token.
    arc_width (int): Width of the hidden vectors of dependents and of heads.
    label_width (int): Width of the hidden vectors for labels, and for sentence starts.
    dropout (Optional[float]): Dropout of the hidden vectors, 0 to below 1; null for the dropout of [training].
    RETURNS (Model[List[Doc], BiaffineInputs]): The model of a `biaffine_parser`; in another component it raises a
        ValueError.
    RAISES (ValueError): For invalid settings.
    """
    register_fork_handlers()
    attrs: Dict[str, Any] = {"dropout_rate": 0.0} if dropout is None else {"fixed_dropout_rate": dropout}
    attrs[PACKED] = {name: PackedLinear() for name in (*HIDDEN, "arcs", "labels")}
    widths = dict(zip(HIDDEN, (arc_width, arc_width, label_width, label_width, label_width)))
    names = [f"{name}_{kind}" for name in HIDDEN for kind in ("W", "b")]
    names += ["arc_root", "label_root", "arcs", "labels", "starts_W", "starts_b"]
    biaffine: Model[List[Floats2d], BiaffineInputs] = Model(
        "biaffine",
        _forward,
        init=_init,
        dims={"nI": None, "nO": None, **widths},
        params=dict.fromkeys(names),
        attrs=attrs,
    )
    model: Model[List[Doc], BiaffineInputs] = chain(tok2vec, biaffine)
    model.set_ref("tok2vec", tok2vec)
    model.set_ref("biaffine", biaffine)
    model.attrs["resize_output"] = _raise_not_parser  # what spaCy's `ner` and `parser` call first
    return model


def _init(model: Model[List[Floats2d], BiaffineInputs], X: Optional[List[Floats2d]] = None, Y: Any = None) -> None:
    """Draw the weights of the hidden layers (Glorot and Bengio 2010); others are zero. ValueError if no component has
    set the number of labels.
    """
    if not model.has_dim("nO"):
        _raise_not_parser()
    if X is not None:
        model.set_dim("nI", get_width(X))
    ops = model.ops
    for name in HIDDEN:
        model.set_param(f"{name}_W", glorot_uniform_init(ops, (model.get_dim(name), model.get_dim("nI"))))
        model.set_param(f"{name}_b", ops.alloc1f(model.get_dim(name)))
    arc_width, label_width = model.get_dim("arc_head"), model.get_dim("label_head")
    model.set_param("arc_root", ops.alloc1f(arc_width))
    model.set_param("label_root", ops.alloc1f(label_width))
    model.set_param("arcs", ops.alloc2f(arc_width + 1, arc_width))
    model.set_param("labels", ops.alloc3f(label_width + 1, model.get_dim("nO"), label_width + 1))
    model.set_param("starts_W", ops.alloc1f(label_width))
    model.set_param("starts_b", ops.alloc1f(1))


def _forward(
    model: Model[List[Floats2d], BiaffineInputs], vectors: List[Floats2d], is_train: bool
) -> Tuple[BiaffineInputs, Callable[[BiaffineInputs], List[Floats2d]]]:
    """The vectors with the parameters; the callback takes the gradient of both."""

    def backprop(d_inputs: BiaffineInputs) -> List[Floats2d]:
        for name, d_weights in d_inputs.weights.items():
            model.inc_grad(name, d_weights)
        return d_inputs.vectors

    rate: float = model.attrs["dropout_rate" if "dropout_rate" in model.attrs else "fixed_dropout_rate"]
    weights = {name: model.get_param(name) for name in model.param_names}
    return BiaffineInputs(vectors, weights, rate if is_train else 0.0, model.attrs[PACKED]), backprop


# Training


@isolated
def compute_parse_loss(inputs: BiaffineInputs, annotations: Sequence[ParseAnnotation]) -> Tuple[float, BiaffineInputs]:
    """The cross entropy of heads, labels and sentence starts, summed over the words where they are annotated, and its
    gradient. Labels are scored for the annotated arcs.

    annotations (Sequence[ParseAnnotation]): One for each Doc.
    """
    xp = get_array_module(inputs.weights["arcs"])
    d_vectors = [xp.zeros_like(vectors) for vectors in inputs.vectors]
    rows, lengths, joined = _join_parses(annotations, [len(vectors) for vectors in inputs.vectors])
    is_annotated = (joined.heads != MISSING).any() or (joined.starts != UNKNOWN_START).any()
    if not is_annotated:
        return 0.0, BiaffineInputs(d_vectors, {})
    weights = {name: xp2torch(array, requires_grad=True) for name, array in inputs.weights.items()}
    vectors = xp2torch(xp.concatenate(inputs.vectors)[rows], requires_grad=True)  # (W, nI)
    with torch.enable_grad():
        network = _Network(weights, _make_products(weights), inputs.dropout)
        losses = [
            _compute_arc_loss(vectors, lengths, joined.heads, network),
            _compute_label_loss(vectors, joined, network),
            _compute_start_loss(vectors, joined.starts, network),
        ]
        loss = torch.stack(losses).sum()
        gradients = torch.autograd.grad(loss, [vectors, *weights.values()], allow_unused=True)
    d_weights = {name: torch2xp(array) for name, array in zip(weights, gradients[1:]) if array is not None}
    d_rows = xp.zeros((sum(map(len, d_vectors)), vectors.shape[1]), dtype="float32")
    d_rows[rows] = torch2xp(gradients[0])
    ends = numpy.cumsum([len(vectors) for vectors in d_vectors])[:-1].tolist()
    return float(loss.detach()), BiaffineInputs(xp.split(d_rows, ends), d_weights)


def _compute_arc_loss(vectors: Tensor, lengths: Integers, heads: Integers, network: _Network) -> Tensor:
    """The loss of heads that are in the same division of the same sentence."""
    first = numpy.repeat(lengths.cumsum() - lengths, lengths)  # (W,), of its division
    columns = numpy.where(heads == numpy.arange(len(heads)), ROOT_HEAD, heads - first + 1)
    is_inside = (heads >= first) & (heads < first + numpy.repeat(lengths, lengths))
    columns = numpy.where(is_inside, columns, MISSING)
    dependents, candidates = (_hide(vectors, name, network) for name in HIDDEN[:2])
    loss = vectors.new_zeros(())
    for places, n_words in _group(lengths):
        is_word = numpy.arange(places.shape[1]) < n_words[:, None]
        targets = _to(vectors, numpy.where(is_word, columns[places], MISSING).ravel())
        index = _to(vectors, places)
        scores = _score_arcs(dependents[index], candidates[index], _to(vectors, n_words), network)
        scores = _drop_tiny_gradients(scores.flatten(0, 1))
        loss = loss + functional.cross_entropy(scores, targets, ignore_index=MISSING, reduction="sum")
    return loss


def _compute_label_loss(vectors: Tensor, joined: ParseAnnotation, network: _Network) -> Tensor:
    labelled = numpy.flatnonzero((joined.labels != MISSING) & (joined.heads != MISSING))
    words, heads = _to(vectors, labelled), _to(vectors, joined.heads[labelled])
    scores = _drop_tiny_gradients(_score_labels(vectors[words], vectors[heads], words == heads, network))
    return functional.cross_entropy(scores, _to(vectors, joined.labels[labelled]), reduction="sum")


def _compute_start_loss(vectors: Tensor, starts: Integers, network: _Network) -> Tensor:
    known = numpy.flatnonzero(starts != UNKNOWN_START)
    scores = _score_starts(vectors[_to(vectors, known)], network)
    targets = _to(vectors, starts[known] == KNOWN_START).float()
    return functional.binary_cross_entropy_with_logits(scores, targets, reduction="sum")


def _drop_tiny_gradients(scores: Tensor) -> Tensor:
    """RETURNS (Tensor): The same scores. Where a network is sure, the gradients of all other heads and labels are
    subnormal numbers, with which processors multiply many times slower; they become zero.
    """
    scores.register_hook(partial(functional.hardshrink, lambd=TINY_GRADIENT))
    return scores


# Prediction


@isolated
def predict_parses(
    inputs: BiaffineInputs, words: Sequence[Integers], starts: Sequence[Integers], root_label: Optional[int]
) -> List[ParseAnnotation]:
    """Predict sentence starts where they are unknown, the best tree of each sentence, and the best label of each arc.

    words (Sequence[Integers]): The tokens of each Doc that are not white space.
    starts (Sequence[Integers]): See `ParseAnnotation`; what is known is kept.
    root_label (Optional[int]): The label of roots, which no other word has; None if it is to be predicted.
    RETURNS (List[ParseAnnotation]): Without unknown values.
    """
    unknown = [numpy.full(len(doc_words), MISSING) for doc_words in words]
    with_first = [numpy.where(numpy.arange(len(known)) == 0, KNOWN_START, known) for known in starts]
    annotations = [ParseAnnotation(*arrays) for arrays in zip(words, with_first, unknown, unknown)]
    xp = get_array_module(inputs.weights["arcs"])
    rows, _, joined = _join_parses(annotations, [len(vectors) for vectors in inputs.vectors])
    with torch.no_grad():
        weights = {name: xp2torch(array) for name, array in inputs.weights.items()}
        network = _Network(weights, _make_products(weights, inputs.packed))
        vectors = xp2torch(xp.concatenate(inputs.vectors)[rows])  # (W, nI)
        predicted = joined.starts.copy()
        for batch in _batch_rows(numpy.flatnonzero(predicted == UNKNOWN_START)):
            is_start = _score_starts(vectors[_to(vectors, batch)], network) > 0
            predicted[batch] = numpy.where(is_start.cpu().numpy(), KNOWN_START, KNOWN_INSIDE)
        heads = _predict_heads(vectors, predicted, network)
        labels = numpy.empty_like(heads)
        for batch in _batch_rows(numpy.arange(len(heads))):
            index, head_index = _to(vectors, batch), _to(vectors, heads[batch])
            is_root = index == head_index
            scores = _score_labels(vectors[index], vectors[head_index], is_root, network)
            if root_label is not None:
                scores[:, root_label] = torch.where(is_root, math.inf, -math.inf)
            labels[batch] = scores.argmax(dim=1).cpu().numpy()
    ends = numpy.cumsum([len(doc_words) for doc_words in words])
    first = ends - [len(doc_words) for doc_words in words]
    split = [numpy.split(array, ends[:-1]) for array in (predicted, heads, labels)]
    return [
        ParseAnnotation(doc_words, doc_starts, doc_heads - offset, doc_labels)
        for doc_words, offset, doc_starts, doc_heads, doc_labels in zip(words, first, *split)
    ]


def _predict_heads(vectors: Tensor, starts: Integers, network: _Network) -> Integers:
    """RETURNS (Integers): Shape (W,), the head of each word, itself for the root of each sentence."""
    is_start = starts == KNOWN_START
    lengths = _divide_long(is_start)
    heads = numpy.empty(len(starts), dtype="int64")
    for places, n_words in _group(lengths):
        rows = vectors[_to(vectors, places)]  # (B, T, nI)
        dependents, candidates = (_hide(rows, name, network) for name in HIDDEN[:2])
        scores = _score_arcs(dependents, candidates, _to(vectors, n_words), network)  # (B, T, T+1)
        is_word = numpy.arange(places.shape[1]) < n_words[:, None]
        best = numpy.where(is_word, scores.argmax(dim=2).cpu().numpy(), ROOT_HEAD)
        for i in numpy.flatnonzero(~are_trees(best, n_words)):
            n = int(n_words[i])
            best[i, :n] = find_best_tree(scores[i, :n, : n + 1].cpu().numpy())
        attached = numpy.where(best == ROOT_HEAD, places, places[:, :1] + best - 1)
        heads[places[is_word]] = attached[is_word]
    roots = numpy.flatnonzero(heads == numpy.arange(len(heads)))  # one in each division, in their order
    sentences = is_start.cumsum()[roots]
    heads[roots] = roots[numpy.searchsorted(sentences, sentences)]
    return heads


# Scores


def _make_products(
    weights: Dict[str, Tensor], packed: Optional[Dict[str, PackedLinear]] = None
) -> Dict[str, Callable[[Tensor], Tensor]]:
    """Products of vectors (..., n) with matrices, and with the row of a bias: by the kernel, if it takes them."""
    arcs, labels = weights["arcs"], weights["labels"].flatten(1)
    if packed and takes_kernel(arcs, list(weights.values())):
        matrices = {name: (weights[f"{name}_W"], weights[f"{name}_b"]) for name in HIDDEN}
        matrices.update(arcs=(arcs[:-1].t(), arcs[-1]), labels=(labels[:-1].t(), labels[-1]))
        return {name: packed[name].bind(*matrices[name]) for name in matrices}
    hidden = {
        name: partial(functional.linear, weight=weights[f"{name}_W"], bias=weights[f"{name}_b"]) for name in HIDDEN
    }
    return {
        **hidden,
        "arcs": lambda vectors: vectors @ arcs[:-1] + arcs[-1],
        "labels": lambda vectors: functional.pad(vectors, (0, 1), value=1.0) @ labels,
    }


def _hide(vectors: Tensor, name: str, network: _Network) -> Tensor:
    """RETURNS (Tensor): Hidden vectors of the layer of this name."""
    return functional.dropout(functional.leaky_relu(network.products[name](vectors), SLOPE), network.dropout)


def _score_arcs(dependents: Tensor, heads: Tensor, n_words: Tensor, network: _Network) -> Tensor:
    """Score each head of each word: [d_i; 1] U h_j.

    dependents (Tensor), heads (Tensor): Shape (B, T, A).
    n_words (Tensor): Shape (B,), words of each sentence.
    RETURNS (Tensor): Shape (B, T, T+1), the root first; minus infinity for padding, and for a word as its own head.
    """
    root = network.weights["arc_root"].expand(len(heads), 1, -1)
    scores = network.products["arcs"](dependents) @ torch.cat([root, heads], dim=1).transpose(1, 2)
    columns = torch.arange(scores.shape[2], device=scores.device)
    is_forbidden = columns > n_words[:, None, None]
    is_own = columns == columns[1:, None]
    return scores.masked_fill(is_forbidden | is_own, -math.inf)


def _score_labels(dependents: Tensor, heads: Tensor, is_root: Tensor, network: _Network) -> Tensor:
    """Score each label r of given arcs: [d; 1] U_r [h; 1].

    dependents (Tensor), heads (Tensor): Shape (N, nI), the vectors of both words of each arc.
    is_root (Tensor): Shape (N,), bool: whether the head is the root.
    RETURNS (Tensor): Shape (N, R).
    """
    dependents, heads = _hide(dependents, "label_dependent", network), _hide(heads, "label_head", network)
    heads = torch.where(is_root[:, None], network.weights["label_root"], heads)
    heads = functional.pad(heads, (0, 1), value=1.0)  # (N, L+1)
    queries = network.products["labels"](dependents).unflatten(1, (-1, heads.shape[1]))  # (N, R, L+1)
    scores: Tensor = queries @ heads[:, :, None]
    return scores.squeeze(2)


def _score_starts(vectors: Tensor, network: _Network) -> Tensor:
    """RETURNS (Tensor): Shape (N,), the log odds that each word begins a sentence."""
    weights = network.weights
    return functional.linear(_hide(vectors, "start", network), weights["starts_W"][None], weights["starts_b"]).squeeze(
        1
    )


# Words of all Docs, one after the other


def _join_parses(
    annotations: Sequence[ParseAnnotation], n_tokens: Sequence[int]
) -> Tuple[Integers, Integers, ParseAnnotation]:
    """RETURNS (Tuple[Integers, Integers, ParseAnnotation]): The row of each word among all vectors, the lengths of
    sentences or their divisions, and the annotation of all words, where heads are numbers among all words.
    """
    n_words = [len(annotation.words) for annotation in annotations]
    first_token = numpy.cumsum(n_tokens) - n_tokens
    first_word = numpy.cumsum(n_words) - n_words
    words, starts, heads, labels = (numpy.concatenate(arrays).astype("int64") for arrays in zip(*annotations))
    rows = words + numpy.repeat(first_token, n_words)
    heads = numpy.where(heads == MISSING, MISSING, heads + numpy.repeat(first_word, n_words))
    begins_doc = numpy.zeros(len(starts) + 1, dtype=bool)
    begins_doc[first_word] = True
    lengths = _divide_long((starts == KNOWN_START) | begins_doc[:-1])
    return rows, lengths, ParseAnnotation(words, starts, heads, labels)


def _divide_long(is_start: NDArray[numpy.bool_]) -> Integers:
    """RETURNS (Integers): Words of each sentence, or of its divisions into at most `MAX_SCORED_WORDS` words."""
    firsts = numpy.flatnonzero(is_start)
    lengths = numpy.diff(firsts, append=len(is_start))
    if (lengths <= MAX_SCORED_WORDS).all():
        return lengths
    n_divisions = -(-lengths // MAX_SCORED_WORDS)
    shares = numpy.repeat(lengths // n_divisions, n_divisions)
    place = numpy.arange(len(shares)) - numpy.repeat(n_divisions.cumsum() - n_divisions, n_divisions)
    division_lengths: Integers = shares + (place < numpy.repeat(lengths % n_divisions, n_divisions))
    return division_lengths


def _group(lengths: Integers) -> Iterator[Tuple[Integers, Integers]]:
    """Group sentences of similar length, so that a group of several has at most `MAX_SCORES` arc scores.

    YIELDS (Tuple[Integers, Integers]): The words of each sentence, shape (B, T), padded with its last word; their
        number, shape (B,).
    """
    firsts = lengths.cumsum() - lengths
    order = numpy.argsort(lengths, kind="stable")
    end = len(order)
    while end:
        longest = int(lengths[order[end - 1]])
        start = max(0, end - max(1, min(MAX_GROUP_WORDS // longest, MAX_SCORES // (longest * (longest + 1)))))
        shortest = longest * 7 // 8 - 1  # little padding
        start = max(start, int(numpy.searchsorted(lengths[order[:end]], shortest)))
        group = order[start:end]
        n_words = lengths[group]
        yield firsts[group][:, None] + numpy.minimum(numpy.arange(longest), n_words[:, None] - 1), n_words
        end = start


def _batch_rows(rows: Integers) -> Iterator[Integers]:
    for first in range(0, len(rows), N_ROWS):
        yield rows[first : first + N_ROWS]


def _to(vectors: Tensor, array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(array).to(vectors.device)


_raise_not_parser = partial(raise_other_component, "spacy-elmo.BiaffineParser.v1", "biaffine_parser")
