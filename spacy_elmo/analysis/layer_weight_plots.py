"""Pictures of layer weights: the shares of each task (Peters et al. 2018, fig. 2) and their course over training."""

from pathlib import Path
from typing import Annotated, Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import srsly
from pydantic import Field
from pydantic.dataclasses import dataclass

from ..errors import Errors
from ..pipeline.layer_weights import TaskMix, describe_concatenated, find_task_mixes, find_untrained, load_trained
from ..settings import Count, NotNegative, Problem, WholeNumber, check_record, list_problems
from .plots import COLOURS, HATCHES, STYLES, Look, add_legend, new_figure, save_figure, set_title


def name_layers(mixture_size: int) -> List[str]:
    """RETURNS (List[str]): Names of L+1 layers for people, the token layer first."""
    return ["token layer", *(f"layer {i}" for i in range(1, mixture_size))]


def name_layer(layer: Union[int, str]) -> str:
    """RETURNS (str): The name of a layer (number, or "mean") for people."""
    return f"{layer} of all layers" if isinstance(layer, str) else name_layers(layer + 1)[layer]


def name_mixes(mixes: Sequence[TaskMix]) -> List[str]:
    """RETURNS (List[str]): The component of each mix, with its place (or its number, where several have no place)."""
    components = [mix.component for mix in mixes]
    return [_name_mix(mix.component, mix.number, mix.place, components.count(mix.component)) for mix in mixes]


def load_task_mixes(pipeline: str) -> List[TaskMix]:
    """pipeline (str): A folder, or the name of an installed package.
    RETURNS (List[TaskMix]): Its mixes.
    RAISES (ValueError): EL230 if no component mixes layers; if those that do are not trained; for a folder without
        a pipeline.
    """
    nlp = load_trained(pipeline)
    mixes = find_task_mixes(nlp)
    if not mixes and (untrained := find_untrained(nlp)):
        raise ValueError(
            f"The components of '{pipeline}' that mix the layers of a biLM are not trained, so that they have no "
            f"weights: {', '.join(untrained)}. Name the folder of a trained pipeline, such as model-best."
        )
    if not mixes:
        raise ValueError(Errors.EL230.format(pipeline=pipeline, pipes=", ".join(nlp.component_names) or "none"))
    return mixes


def join_mixes(mixes_by_name: Sequence[Tuple[str, Sequence[TaskMix]]]) -> Tuple[List[TaskMix], List[str]]:
    """RETURNS (Tuple[List[TaskMix], List[str]]): All mixes, and their names, after the pipeline ("" for none)."""
    mixes = [mix for _, task_mixes in mixes_by_name for mix in task_mixes]
    pairs = [(name, mix_name) for name, task_mixes in mixes_by_name for mix_name in name_mixes(task_mixes)]
    return mixes, [f"{name}: {mix_name}".removeprefix(": ") for name, mix_name in pairs]


def draw_layer_weights(
    mixes: Sequence[TaskMix],
    path: Path,
    *,
    names: Optional[Sequence[str]] = None,
    source: str = "",
    look: Optional[Look] = None,
) -> None:
    """Draw a stacked bar per mix, its length divided by softmax(w), with gamma at the end.

    mixes (Sequence[TaskMix]): At least one with weights; concatenated layers have none, and no bar.
    path (Path): File to write: .png, .svg or .pdf.
    names (Optional[Sequence[str]]): A name per mix, for mixes of several pipelines; None for `name_mixes`.
    source (str), look (Optional[Look]): See `save_figure`.
    RAISES (ValueError): If no mix has weights.
    """
    named = list(zip(name_mixes(mixes) if names is None else names, mixes))
    weighted = [(name, mix) for name, mix in named if not mix.is_concatenated]
    if not weighted:
        described = "; ".join(describe_concatenated(name, mix) for name, mix in named)
        raise ValueError(f"There are no layer weights to draw. {described}. Leave out `picture`.")
    mixes = [mix for _, mix in weighted]
    figure, (axes,) = new_figure(height=1.4 + 0.5 * len(mixes), look=look)
    labels = [f"{name}\n$\\gamma$ = {mix.gamma:.2f}" for name, mix in weighted]
    mixture_size = max(len(mix.shares) for mix in mixes)
    places = range(len(mixes))
    left = [0.0] * len(mixes)
    for layer, label in enumerate(name_layers(mixture_size)):
        shares = [mix.shares[layer] if layer < len(mix.shares) else 0.0 for mix in mixes]
        colour, hatch = COLOURS[layer % len(COLOURS)], HATCHES[layer % len(HATCHES)]
        look_of = {"color": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0}
        bars = axes.barh(places, shares, left=left, label=label, height=0.6, **look_of)
        texts = [f"{share:.0%}" if share >= 0.06 else "" for share in shares]
        box = {"facecolor": colour, "edgecolor": "none", "pad": 1.5}  # over the hatching
        axes.bar_label(bars, labels=texts, label_type="center", color="white" if layer == 0 else "black", bbox=box)
        left = [start + share for start, share in zip(left, shares)]
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.grid(visible=False)
    set_title(figure, _finding(mixes))
    add_legend(figure, axes, n_columns=min(mixture_size, 4))
    save_figure(figure, path, source=source, look=look)


def draw_course(log: Path, path: Path, *, source: str = "", look: Optional[Look] = None) -> None:
    """Draw softmax(w) of each mix over the steps of a training, a panel per mix, from what
    `spacy-elmo.LayerWeightsLogger.v1` wrote into `log`. For the other arguments and errors see `draw_layer_weights` and
    `read_course`.
    """
    courses = read_course(log)
    figure, panels = new_figure(height=2.6 * len(courses) + 0.6, n_panels=len(courses), look=look)
    highest = max(share for rows in courses.values() for row in rows for share in row["shares"])
    for axes, ((component, mix_number), rows) in zip(panels, courses.items()):
        steps = [row["step"] for row in rows]
        for layer, label in enumerate(name_layers(len(rows[0]["shares"]))):
            shares = [row["shares"][layer] for row in rows]
            kind = {"color": COLOURS[layer % len(COLOURS)], "linestyle": STYLES[layer % len(STYLES)]}
            axes.plot(steps, shares, label=label, **kind)
        n_mixes = sum(name == component for name, _ in courses)
        title = _name_mix(component, mix_number, rows[0].get("place"), n_mixes)
        axes.set(title=title, ylabel="softmax(w)", ylim=(0, min(1.0, 1.2 * highest)))
        axes.yaxis.set_major_formatter("{x:.0%}")
    panels[-1].set_xlabel("training steps")
    set_title(figure, _find_change([(rows[0]["shares"], rows[-1]["shares"]) for rows in courses.values()]))
    add_legend(figure, panels[0], n_columns=4)
    save_figure(figure, path, source=source, look=look)


@dataclass
class LoggedMix:
    """A row of the log: the shares of the layers in a mix of a component."""

    step: WholeNumber
    component: str
    number: Count
    shares: Annotated[List[Annotated[NotNegative, Field(le=1)]], Field(min_length=1)]
    place: Optional[str] = None


def read_course(log: Path) -> Dict[Tuple[str, int], List[Dict[str, Any]]]:
    """log (Path): What `spacy-elmo.LayerWeightsLogger.v1` wrote.
    RETURNS (Dict[Tuple[str, int], List[Dict[str, Any]]]): The rows of each mix, by component and number.
    RAISES (ValueError): If the file has no rows of this kind, other rows, or damaged rows: a line is named with its
        problems.
    """
    courses: Dict[Tuple[str, int], List[Dict[str, Any]]] = {}
    try:
        problem = _sort_rows(srsly.read_jsonl(log), courses)
    except ValueError as error:
        problem = str(error)
    if problem or not courses:
        raise ValueError(
            f"'{log}' is not a log of layer weights: {problem or 'it is empty'}. Give the file that "
            "spacy-elmo.LayerWeightsLogger.v1 wrote during a training; from a folder that `elmo report` reads, remove "
            "the file."
        )
    return courses


def _sort_rows(rows: Iterable[Any], courses: Dict[Tuple[str, int], List[Dict[str, Any]]]) -> str:
    """Add each row to its course. RETURNS (str): What is wrong with the first wrong row; "" if all are right."""
    for i, row in enumerate(rows, start=1):
        _, problems = check_record(LoggedMix, row)
        course = [] if problems else courses.setdefault((row["component"], row["number"]), [])
        if course and len(row["shares"]) != len(course[0]["shares"]):
            lengths = f"{len(row['shares'])} numbers, should have {len(course[0]['shares'])}"
            problems = [Problem(("shares",), f"has {lengths}, as in the first row of this mix")]
        if problems:
            return f"in line {i}, {list_problems(problems)}"
        course.append(row)
    return ""


def check_log(log: Path, pipeline: str, mixes: Sequence[TaskMix]) -> None:
    """RAISES (ValueError): For a damaged log, or one of other mixes than the pipeline has."""
    logged = {(*mix, len(rows[0]["shares"])) for mix, rows in read_course(log).items()}
    known = {(mix.component, mix.number, len(mix.shares)) for mix in mixes if not mix.is_concatenated}
    if logged != known:
        described = [
            ", ".join(f"{name} ({i}) with {n} layers" for name, i, n in sorted(mix_keys))
            for mix_keys in (logged, known)
        ]
        raise ValueError(
            f"The log '{log}' has the layer weights of other mixes ({described[0]}) than the pipeline '{pipeline}' has "
            f"({described[1]}). Give the log of the training of this pipeline."
        )


def _name_mix(component: str, mix_number: int, place: Optional[str], n_mixes: int) -> str:
    if place is not None:
        return f"{component} ({place})"
    return f"{component} ({mix_number})" if n_mixes > 1 else component


def _finding(mixes: Sequence[TaskMix]) -> str:
    """The title: which layers have the largest shares."""
    names = [name_layers(len(mix.shares))[max(range(len(mix.shares)), key=mix.shares.__getitem__)] for mix in mixes]
    if len(set(names)) > 1:
        return "Tasks use different layers most"
    return f"{'The task uses' if len(mixes) == 1 else 'All tasks use'} {_with_article(names[0])} most"


def _find_change(courses: Sequence[Tuple[Sequence[float], Sequence[float]]]) -> str:
    """The title: which layer gains most from the first to the last evaluation."""
    gains = [[last - first for first, last in zip(*course)] for course in courses]
    gain, layer = max((gain, layer) for course in gains for layer, gain in enumerate(course))
    if gain < 0.005:
        return "Layer weights stay as they are over the training"
    name = _with_article(name_layer(layer))
    return f"Over the training, {name} gains most: {100 * gain:.1f} points of softmax(w)"


def _with_article(layer: str) -> str:
    return layer if layer[-1].isdigit() else f"the {layer}"
