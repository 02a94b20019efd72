"""`elmo report`: its page with everything, with hostile text, and with nothing but a pipeline; what is refused."""

import re

import pytest
import spacy
import srsly
from cli.calls import call
from report_outputs import Elements, write_docs, write_logs, write_output
from thinc.api import Config

HOSTILE = '"><script>alert(1)</script>\u202e&\x01'
SENTENCES = [["Acme", "hires", "Ada"], ["Ada", "hires", HOSTILE], ["Acme", "today"]]
ENTITIES = [[(0, 1, "ORG"), (2, 3, "PER")], [(0, 1, "PER"), (2, 3, "ORG")], [(0, 1, "ORG")]]
METRICS = {"ents_f": 0.5, "tag_acc": 0.25, "speed": 100.0, "ents_per_type": {"ORG": {"f": 0.5}}}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """A training with ELMo, one without, and their test data."""
    folder = tmp_path_factory.mktemp("report")
    ours = write_output(folder / "elmo-0", {"Acme": "ORG", HOSTILE: "ORG", "today": "LOC"}, metrics=METRICS)
    write_logs(ours)
    write_output(folder / "baseline-0", {"Acme": "ORG", HOSTILE: HOSTILE}, has_elmo=False, metrics={"ents_f": 0.9})
    write_docs(folder / "test.spacy", SENTENCES, ENTITIES)
    return folder


def test_page_has_every_section_and_hostile_text_is_only_text(outputs, tmp_path):
    page = tmp_path / "pages" / "page.html"
    arguments = (outputs / "elmo-0", "--baseline", outputs / "baseline-0", "--data", outputs / "test.spacy")
    result = call("report", *arguments, "--html", page)
    assert result.stdout.splitlines()[-1] == f"Report: {page.resolve()}"
    assert "1 error fixed, 1 introduced" in result.stdout
    content = page.read_text(encoding="utf8")
    found = Elements(content)
    assert found.text.count('"><script>alert(1)</script>\ufffd&\ufffd') >= 4  # in two sentences, as answer and as label
    assert not {"script", "img", "link", "iframe", "object", "base"} & set(found.tags)
    assert not {"src", "href", "onerror", "onload", "onclick"} & {name for name, _ in found.attributes}
    assert not re.search("\u202e|\x01|url\\(|https?:", content)
    titles = ("Scores", "Layer weights", "Curves", "Errors fixed and introduced", "Settings")
    for text in (*titles, "1 error introduced by ELMo"):
        assert text in found.text, text
    assert ", digest " in found.text and "spacy-elmo.ElmoListener.v1" in found.text
    assert [file.name for file in page.parent.iterdir()] == ["page.html"]
    # What metrics.json says and what the pipelines answer differ: the page says so.
    assert "90.00% for ents_f" in found.text and "one seed each" in found.text


@pytest.mark.issue(40)
def test_a_training_alone_shows_its_scores_first(tmp_path):
    """As `spacy train` leaves it: scores in meta.json, on the development data, and losses among them."""
    folder = write_output(tmp_path / "training", {"Acme": "ORG"})
    meta = srsly.read_json(folder / "model-best" / "meta.json")
    meta["performance"] = {"ents_f": 0.446, "ents_per_type": {"ORG": {"f": 0.4}}, "tag_acc": 0.25, "ner_loss": 3108.2}
    srsly.write_json(folder / "model-best" / "meta.json", meta)
    result = call("report", folder)
    lines = result.stdout.splitlines()
    assert lines[0] == "Entities F1 44.60% on the development data." and "Tag accuracy 25.00%" in lines[1]
    assert result.output.index("44.60%") < result.output.index("--baseline")
    assert (
        result.stderr.count("--baseline") == 1 and result.stderr.count("\u2139") == 1 and "\u26a0" not in result.stderr
    )
    page = Elements((folder / "report.html").read_text(encoding="utf8")).text
    assert page.index("44.60") < page.index("--baseline") and "3108" not in page and "3,108" not in page
    assert "on the development data" in page and "1 seed with ELMo" in page


@pytest.mark.issue(40)
def test_seeds_without_metrics_have_a_mean(tmp_path):
    for name, has_elmo, score in (("elmo-0", True, 0.4), ("elmo-1", True, 0.6), ("baseline-0", False, 0.3)):
        folder = write_output(tmp_path / name, {"Acme": "ORG"}, has_elmo=has_elmo)
        meta = srsly.read_json(folder / "model-best" / "meta.json")
        srsly.write_json(folder / "model-best" / "meta.json", {**meta, "performance": {"ents_f": score}})
    (tmp_path / "elmo-2").mkdir()
    srsly.write_json(tmp_path / "elmo-0" / "metrics.json", {"ents_f": 0.9})  # of other data than the baseline has
    result = call("report", tmp_path / "elmo-0", "--baseline", tmp_path / "baseline-0")
    assert "50.00% on the development data, mean of 2 seeds, +20.00 points" in result.stdout, result.output
    assert "different numbers of seeds" in " ".join(result.stderr.split()) and "\u2139" not in result.stderr


@pytest.mark.issue(40)
def test_data_alone_give_scores_and_errors(outputs):
    """Of a pipeline without a baseline: F1 with its interval, right and wrong by label, errors in their sentences."""
    pipeline = outputs / "elmo-0" / "model-best"
    result = call("report", pipeline, "--data", outputs / "test.spacy")
    # Right: Acme, twice; and the hostile word. Missed: Ada, twice. Wrong: today.
    assert "Entities: F1 66.67% (95 % interval" in result.stdout and "3 errors" in result.stdout
    page = Elements((pipeline / "report.html").read_text(encoding="utf8")).text
    assert (
        "Layer weights" in page
        and "3 errors" in page
        and "Errors fixed" not in page
        and "without ELMo" not in page[:300]
    )
    assert page.count("rightAda PER") == 2 and page.count("foundnothing") == 2 and page.count("foundtoday LOC") == 1
    for hint in ("spacy evaluate", "A curve of the scores", "LayerWeightsLogger"):
        assert hint in page and hint not in result.stderr
    call("report", pipeline)
    shown = call("report", pipeline, "--force")
    assert "No scores are known" in shown.stdout and "--data" in shown.stderr


@pytest.mark.issue(48)
def test_what_cannot_be_compared_is_noted(outputs, tmp_path):
    html, data = ("--html", tmp_path / "page.html", "--force"), ("--data", outputs / "test.spacy")

    def noted(*arguments):
        return " ".join(call("report", *arguments, *html).stderr.split())

    swapped = noted(outputs / "baseline-0", "--baseline", outputs / "elmo-0")
    assert "No component of this pipeline mixes" in swapped and "The baseline has a biLM, too" in swapped
    assert "--data DOCS.spacy adds" in Elements((tmp_path / "page.html").read_text(encoding="utf8")).text
    (tmp_path / "blank").mkdir()
    spacy.blank("en").to_disk(tmp_path / "blank" / "model-last")
    for arguments in ((outputs / "elmo-0", "--baseline", tmp_path / "blank"), (tmp_path / "blank",)):
        assert "none of these in common: entities, tags" in noted(*arguments, *data)
    assert "model-last" in noted(tmp_path / "blank")
    theirs = write_output(tmp_path / "moved", {}, has_elmo=False, metrics={"tag_acc": 0.5})
    config = theirs / "model-best" / "config.cfg"
    config.write_text(config.read_text(encoding="utf8").replace("[paths]", '[paths]\nlogs = "runs/other"'))
    curves = noted(outputs / "elmo-0", "--baseline", theirs)
    assert f"'{theirs}' has no scores.jsonl" in curves and "'runs/other'" in curves and "--paths.logs" in curves


@pytest.mark.issue(48)
def test_scores_without_annotations_are_not_scored(tmp_path):
    """`spacy train` writes 0 for a score that the data have no annotations for, if its weight is null."""
    for name in ("elmo-0", "baseline-0"):
        write_output(tmp_path / name, {}, has_elmo=name == "elmo-0")
        meta = srsly.read_json(tmp_path / name / "model-best" / "meta.json")
        meta["performance"] = {"ents_f": 0.0, "tag_acc": 0.0, "pos_acc": 0.5, "ents_per_type": 0.0}
        srsly.write_json(tmp_path / name / "model-best" / "meta.json", meta)
        config = Config().from_disk(tmp_path / name / "model-best" / "config.cfg", interpolate=False)
        weights = {"ents_f": 1.0, "tag_acc": None, "pos_acc": None, "ents_per_type": None}
        config["training"]["score_weights"] = weights
        config.to_disk(tmp_path / name / "model-best" / "config.cfg")
    call("report", tmp_path / "elmo-0", "--baseline", tmp_path / "baseline-0")
    text = Elements((tmp_path / "elmo-0" / "report.html").read_text(encoding="utf8")).text
    rows = ("Entities F10.000.00+0.00", "Tag accuracynot scorednot scored\u2013", "UPOS accuracy50.0050.00+0.00")
    assert "".join(rows) in text.replace("\n", "")
    srsly.write_json(tmp_path / "elmo-0" / "metrics.json", {"ents_f": 0.5, "tag_acc": None})
    call("report", tmp_path / "elmo-0")
    assert "not scored" in (tmp_path / "elmo-0" / "report.html").read_text(encoding="utf8")
