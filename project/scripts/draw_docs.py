"""Draw the pictures of docs/ again, from stored results. Each notes the sha256 of its source."""

import hashlib
from pathlib import Path
from typing import Callable, Dict, List, Tuple

import srsly
import typer
from analysis_plots import from_percent
from choice_section import draw_choice, read_choice
from known_datasets import PROJECT_DIR
from paper_mixes import draw_mixes
from paper_plots import draw_shares
from paper_tables import SHARE_TASKS, Result, schedule_of
from results import read_results
from wasabi import msg
from weights_in_use import split_by_weights

from spacy_elmo.analysis.layer_weights import draw_course
from spacy_elmo.analysis.plots import draw_perplexities
from spacy_elmo.analysis.probes import draw_probe
from spacy_elmo.analysis.sense_map import draw_map

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
    """Draw what comes from many results: layer weights, sample efficiency, and score against speed.

    RETURNS (List[str]): Names.
    """
    results = read_drawn(RESULTS)
    drawn = [*draw_mixes(results, images), *(name for _, name in draw_shares(results, images))]
    for task, *_ in SHARE_TASKS:
        record = read_choice(RESULTS / f"choice-{task}.json")
        if record is not None:
            draw_choice(record, images / f"choice_{task}.png")
            drawn.append(f"choice_{task}.png")
    return drawn


def read_drawn(folder: Path) -> List[Result]:
    """RETURNS (List[Result]): The results in pictures: of the weights in use, with a constant learning rate."""
    kept, _ = split_by_weights(read_results(folder))
    return [result for result in kept if schedule_of(result) == "constant"]


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
    "layer_weights_course.png": ("layer-weights-parser.jsonl", _draw_course),
    "probe_upos.png": ("probe-ewt-pos.json", _draw_probe),
    "senses-play.png": ("senses-play.json", _draw_sense_map),
    "senses_by_layer.png": ("layers-senses.json", _draw_senses),
}

if __name__ == "__main__":
    typer.run(draw_docs_cli)
