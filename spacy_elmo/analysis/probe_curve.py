"""Pictures of probes: scores by layer with their 95 % intervals, baselines and control tasks."""

from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .layer_vectors import MEAN
from .layer_weights import name_layer
from .plots import Curve, add_legend, draw_curves, draw_points, new_figure, save_figure, set_title

Record = Dict[str, Any]
Bounds = Dict[str, float]
# Scores of a layer, with their names; each has its colour in all pictures.
KINDS = (("probe", "linear probe"), ("nearest", "nearest neighbour (1-NN)"), ("control", "control task"))
NAMES = {"pos": "UPOS", "tag": "Tags", "morph": "Morphology", "dep": "Dependency labels", "ent_type": "Entity types"}
SENSES, NEAREST_SENSE = "Word senses", "nearest mean"  # of the uses of a sense, see `SenseVectors`
DODGE = 0.06  # between the points of one layer, in layers


def draw_probe(record: Record, path: Path, *, source: str = "") -> None:
    """Draw a curve per kind of score over the layers, with a band; the mean of all layers stands beside them.

    record (Record): Of `probe_data`.
    path (Path): File to write, .png or .svg.
    source (str): See `save_figure`.
    """
    figure, (axes,) = new_figure(height=4.4)
    layers = [row["layer"] for row in record["layers"]]
    numbered = [i for i, layer in enumerate(layers) if layer != MEAN]
    for number, (kind, label) in enumerate(KINDS):
        label = NEAREST_SENSE if kind == "nearest" and "probe" not in record["layers"][0] else label
        found = [_find_bounds(row, kind) for row in record["layers"]]
        draw_curves(axes, _make_curves(found, numbered, label, number))
        mean = [i for i in range(len(layers)) if i not in numbered]
        draw_points(axes, _make_curves(found, mean, "" if numbered else label, number, dodge=DODGE * (number - 1)))
    for colour, (name, score) in zip(("black", "dimgrey"), record["baselines"].items()):
        label = f"{name if ' ' in name else f'{name} baseline'}, {100 * score['value']:.1f}"
        axes.axhline(100 * score["value"], color=colour, linestyle=":", label=label)
        axes.axhspan(100 * score["low"], 100 * score["high"], color=colour, alpha=0.12, linewidth=0)
    axes.set_xticks(range(len(layers)), [name_layer(layer) for layer in layers])
    axes.set(ylabel=f"{record['metric']} on {record['n_test']:,} test tokens (%)", xlim=(-0.4, len(layers) - 0.6))
    set_title(figure, make_title(record))
    add_legend(figure, axes, n_columns=3)
    save_figure(figure, path, source=source)


def make_title(record: Record) -> str:
    """RETURNS (str): The finding: the best single layer against the best baseline; "not" where intervals overlap."""
    kind = "probe" if "probe" in record["layers"][0] else "nearest"
    name, (baseline, limit) = NAMES.get(record["attr"], SENSES), _best_baseline(record)
    single = [row for row in record["layers"] if row["layer"] != MEAN] or record["layers"]
    best = max(single, key=lambda row: float(row[kind]["value"]))
    score, baseline = best[kind], baseline if " " in baseline else f"{baseline} baseline"
    how = "linear probe" if kind == "probe" else f"the {NEAREST_SENSE}"
    told = f"{name} by {how}: {name_layer(best['layer'])} scores highest, {100 * score['value']:.1f} %"
    gap = 100 * abs(score["value"] - limit["value"])
    if score["low"] > limit["high"]:
        return f"{told}, {gap:.1f} points above the {baseline}"
    if score["high"] < limit["low"]:
        return f"{told}, {gap:.1f} points below the {baseline}"
    return f"{told}, not significantly other than the {baseline}"


def from_percent(record: Record) -> Record:
    """record (Record): Senses by layer, as `project/scripts/layers.py` writes them: in percent, the baseline a row.
    RETURNS (Record): The same as `probe_data` has it.
    """
    scores = {row["layer"]: {key: row[key] / 100 for key in ("value", "low", "high")} for row in record["rows"]}
    baseline = scores.pop("first sense")
    rows = [{"layer": layer, "nearest": score} for layer, score in scores.items()]
    return {**record, "attr": "sense", "metric": "F1", "baselines": {"most frequent sense": baseline}, "layers": rows}


def _best_baseline(record: Record) -> Tuple[str, Bounds]:
    baselines: Dict[str, Bounds] = record["baselines"]
    return max(baselines.items(), key=lambda item: item[1]["value"])


def _find_bounds(row: Record, kind: str) -> Optional[Bounds]:
    """The bounds of a control task are those of its seeds."""
    found = row.get(kind)
    if kind != "control" or not found:
        return found or None
    return {"value": sum(found) / len(found), "low": min(found), "high": max(found)}


def _make_curves(
    found: Sequence[Optional[Bounds]], places: Sequence[int], label: str, number: int, *, dodge: float = 0.0
) -> List[Curve]:
    known = [(place, score) for place in places if (score := found[place])]
    points = [(place + dodge, *(100 * score[key] for key in ("value", "low", "high"))) for place, score in known]
    if not points:
        return []
    where, values, lows, highs = zip(*points)
    return [Curve(label, where, values, lows, highs, number)]
