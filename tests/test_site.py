"""The documentation site: it builds without a warning, its links hold, and it fetches nothing."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Dict, List, Optional, Set, Tuple
from urllib.parse import unquote, urlsplit

import pytest

from spacy_elmo.errors import Errors, Warnings

ROOT = Path(__file__).parent.parent
SITE = ROOT / "docs" / "site"
COMPAT = [f"spacy_elmo.compat.{name}" for name in ("allennlp", "bilm", "elmoformanylangs", "simple_elmo")]
# Attributes of elements that make a browser fetch something when it shows a page; links are followed on a click only.
FETCHED = {("link", "href"), ("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src")}


class PageReader(HTMLParser):
    """Links, anchors and fetched addresses of a page of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: List[str] = []
        self.anchors: Set[str] = set()
        self.fetched: List[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: List[Tuple[str, Optional[str]]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.anchors.add(value or "")
            if (tag, name) == ("a", "href"):
                self.links.append(value or "")
            if (tag, name) in FETCHED:
                self.fetched.append(value or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once as `.ci/run` builds it."""
    pytest.importorskip("sphinx", reason="the site needs the extra `docs`")
    folder = tmp_path_factory.mktemp("site")
    result = subprocess.run([sys.executable, SITE / "build.py", folder], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> Dict[Path, PageReader]:
    return {path: PageReader(path.read_text(encoding="utf8")) for path in sorted(site.rglob("*.html"))}


@pytest.mark.slow
def test_every_document_is_a_page(site: Path) -> None:
    names = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert names <= {path.stem for path in site.glob("*.html")}
    notebooks = {path.stem for path in (ROOT / "docs" / "tutorial").glob("*.ipynb")}
    assert notebooks <= {path.stem for path in (site / "tutorial").glob("*.html")}


@pytest.mark.slow
def test_links_and_anchors_of_the_site_lead_somewhere(pages: Dict[Path, PageReader]) -> None:
    n_checked, broken = 0, []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            is_anchor = not parts.fragment or target.suffix != ".html" or not target.exists()
            n_checked += 1
            if not target.exists() or not (is_anchor or unquote(parts.fragment) in pages[target].anchors):
                broken.append(f"{path.name}: {link}")
    assert not broken
    assert n_checked > 1000


@pytest.mark.slow
def test_pages_fetch_nothing_from_elsewhere(site: Path, pages: Dict[Path, PageReader]) -> None:
    fetched = {address for page in pages.values() for address in page.fetched}
    assert [address for address in fetched if re.match(r"(\w+:)?//", address)] == []
    styles = [path.read_text(encoding="utf8") for path in site.rglob("*.css")]
    assert not any(re.search(r"(?:url\(|@import )[\"']?(?:https?:)?//", text) for text in styles)
    scripts = "".join(text for page in pages for text in re.findall(r"<script>(.*?)</script>", page.read_text("utf8")))
    assert "http" not in scripts


@pytest.mark.slow
def test_search_works_without_a_server(site: Path) -> None:
    """The index is a script: a page that is opened from the disk may load it."""
    index = (site / "searchindex.js").read_text(encoding="utf8")
    assert index.startswith("Search.setIndex(") and '"el020"' in index


def _generated() -> Dict[str, str]:
    """Generated pages, in Markdown, by their path in the site."""
    program = "import json; from pages import read_pages; print(json.dumps(dict(read_pages())))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=SITE, check=True)
    return dict(json.loads(result.stdout))


@pytest.fixture(scope="module")
def markdown() -> Dict[str, str]:
    return _generated()


def test_error_page_has_every_code(markdown: Dict[str, str]) -> None:
    listed = re.findall(r"^### ([EW]L\d+)$", markdown["reference/errors.md"], flags=re.M)
    codes = [code for catalogue in (Errors, Warnings) for code in dir(catalogue) if re.fullmatch(r"[EW]L\d+", code)]
    assert sorted(listed) == sorted(codes)


@pytest.mark.parametrize("module", ["spacy_elmo", "spacy_elmo.nn", *COMPAT])
def test_reference_has_every_public_name(module: str, markdown: Dict[str, str]) -> None:
    page = markdown["reference/compat.md" if module in COMPAT else f"reference/{module.removeprefix('spacy_elmo.')}.md"]
    names = _public_names(module)
    assert names and [name for name in names if f"({module}.{name})=" not in page] == []


def _public_names(module: str) -> List[str]:
    loaded = import_module(module)
    own = [name for name, value in vars(loaded).items() if getattr(value, "__module__", "") == module]
    return list(getattr(loaded, "__all__", [name for name in own if not name.startswith("_")]))


def test_reference_has_every_registered_name(markdown: Dict[str, str]) -> None:
    metadata = (ROOT / "pyproject.toml").read_text(encoding="utf8")
    names = re.findall(r'^"?([\w.-]+)"? = "spacy_elmo\.(?!cli)[\w.]+:\w+"', metadata, re.MULTILINE)
    assert len(names) > 10
    assert [name for name in names if f"### `{name}`" not in markdown["reference/registered.md"]] == []
