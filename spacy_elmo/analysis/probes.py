"""Linear probes: how much of a label can be read off a vector (Peters et al. 2018, sec. 5.3; Hewitt and Liang 2019).

A probe is a multinomial logistic regression on the vectors of one layer. Beside it stand the label of the nearest
training vector (1-NN), two baselines that see no vector, and control tasks, which only memorization of words can solve:
the gap to them is the probe's selectivity.
"""

import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import mean
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from .._compat import has_sklearn
from ..errors import Errors
from ..inference.bilm import BiLM
from ..ml.settings import ElmoSettings
from .intervals import Score, bootstrap_accuracy
from .labelled import LabelledDocs
from .layer_vectors import Vectors, collect_layers, group_layers, name_all
from .nearest import predict_nearest

CONTROL_SEEDS = (0, 1, 2)
MAX_ITER = 1000


@dataclass(frozen=True)
class Probe:
    """A trained probe: the label with the highest weights @ vector + bias, K labels in all.

    labels (List[str]): Sorted.
    weights (Vectors): Shape (K, D), for vectors as they are: the standardization of the training is folded in.
    biases (Vectors): Shape (K,).
    n_iter (int): Iterations of the optimizer.
    is_converged (bool): Whether it stopped by itself.
    """

    labels: List[str]
    weights: Vectors
    biases: Vectors
    n_iter: int
    is_converged: bool

    def predict(self, vectors: Vectors) -> List[str]:
        """vectors (Vectors): Shape (N, D).
        RETURNS (List[str]): A label each.
        """
        best = (vectors @ self.weights.T + self.biases).argmax(axis=1)  # (N,)
        return [self.labels[i] for i in best.tolist()]


@dataclass(frozen=True)
class LayerProbe:
    """What a layer knows.

    layer (Union[int, str]): 0 (the token layer) to L, or "mean".
    accuracy (Score): Of the task.
    control (List[float]): Accuracies of the control tasks, one per seed.
    selectivity (float): Accuracy of the task less the mean of the control tasks; NaN without these.
    n_iter (int): Iterations of the optimizer, for the task.
    is_converged (bool): Whether all probes of the layer stopped by themselves.
    nearest (Optional[Score]): Accuracy of the nearest training vector's label (cosine); None if not asked for.
    """

    layer: Union[int, str]
    accuracy: Score
    control: List[float]
    selectivity: float
    n_iter: int
    is_converged: bool
    nearest: Optional[Score] = None


def probe_layers(bilm: BiLM, train: LabelledDocs, test: LabelledDocs, **options: Any) -> List[LayerProbe]:
    """RETURNS (List[LayerProbe]): One per layer. Arguments and errors are those of `iter_probes`."""
    return list(iter_probes(bilm, train, test, **options))


def iter_probes(
    bilm: BiLM,
    train: LabelledDocs,
    test: LabelledDocs,
    *,
    layers: Optional[Sequence[Union[int, str]]] = None,
    reading: Optional[ElmoSettings] = None,
    control_seeds: Sequence[int] = CONTROL_SEEDS,
    c: float = 1.0,
    max_iter: int = MAX_ITER,
    with_nearest: bool = False,
) -> Iterator[LayerProbe]:
    """Train and score a probe on each layer, in the memory of a copy of one layer and of a group (`group_layers`).

    train (LabelledDocs), test (LabelledDocs): Tokens with labels.
    layers (Optional[Sequence[Union[int, str]]]): Numbers of layers, or "mean"; None for all of them.
    reading (Optional[ElmoSettings]): How the biLM reads Docs, see `make_reading`.
    control_seeds (Sequence[int]): A control task each; none for no control.
    c (float), max_iter (int): See `fit_probe`.
    with_nearest (bool): Score the nearest training vector too.
    YIELDS (LayerProbe): One per layer.
    RAISES (ValueError): EL244 if scikit-learn is missing, EL245 if the training labels are all the same.
    """
    controls = [control_labels(train, test, seed) for seed in control_seeds]
    wanted = name_all(bilm) if layers is None else layers
    n_tokens = len(train.labels) + len(test.labels)
    for group in group_layers(wanted, n_tokens, bilm.config.output_width):
        known, asked = (collect_layers(bilm, labelled, group, reading) for labelled in (train, test))
        for layer, *vectors in zip(group, known, asked):
            yield _probe_layer(layer, (train, test), vectors, controls, c, max_iter, with_nearest)


def _probe_layer(
    layer: Union[int, str],
    labelled: Tuple[LabelledDocs, LabelledDocs],
    vectors: Sequence[Vectors],
    controls: Sequence[Tuple[List[str], List[str]]],
    c: float,
    max_iter: int,
    with_nearest: bool,
) -> LayerProbe:
    (train, test), (known, asked) = labelled, vectors
    probe = fit_probe(known, train.labels, c=c, max_iter=max_iter)
    accuracy = _score(probe.predict(asked), test)
    control, is_converged = [], probe.is_converged
    for labels, wanted in controls:
        other = fit_probe(known, labels, c=c, max_iter=max_iter)
        control.append(float(_compare(other.predict(asked), wanted).mean()))
        is_converged &= other.is_converged
    selectivity = accuracy.value - mean(control) if control else float("nan")
    nearest = _score(predict_nearest(known, train.labels, asked), test) if with_nearest else None
    return LayerProbe(layer, accuracy, control, selectivity, probe.n_iter, is_converged, nearest)


def fit_probe(vectors: Vectors, labels: Sequence[str], *, c: float = 1.0, max_iter: int = MAX_ITER) -> Probe:
    """Train a probe to convergence. The problem is convex: there is no seed.

    vectors (Vectors): Shape (N, D); dimensions are standardized, so that `c` means the same for all layers.
    labels (Sequence[str]): N labels.
    c (float): Inverse strength of the L2 penalty, as in scikit-learn.
    max_iter (int): Limit of the iterations (L-BFGS).
    RETURNS (Probe): For vectors as they are.
    RAISES (ValueError): EL244 if scikit-learn is missing, EL245 for fewer than two labels.
    """
    if not has_sklearn:
        raise ValueError(Errors.EL244)
    names, numbers = np.unique(np.asarray(labels, dtype=object), return_inverse=True)
    if len(names) < 2:
        raise ValueError(Errors.EL245.format(n_labels=len(names), labels=", ".join(names) or "none"))
    centre, scale = vectors.mean(axis=0, dtype="float64"), vectors.std(axis=0, dtype="float64")
    scale[scale == 0] = 1.0
    fitted = _fit(((vectors - centre) / scale).astype("float32"), numbers, c, max_iter)
    weights, biases = fitted.coef_.astype("float64"), fitted.intercept_.astype("float64")
    if len(names) == 2:  # scikit-learn keeps the second of two labels only
        weights, biases = np.concatenate([-weights, weights]), np.concatenate([-biases, biases])
    weights = weights / scale
    biases = biases - weights @ centre
    n_iter = int(fitted.n_iter_.max())
    return Probe(list(names), weights.astype("float32"), biases.astype("float32"), n_iter, n_iter < max_iter)


def _fit(vectors: Vectors, numbers: NDArray[Any], c: float, max_iter: int) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # told by `is_converged`
        return LogisticRegression(C=c, max_iter=max_iter).fit(vectors, numbers)


def control_labels(train: LabelledDocs, test: LabelledDocs, seed: int) -> Tuple[List[str], List[str]]:
    """Labels of a control task: each word type has one label, drawn at random from the labels of the training tokens.

    train (LabelledDocs), test (LabelledDocs): The task; a word has the same label in both.
    seed (int): Of the draw.
    RETURNS (Tuple[List[str], List[str]]): Labels of the training tokens and of the test tokens.
    """
    known, asked = train.words(), test.words()
    types = sorted({*known, *asked})
    drawn = np.random.default_rng(seed).integers(0, len(train.labels), len(types)).tolist()
    behaviour = {word: train.labels[i] for word, i in zip(types, drawn)}
    return [behaviour[word] for word in known], [behaviour[word] for word in asked]


def majority_baseline(train: LabelledDocs, test: LabelledDocs) -> Score:
    """RETURNS (Score): Of the most frequent training label, for every token."""
    best = Counter(train.labels).most_common(1)[0][0]
    return _score([best] * len(test.labels), test)


def word_baseline(train: LabelledDocs, test: LabelledDocs) -> Score:
    """RETURNS (Score): Of the most frequent training label of each word; of all words, for a word not seen."""
    counts: Dict[str, Counter[str]] = defaultdict(Counter)
    for word, label in zip(train.words(), train.labels):
        counts[word][label] += 1
    best = {word: found.most_common(1)[0][0] for word, found in counts.items()}
    fallback = Counter(train.labels).most_common(1)[0][0]
    return _score([best.get(word, fallback) for word in test.words()], test)


def _score(answers: Sequence[str], test: LabelledDocs) -> Score:
    return bootstrap_accuracy(_compare(answers, test.labels), test.sentences)


def _compare(answers: Sequence[str], labels: Sequence[str]) -> NDArray[np.bool_]:
    return np.asarray([answer == label for answer, label in zip(answers, labels, strict=True)])
