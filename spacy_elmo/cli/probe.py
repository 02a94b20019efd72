"""`elmo probe`: how well a label can be read off each layer of a biLM."""

from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, Dict, List, Optional

import srsly
from tqdm import tqdm

from ..about import __version__
from ..analysis.labelled_docs import ATTRS, SENSE, ProbeData, load_probe_data
from ..analysis.layer_weight_plots import name_layer
from ..analysis.probes import (
    CONTROL_SEEDS,
    MAX_ITER,
    NEAREST_SENSE,
    NEAREST_USE,
    ProbeRecord,
    draw_probe,
    open_pipeline,
    parse_layers,
    probe_data,
)
from ..files import write_text
from ..weights.load import list_sources
from . import _common
from ._app import Arg, Opt, app


@app.command("probe")
def probe_cli(
    # fmt: off
    pipeline: str = Arg(
        ..., help="Pipeline with `elmo` (folder or installed package), or a biLM (path or packaged name)."
    ),
    data: Path = Arg(
        ...,
        help="Test data: .spacy or .conllu with annotations, or .jsonl with word senses, plain or compressed (.gz, .bz2, .xz, .zst).",
    ),
    attr: str = Opt(..., "--attr", "-a", help=f"What to find: {', '.join(ATTRS)}."),
    train: Optional[Path] = Opt(
        None,
        "--train",
        "-t",
        help="Training data; by default 80 % of the documents of DATA.",
    ),
    layers: Optional[str] = Opt(None, "--layers", help="Layers to probe, for instance 0,2,mean; all by default."),
    control_seeds: Optional[int] = Opt(
        None,
        "--control-seeds",
        "-n",
        help=f"Number of control tasks; {len(CONTROL_SEEDS)} by default, none for senses.",
        min=0,
    ),
    limit: Optional[int] = Opt(
        None, "--limit", "-m", help="Train on this many tokens at most, of documents drawn at random.", min=2
    ),
    seed: int = Opt(0, "--seed", "-s", help="Seed of the split and of the draw.", min=0),
    max_iter: int = Opt(MAX_ITER, "--max-iter", "-i", help="Limit of the iterations of a probe.", min=1),
    output: Optional[Path] = Opt(None, "--output", "-o", help="Write the scores into this JSON file.", dir_okay=False),
    picture: Optional[Path] = Opt(None, "--picture", "-p", help="Draw the scores into this file: .png, .svg or .pdf."),
    title: Optional[str] = _common.TITLE_OPT,
    size: Optional[str] = _common.SIZE_OPT,
    dpi: Optional[int] = _common.DPI_OPT,
    label: List[str] = _common.LABEL_OPT,
    code_path: Optional[Path] = _common.CODE_OPT,
    as_json: bool = _common.JSON_OPT,
    force: bool = _common.FORCE_OPT,
    # fmt: on
) -> None:
    """Score how well a label can be read off each layer of a biLM, by a linear probe and by the nearest training token.

    The scores are compared with baselines without vectors, and with control tasks, in which each word has a random
    label: the difference from them is the selectivity of a probe (Hewitt and Liang 2019). Word senses are predicted by
    the nearest mean of the uses of a sense, and by the nearest use.
    """
    with _common.show_errors():
        sources = [file for file in (data, train, code_path) if file is not None] + list_sources(pipeline)
        _common.check_output_files(output=output, picture=picture, force=force, sources=sources)
        look = _common.make_look(picture, title, size, dpi, label)
        if attr == SENSE and control_seeds is not None:
            raise ValueError(
                "--control-seeds does not fit --attr sense: senses are found by nearest neighbor, which has no "
                "control task. Leave --control-seeds out."
            )
        _common.import_code(code_path)
        texts = load_probe_data(data, attr, train=train, limit=limit, seed=seed)
        _print_data(texts, data, seed)
        opened = open_pipeline(pipeline)
        scores = probe_data(
            opened.bilm,
            texts,
            layers=parse_layers(layers, opened.bilm),
            reading=opened.reading,
            control_seeds=range(len(CONTROL_SEEDS) if control_seeds is None else control_seeds),
            max_iter=max_iter,
            watch=partial(tqdm, desc="Layers", disable=None),
        )
        files = {"train": (train or data).name, "test": data.name, "is_split": texts.is_split}
        names = {"bilm": Path(pipeline).name, "bilm_digest": opened.bilm.digest, "version": __version__}
        record = {**names, **files, "limit": limit, "seed": seed, **scores}
        _warn_of_probes(record)
        if output is not None:
            write_text(output, srsly.json_dumps(record, indent=2) + "\n", errors="replace")
        if picture is not None:
            draw_probe(record, picture, look=look)
    if as_json:
        print(srsly.json_dumps(record, indent=2))
    else:
        header = _make_header(record)
        _common.msg.table(make_rows(record), header=header, divider=True, aligns=("l", *"r" * (len(header) - 1)))
    _common.print_written(output, picture)


def _print_data(texts: ProbeData, path: Path, seed: int) -> None:
    train, test = texts.train, texts.test
    sizes = f"{_common.counted(len(train.labels), 'training token')}, {_common.counted(len(test.labels), 'test token')}"
    if texts.is_split:
        docs = f"{len(train.docs):,} documents to train on and {len(test.docs):,} to test on"
        _common.msg.info(f"No training data (--train): {path} is split with seed {seed} into {docs}")
    _common.msg.info(f"{sizes}, {_common.counted(len(set(train.labels)), 'label')} of {texts.attr}")
    if texts.n_unseen and texts.attr != SENSE:
        _common.msg.warn(
            f"{texts.n_unseen:,} of the {len(test.labels):,} test tokens have a label that no training token "
            "has; they count as wrong. Give more training data."
        )


def _warn_of_probes(record: ProbeRecord) -> None:
    stopped = [name_layer(row["layer"]) for row in record["layers"] if not row.get("is_converged", True)]
    if stopped:
        _common.msg.warn(
            f"The probes of {', '.join(stopped)} did not converge in {record['max_iter']} iterations, so that "
            "their accuracies may be too low. Raise the limit with --max-iter."
        )


def make_rows(record: ProbeRecord) -> List[List[str]]:
    """RETURNS (List[List[str]]): A row per baseline and layer: percentages, and their 95 % intervals."""
    if record["attr"] == SENSE:
        rows = [["most frequent training sense", _interval(record["baselines"]["first sense"]), "", "", ""]]
        for row in record["layers"]:
            scores = (row["nearest"], row["ambiguous"])
            gain = _interval(row["gain"], sign="+")
            rows.append([name_layer(row["layer"]), *map(_interval, scores), gain, _interval(row["nearest_use"])])
        return rows
    rows = [[f"{name} baseline", _interval(score), "", "", ""] for name, score in record["baselines"].items()]
    for row in record["layers"]:
        control = f"{mean(row['control']):.1%}" if row["control"] else ""
        selectivity = "" if row["selectivity"] is None else f"{100 * row['selectivity']:.1f}"
        rows.append(
            [name_layer(row["layer"]), _interval(row["probe"]), _interval(row["nearest"]), control, selectivity]
        )
    return rows


def _make_header(record: ProbeRecord) -> List[str]:
    if record["attr"] == SENSE:
        return ["layer", f"{NEAREST_SENSE}, F1", "several senses", "difference from baseline", f"{NEAREST_USE}, F1"]
    return ["layer", "linear probe", "1-NN", "control task", "selectivity"]


def _interval(score: Optional[Dict[str, Any]], sign: str = "") -> str:
    if score is None:
        return ""
    value, low, high = (f"{100 * score[name]:{sign}.1f}" for name in ("value", "low", "high"))
    return f"{value} ({low} to {high})"
