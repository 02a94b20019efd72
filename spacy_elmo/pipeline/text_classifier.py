"""Text classifiers: pooled vectors of a Doc, alone or beside n-grams of words and characters."""

import math
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, Callable, List, Optional, Tuple

import numpy
import torch
from numpy.typing import NDArray
from spacy.strings import get_string_id
from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import (
    Linear,
    Model,
    Softmax,
    chain,
    concatenate,
    list2ragged,
    reduce_mean,
    resizable,
    zero_init,
)
from thinc.layers.resizable import resize_linear_weighted, resize_model
from thinc.types import Floats1d, Floats2d

from ..inference.runtime import isolated, register_fork_handlers
from ..settings import Even, check_arguments

DocModel = Model[List[Doc], Floats2d]
BAG_OF_WORDS = "spacy.TextCatBOW."  # any version
NGRAM_VECTORS = "ngram_vectors"  # name of the layer
RESIZE = "resize_output"  # attribute that spaCy's component calls when a label is added


def TextCatReduce(
    tok2vec: Model[List[Doc], List[Floats2d]],
    exclusive_classes: bool,
    use_reduce_first: bool = False,
    use_reduce_last: bool = False,
    use_reduce_max: bool = False,
    use_reduce_mean: bool = True,
    nO: Optional[int] = None,
) -> DocModel:
    """Pools the token vectors of a Doc and scores the result: `spacy.TextCatReduce.v1`, also for empty Docs in a batch.

    A Doc without tokens scores 0 in each category. spaCy's raises an error for it beside other Docs if it pools by
    anything but the mean (spaCy 3.8), and scores it 0 in a batch of its own.

    tok2vec (Model[List[Doc], List[Floats2d]]): The vectors to pool.
    exclusive_classes (bool): Whether each Doc has exactly one category.
    use_reduce_first (bool): Whether to use the first vector.
    use_reduce_last (bool): Whether to use the last vector.
    use_reduce_max (bool): Whether to use the maximum of each value.
    use_reduce_mean (bool): Whether to use the mean of the vectors.
    nO (Optional[int]): Number of categories; null to infer it from the data.
    RETURNS (Model[List[Doc], Floats2d]): Scores, shape (Docs, categories).
    RAISES (ValueError): E1057 of spaCy if nothing pools.
    """
    build = registry.architectures.get("spacy.TextCatReduce.v1")
    kinds = (use_reduce_first, use_reduce_last, use_reduce_max, use_reduce_mean)
    return skip_empty_docs(build(tok2vec, exclusive_classes, *kinds, nO))


def skip_empty_docs(classifier: DocModel) -> DocModel:
    """The same classifier of Docs, with zeros for Docs without tokens."""
    attrs = dict(classifier.attrs)
    if RESIZE in attrs:
        attrs[RESIZE] = _resize
    model: DocModel = Model(
        "skip_empty_docs",
        _forward_classifier,
        init=_init_classifier,
        layers=[classifier],
        attrs=attrs,
        dims={"nO": None},
    )
    model.set_ref("tok2vec", classifier.maybe_get_ref("tok2vec"))
    if classifier.has_dim("nO"):
        model.set_dim("nO", classifier.get_dim("nO"))
    return model


def _init_classifier(model: DocModel, X: Optional[List[Doc]] = None, Y: Optional[Floats2d] = None) -> None:
    (classifier,) = model.layers
    sample = [doc for doc in X or [] if len(doc)] or [Doc(doc.vocab, ["."]) for doc in X or []]
    classifier.initialize(X=sample or None, Y=Y)
    if classifier.has_dim("nO"):
        model.set_dim("nO", classifier.get_dim("nO"), force=True)


def _forward_classifier(model: DocModel, docs: List[Doc], is_train: bool) -> Tuple[Floats2d, Callable[[Floats2d], Any]]:
    (classifier,) = model.layers
    with_tokens = [i for i, doc in enumerate(docs) if len(doc)]
    if len(with_tokens) == len(docs):
        return classifier(docs, is_train)
    scores = model.ops.alloc2f(len(docs), model.get_dim("nO"))
    if not with_tokens:
        return scores, lambda d_scores: []
    scores[with_tokens], backprop = classifier([docs[i] for i in with_tokens], is_train)
    return scores, lambda d_scores: backprop(d_scores[with_tokens])


def _resize(model: DocModel, new_nO: int) -> DocModel:
    (classifier,) = model.layers
    classifier.attrs[RESIZE](classifier, new_nO)
    model.set_dim("nO", new_nO, force=True)
    return model


CHARACTER_NGRAMS = range(2, 6)  # lengths of n-grams of characters
N_FREQUENCIES = 2**20  # n-grams are counted by the remainders of their hashes
TINY = 1e-12  # of a length, for n-grams that training has not seen
HASH_MASK = 2**32 - 1  # the bits of a hash that count
RARE = -10.0  # bias of a category added later, which further training can raise
LONG = 50  # letters of a word whose hashes are not cached
Hashes = NDArray[numpy.int64]


@check_arguments
def TextCatNgrams(
    tok2vec: Optional[Model[List[Doc], List[Floats2d]]],
    exclusive_classes: bool,
    width: Even = 32768,
    nO: Optional[int] = None,
) -> DocModel:
    """Scores n-grams of words and characters, and the mean of the token vectors, with one linear layer.

    The n-grams are words, pairs of words, and 2 to 5 characters of a word, in lower case, weighted by TF-IDF with
    frequencies that are counted in training. They are hashed into a vector with random signs (Weinberger et al. 2009),
    which a Fourier transform rotates (Ailon and Chazelle 2006): inner products stay, and no value belongs to single
    n-grams. So Adam, which learns rare features as fast as frequent ones, finds what regression on TF-IDF finds. With
    ten examples of each category, regression on the vectors of a sentence transformer is 8 points better on HWU64.

    tok2vec (Optional[Model[List[Doc], List[Floats2d]]]): The vectors to average: a listener with mix "concat", whose
        initial_gamma weighs ELMo against the n-grams (0.2 for wording and style, 0.02 for keywords;
        `spacy-elmo.ChooseGamma.v1` chooses it); null for n-grams alone.
    exclusive_classes (bool): Whether each Doc has exactly one category.
    width (int): Width of the vector of n-grams; even.
    nO (Optional[int]): Number of categories; null to infer it from the data.
    RETURNS (Model[List[Doc], Floats2d]): Scores, shape (Docs, categories); 0 for a Doc without tokens.
    RAISES (ValueError): For an invalid width.
    """
    register_fork_handlers()
    vectors: DocModel = Model(
        NGRAM_VECTORS, _forward_ngrams, init=_init_ngrams, dims={"nO": width}, params={"frequencies": None}
    )
    if tok2vec is not None:
        vectors = concatenate(vectors, chain(tok2vec, list2ragged(), reduce_mean()))
        vectors.init = partial(_init_without_scores, vectors.init)
    scorer = Softmax(nO) if exclusive_classes else Linear(nO, init_W=zero_init, init_b=_init_prior)
    output = resizable(scorer, resize_layer=partial(resize_linear_weighted, fill_defaults={"W": 0.0, "b": RARE}))
    classifier = (
        chain(vectors, output)
        if exclusive_classes
        else chain(vectors, output, Model("logistic_regression", _forward_logistic))
    )
    classifier.set_ref("tok2vec", tok2vec)
    classifier.attrs["multi_label"] = not exclusive_classes
    classifier.attrs[RESIZE] = partial(_resize_output, output)
    if nO is not None:
        classifier.set_dim("nO", nO)
    return skip_empty_docs(classifier)


def _init_without_scores(init: Callable[..., None], model: DocModel, X: Any = None, Y: Any = None) -> None:
    """Static vectors would take the number of categories for their width."""
    init(model, X)


def _resize_output(output: Model[Floats2d, Floats2d], classifier: DocModel, new_nO: int) -> DocModel:
    resize_model(output, new_nO)
    classifier.set_dim("nO", new_nO, force=True)
    return classifier


def _init_prior(ops: Any, shape: Tuple[int]) -> Floats1d:
    """Initial biases: the expected number of categories per text is 1. With zeros, training would first fit all weights
    to the rarity of most categories."""
    biases: Floats1d = ops.alloc1f(*shape) - math.log(max(shape[0] - 1, 1))
    return biases


def _forward_logistic(model: Any, X: Floats2d, is_train: bool) -> Tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    """The logistic function; scores minus truth, which spaCy passes back, is the gradient of the cross-entropy."""
    return model.ops.sigmoid(X), lambda d_scores: d_scores


def _init_ngrams(model: DocModel, X: Optional[List[Doc]] = None, Y: Optional[Floats2d] = None) -> None:
    """Allocate the numbers of Docs that have each n-gram, by its hash, and the number of all Docs, behind them."""
    model.set_param("frequencies", model.ops.alloc1f(N_FREQUENCIES + 1))


def _forward_ngrams(model: DocModel, docs: List[Doc], is_train: bool) -> Tuple[Floats2d, Callable[[Floats2d], Any]]:
    """Map Docs to vectors, shape (Docs, nO); count n-grams in training."""
    width = model.get_dim("nO")
    blocks = [block for doc in docs for block in _hash_ngrams(doc)]  # words and characters of each Doc
    rows = numpy.repeat(numpy.arange(len(blocks), dtype="int64"), [len(block) for block in blocks])
    ngrams, counts = numpy.unique(rows << 32 | numpy.concatenate(blocks), return_counts=True)
    rows, hashes = ngrams >> 32, ngrams & HASH_MASK
    frequencies = model.ops.to_numpy(model.get_param("frequencies"))
    places = hashes % N_FREQUENCIES
    if is_train:
        frequencies[:-1] += numpy.bincount(places, minlength=N_FREQUENCIES)
        frequencies[-1] += len(docs)
        model.set_param("frequencies", model.ops.asarray1f(frequencies))
    seen = frequencies[places]
    weights = (seen > 0) * (1 + numpy.log(counts)) * (1 + numpy.log((1 + frequencies[-1]) / (1 + seen)))
    squares = numpy.bincount(rows, weights**2, minlength=len(blocks))
    weights /= numpy.sqrt(numpy.maximum(squares, TINY) / 2)[rows]  # below, each block has the length 1
    columns = rows // 2 * width + hashes // 2 % width
    signs = numpy.where(hashes % 2, 1.0, -1.0)
    hashed = numpy.bincount(columns, weights * signs, minlength=len(docs) * width).reshape(len(docs), width)
    return model.ops.asarray2f(_rotate(hashed.astype("float32"))), lambda d_vectors: []


@isolated
def _rotate(rows: NDArray[numpy.float32]) -> NDArray[numpy.float32]:
    """The Fourier transform of each row, from (Docs, nO) to (Docs, nO)."""
    frequencies = torch.fft.rfft(torch.from_numpy(rows), norm="ortho")[:, 1:]  # complex: two values each
    rotated: NDArray[numpy.float32] = torch.view_as_real(frequencies).reshape(rows.shape).numpy()
    return rotated


def _hash_ngrams(doc: Doc) -> Tuple[Hashes, Hashes]:
    words = [token.lower_ for token in doc if not token.is_space] or [""]
    pairs = [f"{first} {second}" for first, second in pairwise(words)]
    characters = [(_hash_cached if len(word) <= LONG else _hash_characters)(word) for word in words]
    return _hash([f"word:{word}" for word in words] + pairs), numpy.concatenate(characters)


def _hash_characters(word: str) -> Hashes:
    spaced = f" {word} "
    return _hash([spaced[i : i + n] for n in CHARACTER_NGRAMS for i in range(len(spaced) - n + 1)])


_hash_cached = lru_cache(maxsize=100_000)(_hash_characters)


def _hash(ngrams: List[str]) -> Hashes:
    ids = numpy.array([get_string_id(ngram) for ngram in ngrams], dtype="uint64")
    hashes: Hashes = (ids & numpy.uint64(HASH_MASK)).astype("int64")
    return hashes
