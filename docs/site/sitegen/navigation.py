"""The navigation: sections by what a reader wants, to start, to learn, to do a thing, to look up, to understand."""

from typing import Dict, List, Set

TUTORIAL = "tutorial/"
# Each section with its pages, in order; "tutorial/" stands for every notebook.
SECTIONS: Dict[str, List[str]] = {
    "Start": ["Overview <repository/readme.md>", "quickstart.md", "faq.md"],
    "Tutorial": [TUTORIAL],
    "How-to: pipelines": ["component.md", "training.md", "fine-tuning.md", "pytorch.md"],
    "How-to: weights": ["weights.md", "migrating.md", "pretraining.md", "adaptation.md"],
    "How-to: look inside": ["looking.md", "explorer.md", "probing.md", "report.md"],
    "Reference": ["cli.md", "cli-looking.md", "api.md", "formats.md", "reference/configs.md", "reference/errors.md"],
    "Reference from docstrings": [
        "reference/spacy_elmo.md",
        "reference/nn.md",
        "reference/registered.md",
        "reference/analysis.md",
        "reference/export.md",
        "reference/compat.md",
    ],
    "Results": [
        "results.md",
        "en_elmo_sm.md",
        "Task recipes <repository/examples.md>",
        "Example project <repository/project.md>",
    ],
    "Performance": [
        "performance.md",
        "exactness.md",
        "repository/benchmarks.md",
    ],
    "Development": ["architecture.md", "repository/contributing.md", "repository/changelog.md"],
}


def write_toctrees(pages: Set[str]) -> str:
    """pages (Set[str]): Every page of the site, for the notebooks.
    RETURNS (str): Hidden tables of contents, for the end of the home page.
    """
    blocks = []
    for caption, names in SECTIONS.items():
        shown = [name for entry in names for name in _expand(entry, pages)]
        if shown:
            blocks.append("\n".join(["```{toctree}", ":hidden:", f":caption: '{caption}'", "", *shown, "```"]))
    return "\n\n".join(blocks) + "\n"


def _expand(entry: str, pages: Set[str]) -> List[str]:
    return sorted(page for page in pages if page.startswith(TUTORIAL)) if entry == TUTORIAL else [entry]
