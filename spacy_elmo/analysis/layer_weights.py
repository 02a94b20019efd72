"""Pictures of layer weights: the shares of each task (Peters et al. 2018, fig. 2) and their course over training."""

from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import srsly

from ..errors import Errors
from ..ml.task_mixes import TaskMix
from .plots import COLOURS, new_figure, save_figure


def name_layers(n_layers: int) -> List[str]:
    """n_layers (int): L+1.
    RETURNS (List[str]): Names for people, the token layer first.
    """
    return ["token layer", *(f"LSTM layer {i}" for i in range(1, n_layers))]


def name_mixes(mixes: Sequence[TaskMix]) -> List[str]:
    """RETURNS (List[str]): The component of each mix, with its place (or its number, where several have no place)."""
    components = [mix.component for mix in mixes]
    return [_name_mix(mix.component, mix.number, mix.place, components.count(mix.component)) for mix in mixes]


def draw_layer_weights(mixes: Sequence[TaskMix], path: Path) -> None:
    """Draw a stacked bar per mix, its length divided by softmax(w), with gamma at the end.

    mixes (Sequence[TaskMix]): At least one.
    path (Path): File to write, .png or .svg.
    """
    figure, (axes,) = new_figure(height=1.4 + 0.5 * len(mixes))
    names = [f"{name}\n$\\gamma$ = {mix.gamma:.2f}" for name, mix in zip(name_mixes(mixes), mixes)]
    n_layers = max(len(mix.shares) for mix in mixes)
    places = range(len(mixes))
    left = [0.0] * len(mixes)
    for layer, label in enumerate(name_layers(n_layers)):
        shares = [mix.shares[layer] if layer < len(mix.shares) else 0.0 for mix in mixes]
        bars = axes.barh(places, shares, left=left, label=label, color=COLOURS[layer % len(COLOURS)], height=0.6)
        texts = [f"{share:.0%}" if share >= 0.06 else "" for share in shares]
        axes.bar_label(bars, labels=texts, label_type="center", color="white" if layer == 0 else "black")
        left = [start + share for start, share in zip(left, shares)]
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.grid(visible=False)
    figure.suptitle(_finding(mixes))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=min(n_layers, 4), frameon=False)
    save_figure(figure, path)


def draw_course(log: Path, path: Path) -> None:
    """Draw softmax(w) of each mix over the steps of a training, a panel per mix.

    log (Path): What `spacy-elmo.LayerWeightsLogger.v1` wrote.
    path (Path): File to write, .png or .svg.
    RAISES (ValueError): EL231 if the file has no rows of this kind.
    """
    courses = read_course(log)
    figure, panels = new_figure(height=2.6 * len(courses) + 0.6, n_panels=len(courses))
    for axes, ((component, number), rows) in zip(panels, courses.items()):
        steps = [row["step"] for row in rows]
        for layer, label in enumerate(name_layers(len(rows[0]["shares"]))):
            shares = [row["shares"][layer] for row in rows]
            axes.plot(steps, shares, label=label, color=COLOURS[layer % len(COLOURS)])
        n_mixes = sum(name == component for name, _ in courses)
        title = _name_mix(component, number, rows[0].get("place"), n_mixes)
        axes.set(title=title, ylabel="softmax(w)", ylim=(0, 1))
        axes.yaxis.set_major_formatter("{x:.0%}")
    panels[-1].set_xlabel("training steps")
    figure.suptitle("Layer weights over the training")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    save_figure(figure, path)


def read_course(log: Path) -> Dict[Tuple[str, int], List[Dict[str, Any]]]:
    """log (Path): What `spacy-elmo.LayerWeightsLogger.v1` wrote.
    RETURNS (Dict[Tuple[str, int], List[Dict[str, Any]]]): The rows of each mix, by component and number.
    RAISES (ValueError): EL231 if the file has no rows of this kind, or other rows too.
    """
    try:
        rows = list(srsly.read_jsonl(log))
    except ValueError as error:
        raise ValueError(Errors.EL231.format(path=log, problem=error)) from error
    courses: Dict[Tuple[str, int], List[Dict[str, Any]]] = {}
    for i, row in enumerate(rows, start=1):
        if not isinstance(row, dict) or not {"step", "component", "number", "shares"} <= row.keys():
            raise ValueError(Errors.EL231.format(path=log, problem=f"line {i} is not such a row"))
        courses.setdefault((row["component"], row["number"]), []).append(row)
    if not courses:
        raise ValueError(Errors.EL231.format(path=log, problem="it is empty"))
    return courses


def _name_mix(component: str, number: int, place: Optional[str], n_mixes: int) -> str:
    if place is not None:
        return f"{component} ({place})"
    return f"{component} ({number})" if n_mixes > 1 else component


def _finding(mixes: Sequence[TaskMix]) -> str:
    """The title says what there is to see."""
    names = [name_layers(len(mix.shares))[max(range(len(mix.shares)), key=mix.shares.__getitem__)] for mix in mixes]
    if len(set(names)) > 1:
        return "Tasks use different layers most"
    return f"{'The task uses' if len(mixes) == 1 else 'All tasks use'} the {names[0]} most"
