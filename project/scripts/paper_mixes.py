"""The layer weights that the experiments of gains ended with: a table, and the picture of docs/component.md."""

import hashlib
from pathlib import Path
from statistics import mean
from typing import Any, Dict, List, Optional, Tuple

import srsly
from paper_tables import GAINS, Result, make_table, name_network, select

from spacy_elmo.ml.task_mixes import TaskMix

PICTURE = "layer_weights.png"
N_DIGITS = 12
Mixes = List[Dict[str, Any]]


def make_layer_weights(results: List[Result]) -> Optional[str]:
    """RETURNS (Optional[str]): softmax(w) in percent and gamma of each mix, means over seeds."""
    rows = []
    for name, seeds in find_mixes(results):
        mix = _average(seeds)
        rows.append([name, *(f"{100 * share:.1f}" for share in mix.shares), f"{mix.gamma:.2f}", str(len(seeds))])
    n_layers = max((len(row) - 3 for row in rows), default=0)
    layers = ["token layer, %", *(f"LSTM layer {number}, %" for number in range(1, n_layers))]
    return make_table(["mix", *layers, "gamma", "seeds"], rows)


def find_mixes(results: List[Result]) -> List[Tuple[str, Mixes]]:
    """RETURNS (List[Tuple[str, Mixes]]): Name of each mix of the gains, and what each seed ended with."""
    found = []
    for task, title, scores in GAINS:
        seeds = [result["mixes"] for result in select(results, task, "elmo") if result.get("mixes")]
        for number, mix in enumerate(seeds[0] if seeds else []):
            place = f" ({mix['place']})" if mix["place"] else ""
            found.append((f"{name_network(title, scores)}{place}", [mixes[number] for mixes in seeds]))
    return found


def draw_mixes(results: List[Result], image_dir: Path) -> List[str]:
    """Draw the means over seeds; the picture notes their digest. RETURNS (List[str]): Its name, or nothing."""
    from spacy_elmo.analysis.layer_weights import draw_layer_weights  # needs matplotlib, which tables do without

    found = find_mixes(results)
    if not found:
        return []
    mixes = [_average(seeds) for _, seeds in found]
    draw_layer_weights(mixes, image_dir / PICTURE, names=[name for name, _ in found], source=describe_mixes(results))
    return [PICTURE]


def describe_mixes(results: List[Result]) -> str:
    """RETURNS (str): Number of trainings, and the first digits of the sha256 of what they ended with."""
    found = find_mixes(results)
    digest = hashlib.sha256(srsly.json_dumps(found).encode("utf8")).hexdigest()[:N_DIGITS]
    return f"{sum(len(seeds) for _, seeds in found)} mixes of project/results {digest}"


def _average(seeds: Mixes) -> TaskMix:
    shares = tuple(mean(layer) for layer in zip(*(mix["shares"] for mix in seeds)))
    return TaskMix(seeds[0]["component"], 1, shares, (), mean(mix["gamma"] for mix in seeds), seeds[0]["place"])
