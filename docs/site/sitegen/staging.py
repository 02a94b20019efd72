"""All pages of the site as Markdown in one folder, with links that hold there."""

import shutil
from pathlib import Path
from typing import Iterator, Tuple

from . import error_codes, notebooks, reference, repository
from .navigation import write_toctrees
from .source import ROOT

DOCS = ROOT / "docs"


def stage(folder: Path) -> None:
    """folder (Path): An empty or new folder, for the pages and their pictures."""
    pages = dict(read_pages())
    pages["index.md"] += "\n" + write_toctrees(set(pages))
    shutil.copytree(DOCS / "images", folder / "images")
    for page, text in pages.items():
        path = folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(repository.rewrite_links(text, page), encoding="utf8")


def read_pages() -> Iterator[Tuple[str, str]]:
    """YIELDS (Tuple[str, str]): Path in the site, and Markdown with the links of the repository."""
    for path in [*sorted(DOCS.glob("*.md")), *sorted((DOCS / "tutorial").glob("*.md"))]:
        yield path.relative_to(DOCS).as_posix(), path.read_text(encoding="utf8")
    for path in sorted((DOCS / "tutorial").glob("*.ipynb")):
        yield f"tutorial/{path.stem}.md", notebooks.to_markdown(path)
    yield from reference.make_pages()
    yield from repository.make_pages()
    yield error_codes.PATH, error_codes.make_page()
