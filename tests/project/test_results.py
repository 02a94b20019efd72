"""Tables and pictures drawn from results: means, standard deviations, numbers of seeds, and the page around them."""

import re
from pathlib import Path

import pytest
import srsly

from spacy_elmo.weights.identity import digest_bilm

SCRIPT = "results"
ROOT = Path(__file__).parents[2]
PNG = b"\x89PNG"
# Pictures of docs that are drawn from many results, where there are any.
EXPERIMENTS = re.compile(r"((shares|choice)_[\w-]+|layer_weights)\.png")


def _result(condition, seed, score, *, task="wnut17", share=100, **others):
    settings = {"task": task, "condition": condition, "seed": seed, "share": share, **others}
    curve = [[0, 0.0], [200, score / 2], [400, score]]
    best = {"best_dev_score": score, "best_step": 400}
    cost = {"train_words": 10 * share, "cpu_seconds": 60.0, "last_step": 400, "processor": "P"}
    return {"settings": settings, "test": {"ents_f": score}, "curve": curve, **cost, **best}


GAINS = [
    *(_result("baseline", seed, score) for seed, score in enumerate((0.10, 0.12, 0.17))),
    *(_result("elmo", seed, score) for seed, score in enumerate((0.20, 0.26))),
]


def test_pages_are_what_is_drawn_from_the_stored_results(script, tmp_path):
    pytest.importorskip("matplotlib")
    written = {tmp_path / page.relative_to(ROOT): page.read_text(encoding="utf8") for page in script.PAGES}
    n_sections = 0
    for page, text in written.items():
        spoilt, n = re.subn(r"(<!-- results: .*? -->\n).*?(?=\n<!-- end)", r"\1old", text, flags=re.DOTALL)
        n_sections += n
        page.parent.mkdir()
        page.write_text(spoilt, encoding="utf8")
    drawn = script.draw(script.read_results(script.RESULTS_DIR), list(written), script.RESULTS_DIR)
    assert len(drawn) == n_sections > 10
    assert {page: page.read_text(encoding="utf8") for page in written} == written


@pytest.mark.issue(16)
def test_no_table_mixes_weights(script, tmp_path):
    pytest.importorskip("matplotlib")
    now = {"bilm": "en_elmo_sm", "bilm_digest": digest_bilm("en_elmo_sm")}
    older = {"bilm": "en_elmo_sm", "bilm_digest": "0123456789ab"}
    results = [
        *GAINS[:3],
        _result("baseline", 0, 0.05, share=10),
        *(_result(name, 0, 0.9, **older) for name in ("elmo", "mix-mean", "mix-top", "elmo-finetuned")),
        *(_result("elmo", 0, 0.9, share=share, **older) for share in (1, 3, 10)),
        *(_result(name, 0, 0.3, **now) for name in ("elmo", "mix-mean")),
    ]
    names = script.draw(results, [tmp_path / "results.md"], tmp_path)
    text = (tmp_path / "results.md").read_text(encoding="utf8")
    assert names == ["weights", "gains", "mixes", "shares", "choice"] and "90.00" not in text
    assert "| mean of the layers | 30.00 (n = 1) |" in text and "top layer" not in text
    assert "| WNUT-17, NER F | 10 % | 100 | 5.00 (n = 1) | - |" in text and "3 %" not in text
    assert not list(tmp_path.glob("images/*"))  # with ELMo one share is left, and a line needs two


def test_sections_change_and_other_text_stays(script, tmp_path):
    page = tmp_path / "results.md"
    page.write_text("# Results\n\nBefore.\n\n<!-- results: gains -->\nold\n<!-- end of gains -->\n\nAfter.\n")
    falling = _result("elmo", 0, 0.9, schedule="linear")  # of an earlier version
    for number, result in enumerate([*GAINS, falling]):
        srsly.write_json(tmp_path / f"{number}-seed0.json", result)
    assert script.draw(script.read_results(tmp_path), [page], tmp_path) == ["gains", "choice"]
    text = page.read_text(encoding="utf8")
    assert "Before." in text and "After." in text and "\nold\n" not in text and "13.00 ± 3.61" in text
    assert "## Placement" not in text and "## Sample efficiency" not in text
    script.draw(script.read_results(tmp_path), [page], tmp_path)
    assert page.read_text(encoding="utf8") == text
    (tmp_path / "a-seed0.json").write_text('{"settings": {}}')
    with pytest.raises(ValueError, match="a-seed0"):
        script.read_results(tmp_path)
    with pytest.raises(FileNotFoundError, match="no results"):
        script.read_results(tmp_path / "images")


# Pictures


@pytest.mark.issue(18)
def test_pictures_of_the_docs_are_those_of_their_sources_and_shown(script, invoke, tmp_path):
    image = pytest.importorskip("PIL.Image", reason="comes with matplotlib")
    notes = {}  # what each PNG of the docs notes of itself; screenshots note no Matplotlib
    for path in sorted((ROOT / "docs" / "images").glob("*.png")):
        with image.open(path) as picture:
            notes[path.name] = dict(picture.text)
    plots = {name for name, note in notes.items() if "Matplotlib" in note.get("Software", "")}
    by_commands = {"senses-train.png"}  # a command of docs/analysis.md draws it
    assert {name for name in plots if not EXPERIMENTS.fullmatch(name)} - by_commands == set(script.PICTURES)
    pages = [page.read_text(encoding="utf8") for page in [*(ROOT / "docs").glob("*.md"), *script.PAGES]]
    shown = {Path(target).name for page in pages for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page)}
    assert set(script.PICTURES) <= shown
    results = script.keep_in_use(script.read_results(script.RESULTS_DIR))
    wanted = {
        name: script.describe_source(script.RESULTS_DIR / source) for name, (source, _) in script.PICTURES.items()
    }
    wanted["layer_weights.png"] = script.describe_mixes(results)
    for name, source in wanted.items():
        assert notes[name]["Source"] == source, f"python project/scripts/results.py pictures draws {name} again"
    invoke(script.app, "pictures", "--images", tmp_path)
    assert {*script.PICTURES, "layer_weights.png"} <= {path.name for path in tmp_path.iterdir()}
