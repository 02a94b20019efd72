"""`elmo layer-weights`: how the components of a pipeline weigh the layers of the biLM."""

from dataclasses import asdict
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

import srsly

from ..analysis.layer_weight_plots import (
    check_log,
    draw_course,
    draw_layer_weights,
    join_mixes,
    load_task_mixes,
    name_layers,
)
from ..files import AnyPath, check_output_file
from ..pipeline.layer_weights import TaskMix, describe_concatenated
from . import _common
from ._app import Arg, Opt, app


@app.command("layer-weights")
def layer_weights_cli(
    # fmt: off
    pipelines: List[str] = Arg(
        ..., metavar="PIPELINE...", help="Trained pipelines with ELMo: folders, or names of installed packages."
    ),
    picture: Optional[Path] = Opt(
        None, "--picture", "-p", help="Draw a bar per component into this file: .png, .svg or .pdf."
    ),
    log: Optional[Path] = Opt(
        None,
        "--log",
        help="Draw how the weights changed, from this file of spacy-elmo.LayerWeightsLogger.v1, instead of the bars.",
        exists=True,
        dir_okay=False,
    ),
    title: Optional[str] = _common.TITLE_OPT,
    size: Optional[str] = _common.SIZE_OPT,
    dpi: Optional[int] = _common.DPI_OPT,
    label: List[str] = _common.LABEL_OPT,
    code_path: Optional[Path] = _common.CODE_OPT,
    as_json: bool = _common.JSON_OPT,
    force: bool = _common.FORCE_OPT,
    # fmt: on
) -> None:
    """Show how each component of one or more pipelines weighs the layers of the biLM.

    Prints softmax(w) and gamma of Peters et al. (2018), eq. 1, one row per mix. A large share means that the task uses
    this layer. A component that reads all layers concatenated has no weights, which is said instead.
    """
    with _common.show_errors():
        places = [str(Path(name).resolve()) for name in pipelines]
        twice = [name for i, name in enumerate(pipelines) if places[i] in places[:i]]
        problem = f"The pipeline '{twice[0]}' is named twice. Name each pipeline once." if twice else ""
        if log is not None and picture is None:
            problem = "--log needs a file to draw into. Name it with --picture, for instance --picture course.png."
        elif log is not None and len(pipelines) > 1:
            problem = f"--log draws the course of one pipeline, not of {len(pipelines)}. Name one, or leave --log out."
        if problem:
            raise ValueError(problem)
        look = _common.make_look(picture, title, size, dpi, label)
        if picture is not None:
            sources: List[AnyPath] = [*pipelines, *(file for file in (log, code_path) if file is not None)]
            check_output_file(picture, force=force, sources=sources)
        _common.import_code(code_path)
        named_mixes = [(name, load_task_mixes(path)) for name, path in zip(_shorten(pipelines), pipelines)]
        mixes, names = join_mixes(named_mixes)
        if log is not None:
            check_log(log, pipelines[0], mixes)
        if picture is not None and log is not None:
            draw_course(log, picture, look=look)
        elif picture is not None:
            draw_layer_weights(mixes, picture, names=names, look=look)
    if as_json:
        named = [({"pipeline": name} if name else {}, mix) for name, task_mixes in named_mixes for mix in task_mixes]
        print(srsly.json_dumps({"mixes": [{**pipeline, **asdict(mix)} for pipeline, mix in named]}))
    else:
        named_weights = [(name, mix) for name, mix in zip(names, mixes) if not mix.is_concatenated]
        if named_weights:
            _print_table(named_weights)
        for name, mix in zip(names, mixes):
            if mix.is_concatenated:
                print(describe_concatenated(name, mix))
    if picture is not None:
        _common.msg.good(f"Drew {picture}")


def _print_table(named_mixes: Sequence[Tuple[str, TaskMix]]) -> None:
    mixture_size = max(len(mix.shares) for _, mix in named_mixes)
    rows = [
        # Layers that a biLM does not have are empty.
        [name, *(f"{share:.1%}" for share in mix.shares), *[""] * (mixture_size - len(mix.shares)), f"{mix.gamma:.3f}"]
        for name, mix in named_mixes
    ]
    header = ["component", *name_layers(mixture_size), "gamma"]
    width = max(len(name) for name, _ in named_mixes)  # wasabi cuts the padding of columns, not their text
    aligns = ["l", *"r" * (len(header) - 1)]
    _common.msg.table(rows, header=header, divider=True, aligns=aligns, max_col=max(width, 30))


def _shorten(pipelines: Sequence[str]) -> List[str]:
    """RETURNS (List[str]): What differs in the paths: "ner" and "tagger" of training/ner/model-best and
    training/tagger/model-best; "" for a single pipeline.
    """
    if len(pipelines) == 1:
        return [""]
    names = [list(Path(path).parts) for path in pipelines]
    while all(len(path) > 1 for path in names) and len({path[-1] for path in names}) == 1:
        names = [path[:-1] for path in names]
    while all(len(path) > 1 for path in names) and len({path[0] for path in names}) == 1:
        names = [path[1:] for path in names]
    return ["/".join(path) for path in names]
