"""The weight of ELMo beside the n-grams of a text classifier, chosen on the training texts before the first update."""

import logging
import random
from itertools import islice
from typing import Any, Callable, Iterable, List, Sequence, Tuple

import numpy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.batchers import minibatch_by_words
from spacy.util import logger, resolve_dot_names
from thinc.api import Model

from .listener import ElmoListener, find_listeners
from .model import get_shim
from .replaced_listener import LISTENER_ARCHITECTURE
from .text_classifier import NGRAM_VECTORS

CHOOSE_GAMMA = "spacy-elmo.ChooseGamma.v1"
STARTER_GAMMA = 0.1  # in the configs of init-config
CANDIDATES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)  # values of initial_gamma; 0 for n-grams alone
# Adam moves all weights equally far, so that the many small values of the n-grams count for more than their length
# says. Ridge regression is as accurate with a fifth of the candidate.
RIDGE_SHARE = 0.2
PENALTY = 0.1  # of ridge regression, in mean squared lengths of a text's vector
READ_TEXTS, READ_TOKENS = 20_000, 1_000_000  # of the corpus; the sample is drawn of these
N_TEXTS, N_TOKENS = 1000, 100_000  # in the sample
TEXT_TOKENS = 500  # read of each text
BATCH_WORDS = 2000
N_FOLDS = 5
N_PREDICTIONS = 500  # at least; few texts are divided several times
MIN_TEXTS = 2 * N_FOLDS
FloatArray = NDArray[numpy.float64]


def ChooseGamma() -> Callable[[Language], None]:
    """Choose `initial_gamma` of each classifier with `TextCatNgrams` and a listener whose mix is "concat". For
    `initialize.after_init`.

    The value is the one with the lowest squared error in five-fold cross-validation of ridge regression, on up to 1,000
    texts, of 100,000 tokens together, drawn of the first 20,000 of the training corpus, of 1,000,000 tokens together.
    It is small where keywords show the categories, large where wording and style show them, and 0, with a warning,
    where n-grams alone are best and the biLM is frozen.
    """
    return choose_gamma


def choose_gamma(nlp: Language) -> None:
    """Set gamma in the listeners of the classifiers, and `initial_gamma` in their configs. Where it cannot be chosen,
    it stays, with a warning. Frozen, sourced and disabled classifiers keep their value. Callbacks do not get the texts
    that `nlp.initialize` is called with in Python: the training corpus of the config is read.

    RAISES (ValueError): Without such a classifier.
    """
    classifiers = [name for name in nlp.component_names if _is_classifier(nlp, name)]
    if not classifiers:
        raise ValueError(
            f"{CHOOSE_GAMMA} in [initialize.after_init] found no component with spacy-elmo.TextCatNgrams.v1 and a "
            f'listener with mix = "concat" in {nlp.component_names}. Remove the callback, or add such a component.'
        )
    for name in classifiers:
        if name in nlp.pipe_names:
            _set_gamma(nlp, name)


def _is_classifier(nlp: Language, name: str) -> bool:
    model = nlp.get_pipe_config(name).get("model")
    block = model.get("tok2vec") if isinstance(model, dict) else None
    if not isinstance(block, dict) or block.get("@architectures") != LISTENER_ARCHITECTURE:
        return False
    return block.get("mix") == "concat" and bool(_find_ngrams(nlp.get_pipe(name)))


def _find_ngrams(component: Any) -> List[Model[Any, Any]]:
    return [node for node in component.model.walk() if node.name == NGRAM_VECTORS]


def _set_gamma(nlp: Language, name: str) -> None:
    block = nlp.get_pipe_config(name)["model"]["tok2vec"]
    former, corpus = block["initial_gamma"], nlp.config["training"]["train_corpus"]
    classifier: Any = nlp.get_pipe(name)
    labels: Sequence[str] = classifier.labels
    try:
        examples = _draw_examples(nlp, labels)
        if len(examples) < MIN_TEXTS:
            raise ValueError(f"it takes {MIN_TEXTS} texts with its categories, and there are {len(examples)}")
        ngrams, listener = _find_ngrams(classifier)[0], find_listeners(classifier)[0]
        gamma = _find_best(examples, labels, ngrams, listener, is_learned=block["learn_gamma"])
    except (OSError, ValueError) as error:  # also of a corpus without a path or a file
        logger.warning("%s: initial_gamma stays %g; it was not chosen on %s: %s", name, former, corpus, error)
        return
    listener.mix.set_param("gamma", listener.ops.asarray1f([gamma]))
    block["initial_gamma"] = gamma
    _log_choice(name, f"{len(examples):,} texts of {corpus}", former, gamma)


def _log_choice(name: str, texts: str, former: float, gamma: float) -> None:
    """A weight of 0 and a replaced value of the user are warnings; spaCy shows the rest with --verbose."""
    is_expected = gamma and former in (STARTER_GAMMA, gamma)
    message = f"{name}: initial_gamma {gamma:g} was chosen on {texts}."
    if former != gamma:
        message += f" To keep the {former:g} of the config, train with --initialize.after_init null."
    if not gamma:
        message += " With 0 it reads n-grams alone, as in a config of init-config --baseline, which is faster."
    logger.log(logging.INFO if is_expected else logging.WARNING, "%s", message)


def _draw_examples(nlp: Language, labels: Sequence[str]) -> List[Example]:
    """RETURNS (List[Example]): A sample of the training corpus, the same in each training, of texts with tokens and one
    of the labels, whose values may be 0.
    """
    config = nlp.config.interpolate()
    (corpus,) = resolve_dot_names(config, [config["training"]["train_corpus"]])
    usable: List[Example] = []
    n_read = 0
    for example in islice(corpus(nlp), READ_TEXTS):
        if len(example.predicted) and not example.reference.cats.keys().isdisjoint(labels):
            usable.append(example)
        n_read += len(example.predicted)
        if n_read > READ_TOKENS:
            break
    sample = random.Random(0).sample(usable, min(N_TEXTS, len(usable)))
    n_tokens = numpy.cumsum([min(len(example.predicted), TEXT_TOKENS) for example in sample])
    return sample[: numpy.searchsorted(n_tokens, N_TOKENS, side="right")]


def _find_best(
    examples: Sequence[Example],
    labels: Sequence[str],
    ngrams: Model[Any, Any],
    listener: ElmoListener,
    *,
    is_learned: bool,
) -> float:
    """RETURNS (float): The candidate with the lowest error; not 0, which has no gradient, where gamma or the biLM is
    trained. RAISES (ValueError): If the candidates do not differ.
    """
    truth = numpy.array([[example.reference.cats.get(label, numpy.nan) for label in labels] for example in examples])
    truth = truth[:, ~numpy.isnan(truth).all(axis=0)]
    truth = numpy.where(numpy.isnan(truth), numpy.nanmean(truth, axis=0), truth)  # spaCy learns nothing from these
    errors = measure_errors(*_make_kernels(examples, ngrams, listener), truth)
    if not max(errors) > min(errors):  # also of NaN
        raise ValueError(f"its categories are the same in all of {len(examples):,} texts, or its vectors not finite")
    is_trained = is_learned or get_shim(listener.upstream.model).is_trained
    return min((error, gamma) for error, gamma in zip(errors, CANDIDATES) if gamma or not is_trained)[1]


def _make_kernels(
    examples: Sequence[Example], ngrams: Model[Any, Any], listener: ElmoListener
) -> Tuple[FloatArray, FloatArray]:
    """RETURNS (Tuple[FloatArray, FloatArray]): Inner products of the texts, shape (texts, texts): of n-grams, and of
    ELMo with a gamma of 1.
    """
    counted = ngrams.copy()  # training counts frequencies itself
    counted.initialize()
    for docs in _copy_docs(examples):
        counted(docs, is_train=True)
    former = listener.mix.get_param("gamma")
    listener.mix.set_param("gamma", listener.ops.asarray1f([1.0]))
    rows, means = [], []
    for docs in _copy_docs(examples):  # anew: layers of all texts would need much memory
        rows.append(listener.ops.to_numpy(counted.predict(docs)))
        docs = list(listener.upstream.pipe(docs, batch_size=len(docs)))
        means += [listener.ops.to_numpy(vectors).mean(axis=0) for vectors in listener.predict(docs)]
    listener.mix.set_param("gamma", former)
    n_gram_rows, elmo_rows = numpy.concatenate(rows), numpy.stack(means).astype("float64")
    return (n_gram_rows @ n_gram_rows.T).astype("float64"), elmo_rows @ elmo_rows.T


def _copy_docs(examples: Sequence[Example]) -> Iterable[List[Doc]]:
    """YIELDS (List[Doc]): Batches of the beginnings of the texts."""
    docs = (example.predicted for example in examples)
    cut = (doc[:TEXT_TOKENS].as_doc() if len(doc) > TEXT_TOKENS else doc.copy() for doc in docs)
    return minibatch_by_words(cut, BATCH_WORDS)


def measure_errors(n_grams: FloatArray, elmo: FloatArray, truth: FloatArray) -> List[float]:
    """truth (FloatArray): Shape (texts, categories).
    RETURNS (List[float]): The squared error of each candidate, for texts that ridge regression was not fitted to.
    """
    generator = numpy.random.default_rng(0)
    n_times = -(-N_PREDICTIONS // len(truth))
    folds = [fold for _ in range(n_times) for fold in numpy.array_split(generator.permutation(len(truth)), N_FOLDS)]
    kernels = [n_grams + (RIDGE_SHARE * gamma) ** 2 * elmo for gamma in CANDIDATES]
    return [sum(_predict_fold(kernel, truth, fold) for fold in folds) for kernel in kernels]


def _predict_fold(kernel: FloatArray, truth: FloatArray, fold: NDArray[numpy.int64]) -> float:
    """RETURNS (float): The sum of squared errors for the texts of a fold, fitted to all others."""
    others = numpy.setdiff1d(numpy.arange(len(truth)), fold)
    known, mean = kernel[numpy.ix_(others, others)], truth[others].mean(axis=0)
    penalty = PENALTY * numpy.trace(known) / len(others) * numpy.eye(len(others))
    weights = numpy.linalg.solve(known + penalty, truth[others] - mean)
    predicted = kernel[numpy.ix_(fold, others)] @ weights + mean
    return float(((predicted - truth[fold]) ** 2).sum())
