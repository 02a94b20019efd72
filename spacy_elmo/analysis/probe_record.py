"""What probes and nearest neighbours found, as records that JSON files hold and pictures are drawn from.

Scores are shares, 0 to 1, with the bounds of their 95 % interval.
"""

import math
from dataclasses import asdict
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Union

from ..errors import Errors
from ..inference.bilm import BiLM
from ..ml.settings import ElmoSettings
from .intervals import Score
from .layer_vectors import name_all
from .probe_data import SENSE, ProbeData
from .probes import CONTROL_SEEDS, MAX_ITER, LayerProbe, iter_probes, majority_baseline, word_baseline
from .senses import SenseScores, SenseVectors, score_senses

Record = Dict[str, Any]
Layer = Union[int, str]
# Wraps the layers, for instance into a progress bar.
Watch = Callable[[Iterable[LayerProbe]], Iterable[LayerProbe]]


def parse_layers(text: Optional[str], bilm: BiLM) -> List[Layer]:
    """text (Optional[str]): Numbers of layers and "mean", divided by commas; None for all.
    bilm (BiLM): Which layers there are.
    RETURNS (List[Layer]): The layers, each once.
    RAISES (ValueError): EL425 for a layer that the biLM does not have.
    """
    known = {str(layer): layer for layer in name_all(bilm)}
    names = list(known) if text is None else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise ValueError(Errors.EL425.format(layer=name, known=", ".join(known)))
    return [known[name] for name in dict.fromkeys(names)]


def probe_data(
    bilm: BiLM,
    found: ProbeData,
    *,
    layers: Optional[Sequence[Layer]] = None,
    reading: Optional[ElmoSettings] = None,
    control_seeds: Sequence[int] = CONTROL_SEEDS,
    max_iter: int = MAX_ITER,
    watch: Watch = iter,
) -> Record:
    """Score layers of a biLM beside baselines: senses by the nearest mean, other labels by a linear probe too.

    bilm (BiLM): The biLM.
    found (ProbeData): Training and test data.
    layers (Optional[Sequence[Layer]]): Numbers, or "mean"; None for all.
    reading (Optional[ElmoSettings]): See `make_reading`.
    control_seeds (Sequence[int]): See `iter_probes`; not used for senses.
    max_iter (int): See `fit_probe`; not used for senses.
    watch (Watch): Called with the probes of all layers, which are computed one by one.
    RETURNS (Record): "attr", counts, "baselines" by name, and "layers" with a record each.
    RAISES (ValueError): EL244 if a linear probe needs scikit-learn.
    """
    counts = {
        "attr": found.attr,
        "n_train": len(found.train.labels),
        "n_test": len(found.test.labels),
        "n_labels": len(set(found.train.labels)),
        "n_unseen": found.n_unseen,
    }
    wanted = name_all(bilm) if layers is None else list(layers)
    if found.attr == SENSE:
        return {**counts, **_find_senses(bilm, found, wanted, reading)}
    probes = iter_probes(
        bilm,
        found.train,
        found.test,
        layers=wanted,
        reading=reading,
        control_seeds=control_seeds,
        max_iter=max_iter,
        with_nearest=True,
    )
    rows = [_describe(probe) for probe in watch(probes)]
    baselines = {"majority": _bounds(majority_baseline(found.train, found.test))}
    baselines["word"] = _bounds(word_baseline(found.train, found.test))
    settings = {"control_seeds": list(control_seeds), "max_iter": max_iter}
    return {**counts, "metric": "accuracy", **settings, "baselines": baselines, "layers": rows}


def _describe(probe: LayerProbe) -> Record:
    return {
        "layer": probe.layer,
        "probe": _bounds(probe.accuracy),
        "nearest": None if probe.nearest is None else _bounds(probe.nearest),
        "control": probe.control,
        "selectivity": None if math.isnan(probe.selectivity) else probe.selectivity,
        "n_iter": probe.n_iter,
        "is_converged": probe.is_converged,
    }


def _find_senses(bilm: BiLM, found: ProbeData, layers: Sequence[Layer], reading: Optional[ElmoSettings]) -> Record:
    vectors = SenseVectors(bilm, reading=reading).fit(found.train)
    first = vectors.first_sense(found.test)
    baseline = score_senses(first, first, found.test, vectors)
    answers = dict(zip(vectors.layers, vectors.predict(found.test)))
    scored = [(layer, score_senses(answers[layer], first, found.test, vectors)) for layer in layers]
    return {
        "metric": "F1",
        "n_answered": baseline.n_answered,
        "baselines": {"first sense": _bounds(baseline.f1)},
        "layers": [{"layer": layer, **_describe_senses(scores)} for layer, scores in scored],
    }


def _describe_senses(scores: SenseScores) -> Record:
    ambiguous = None if scores.ambiguous is None else _bounds(scores.ambiguous)
    return {"nearest": _bounds(scores.f1), "ambiguous": ambiguous, "gain": _bounds(scores.gain)}


def _bounds(score: Score) -> Dict[str, float]:
    values = asdict(score)
    return {name: values[name] for name in ("value", "low", "high")}
