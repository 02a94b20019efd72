"""Draw the tables and plots of docs/results.md, and the pictures of docs, from the stored results.

`tables` writes between the markers of a page; other text stays. `pictures` draws those of docs/ that have measured
data, each with the sha256 of its source; diagrams are drawn by hand.
"""

import hashlib
import re
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

import srsly
import typer
from analysis_plots import draw_sample_efficiency, from_percent
from data import PROJECT_DIR, report_errors
from sections import (
    choice_section,
    contexts_section,
    draw_choice,
    errors_section,
    pos_section,
    read_choices,
    read_identities,
    senses_section,
)
from tables import (
    SHARE_TASKS,
    Result,
    average_mixes,
    describe_mixes,
    describe_weights,
    find_mixes,
    make_alternatives,
    make_finetuned,
    make_gains,
    make_languages,
    make_layer_weights,
    make_mixes,
    make_placements,
    make_shares,
    measured_shares,
    percents,
    select,
    split_by_weights,
)
from wasabi import msg

from spacy_elmo.analysis.layer_weights import draw_course, draw_layer_weights
from spacy_elmo.analysis.plots import check_picture, draw_perplexities
from spacy_elmo.analysis.probes import draw_probe
from spacy_elmo.analysis.sense_map import draw_map
from spacy_elmo.util import write_text

DOCS = PROJECT_DIR.parent / "docs"
RESULTS = PROJECT_DIR / "results"
IMAGES = "images"  # beside the page
# Section of the page: its heading and the function that makes its content. A section without results is left empty.
SECTIONS: Dict[str, Tuple[str, Callable[[List[Result]], Optional[str]]]] = {
    "gains": ("Gains", make_gains),
    "layer-weights": ("Layer weights", make_layer_weights),
    "languages": ("Other languages", make_languages),
    "alternatives": ("Alternatives: spacy pretrain and floret vectors", make_alternatives),
    "finetuned": ("Fine-tuning the biLM", make_finetuned),
    "mixes": ("Mix of the layers", make_mixes),
    "placements": ("Placement", make_placements),
    "shares": ("Sample efficiency", make_shares),
}
# The same for sections of other files in the folder of results.
FILE_SECTIONS: Dict[str, Tuple[str, Callable[[Path], Optional[str]]]] = {
    "errors": ("Errors", errors_section),
    "senses": ("Word senses by layer", senses_section),
    "pos": ("Parts of speech by layer", pos_section),
    "contexts": ("Contexts and states", contexts_section),
}
HEADINGS = {
    **{name: heading for name, (heading, _) in (*SECTIONS.items(), *FILE_SECTIONS.items())},
    "weights": "Weights",
    "choice": "Score against speed",
}
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
    results: Path = typer.Option(RESULTS, "--results", "-r", help="Folder with results of paper.py"),
    page: Path = typer.Option(DOCS / "results.md", "--page", "-p", help="Markdown file for the tables", dir_okay=False),
    # fmt: on
) -> None:
    """Write the tables between the markers of a page, and the plots to `images` beside it."""
    msg.good(f"{page}: {', '.join(draw(read_results(results), page, results))}")


@app.command("pictures")
def pictures_cli(
    # fmt: off
    images: Path = typer.Option(DOCS / IMAGES, "--images", "-i", help="Folder for the pictures", file_okay=False),
    # fmt: on
) -> None:
    """Draw all pictures of docs/ that have measured data."""
    for name, (source, draw_picture) in PICTURES.items():
        path = RESULTS / source
        found: Any = path if path.suffix == ".jsonl" else srsly.read_json(path)
        if path.name.startswith("perplexity-"):
            found = [run["validations"] for run in found["runs"]]
        elif path.name.startswith("layers-"):
            found = from_percent(found)
        draw_picture(found, images / name, source=describe_source(path))
    drawn, (results, _) = [*PICTURES], split_by_weights(read_results(RESULTS))
    mixes = find_mixes(results)
    if mixes:
        means, names = [average_mixes(seeds) for _, seeds in mixes], [name for name, _ in mixes]
        drawn.append("layer_weights.png")
        draw_layer_weights(means, images / drawn[-1], names=names, source=describe_mixes(results))
    drawn += [name for _, name in draw_shares(results, images)]
    drawn += [draw_choice(record, images) for record in read_choices(RESULTS)]
    msg.good(f"{images}: {', '.join(drawn)}")


def describe_source(path: Path) -> str:
    """RETURNS (str): Name of the file and the first digits of its sha256, as a picture notes them."""
    return f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"


def draw_shares(results: List[Result], image_dir: Path) -> List[Tuple[str, str]]:
    """Draw the test score by share of the training data, for each task with at least two shares.
    RETURNS (List[Tuple[str, str]]): Title and file name.
    """
    drawn = []
    for task, title, label, key in SHARE_TASKS:
        scores = []
        for condition in ("elmo", "baseline"):
            by_share = {
                share: percents(select(results, task, condition, share), key)
                for share in measured_shares(results, task)
            }
            scores.append({share: values for share, values in by_share.items() if values})
        if min(map(len, scores)) >= 2:
            path = image_dir / f"shares_{task}.png"
            check_picture(path)
            heading = draw_sample_efficiency(f"{title}, {label}", *scores, path, score=label)
            drawn.append((heading, path.name))
    return drawn


def read_results(folder: Path) -> List[Result]:
    """RETURNS (List[Result]): All stored results, but those with a learning rate that falls, of an earlier version.
    RAISES (FileNotFoundError): If there are none. RAISES (ValueError): For a file that is not a result.
    """
    results = []
    paths = sorted(folder.glob("*-seed*.json"))
    if not paths and not list(folder.glob("layers-*.json")):
        raise FileNotFoundError(
            f"There are no results in '{folder}'. Run `python project/scripts/paper.py` first, or give --results."
        )
    for path in paths:
        try:
            found: Result = srsly.read_json(path)
            result = {**found, "settings": dict(found["settings"]), "test": dict(found["test"])}
        except (ValueError, KeyError, TypeError) as e:
            raise ValueError(f"'{path}' is not a result of paper.py: {e}. Remove the file to train again.") from e
        if result["settings"].get("schedule", "constant") == "constant":
            results.append(result)
    return results


def draw(results: List[Result], page: Path, folder: Path) -> List[str]:
    """Write the page; a new one gets a title. RETURNS (List[str]): The sections with content."""
    text = page.read_text(encoding="utf8") if page.exists() else "# Results\n"
    contents = make_contents(results, folder, page.parent / IMAGES)
    for name, content in contents.items():
        text = replace_section(text, name, f"## {HEADINGS[name]}\n\n{content}" if content else "")
    write_text(page, text)
    return [name for name, content in contents.items() if content]


def make_contents(results: List[Result], folder: Path, image_dir: Path) -> Dict[str, Optional[str]]:
    """RETURNS (Dict[str, Optional[str]]): Markdown of each section, empty or None without results. Results of other
    weights than those in use are left out.
    """
    kept, _ = split_by_weights(results)
    contents = {"weights": describe_weights(results, read_identities(folder))}
    contents.update({name: make(kept) for name, (_, make) in SECTIONS.items()})
    if contents["shares"]:
        plots = draw_shares(kept, image_dir)
        contents["shares"] += "".join(f"\n\n![{title}]({IMAGES}/{name})" for title, name in plots)
    contents.update({name: make(folder) for name, (_, make) in FILE_SECTIONS.items()})
    contents["choice"] = choice_section(folder, image_dir)
    return contents


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
