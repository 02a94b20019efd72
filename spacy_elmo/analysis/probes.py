"""Linear probes: how much of a label can be read off a vector (Peters et al. 2018, sec. 5.3; Hewitt and Liang 2019).

A probe is a multinomial logistic regression on the vectors of one layer. It is compared with the label of the nearest
training vector (1-NN), with two baselines without vectors, and with control tasks, which only memorization of words can
solve: the difference from them is the probe's selectivity. `probe_data` puts the scores into a record for JSON,
`draw_probe` draws it.
"""

import math
import os
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import spacy
from spacy.util import is_package

from ..files import AnyPath
from ..inference.bilm import BiLM
from ..pipeline.component import find_model
from ..pipeline.model import ElmoSettings, ensure_bilm, get_settings
from ..weights import load_bilm
from ..weights.formats.native import PACKAGED_NAMES
from .intervals import Score, bootstrap_accuracy
from .labelled_docs import SENSE, LabelledDocs, ProbeData, check_labels, compare_labels
from .layer_vectors import MEAN, collect_layers, group_layers, name_all, predict_nearest
from .layer_weight_plots import name_layer
from .neighbors import LayerName
from .plots import Curve, Look, add_legend, draw_curves, draw_points, new_figure, save_figure, set_title
from .senses import SenseVectors, score_senses
from .vectors import Vectors, require_sklearn, to_array

CONTROL_SEEDS = (0, 1, 2)
MAX_ITER = 1000
# Scores are shares, 0 to 1, with the bounds of their 95 % interval: "value", "low" and "high".
Bounds = Dict[str, float]
ProbeRecord = Dict[str, Any]
# Scores of a layer, with their names; each has its colour in all pictures.
SCORE_KINDS = (("probe", "linear probe"), ("nearest", "nearest neighbor (1-NN)"), ("control", "control task"))
ATTRIBUTE_NAMES = {
    "pos": "UPOS",
    "tag": "Tags",
    "morph": "Morphology",
    "dep": "Dependency labels",
    "ent_type": "Entity types",
}
SENSES, NEAREST_SENSE = "Word senses", "nearest mean"  # of the uses of a sense, see `SenseVectors`
NEAREST_USE = "nearest use"
LAYER_DODGE = 0.06  # between the points of one layer, in layers


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
        """RETURNS (List[str]): A label for each vector, of shape (N, D)."""
        best = (to_array(vectors) @ self.weights.T + self.biases).argmax(axis=1)  # (N,)
        return [self.labels[i] for i in best.tolist()]


@dataclass(frozen=True)
class LayerProbe:
    """Scores of a layer.

    layer (LayerName): 0 (the token layer) to L, or "mean".
    accuracy (Score): Accuracy of the task.
    control (List[float]): Accuracies of the control tasks, one per seed.
    selectivity (float): Accuracy of the task less the mean of the control tasks; NaN without these.
    n_iter (int): Iterations of the optimizer, for the task.
    is_converged (bool): Whether all probes of the layer stopped by themselves.
    nearest (Optional[Score]): Accuracy of the nearest training vector's label (cosine); None if it was not computed.
    """

    layer: LayerName
    accuracy: Score
    control: List[float]
    selectivity: float
    n_iter: int
    is_converged: bool
    nearest: Optional[Score] = None


def probe_layers(bilm: BiLM, train: LabelledDocs, test: LabelledDocs, **options: Any) -> List[LayerProbe]:
    """RETURNS (List[LayerProbe]): One per layer. For arguments and errors see `iter_probes`."""
    return list(iter_probes(bilm, train, test, **options))


def iter_probes(
    bilm: BiLM,
    train: LabelledDocs,
    test: LabelledDocs,
    *,
    layers: Optional[Sequence[LayerName]] = None,
    reading: Optional[ElmoSettings] = None,
    control_seeds: Sequence[int] = CONTROL_SEEDS,
    c: float = 1.0,
    max_iter: int = MAX_ITER,
    with_nearest: bool = False,
) -> Iterator[LayerProbe]:
    """Train and score a probe on each layer, in the memory of a copy of one layer and of a group (`group_layers`).

    layers (Optional[Sequence[LayerName]]): Numbers of layers, or "mean"; None for all of them.
    reading (Optional[ElmoSettings]): How the biLM reads Docs, see `iter_layers`.
    control_seeds (Sequence[int]): A control task each; empty for no control.
    c (float), max_iter (int): See `fit_probe`.
    with_nearest (bool): Score the nearest training vector too.
    RAISES (ValueError): See `fit_probe`.
    """
    controls = [_control_labels(train, test, seed) for seed in control_seeds]
    names = name_all(bilm) if layers is None else layers
    n_tokens = len(train.labels) + len(test.labels)
    for group in group_layers(names, n_tokens, bilm.config.output_width):
        vectors = (collect_layers(bilm, labelled, group, reading) for labelled in (train, test))
        for layer, train_vectors, test_vectors in zip(group, *vectors):
            probe = fit_probe(train_vectors, train.labels, c=c, max_iter=max_iter)
            accuracy = _score_answers(probe.predict(test_vectors), test)
            control, is_converged = [], probe.is_converged
            for labels, answers in controls:
                other = fit_probe(train_vectors, labels, c=c, max_iter=max_iter)
                control.append(float(compare_labels(other.predict(test_vectors), answers).mean()))
                is_converged &= other.is_converged
            selectivity = accuracy.value - mean(control) if control else float("nan")
            nearest = (
                _score_answers(predict_nearest(train_vectors, train.labels, test_vectors), test)
                if with_nearest
                else None
            )
            yield LayerProbe(layer, accuracy, control, selectivity, probe.n_iter, is_converged, nearest)


def fit_probe(vectors: Vectors, labels: Sequence[str], *, c: float = 1.0, max_iter: int = MAX_ITER) -> Probe:
    """Train a probe to convergence. The problem is convex: there is no seed.

    vectors (Vectors): Shape (N, D); dimensions are standardized, so that `c` means the same for all layers.
    c (float): Inverse strength of the L2 penalty, as in scikit-learn.
    max_iter (int): Limit of the iterations (L-BFGS).
    RETURNS (Probe): For vectors as they are.
    RAISES (ValueError): If scikit-learn is missing, or for fewer than two labels.
    """
    require_sklearn("A linear probe")
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    check_labels(labels)
    vectors = to_array(vectors)
    names, classes = np.unique(np.asarray(labels, dtype=object), return_inverse=True)
    centre, scale = vectors.mean(axis=0, dtype="float64"), vectors.std(axis=0, dtype="float64")
    scale[scale == 0] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # reported by `is_converged`
        fitted = LogisticRegression(C=c, max_iter=max_iter).fit(((vectors - centre) / scale).astype("float32"), classes)
    weights, biases = fitted.coef_.astype("float64"), fitted.intercept_.astype("float64")
    if len(names) == 2:  # scikit-learn keeps the second of two labels only
        weights, biases = np.concatenate([-weights, weights]), np.concatenate([-biases, biases])
    weights = weights / scale
    biases = biases - weights @ centre
    n_iter = int(fitted.n_iter_.max())
    return Probe(list(names), weights.astype("float32"), biases.astype("float32"), n_iter, n_iter < max_iter)


def _control_labels(train: LabelledDocs, test: LabelledDocs, seed: int) -> Tuple[List[str], List[str]]:
    """Labels of a control task: each word type has one label, drawn at random from the labels of the training tokens.

    RETURNS (Tuple[List[str], List[str]]): Labels of the training tokens and of the test tokens.
    """
    train_words, test_words = train.words(), test.words()
    types = sorted({*train_words, *test_words})
    drawn = np.random.default_rng(seed).integers(0, len(train.labels), len(types)).tolist()
    behaviour = {word: train.labels[i] for word, i in zip(types, drawn)}
    return [behaviour[word] for word in train_words], [behaviour[word] for word in test_words]


def majority_baseline(train: LabelledDocs, test: LabelledDocs) -> Score:
    """RETURNS (Score): Accuracy of the most frequent training label, for every token."""
    best = Counter(train.labels).most_common(1)[0][0]
    return _score_answers([best] * len(test.labels), test)


def word_baseline(train: LabelledDocs, test: LabelledDocs) -> Score:
    """RETURNS (Score): Accuracy of the most frequent training label of each word, for a new word of all words."""
    counts: Dict[str, Counter[str]] = defaultdict(Counter)
    for word, label in zip(train.words(), train.labels):
        counts[word][label] += 1
    best = {word: counted.most_common(1)[0][0] for word, counted in counts.items()}
    fallback = Counter(train.labels).most_common(1)[0][0]
    return _score_answers([best.get(word, fallback) for word in test.words()], test)


def _score_answers(answers: Sequence[str], test: LabelledDocs) -> Score:
    return bootstrap_accuracy(compare_labels(answers, test.labels), test.sentences)


def parse_layers(text: Optional[str], bilm: BiLM) -> List[LayerName]:
    """text (Optional[str]): Numbers of layers and "mean", divided by commas; None for all.
    bilm (BiLM): Which layers there are.
    RAISES (ValueError): For a layer that the biLM does not have.
    """
    known = {str(layer): layer for layer in name_all(bilm)}
    names = list(known) if text is None else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise ValueError(f"Unknown layer '{name}' in `layers`. The layers of this biLM are: {', '.join(known)}.")
    return [known[name] for name in dict.fromkeys(names)]


def probe_data(
    bilm: BiLM,
    texts: ProbeData,
    *,
    layers: Optional[Sequence[LayerName]] = None,
    reading: Optional[ElmoSettings] = None,
    control_seeds: Sequence[int] = CONTROL_SEEDS,
    max_iter: int = MAX_ITER,
    watch: Callable[[Iterable[LayerProbe]], Iterable[LayerProbe]] = iter,
) -> ProbeRecord:
    """Score layers of a biLM beside baselines: senses by the nearest mean, other labels by a linear probe too.

    bilm (BiLM): The biLM.
    layers (Optional[Sequence[LayerName]]): Numbers, or "mean"; None for all.
    reading (Optional[ElmoSettings]): See `iter_layers`.
    control_seeds (Sequence[int]): See `iter_probes`; not used for senses.
    max_iter (int): See `fit_probe`; not used for senses.
    watch (Callable): Wraps the probes of all layers, which are computed one by one, for instance into a progress bar.
    RETURNS (ProbeRecord): "attr", counts, "baselines" by name, and "layers" with a record each.
    RAISES (ValueError): If a linear probe needs scikit-learn.
    """
    counts = {
        "attr": texts.attr,
        "n_train": len(texts.train.labels),
        "n_test": len(texts.test.labels),
        "n_labels": len(set(texts.train.labels)),
        "n_unseen": texts.n_unseen,
    }
    names = name_all(bilm) if layers is None else list(layers)
    if texts.attr == SENSE:
        return {**counts, **_score_senses(bilm, texts, names, reading)}
    probes = iter_probes(
        bilm,
        texts.train,
        texts.test,
        layers=names,
        reading=reading,
        control_seeds=control_seeds,
        max_iter=max_iter,
        with_nearest=True,
    )
    rows = [_probe_record(probe) for probe in watch(probes)]
    baselines = {"majority": _bounds(majority_baseline(texts.train, texts.test))}
    baselines["word"] = _bounds(word_baseline(texts.train, texts.test))
    settings = {"control_seeds": list(control_seeds), "max_iter": max_iter}
    return {**counts, "metric": "accuracy", **settings, "baselines": baselines, "layers": rows}


def _probe_record(probe: LayerProbe) -> ProbeRecord:
    return {
        "layer": probe.layer,
        "probe": _bounds(probe.accuracy),
        "nearest": None if probe.nearest is None else _bounds(probe.nearest),
        "control": probe.control,
        "selectivity": None if math.isnan(probe.selectivity) else probe.selectivity,
        "n_iter": probe.n_iter,
        "is_converged": probe.is_converged,
    }


def _score_senses(
    bilm: BiLM, texts: ProbeData, layers: Sequence[LayerName], reading: Optional[ElmoSettings]
) -> ProbeRecord:
    by_use = SenseVectors(bilm, reading=reading, nearest="use").fit(texts.train)
    vectors = by_use.to_means()
    first = vectors.first_sense(texts.test)
    baseline = score_senses(first, first, texts.test, vectors)
    answers, rows = dict(zip(vectors.layers, vectors.predict(texts.test))), []
    of_uses = dict(zip(by_use.layers, by_use.predict(texts.test)))
    for layer in layers:
        scores = score_senses(answers[layer], first, texts.test, vectors)
        ambiguous = None if scores.ambiguous is None else _bounds(scores.ambiguous)
        use = _bounds(score_senses(of_uses[layer], first, texts.test, vectors).f1)
        row = {"layer": layer, "nearest": _bounds(scores.f1), "ambiguous": ambiguous, "gain": _bounds(scores.gain)}
        rows.append({**row, "nearest_use": use})
    baselines = {"first sense": _bounds(baseline.f1)}
    return {"metric": "F1", "n_answered": baseline.n_answered, "baselines": baselines, "layers": rows}


def _bounds(score: Score) -> Bounds:
    return {"value": score.value, "low": score.low, "high": score.high}


def draw_probe(record: ProbeRecord, path: Path, *, source: str = "", look: Optional[Look] = None) -> None:
    """Draw a curve per kind of score over the layers, with a band; the mean of all layers stands beside them.

    record (ProbeRecord): Scores from `probe_data`.
    path (Path): File to write: .png, .svg or .pdf.
    source (str), look (Optional[Look]): See `save_figure`.
    """
    figure, (axes,) = new_figure(height=4.4, look=look)
    layers = [row["layer"] for row in record["layers"]]
    numbered = [i for i, layer in enumerate(layers) if layer != MEAN]
    for style, (kind, label) in enumerate(SCORE_KINDS):
        label = NEAREST_SENSE if kind == "nearest" and "probe" not in record["layers"][0] else label
        bounds = [_find_bounds(row, kind) for row in record["layers"]]
        draw_curves(axes, _make_curves(bounds, numbered, label, style))
        means = [i for i in range(len(layers)) if i not in numbered]
        draw_points(
            axes, _make_curves(bounds, means, "" if numbered else label, style, dodge=LAYER_DODGE * (style - 1))
        )
    for colour, (name, score) in zip(("black", "dimgrey"), record["baselines"].items()):
        label = f"{name if ' ' in name else f'{name} baseline'}, {100 * score['value']:.1f}"
        axes.axhline(100 * score["value"], color=colour, linestyle=":", label=label)
        axes.axhspan(100 * score["low"], 100 * score["high"], color=colour, alpha=0.12, linewidth=0)
    axes.set_xticks(range(len(layers)), [name_layer(layer) for layer in layers])
    axes.set(ylabel=f"{record['metric']} on {record['n_test']:,} test tokens (%)", xlim=(-0.4, len(layers) - 0.6))
    set_title(figure, _describe_probe(record))
    add_legend(figure, axes, n_columns=3)
    save_figure(figure, path, source=source, look=look)


def _describe_probe(record: ProbeRecord) -> str:
    """RETURNS (str): The finding: the best single layer against the best baseline; "not" where intervals overlap."""
    kind = "probe" if "probe" in record["layers"][0] else "nearest"
    name = ATTRIBUTE_NAMES.get(record["attr"], SENSES)
    baseline, limit = max(record["baselines"].items(), key=lambda item: float(item[1]["value"]))
    single = [row for row in record["layers"] if row["layer"] != MEAN] or record["layers"]
    best = max(single, key=lambda row: float(row[kind]["value"]))
    score, baseline = best[kind], baseline if " " in baseline else f"{baseline} baseline"
    how = "linear probe" if kind == "probe" else f"the {NEAREST_SENSE}"
    finding = f"{name} by {how}: {name_layer(best['layer'])} scores highest, {100 * score['value']:.1f} %"
    gap = 100 * abs(score["value"] - limit["value"])
    if score["low"] > limit["high"]:
        return f"{finding}, {gap:.1f} points above the {baseline}"
    if score["high"] < limit["low"]:
        return f"{finding}, {gap:.1f} points below the {baseline}"
    return f"{finding}, not significantly different from the {baseline}"


def _find_bounds(row: ProbeRecord, kind: str) -> Optional[Bounds]:
    """A control task has the lowest and the highest seed as bounds."""
    score = row.get(kind)
    if kind != "control" or not score:
        return score or None
    return {"value": sum(score) / len(score), "low": min(score), "high": max(score)}


def _make_curves(
    bounds: Sequence[Optional[Bounds]], places: Sequence[int], label: str, style: int, *, dodge: float = 0.0
) -> List[Curve]:
    known = [(place, score) for place in places if (score := bounds[place])]
    points = [(place + dodge, *(100 * score[key] for key in ("value", "low", "high"))) for place, score in known]
    if not points:
        return []
    where, values, lows, highs = zip(*points)
    return [Curve(label, where, values, lows, highs, style)]


class OpenedBiLM(NamedTuple):
    """bilm (BiLM): The biLM, in the precision of the pipeline.
    reading (Optional[ElmoSettings]): How the pipeline reads Docs; None for weights, which have no such settings.
    """

    bilm: BiLM
    reading: Optional[ElmoSettings]


def open_pipeline(name: AnyPath) -> OpenedBiLM:
    """name (AnyPath): A pipeline with a biLM (folder or installed package), or a biLM (packaged name or path).
    RETURNS (OpenedBiLM): The biLM, and how it reads Docs, see `find_model`.
    RAISES (ValueError): For a pipeline without a biLM; OSError if there is nothing of this name.
    """
    name = os.fsdecode(name)
    if not is_pipeline(name):
        return OpenedBiLM(load_bilm(name), None)
    nlp = spacy.load(name)
    model = find_model(nlp)
    if model is None:
        raise ValueError(
            f"The pipeline '{name}' has no component `elmo`; its components are: "
            f"{', '.join(nlp.component_names) or 'none'}. Give a pipeline with `elmo`, or a biLM."
        )
    return OpenedBiLM(ensure_bilm(model), get_settings(model))


def is_pipeline(name: str) -> bool:
    """RETURNS (bool): Whether this is a folder of `nlp.to_disk` or an installed package."""
    if Path(name).exists() or name in PACKAGED_NAMES:
        return (Path(name) / "config.cfg").is_file()
    return is_package(name)
