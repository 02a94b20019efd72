"""Pictures of the docs are drawn from stored results, and up to date."""

import re
from pathlib import Path
from typing import Any, Callable, Dict

import pytest

ROOT = Path(__file__).parents[2]
# Drawn from many results, where there are any.
EXPERIMENTS = re.compile(r"((shares|choice)_[\w-]+|layer_weights)\.png")


@pytest.fixture
def script(import_script: Callable[[str], Any]) -> Any:
    return import_script("draw_docs")


@pytest.fixture
def notes() -> Dict[str, Dict[str, str]]:
    """What each PNG of the docs notes of itself; screenshots note no Matplotlib."""
    image = pytest.importorskip("PIL.Image", reason="comes with matplotlib")
    found = {}
    for path in sorted((ROOT / "docs" / "images").glob("*.png")):
        with image.open(path) as picture:
            found[path.name] = dict(picture.text)
    return found


@pytest.mark.issue(18)
def test_every_plot_is_drawn_by_the_script_and_shown(script: Any, notes: Dict[str, Dict[str, str]]) -> None:
    plots = {name for name, note in notes.items() if "Matplotlib" in note.get("Software", "")}
    assert {name for name in plots if not EXPERIMENTS.fullmatch(name)} == set(script.PICTURES)
    pages = [page.read_text(encoding="utf8") for page in (ROOT / "docs").glob("*.md")]
    shown = {Path(target).name for page in pages for target in re.findall(r"!\[[^\]]*\]\(images/([^)]+)\)", page)}
    assert set(script.PICTURES) <= shown


@pytest.mark.issue(18)
def test_plots_are_those_of_their_sources(script: Any, notes: Dict[str, Dict[str, str]]) -> None:
    for name, (source, _) in script.PICTURES.items():
        wanted = script.describe_source(script.RESULTS / source)
        assert notes[name]["Source"] == wanted, f"python project/scripts/draw_docs.py draws {name} again"


@pytest.mark.issue(16)
def test_layer_weights_are_those_of_the_results(
    script: Any, import_script: Callable[[str], Any], notes: Dict[str, Dict[str, str]]
) -> None:
    wanted = import_script("paper_mixes").describe_mixes(script.read_drawn(script.RESULTS))
    assert notes["layer_weights.png"]["Source"] == wanted, "python project/scripts/draw_docs.py draws it again"


@pytest.mark.issue(18)
def test_script_draws_all(script: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    script.draw_docs_cli(tmp_path)
    assert {*script.PICTURES, "layer_weights.png"} <= {path.name for path in tmp_path.iterdir()}
