"""The weight of ELMo beside the n-grams of a text classifier, chosen on the training texts before the first update."""

import logging
import random
from itertools import islice
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.training import Example
from spacy.util import logger, resolve_dot_names
from thinc.api import Model

from .listener import ElmoListener
from .replaced_listener import LISTENER_ARCHITECTURE
from .text_classifier import NGRAM_VECTORS

CHOOSE_GAMMA = "spacy-elmo.ChooseGamma.v1"
STARTER_GAMMA = 0.1  # in the configs of init-config
CANDIDATES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)  # values of initial_gamma; 0 for n-grams alone
# Adam moves the weight of each value as far as that of any other, so that the many small values of the n-grams count
# for more than their length says: ridge regression is as accurate with a fifth of the candidate.
RIDGE_SHARE = 0.2
PENALTY = 0.1  # of ridge regression, in mean squared lengths of a text's vector
N_READ = 20_000  # texts, of which the sample is drawn
N_TEXTS = 1000  # in the sample: two seconds of one processor for kernels of short texts
N_FOLDS = 5
N_PREDICTIONS = 500  # at least; few texts are divided several times
MIN_TEXTS = 2 * N_FOLDS
BATCH = 100
Floats = NDArray[numpy.float64]


def ChooseGamma() -> Callable[[Language], None]:
    """Choose `initial_gamma` of each classifier with `TextCatNgrams` and a listener whose mix is "concat". For
    `initialize.after_init`.

    The value is the one with the lowest squared error in five-fold cross-validation of ridge regression, on up to 1,000
    texts of the training corpus: small where keywords show the categories, large where wording and style do, and 0,
    with a warning, where the n-grams alone are best.
    """
    return choose_gamma


def choose_gamma(nlp: Language) -> None:
    """Set gamma in the listeners of the classifiers, and `initial_gamma` in their configs. Where it cannot be chosen,
    it stays, with a warning: `nlp.initialize` in Python gives callbacks no texts but those of the config's corpus.

    RAISES (ValueError): Without such a classifier.
    """
    found = {name: parts for name in nlp.pipe_names if (parts := _find_parts(nlp, name)) is not None}
    if not found:
        raise ValueError(
            f"{CHOOSE_GAMMA} in [initialize.after_init] found no component with spacy-elmo.TextCatNgrams.v1 and a "
            f'listener with mix = "concat" in {nlp.pipe_names}. Remove the callback, or add such a component.'
        )
    try:
        examples = _draw_examples(nlp)
        reason = f"it is chosen on {MIN_TEXTS} training texts or more, and there are {len(examples)}"
    except (OSError, ValueError) as error:  # without a path; without a file
        examples, reason = [], f"the training corpus of the config was not read: {error}"
    for name, (ngrams, listener) in found.items():
        block = nlp.get_pipe_config(name)["model"]["tok2vec"]
        if len(examples) < MIN_TEXTS:
            logger.warning("%s: initial_gamma stays %g; %s", name, block["initial_gamma"], reason)
            continue
        labels: Sequence[str] = nlp.get_pipe(name).labels  # type: ignore[attr-defined]  # text classifiers have them
        truth = numpy.array([[example.reference.cats.get(label, 0.0) for label in labels] for example in examples])
        errors = measure_errors(*_make_kernels(examples, ngrams, listener), truth)
        gamma = CANDIDATES[int(numpy.argmin(errors))]
        listener.mix.set_param("gamma", listener.ops.asarray1f([gamma]))
        _tell(name, block["initial_gamma"], gamma, len(examples))
        block["initial_gamma"] = gamma


def _find_parts(nlp: Language, name: str) -> Optional[Tuple[Model[Any, Any], ElmoListener]]:
    """RETURNS (Optional[Tuple[Model, ElmoListener]]): The n-grams and the listener of a classifier; None for others."""
    model: Dict[str, Any] = nlp.get_pipe_config(name).get("model") or {}
    block = model.get("tok2vec") or {}
    if block.get("@architectures") != LISTENER_ARCHITECTURE or block.get("mix") != "concat":
        return None
    nodes = list(nlp.get_pipe(name).model.walk())  # type: ignore[attr-defined]  # it has a model in its config
    ngrams = [node for node in nodes if node.name == NGRAM_VECTORS]
    listeners = [node for node in nodes if isinstance(node, ElmoListener)]
    return (ngrams[0], listeners[0]) if ngrams and listeners else None


def _tell(name: str, former: float, gamma: float, n_texts: int) -> None:
    """Warn of a weight of 0, and of a replaced value that somebody chose; spaCy shows the rest with --verbose."""
    is_expected = gamma and former in (STARTER_GAMMA, gamma)
    text = (
        "%s: initial_gamma %g, chosen on %d training texts, replaces %g of the config, which stays with "
        "--initialize.after_init null"
    )
    if not gamma:
        text += ". With 0 it reads n-grams alone; a config of init-config --baseline does so, too, and is faster"
    logger.log(logging.INFO if is_expected else logging.WARNING, text, name, gamma, n_texts, former)


def _draw_examples(nlp: Language) -> List[Example]:
    """RETURNS (List[Example]): A sample of the training corpus, the same in each training, of texts with tokens."""
    config = nlp.config.interpolate()
    (corpus,) = resolve_dot_names(config, [config["training"]["train_corpus"]])
    examples = [example for example in islice(corpus(nlp), N_READ) if len(example.predicted)]
    return random.Random(0).sample(examples, min(N_TEXTS, len(examples)))


def _make_kernels(
    examples: Sequence[Example], ngrams: Model[Any, Any], listener: ElmoListener
) -> Tuple[Floats, Floats]:
    """RETURNS (Tuple[Floats, Floats]): Inner products of the texts, shape (texts, texts): of n-grams, and of ELMo with
    a gamma of 1.
    """
    counted = ngrams.copy()  # its frequencies are those of the training, which counts them itself
    counted.initialize()
    batches = [examples[start : start + BATCH] for start in range(0, len(examples), BATCH)]
    for batch in batches:
        counted([example.predicted for example in batch], is_train=True)
    listener.mix.set_param("gamma", listener.ops.asarray1f([1.0]))  # until one is chosen
    rows, means = [], []
    for batch in batches:
        docs = [example.predicted.copy() for example in batch]  # layers of all texts would need much memory
        rows.append(listener.ops.to_numpy(counted.predict(docs)))
        docs = list(listener.upstream.pipe(docs, batch_size=BATCH))
        means += [listener.ops.to_numpy(vectors).mean(axis=0) for vectors in listener.predict(docs)]
    n_gram_rows, elmo_rows = numpy.concatenate(rows), numpy.stack(means).astype("float64")
    return (n_gram_rows @ n_gram_rows.T).astype("float64"), elmo_rows @ elmo_rows.T


def measure_errors(n_grams: Floats, elmo: Floats, truth: Floats) -> List[float]:
    """truth (Floats): Shape (texts, categories).
    RETURNS (List[float]): The squared error of each candidate, for texts that ridge regression was not fitted to.
    """
    generator = numpy.random.default_rng(0)
    n_times = -(-N_PREDICTIONS // len(truth))
    folds = [fold for _ in range(n_times) for fold in numpy.array_split(generator.permutation(len(truth)), N_FOLDS)]
    kernels = [n_grams + (RIDGE_SHARE * gamma) ** 2 * elmo for gamma in CANDIDATES]
    return [sum(_predict_fold(kernel, truth, fold) for fold in folds) for kernel in kernels]


def _predict_fold(kernel: Floats, truth: Floats, fold: NDArray[numpy.int64]) -> float:
    """RETURNS (float): The sum of squared errors for the texts of a fold, fitted to all others."""
    others = numpy.setdiff1d(numpy.arange(len(truth)), fold)
    known, mean = kernel[numpy.ix_(others, others)], truth[others].mean(axis=0)
    penalty = PENALTY * numpy.trace(known) / len(others) * numpy.eye(len(others))
    weights = numpy.linalg.solve(known + penalty, truth[others] - mean)
    predicted = kernel[numpy.ix_(fold, others)] @ weights + mean
    return float(((predicted - truth[fold]) ** 2).sum())
