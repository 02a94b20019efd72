"""Draw the tables and plots of docs/results.md from the stored results; text outside of the markers stays."""

import re
from pathlib import Path
from typing import Callable, Dict, List, Optional, Tuple

import srsly
import typer
from atomic_files import replace_file
from choice_section import choice_section, name_choices
from context_tables import CONTEXTS, contexts_section
from error_section import errors_section, name_errors
from known_datasets import PROJECT_DIR
from layer_tables import POS, SENSES, pos_section, senses_section
from messages import Messages
from paper_experiments import SCHEDULES
from paper_mixes import make_layer_weights
from paper_tables import (
    Result,
    make_alternatives,
    make_finetuned,
    make_gains,
    make_languages,
    make_mixes,
    make_placements,
    make_shares,
    schedule_of,
)
from wasabi import msg
from weights_in_use import describe_weights, split_by_weights

PAGE = PROJECT_DIR.parent / "docs" / "results.md"
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
# The same as SECTIONS for sections that read files of errors.py, layers.py or contexts.py, from the folder
# results.
FILE_SECTIONS: Dict[str, Tuple[str, Callable[[Path], Optional[str]]]] = {
    "errors": ("Errors", errors_section),
    "senses": ("Word senses by layer", senses_section),
    "pos": ("Parts of speech by layer", pos_section),
    "contexts": ("Contexts and states", contexts_section),
}
HEADINGS = {
    **{name: heading for name, (heading, _) in (*SECTIONS.items(), *FILE_SECTIONS.items())},
    "weights": "Weights",
    "linear": "Gains with a falling learning rate",
    "choice": "Score against speed",
}


def results_cli(
    # fmt: off
    results: Path = typer.Option(PROJECT_DIR / "results", "--results", "-r", help="Folder with results of paper.py"),
    page: Path = typer.Option(PAGE, "--page", "-p", help="Markdown file to write the tables into", dir_okay=False),
    # fmt: on
) -> None:
    """Write the tables between the markers of a page, and the plots to `images` beside it."""
    try:
        names = draw(read_results(results), page, results)
    except (ValueError, FileNotFoundError) as e:
        msg.fail("Cannot draw the results", str(e), exits=1)
    msg.good(f"{page}: {', '.join(names)}")


def read_results(folder: Path) -> List[Result]:
    """RETURNS (List[Result]): All stored results. RAISES (FileNotFoundError): P024 if there are none. RAISES
    (ValueError): P023 for a file that is not a result.
    """
    results = [_read(path) for path in sorted(folder.glob("*-seed*.json"))]
    if not results and not list(folder.glob("layers-*.json")):
        raise FileNotFoundError(Messages.P024.format(results=folder))
    return results


def draw(results: List[Result], page: Path, folder: Path) -> List[str]:
    """Write the page, with the scores of layers in `folder`; a new page gets a title.

    RETURNS (List[str]): The sections with content.
    """
    text = page.read_text(encoding="utf8") if page.exists() else "# Results\n"
    contents = make_contents(results, folder, page.parent / IMAGES)
    for name, content in contents.items():
        text = replace_section(text, name, f"## {HEADINGS[name]}\n\n{content}" if content else "")
    with replace_file(page) as part:
        part.write_text(text, encoding="utf8", newline="\n")
    return [name for name, content in contents.items() if content]


def make_contents(results: List[Result], folder: Path, image_dir: Path) -> Dict[str, Optional[str]]:
    """RETURNS (Dict[str, Optional[str]]): Markdown of each section, empty or None without results. Results of other
    weights than those in use are left out.
    """
    kept, _ = split_by_weights(results)
    constant, linear = ([result for result in kept if schedule_of(result) == name] for name in SCHEDULES)
    contents = {"weights": describe_weights(results, _read_identities(folder))}
    contents.update({name: make(constant) for name, (_, make) in SECTIONS.items()})
    contents["linear"] = make_gains(linear)
    if contents["shares"]:
        contents["shares"] += _draw_plots(constant, image_dir)
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


def _read_identities(folder: Path) -> Dict[str, Result]:
    """RETURNS (Dict[str, Result]): Name and digest of the biLM of each file without a training of its own."""
    of_layers = {name: srsly.read_json(folder / name) for name in (SENSES, POS, CONTEXTS) if (folder / name).is_file()}
    return {**of_layers, **name_choices(folder), **name_errors(folder)}


def _draw_plots(results: List[Result], image_dir: Path) -> str:
    from paper_plots import draw_shares  # needs matplotlib, which tables do without

    return "".join(f"\n\n![{title}]({IMAGES}/{name})" for title, name in draw_shares(results, image_dir))


def _read(path: Path) -> Result:
    try:
        result: Result = srsly.read_json(path)
        return {**result, "settings": dict(result["settings"]), "test": dict(result["test"])}
    except (ValueError, KeyError, TypeError) as e:
        raise ValueError(Messages.P023.format(path=path, reason=e)) from e


if __name__ == "__main__":
    typer.run(results_cli)
