"""Files outside of `docs/` that become pages, and links as they must be in the site.

Links in the repository are relative to the file, so that they work on GitHub. In the site a link to a page leads to
that page; a link to another file of the repository becomes plain text.
"""

import posixpath
import re
from typing import Dict, Iterator, Match, Optional, Tuple

from .source import ROOT

# File in the repository: page of the site.
PAGES: Dict[str, str] = {
    "README.md": "repository/readme.md",
    "CONTRIBUTING.md": "repository/contributing.md",
    "CHANGELOG.md": "repository/changelog.md",
    "project/README.md": "repository/project.md",
    "examples/README.md": "repository/examples.md",
    "benchmarks/README.md": "repository/benchmarks.md",
}
CONFIGS = "reference/configs.md"
# What begins first counts: code that has a link in it stays as it is, a link may have code in its label.
_LINK_OR_CODE = re.compile(
    r"^```.*?^```|`[^`\n]+`|(?P<image>!?)\[(?P<label>[^\[\]]+)\]\((?P<target>[^)\s]+)\)", re.M | re.S
)


def make_pages() -> Iterator[Tuple[str, str]]:
    """YIELDS (Tuple[str, str]): Path in the site, and Markdown with links of the repository."""
    for source, page in PAGES.items():
        yield page, (ROOT / source).read_text(encoding="utf8")
    yield CONFIGS, _write_configs()


def origin_of(page: str) -> str:
    """page (str): Path in the site.
    RETURNS (str): The file in the repository that it was made from; generated pages stand below `docs/`.
    """
    origins = {page: source for source, page in PAGES.items()}
    return origins.get(page, f"docs/{page}")


def rewrite_links(markdown: str, page: str) -> str:
    """markdown (str): With links of the repository.
    page (str): Path of the page in the site.
    RETURNS (str): With links of the site.
    """
    return _LINK_OR_CODE.sub(lambda found: _rewrite_link(found, page) if found["target"] else found[0], markdown)


def _rewrite_link(found: Match[str], page: str) -> str:
    image, label, target = found.groups()
    path, hash_, anchor = target.partition("#")
    if not path or "://" in target or target.startswith("mailto:"):
        return found[0]
    source = posixpath.normpath(posixpath.join(posixpath.dirname(origin_of(page)), path))
    goal = _find_page(source)
    if goal is None:
        return found[0] if image else label
    if goal == CONFIGS and source != "configs":
        hash_, anchor = "#", posixpath.basename(source).replace(".", "")
    relative = posixpath.relpath(goal, posixpath.dirname(page) or ".")
    return f"{image}[{label}]({relative}{hash_}{anchor})"


def _find_page(source: str) -> Optional[str]:
    """source (str): A file or folder of the repository.
    RETURNS (Optional[str]): Its page in the site; None where there is none.
    """
    if source in PAGES or f"{source}/README.md" in PAGES:
        return PAGES.get(source) or PAGES[f"{source}/README.md"]
    if source == "configs" or (source.startswith("configs/") and source.endswith(".cfg")):
        return CONFIGS
    if source.startswith("docs/"):
        return re.sub(r"\.ipynb$", ".md", source[len("docs/") :])
    return None


def _write_configs() -> str:
    parts = ["# Configs", "The folder `configs` of the repository. Each file says what its score or its cost is."]
    for path in sorted((ROOT / "configs").glob("*.cfg")):
        parts += [f"## {path.name}", f"```ini\n{path.read_text(encoding='utf8').strip()}\n```"]
    return "\n\n".join(parts) + "\n"
