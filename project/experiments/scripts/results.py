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
from pictures import draw_choice, draw_shares, from_percent
from sections import (
    choice_section,
    contexts_section,
    errors_section,
    pos_section,
    read_identities,
    senses_section,
)
from shared import report_errors
from stored import EXPERIMENTS_DIR, RESULTS_DIR, Result, read_results
from tables import (
    LANGUAGES,
    average_mixes,
    describe_mixes,
    describe_weights,
    find_mixes,
    keep_in_use,
    list_missing,
    make_alternatives,
    make_choice,
    make_finetuned,
    make_gains,
    make_layer_weights,
    make_mixes,
    make_placements,
    make_shares,
    read_measured,
)

DOCS = EXPERIMENTS_DIR.parents[1] / "docs"
PAGES = [DOCS / "results.md", EXPERIMENTS_DIR / "RESULTS.md"]
IMAGES = "images"  # beside the first page
# Pictures in docs/images: the file of project/results that each is drawn from, and how.
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
    # fmt: off
    results: Path = typer.Option(RESULTS_DIR, "--results", "-r", help="Folder with results of paper.py"),
    pages: List[Path] = typer.Option(PAGES, "--page", "-p", help="Markdown files for the tables", dir_okay=False),
    # fmt: on
) -> None:
    """Write the tables between the markers of the pages, and the plots to `images` beside the first one."""
    msg.good(f"{', '.join(map(str, pages))}: {', '.join(draw(read_results(results), pages, results))}")


@app.command("choice")
@report_errors("Cannot print the table")
def choice_cli(
    # fmt: off
    results: Path = typer.Option(RESULTS_DIR, "--results", "-r", help="Folder with results of paper.py and choice.py"),
    # fmt: on
) -> None:
    """Print the table of what to choose, and what is missing in it."""
    kept, measured = keep_in_use(read_results(results)), read_measured(results)
    typer.echo(make_choice(kept, measured) or "There is no result yet.")
    for missing in list_missing(kept, measured):
        msg.warn(f"Missing: {missing}")


@app.command("pictures")
def pictures_cli(
    # fmt: off
    images: Path = typer.Option(DOCS / IMAGES, "--images", "-i", help="Folder for the pictures", file_okay=False),
    # fmt: on
) -> None:
    """Draw all pictures of docs/ that have measured data."""
    for name, (source, draw_picture) in PICTURES.items():
        path = RESULTS_DIR / source
        found: Any = path if path.suffix == ".jsonl" else srsly.read_json(path)
        if path.name.startswith("perplexity-"):
            found = [run["validations"] for run in found["runs"]]
        elif path.name.startswith("layers-"):
            found = from_percent(found)
        draw_picture(found, images / name, source=describe_source(path))
    results = keep_in_use(read_results(RESULTS_DIR))
    drawn = [*PICTURES, *(name for _, name in draw_shares(results, images))]
    choice = draw_choice(results, read_measured(RESULTS_DIR), images)
    drawn += [choice[1]] if choice else []
    mixes = find_mixes(results)
    if mixes:
        means, names = [average_mixes(seeds) for _, seeds in mixes], [name for name, _ in mixes]
        drawn.append("layer_weights.png")
        draw_layer_weights(means, images / drawn[-1], names=names, source=describe_mixes(results))
    msg.good(f"{images}: {', '.join(drawn)}")


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
        page = next((page for page in pages if f"<!-- results: {name} -->" in texts[page]), pages[-1])
        linked = (content or "").replace(f"]({IMAGES}/", f"]({os.path.relpath(images, page.parent)}/")
        texts[page] = replace_section(texts[page], name, f"## {heading}\n\n{linked}" if content else "")
    for page, text in texts.items():
        write_text(page, text)
    return [name for name, (_, content) in sections.items() if content]


def make_sections(results: List[Result], folder: Path, image_dir: Path) -> Dict[str, Tuple[str, Optional[str]]]:
    """RETURNS (Dict[str, Tuple[str, Optional[str]]]): Heading and Markdown of each section of the page, empty or None
    without results. Results of other weights than those in use are left out.
    """
    kept = keep_in_use(results)
    shares = make_shares(kept)
    if shares:
        shares += "".join(f"\n\n![{title}]({IMAGES}/{name})" for title, name in draw_shares(kept, image_dir))
    return {
        "weights": ("Weights", describe_weights(results, read_identities(folder))),
        "gains": ("Gains", make_gains(kept)),
        "layer-weights": ("Layer weights", make_layer_weights(kept)),
        "languages": ("Other languages", make_gains(kept, LANGUAGES)),
        "alternatives": ("Alternatives: spacy pretrain and floret vectors", make_alternatives(kept)),
        "finetuned": ("Fine-tuning the biLM", make_finetuned(kept)),
        "mixes": ("Mix of the layers", make_mixes(kept)),
        "placements": ("Placement", make_placements(kept)),
        "shares": ("Sample efficiency", shares),
        "errors": ("Errors", errors_section(folder)),
        "senses": ("Word senses by layer", senses_section(folder)),
        "pos": ("Parts of speech by layer", pos_section(folder)),
        "contexts": ("Contexts and states", contexts_section(folder)),
        "choice": ("What to choose", choice_section(kept, read_measured(folder), image_dir)),
    }


def replace_section(text: str, name: str, content: str) -> str:
    """RETURNS (str): The text with new content between the markers of the section; without markers, they are added
    at the end once there is content.
    """
    start, end = f"<!-- results: {name} -->", f"<!-- end of {name} -->"
    block = f"{start}\n{content}\n{end}" if content else f"{start}\n{end}"
    pattern = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", flags=re.S)
    if pattern.search(text):
        return pattern.sub(lambda _: block, text)
    return f"{text.rstrip()}\n\n{block}\n" if content else text


if __name__ == "__main__":
    app()
