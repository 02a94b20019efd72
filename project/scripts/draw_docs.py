"""Draw the pictures of docs/ again, from stored results. Each notes the sha256 of its source."""

import hashlib
from itertools import groupby
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import srsly
import typer
from choice_section import draw_choice, read_choice
from known_datasets import PROJECT_DIR
from paper_plots import draw_shares
from paper_tables import SHARE_TASKS
from results import read_results
from wasabi import msg
from weights_in_use import split_by_weights

from spacy_elmo.analysis.layer_weights import draw_course, draw_layer_weights, join_mixes
from spacy_elmo.analysis.perplexity_curve import draw_perplexities
from spacy_elmo.analysis.probe_curve import draw_probe, from_percent
from spacy_elmo.analysis.sense_map import draw_map
from spacy_elmo.ml.task_mixes import TaskMix

RESULTS = PROJECT_DIR / "results"
IMAGES = PROJECT_DIR.parent / "docs" / "images"
N_DIGITS = 12


def draw_docs_cli(
    # fmt: off
    images: Path = typer.Option(IMAGES, "--images", "-i", help="Folder for the pictures", file_okay=False),
    # fmt: on
) -> None:
    """Draw all pictures of docs/ that have measured data; diagrams are drawn by hand."""
    for name, (source, draw) in PICTURES.items():
        draw(RESULTS / source, images / name, describe_source(RESULTS / source))
    drawn = [*PICTURES, *draw_experiments(images)]
    msg.good(f"{images}: {', '.join(drawn)}")


def describe_source(path: Path) -> str:
    """RETURNS (str): Name of the file and the first digits of its sha256, as a picture notes them."""
    return f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()[:N_DIGITS]}"


def draw_experiments(images: Path) -> List[str]:
    """Draw what results.py draws, too: sample efficiency, and score against speed. RETURNS (List[str]): Names."""
    results, _ = split_by_weights(read_results(RESULTS))
    drawn = [name for _, name in draw_shares(results, images)]
    for task, *_ in SHARE_TASKS:
        record = read_choice(RESULTS / f"choice-{task}.json")
        if record is not None:
            draw_choice(record, images / f"choice_{task}.png")
            drawn.append(f"choice_{task}.png")
    return drawn


def _draw_weights(path: Path, picture: Path, source: str) -> None:
    rows: List[Dict[str, Any]] = srsly.read_json(path)["mixes"]
    groups = [
        (name, [TaskMix(**{key: row[key] for key in row if key != "pipeline"}) for row in some])
        for name, some in groupby(rows, key=lambda row: str(row["pipeline"]))
    ]
    mixes, names = join_mixes(groups)
    draw_layer_weights(mixes, picture, names=names, source=source)


def _draw_course(path: Path, picture: Path, source: str) -> None:
    draw_course(path, picture, source=source)


def _draw_perplexities(path: Path, picture: Path, source: str) -> None:
    draw_perplexities([run["validations"] for run in srsly.read_json(path)["runs"]], picture, source=source)


def _draw_probe(path: Path, picture: Path, source: str) -> None:
    draw_probe(srsly.read_json(path), picture, source=source)


def _draw_senses(path: Path, picture: Path, source: str) -> None:
    draw_probe(from_percent(srsly.read_json(path)), picture, source=source)


def _draw_sense_map(path: Path, picture: Path, source: str) -> None:
    draw_map(srsly.read_json(path), picture, source=source)


# Pictures in docs/images: the file of project/results that each is drawn from, and how.
PICTURES: Dict[str, Tuple[str, Callable[[Path, Path, str], None]]] = {
    "en_elmo_sm_perplexity.png": ("perplexity-en_elmo_sm.json", _draw_perplexities),
    "layer_weights.png": ("layer-weights.json", _draw_weights),
    "layer_weights_course.png": ("layer-weights-parser.jsonl", _draw_course),
    "probe_upos.png": ("probe-ewt-pos.json", _draw_probe),
    "senses-play.png": ("senses-play.json", _draw_sense_map),
    "senses_by_layer.png": ("layers-senses.json", _draw_senses),
}

if __name__ == "__main__":
    typer.run(draw_docs_cli)
