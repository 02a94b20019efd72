"""Draw the tables and plots of docs/results.md and RESULTS.md, and the pictures of docs, from the stored results.

`tables` writes between the markers of the pages; other text stays. `pictures` draws those of docs/ that have measured
data, each with the sha256 of its source; diagrams are drawn by hand.
"""

import hashlib
import os
import re
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

import srsly
import typer
from wasabi import msg

from spacy_elmo.analysis import draw_course, draw_layer_weights, draw_map, draw_perplexities, draw_probe
from spacy_elmo.files import write_text

sys.path.append(str(Path(__file__).parents[2] / "scripts"))  # of the example: data.py, shared.py
import tables
from pictures import draw_choice, draw_shares, from_percent
from sections import SECTIONS, choice_section, errors_section, grid_section, read_records
from shared import report_errors
from stored import EXPERIMENTS_DIR, RESULTS_DIR, Result, read_results

DOCS = EXPERIMENTS_DIR.parents[1] / "docs"
PAGES = [DOCS / "results.md", EXPERIMENTS_DIR / "RESULTS.md"]
IMAGES, LAYER_WEIGHTS = "images", "layer_weights.png"  # the folder is beside the first page
# Pictures in docs/images: the file of `results` that each is drawn from, and how.
PICTURES: Dict[str, Tuple[str, Callable[..., object]]] = {
    "en_elmo_sm_perplexity.png": ("perplexity-en_elmo_sm.json", draw_perplexities),
    "layer_weights_course.png": ("layer-weights-parser.jsonl", draw_course),
    "probe_upos.png": ("probe-ewt-pos.json", draw_probe),
    "senses-play.png": ("senses-play.json", draw_map),
    "senses_by_layer.png": ("layers-senses.json", draw_probe),
}
app = typer.Typer(add_completion=False, help=__doc__)


@app.command("tables")
@report_errors("Cannot draw the results")
def tables_cli(
    results: Path = typer.Option(RESULTS_DIR, "--results", "-r", help="Folder with results of paper.py"),
    pages: List[Path] = typer.Option(PAGES, "--page", "-p", help="Markdown files for the tables", dir_okay=False),
) -> None:
    """Write the tables between the markers of the pages, and the plots to `images` beside the first one."""
    msg.good(f"{', '.join(map(str, pages))}: {', '.join(draw(read_results(results), pages, results))}")


@app.command("pictures")
def pictures_cli(
    images: Path = typer.Option(DOCS / IMAGES, "--images", "-i", help="Folder for the pictures", file_okay=False),
) -> None:
    """Draw all pictures of docs/ that have measured data."""
    for name, (source, draw_picture) in PICTURES.items():
        path = RESULTS_DIR / source
        data: Any = path if path.suffix == ".jsonl" else srsly.read_json(path)
        if path.name.startswith("perplexity-"):
            data = [run["validations"] for run in data["runs"]]
        elif path.name.startswith("layers-"):
            data = from_percent(data)
        draw_picture(data, images / name, source=describe_source(path))
    results = tables.keep_in_use(read_results(RESULTS_DIR))
    plots = [*draw_shares(results, images), draw_choice(results, tables.read_measured(RESULTS_DIR), images)]
    mixes = tables.find_mixes(results)
    means, names = [tables.average_mixes(seeds) for _, seeds in mixes], [name for name, _ in mixes]
    draw_layer_weights(means, images / LAYER_WEIGHTS, names=names, source=tables.describe_mixes(results))
    msg.good(f"{images}: {', '.join([*PICTURES, LAYER_WEIGHTS, *(plot[1] for plot in plots if plot)])}")


def describe_source(path: Path) -> str:
    """RETURNS (str): Name of the file and the first digits of its sha256, as a picture notes them."""
    return f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"


def draw(results: List[Result], pages: List[Path], folder: Path) -> List[str]:
    """Write the pages; a new one gets a title. A section stands where its markers are, a new one on the last page.

    RETURNS (List[str]): The sections with content.
    """
    texts = {page: page.read_text(encoding="utf8") if page.exists() else "# Results\n" for page in pages}
    images = pages[0].parent / IMAGES
    sections = make_sections(results, folder, images)
    for name, (heading, content) in sections.items():
        start, end = f"<!-- results: {name} -->", f"<!-- end of {name} -->"
        page = next((page for page in pages if start in texts[page]), pages[-1])
        if content and start not in texts[page]:
            texts[page] = f"{texts[page].rstrip()}\n\n{start}\n{end}\n"
        linked = (content or "").replace(f"]({IMAGES}/", f"]({os.path.relpath(images, page.parent)}/")
        block = f"{start}\n## {heading}\n\n{linked}\n{end}" if content else f"{start}\n{end}"
        texts[page] = re.sub(f"{start}.*?{end}", lambda _, block=block: block, texts[page], flags=re.S)
    for page, text in texts.items():
        write_text(page, text)
    return [name for name, (_, content) in sections.items() if content]


def make_sections(results: List[Result], folder: Path, image_dir: Path) -> Dict[str, Tuple[str, Optional[str]]]:
    """RETURNS (Dict[str, Tuple[str, Optional[str]]]): Heading and Markdown of each section of the page, empty or None
    without results. Results of other weights than those in use are left out.
    """
    in_use, records = tables.keep_in_use(results), read_records(folder)
    shares = tables.make_shares(in_use)
    if shares:
        shares += "".join(f"\n\n![{title}]({IMAGES}/{name})" for title, name in draw_shares(in_use, image_dir))
    return {
        "weights": ("Weights", tables.describe_weights(results, records.values())),
        "gains": ("Gains", tables.make_gains(in_use)),
        "layer-weights": ("Layer weights", tables.make_layer_weights(in_use)),
        "languages": ("Other languages", tables.make_gains(in_use, tables.LANGUAGES)),
        "alternatives": ("Alternatives: spacy pretrain and floret vectors", tables.make_alternatives(in_use)),
        "finetuned": ("Fine-tuning the biLM", tables.make_finetuned(in_use)),
        "grid": ("Grid", grid_section(in_use)),
        "mixes": ("Mix of the layers", tables.make_mixes(in_use)),
        "placements": ("Placement", tables.make_placements(in_use)),
        "shares": ("Sample efficiency", shares),
        "errors": ("Errors", errors_section(records)),
        **{
            name: (heading, make_section(records[file]) if file in records else None)
            for name, (heading, file, make_section) in SECTIONS.items()
        },
        "choice": ("What to choose", choice_section(in_use, tables.read_measured(folder), image_dir)),
    }


if __name__ == "__main__":
    app()
