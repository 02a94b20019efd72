"""The documentation site: it builds without a warning, its links hold, and it fetches nothing."""

import inspect
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Dict, List, Set
from urllib.parse import unquote, urlsplit

import pytest
from page_texts import Elements
from typer.main import get_command

from spacy_elmo.cli._app import COMMANDS, app
from spacy_elmo.errors import Errors, Warnings

ROOT = Path(__file__).parent.parent
SITE = ROOT / "docs" / "site"
COMPAT = [f"spacy_elmo.compat.{name}" for name in ("allennlp", "bilm", "elmoformanylangs", "simple_elmo")]
# Attributes of elements that make a browser fetch something when it shows a page; links are followed on a click only.
FETCHED = {("link", "href"), ("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src")}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once as `.ci/run` builds it."""
    pytest.importorskip("sphinx", reason="the site needs the extra `docs`")
    folder = tmp_path_factory.mktemp("site")
    result = subprocess.run([sys.executable, SITE / "build.py", folder], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> Dict[Path, Elements]:
    return {path: Elements(path.read_text(encoding="utf8")) for path in sorted(site.rglob("*.html"))}


@pytest.mark.slow
def test_every_document_is_a_page_and_links_lead_somewhere(site: Path, pages: Dict[Path, Elements]) -> None:
    written = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "tutorial").glob("*.ipynb")]
    assert {path.stem for path in written} <= {path.stem for path in pages}
    n_checked, broken = 0, []
    anchors = {path: {value for _, name, value in page.places if name == "id"} for path, page in pages.items()}
    for path, page in pages.items():
        for link in [value for *place, value in page.places if place == ["a", "href"]]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            is_anchor = not parts.fragment or target.suffix != ".html" or not target.exists()
            n_checked += 1
            if not target.exists() or not (is_anchor or unquote(parts.fragment) in anchors[target]):
                broken.append(f"{path.name}: {link}")
    assert not broken
    assert n_checked > 1000


@pytest.mark.slow
def test_pages_fetch_nothing_from_elsewhere(site: Path, pages: Dict[Path, Elements]) -> None:
    fetched = {value for page in pages.values() for tag, name, value in page.places if (tag, name) in FETCHED}
    assert [address for address in fetched if re.match(r"(\w+:)?//", address)] == []
    styles = [path.read_text(encoding="utf8") for path in site.rglob("*.css")]
    assert not any(re.search(r"(?:url\(|@import )[\"']?(?:https?:)?//", text) for text in styles)
    scripts = "".join(text for page in pages for text in re.findall(r"<script>(.*?)</script>", page.read_text("utf8")))
    assert "http" not in scripts
    index = (site / "searchindex.js").read_text(encoding="utf8")  # a script: a page on a disk may load it
    assert index.startswith("Search.setIndex(") and '"el020"' in index


@pytest.fixture(scope="module")
def markdown() -> Dict[str, str]:
    program = "import json; from pages import read_pages; print(json.dumps(dict(read_pages())))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=SITE, check=True)
    pages: Dict[str, str] = json.loads(result.stdout)
    return pages


def _anchors(text: str) -> Set[str]:
    """Headings as GitHub makes anchors of them."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_between_pages_lead_somewhere(markdown: Dict[str, str]) -> None:
    """Files are those of the repository, as on GitHub; anchors are those of the site."""
    for page in ["README.md", "CONTRIBUTING.md", "examples/README.md", *(f"docs/{name}" for name in _written())]:
        path = ROOT / page
        for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", path.read_text(encoding="utf8")):
            if "://" in target:
                continue
            goal = (path.parent / target).resolve() if target else path
            assert goal.exists(), f"{page}: {target}"
            if anchor:
                is_page = goal.parent == ROOT / "docs"
                text = markdown[goal.name] if is_page else goal.read_text(encoding="utf8")
                assert anchor in _anchors(text), f"{page}: {target}#{anchor}"


def _written() -> List[str]:
    return [path.name for path in (ROOT / "docs").glob("*.md")]


def test_reference_has_every_code_command_public_name_and_registered_name(markdown: Dict[str, str]) -> None:
    listed = re.findall(r"^### ([EW]L\d+)$", markdown["reference/errors.md"], flags=re.M)
    codes = [code for catalogue in (Errors, Warnings) for code in dir(catalogue) if re.fullmatch(r"[EW]L\d+", code)]
    assert sorted(listed) == sorted(codes)
    for name in COMMANDS:
        command: Any = get_command(app).get_command(None, name)  # type: ignore[attr-defined]
        section = markdown["cli.md"].split(f"\n### {name}\n")[1].split("\n### ")[0]
        options = [option for item in command.params if not getattr(item, "hidden", False) for option in item.opts]
        assert [option for option in options if option[0] == "-" and f"`{option}`" not in section] == [], name
    metadata = (ROOT / "pyproject.toml").read_text(encoding="utf8")
    registered = re.findall(r'^"?([\w.-]+)"? = "spacy_elmo\.(?!cli)([\w.]+):(\w+)"', metadata, re.MULTILINE)
    assert len(registered) > 10
    for name, module, attribute in registered:
        section = markdown["component.md"].split(f"\n### `{name}`\n")[1].split("\n### ")[0]
        for parameter in inspect.signature(getattr(import_module(f"spacy_elmo.{module}"), attribute)).parameters:
            has_block = f"**`{parameter}." in section  # the settings of the block instead
            assert parameter in ("nlp", "name") or has_block or f"**`{parameter}`** (" in section, (
                f"{name}: {parameter}"
            )
    assert "**`mix.initial_gamma`** (`float`, default `1.0`)" in markdown["component.md"]
    for module in ("spacy_elmo", "spacy_elmo.nn", "spacy_elmo.export", *COMPAT):
        page = "reference/compat.md" if module in COMPAT else "api.md"
        loaded = import_module(module)
        own = [name for name, value in vars(loaded).items() if getattr(value, "__module__", "") == module]
        names = getattr(loaded, "__all__", [name for name in own if not name.startswith("_")])
        assert names and [name for name in names if f"({module}.{name})=" not in markdown[page]] == []
