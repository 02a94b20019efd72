"""Pages and pictures of results are those that the stored results give."""

import re
from pathlib import Path
from statistics import mean, stdev

import pytest
import srsly

SCRIPT = "results"
ROOT = Path(__file__).parents[2]
# Pictures of docs that are drawn from many results, where there are any.
EXPERIMENTS = re.compile(r"((shares|choice)_[\w-]+|layer_weights)\.png")


def test_pages_are_what_is_drawn_from_the_stored_results(script, tmp_path):
    pytest.importorskip("matplotlib")
    written = {tmp_path / page.relative_to(ROOT): page.read_text(encoding="utf8") for page in script.PAGES}
    n_sections = 0
    for page, text in written.items():
        spoilt, n = re.subn(r"(<!-- results: .*? -->\n).*?(?=\n<!-- end)", r"\1old", text, flags=re.DOTALL)
        n_sections += n
        page.parent.mkdir(parents=True)
        page.write_text(spoilt, encoding="utf8")
    drawn = script.draw(script.read_results(script.RESULTS_DIR), list(written), script.RESULTS_DIR)
    assert len(drawn) == n_sections > 10
    assert {page: page.read_text(encoding="utf8") for page in written} == written


@pytest.mark.issue(51)
def test_scores_of_the_english_pipeline_are_of_one_recipe_and_on_its_page(script):
    results = list(srsly.read_jsonl(ROOT / "project" / "english" / "results.jsonl"))
    assert [result["seed"] for result in results] == list(range(len(results))) != []
    for stage in ("treebank", "entities"):
        settings = [dict(result["stages"][stage]["settings"], seed=None, base=None) for result in results]
        assert settings == settings[:1] * len(results)
    page = (ROOT / "docs" / "en_elmo_ewt.md").read_text(encoding="utf8")

    def cell(*keys):
        values = [100 * result[keys[0]][keys[1]] for result in results]
        spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
        return "100" if set(values) == {100} else f"{mean(values):.1f}{spread}"

    for kind in ("raw", "gold"):
        assert f"| **en_elmo_ewt**, {kind} | {' | '.join(cell(kind, name) for name in results[0][kind])} |" in page
    entities = [cell(test, "ents_f") for test in ("uner_ewt", "wikigold")]
    assert "F1 {} on the test data of Universal NER for English-EWT, {} on those of Wikigold".format(*entities) in page


@pytest.mark.issue(61)
def test_the_table_of_languages_is_what_is_drawn_from_the_stored_results(import_script, invoke, tmp_path):
    languages = import_script("languages")
    page = tmp_path / "README.md"
    text = languages.README.read_text(encoding="utf8")
    page.write_text(
        re.sub(r"(?<=results: languages -->\n)\|.*?(?=<!-- end)", "", text, flags=re.DOTALL), encoding="utf8"
    )
    invoke(languages.app, "table", "--page", page)
    assert page.read_text(encoding="utf8") == text


# Pictures


@pytest.mark.issue(18)
def test_pictures_of_the_docs_are_those_of_their_sources_and_shown(import_script, script, invoke, tmp_path):
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
    tables = import_script("tables")
    results = tables.keep_in_use(script.read_results(script.RESULTS_DIR))
    wanted = {
        name: script.describe_source(script.RESULTS_DIR / source) for name, (source, _) in script.PICTURES.items()
    }
    wanted["layer_weights.png"] = tables.describe_mixes(results)
    for name, source in wanted.items():
        assert notes[name]["Source"] == source, (
            f"python project/experiments/scripts/results.py pictures draws {name} again"
        )
    invoke(script.app, "pictures", "--images", tmp_path)
    assert {*script.PICTURES, "layer_weights.png"} <= {path.name for path in tmp_path.iterdir()}
