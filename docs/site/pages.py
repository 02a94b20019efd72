"""All pages of the site as Markdown: `docs/`, files of the repository, notebooks, configs, error codes, docstrings.

Links in the repository are relative to the file, so that they work on GitHub. In the site a link to a page leads to
that page; a link to another file of the repository becomes plain text.
"""

import json
import posixpath
import re
import shutil
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Match, Optional, Tuple

import reference
from commands import write_commands, write_published

from spacy_elmo.errors import Errors, Warnings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# File in the repository: page of the site.
FILES = {
    "README.md": "repository/readme.md",
    "CONTRIBUTING.md": "repository/contributing.md",
    "CHANGELOG.md": "repository/changelog.md",
    "project/README.md": "repository/project.md",
    "project/english/README.md": "repository/english.md",
    "project/experiments/README.md": "repository/experiments.md",
    "project/experiments/RESULTS.md": "repository/results.md",
    "examples/README.md": "repository/examples.md",
    "benchmarks/README.md": "repository/benchmarks.md",
}
CONFIGS = "reference/configs.md"
# The navigation: each section with its pages, in order; "tutorial/" stands for every notebook.
SECTIONS = {
    "Start": ["Overview <repository/readme.md>", "quickstart.md", "faq.md"],
    "Tutorial": ["tutorial/"],
    "How-to: pipelines": ["component.md", "training.md", "fine-tuning.md", "scale.md", "pytorch.md", "analysis.md"],
    "How-to: weights": ["weights.md", "migrating.md", "pretraining.md", "adaptation.md"],
    "Reference": [
        *("cli.md", "api.md", "reference/analysis.md", "reference/compat.md"),
        *("formats.md", CONFIGS, "reference/errors.md"),
    ],
    "Results": [
        *("results.md", "en_elmo_sm.md", "en_elmo_ewt.md", "Task recipes <repository/examples.md>"),
        *("Example project <repository/project.md>", "repository/english.md"),
        *("repository/experiments.md", "repository/results.md"),
    ],
    "Performance": [
        *("performance.md", "exactness.md"),
        "repository/benchmarks.md",
    ],
    "Development": ["architecture.md", "repository/contributing.md", "repository/changelog.md"],
}
# Pages of `docs/` that are only an overview: what follows it is made from docstrings and help texts.
GENERATED: Dict[str, Callable[[], str]] = {
    "api.md": reference.write_api,
    "cli.md": write_commands,
    "component.md": reference.write_registered,
    "weights.md": write_published,
}
_ONLY_IN_REPOSITORY = re.compile(r"<!-- repository -->.*?<!-- end of repository -->\n", re.S)
# What begins first counts: code that has a link in it stays as it is, a link may have code in its label.
_LINK_OR_CODE = re.compile(
    r"^```.*?^```|`[^`\n]+`|(?P<image>!?)\[(?P<label>[^\[\]]+)\]\((?P<target>[^)\s]+)\)", re.M | re.S
)


def stage(folder: Path) -> None:
    """folder (Path): An empty folder, for the pages, with links that hold there, and their pictures."""
    pages = dict(read_pages())
    for caption, names in SECTIONS.items():
        shown = [page for name in names for page in ([name] if name[-1] != "/" else _tutorial(pages))]
        pages["index.md"] += "\n".join(["\n```{toctree}", ":hidden:", f":caption: '{caption}'", "", *shown, "```\n"])
    shutil.copytree(DOCS / "images", folder / "images")
    for page, text in pages.items():
        path = folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        links = _LINK_OR_CODE.sub(lambda found, page=page: _rewrite(found, page) if found["target"] else found[0], text)
        # Commands have no prompt, without which the highlighter of "console" takes them for output.
        path.write_text(links.replace("```console", "```bash"), encoding="utf8")


def read_pages() -> Iterator[Tuple[str, str]]:
    """YIELDS (Tuple[str, str]): Path in the site, and Markdown with the links of the repository."""
    for path in [*sorted(DOCS.glob("*.md")), *sorted((DOCS / "tutorial").glob("*.md"))]:
        page = path.relative_to(DOCS).as_posix()
        generated = f"\n{GENERATED[page]()}" if page in GENERATED else ""
        yield page, _ONLY_IN_REPOSITORY.sub("", path.read_text(encoding="utf8")) + generated
    for path in sorted((DOCS / "tutorial").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf8"))["cells"]
        yield f"tutorial/{path.stem}.md", "\n\n".join(part for cell in cells for part in _write_cell(cell)) + "\n"
    yield from reference.make_pages()
    for source, page in FILES.items():
        yield page, (ROOT / source).read_text(encoding="utf8")
    parts = ["# Configs", "The folder `configs` of the repository. Each file says what its score or its cost is."]
    for path in sorted((ROOT / "configs").glob("*.cfg")):
        parts.append(f"## {path.name}\n\n```ini\n{path.read_text(encoding='utf8').strip()}\n```")
    yield CONFIGS, "\n\n".join(parts) + "\n"
    yield "reference/errors.md", _write_errors()


def _tutorial(pages: Dict[str, str]) -> List[str]:
    return sorted(page for page in pages if page.startswith("tutorial/"))


def _rewrite(found: Match[str], page: str) -> str:
    """RETURNS (str): A link of the site in place of one of the repository; generated pages stand below `docs/`."""
    image, label, target = found["image"], found["label"], found["target"]
    path, hash_, anchor = target.partition("#")
    if not path or "://" in target or target.startswith("mailto:"):
        return found[0]
    origin = {page: source for source, page in FILES.items()}.get(page, f"docs/{page}")
    source = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
    goal = _find_page(source)
    if goal is None:
        return found[0] if image else label
    if goal == CONFIGS and source != "configs":
        hash_, anchor = "#", posixpath.basename(source).replace(".", "")
    relative = posixpath.relpath(goal, posixpath.dirname(page) or ".")
    return f"{image}[{label}]({relative}{hash_}{anchor})"


def _find_page(source: str) -> Optional[str]:
    """RETURNS (Optional[str]): The page of a file or folder of the repository; None where there is none."""
    if source == "configs" or (source.startswith("configs/") and source.endswith(".cfg")):
        return CONFIGS
    if source.startswith("docs/"):
        return re.sub(r"\.ipynb$", ".md", source[len("docs/") :])
    return FILES.get(source) or FILES.get(f"{source}/README.md")


def _write_cell(cell: Dict[str, Any]) -> Iterator[str]:
    """The text or code of a cell of a notebook, and each output in its richest form that needs no script."""
    text = "".join(cell["source"]).strip()
    if cell["cell_type"] != "code" or not text:
        yield text
        return
    yield f"```python\n{text}\n```"
    for output in cell["outputs"]:
        kinds = {"text/plain": output["text"]} if "text" in output else output.get("data", {})
        kinds = {kind: "".join(value) for kind, value in kinds.items() if isinstance(value, (str, list))}
        if "image/png" in kinds:
            picture = "".join(kinds["image/png"].split())
            yield f'<img alt="Output of the cell above" src="data:image/png;base64,{picture}">'
        elif "text/html" in kinds and "<script" not in kinds["text/html"]:
            yield f"<div>{' '.join(kinds['text/html'].split())}</div>"
        elif "text/plain" in kinds:
            yield f"```text\n{kinds['text/plain'].rstrip()}\n```"


def _write_errors() -> str:
    """RETURNS (str): All codes with their messages; fields become `{name}`."""
    parts = [
        "---\ntocdepth: 2\n---\n\n# Error codes",
        "An error or warning with a code begins with it in brackets, such as `[EL020]`. The message has the "
        "value, what is expected and what to do. Words in braces stand for values.",
    ]
    for catalogue in (Errors, Warnings):
        parts.append(f"## {catalogue.__name__}")
        for code in filter(re.compile(r"[EW]L\d{3}").fullmatch, vars(catalogue)):
            message = vars(catalogue)[code].removeprefix(f"[{code}] ")
            text = reference.escape(message, re.compile(r"(?<!\{)\{\w+[^{}]*\}(?!\})"))
            parts.append(f"### {code}\n\n{text.replace('{{', '{').replace('}}', '}')}")
    return "\n\n".join(parts) + "\n"
