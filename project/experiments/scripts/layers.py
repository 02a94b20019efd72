"""What each layer knows: senses by nearest neighbor, parts of speech by a probe (Peters et al. 2018, sec. 5.3)."""

import sys
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any, Dict, List, Literal

import spacy
import typer
from spacy.tokens import DocBin
from wasabi import msg

from spacy_elmo import BiLM, load_bilm
from spacy_elmo.analysis import (
    LabelledDocs,
    Score,
    SenseVectors,
    label_senses,
    label_tokens,
    majority_baseline,
    probe_layers,
    read_senses,
    score_senses,
    word_baseline,
)

sys.path.append(str(Path(__file__).parents[2] / "scripts"))  # of the example: data.py, shared.py
from datasets import find_sources, prepare
from shared import ASSETS, identify, report_errors, write_json
from stored import RESULTS_DIR, is_finished

BOUNDS = ("value", "low", "high")
Row = Dict[str, Any]


@report_errors("Cannot score layers")
def layers_cli(
    experiment: Literal["senses", "pos"] = typer.Argument(..., help="What to look for"),
    results: Path = typer.Option(RESULTS_DIR, "--results", "-r", help="Folder for layers-<experiment>.json"),
    assets_dir: str = ASSETS,
    bilm: str = typer.Option("en_elmo_sm", "--bilm", "-b", help="Name or path of the biLM"),
    force: bool = typer.Option(False, "--force", "-F", help="Compute the scores again if the file exists"),
) -> None:
    """Score every layer of a biLM, and the mean of all layers, beside baselines without vectors, and write the scores
    with name and digest of the biLM.
    """
    output_path = results / f"layers-{experiment}.json"
    if not force and is_finished(output_path, bilm):
        msg.info(f"{output_path} exists; --force computes it again")
        return
    with tempfile.TemporaryDirectory() as folder:
        if experiment == "senses":
            scores = score_senses_by_layer(load_bilm(bilm), find_sources("semcor", assets_dir))
        else:  # a treebank is converted
            paths = {path.stem: path for path in prepare("ud_en_ewt", Path(folder), assets_dir)}
            scores = score_pos_by_layer(load_bilm(bilm), paths)
    write_json(output_path, {"experiment": experiment, **identify(bilm), **scores})
    rows = [[str(row["layer"]), *(f"{row[name]:.2f}" for name in BOUNDS)] for row in scores["rows"]]
    msg.table(rows, header=["layer", *BOUNDS], divider=True)


def score_senses_by_layer(bilm: BiLM, paths: Dict[str, Path]) -> Row:
    """paths (Dict[str, Path]): The files "train" and "test".
    RETURNS (Row): Counts under "n_train" and "n_test"; under "rows" one for the baseline and for each layer.
    """
    vocab = spacy.blank("en").vocab
    train, test = (label_senses(list(read_senses(paths[part])), vocab) for part in ("train", "test"))
    vectors = SenseVectors(bilm).fit(train)
    first = vectors.first_sense(test)
    rows = []
    for name, answers in [("first sense", first), *zip(vectors.layers, vectors.predict(test))]:
        scores = score_senses(answers, first, test, vectors)
        gain = None if name == "first sense" else _percent(scores.gain)
        ambiguous = None if scores.ambiguous is None else _percent(scores.ambiguous)
        rows.append({"layer": name, **_percent(scores.f1), "ambiguous": ambiguous, "gain": gain})
    return {**_sizes(train, test), "n_answered": sum(answer is not None for answer in first), "rows": rows}


def score_pos_by_layer(bilm: BiLM, paths: Dict[str, Path]) -> Row:
    """The same for parts of speech, with two baselines."""
    vocab = spacy.blank("en").vocab
    train, test = (label_tokens(DocBin().from_disk(paths[part]).get_docs(vocab), "pos") for part in ("train", "test"))
    rows: List[Row] = [
        {"layer": "most frequent tag", **_percent(majority_baseline(train, test))},
        {"layer": "most frequent tag of the word", **_percent(word_baseline(train, test))},
    ]
    for probe in probe_layers(bilm, train, test):
        rows.append({"layer": probe.layer, **_percent(probe.accuracy), "control": 100 * mean(probe.control)})
    return {**_sizes(train, test), "rows": rows}


def _sizes(train: LabelledDocs, test: LabelledDocs) -> Row:
    return {"n_train": len(train.labels), "n_test": len(test.labels)}


def _percent(score: Score) -> Row:
    return {name: 100 * getattr(score, name) for name in BOUNDS}


if __name__ == "__main__":
    typer.run(layers_cli)
