"""`elmo report`: its page with everything, with hostile text, and with nothing but a pipeline; what is refused."""

import re
import shlex
import shutil

import pytest
import spacy
import srsly
from cli.calls import call
from page_texts import Elements, check_rows, check_texts
from report_outputs import make_texts, write_classifier, write_docs, write_logs, write_output, write_scores
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from thinc.api import Config

from spacy_elmo.analysis.report import read_output

HOSTILE = '"><script>alert(1)</script>\u202e&\x01'
SENTENCES = [["Acme", "hires", "Ada"], ["Ada", "hires", HOSTILE], ["Acme", "today"]]
ENTITIES = [[(0, 1, "ORG"), (2, 3, "PER")], [(0, 1, "PER"), (2, 3, "ORG")], [(0, 1, "ORG")]]
METRICS = {"ents_f": 0.5, "tag_acc": 0.25, "speed": 100.0, "ents_per_type": {"ORG": {"f": 0.5}}}


FILE_LOGGER = {"@loggers": "spacy.ConsoleLogger.v3", "output_file": "${paths.logs}/scores.jsonl"}


def change_config(folder, logger=None, max_steps=None, **paths):
    """In the pipeline of a folder: settings of [training], and [paths]."""
    path = folder / "model-best" / "config.cfg"
    config = Config().from_disk(path, interpolate=False)
    config["paths"].update(paths)
    config["training"].update({} if logger is None else {"logger": logger})
    config["training"].update({} if max_steps is None else {"max_steps": max_steps})
    config.to_disk(path)


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
    check_texts(found.text, *titles, "1 error introduced by ELMo", ", digest ", "spacy-elmo.ElmoListener.v1")
    assert [file.name for file in page.parent.iterdir()] == ["page.html"]
    # What metrics.json says and what the pipelines answer differ: the page says so.
    check_texts(found.text, "90.00% for NER F", "one seed each")


@pytest.mark.issue(40)
def test_a_training_alone_shows_its_scores_first(tmp_path):
    """As `spacy train` leaves it: scores in meta.json, on the development data, and losses among them."""
    folder = write_output(tmp_path / "training", {"Acme": "ORG"})
    scores = {"ents_f": 0.446, "ents_per_type": {"ORG": {"f": 0.4}}, "tag_acc": 0.25, "ner_loss": 3108.2}
    write_scores(folder, scores)
    result = call("report", folder)
    lines = result.stdout.splitlines()
    assert lines[0] == "NER F 44.60% on the development data." and "TAG 25.00%" in lines[1]
    assert result.output.index("44.60%") < result.output.index("--baseline")
    assert (
        result.stderr.count("--baseline") == 1 and result.stderr.count("\u2139") == 1 and "\u26a0" not in result.stderr
    )
    page = Elements((folder / "report.html").read_text(encoding="utf8")).text
    check_texts(page, "on the development data", "1 seed with ELMo", without=["3108", "3,108"])
    assert page.index("44.60") < page.index("--baseline")


@pytest.mark.issue(40)
def test_seeds_without_metrics_have_a_mean(tmp_path):
    for name, has_elmo, score in (("elmo-0", True, 0.4), ("elmo-1", True, 0.6), ("baseline-0", False, 0.3)):
        folder = write_output(tmp_path / name, {"Acme": "ORG"}, has_elmo=has_elmo, seed=int(name[-1]))
        write_scores(folder, {"ents_f": score})
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
    check_texts(result.stdout, "NER F 66.67% (95 % interval", "3 errors")
    page = Elements((pipeline / "report.html").read_text(encoding="utf8")).text
    check_texts(page, "Layer weights", "3 errors", without=["Errors fixed"])
    check_texts(page[:300], without=["without ELMo"])
    assert page.count("rightAda PER") == 2 and page.count("foundnothing") == 2 and page.count("foundtoday LOC") == 1
    hints = ("spacy evaluate", "A curve of the scores", "LayerWeightsLogger")
    check_texts(page, *hints)
    check_texts(result.stderr, without=hints)
    call("report", pipeline)
    shown = call("report", pipeline, "--force")
    assert "No scores are known" in shown.stdout and "--data" in shown.stderr


@pytest.mark.issue(48)
def test_what_cannot_be_compared_is_noted(outputs, tmp_path):
    html, data = ("--html", tmp_path / "page.html", "--force"), ("--data", outputs / "test.spacy")

    def noted(*arguments):
        return " ".join(call("report", *arguments, *html).stderr.split())

    swapped = noted(outputs / "baseline-0", "--baseline", outputs / "elmo-0")
    assert "No component of this pipeline mixes" in swapped and "exchange the folders" in swapped
    check_texts(Elements((tmp_path / "page.html").read_text(encoding="utf8")).text, "--data DOCS.spacy adds")
    compared = noted(outputs / "elmo-0", "--baseline", outputs / "baseline-0")
    check_texts(compared, without=["reads a biLM", "not learned"])
    texts = write_classifier(tmp_path / "texts", has_elmo=False)
    srsly.write_json(texts / "metrics.json", {"cats_score": None, "speed": 9.0})
    result = call("report", texts, *html)
    check_texts(result.stdout, "TEXTCAT (macro F)", without=["No scores are known"])
    other = noted(outputs / "elmo-0", "--baseline", texts, *data)
    check_texts(other, "has not learned what tagger predicts", without=["Scores of"])
    (tmp_path / "blank").mkdir()
    spacy.blank("en").to_disk(tmp_path / "blank" / "model-last")
    for arguments in ((outputs / "elmo-0", "--baseline", tmp_path / "blank"), (tmp_path / "blank",)):
        assert "none of these in common: entities, tags" in noted(*arguments, *data)
    assert "model-last" in noted(tmp_path / "blank")
    theirs = write_output(tmp_path / "moved", {}, has_elmo=False, metrics={"tag_acc": 0.5})
    change_config(theirs, logs="runs/other", logger=FILE_LOGGER)
    curves = noted(outputs / "elmo-0", "--baseline", theirs)
    assert f"'{theirs}' has no scores.jsonl" in curves and "'runs/other'" in curves and "--paths.logs" in curves


@pytest.mark.issue(62)
@pytest.mark.parametrize(
    "logger, said",
    [
        (
            {"@loggers": "spacy.ConsoleLogger.v1"},
            "spacy.ConsoleLogger.v1 in [training.logger] of its config does not write it",
        ),
        (FILE_LOGGER, "Its training writes ${paths.logs}/scores.jsonl at each evaluation."),
        (
            {"@loggers": "spacy.ChainLogger.v1", "logger1": FILE_LOGGER},
            "Its training writes ${paths.logs}/scores.jsonl at each evaluation.",
        ),
    ],
)
def test_a_log_that_its_own_folder_lacks_is_not_looked_for_there(tmp_path, logger, said):
    change_config(write_output(tmp_path / "run", {}), logs=str(tmp_path / "run"), logger=logger)
    call("report", tmp_path / "run")
    page = Elements((tmp_path / "run" / "report.html").read_text(encoding="utf8")).text
    check_texts(page, said, without=["copy it from there"])


@pytest.mark.issue(62)
def test_trainings_that_differ_in_more_than_elmo_are_noted(tmp_path):
    ours = write_output(tmp_path / "ours", {"Acme": "ORG"})
    theirs = write_output(tmp_path / "theirs", {"Acme": "ORG"}, has_elmo=False)
    for name in ("few", "many", "dev"):
        write_docs(tmp_path / f"{name}.spacy", SENTENCES, ENTITIES)

    for folder, score in ((ours, 0.5), (theirs, 0.75)):
        srsly.write_json(folder / "metrics.json", {"tag_acc": score})

    def noted(train, dev, max_steps):
        for folder, values in ((ours, ("few", "dev", 20)), (theirs, (train, dev, max_steps))):
            paths = {key: str(tmp_path / f"{name}.spacy") for key, name in zip(("train", "dev"), values)}
            change_config(folder, max_steps=values[2], **paths)
        result = call("report", ours, "--baseline", theirs)
        is_same = (train, dev, max_steps) in (("few", "dev", 20), ("gone", "dev", 20))
        assert ("ELMo is below the baseline" in result.stdout) is is_same
        return " ".join(result.stderr.split())

    data, steps = "which changes scores as well", "max_steps is 20 with ELMo, 30 without"
    check_texts(noted("few", "dev", 20), without=[data, "max_steps"])
    check_texts(noted("many", "dev", 20), "training data are", "many.spacy' without", data, without=["max_steps"])
    check_texts(noted("few", "few", 30), "development data are", steps)
    check_texts(noted("gone", "dev", 20), without=[data])  # moved since


@pytest.mark.issue(48)
def test_scores_without_annotations_are_not_scored(tmp_path):
    """`spacy train` writes 0 for a score that the data have no annotations for, if its weight is null."""
    for name in ("elmo-0", "baseline-0"):
        write_output(tmp_path / name, {}, has_elmo=name == "elmo-0")
        write_scores(tmp_path / name, {"ents_f": 0.0, "tag_acc": 0.0, "pos_acc": 0.5, "ents_per_type": 0.0})
        config = Config().from_disk(tmp_path / name / "model-best" / "config.cfg", interpolate=False)
        weights = {"ents_f": 1.0, "tag_acc": None, "pos_acc": None, "ents_per_type": None}
        config["training"]["score_weights"] = weights
        config.to_disk(tmp_path / name / "model-best" / "config.cfg")
    call("report", tmp_path / "elmo-0", "--baseline", tmp_path / "baseline-0")
    page = (tmp_path / "elmo-0" / "report.html").read_text(encoding="utf8")
    unscored = ("TAG", "not scored", "not scored", "\u2013")
    check_rows(page, ("NER F", "0.00", "0.00", "+0.00"), unscored, ("POS", "50.00", "50.00", "+0.00"))
    srsly.write_json(tmp_path / "elmo-0" / "metrics.json", {"ents_f": 0.5, "tag_acc": None})
    call("report", tmp_path / "elmo-0")
    check_rows((tmp_path / "elmo-0" / "report.html").read_text(encoding="utf8"), ("TAG", "not scored"))


@pytest.mark.issue(59)
@pytest.mark.parametrize(
    "factory, name", [("textcat", "TEXTCAT (macro F)"), ("textcat_multilabel", "TEXTCAT (macro AUC)")]
)
def test_text_categories_are_scored_with_interval_and_errors(tmp_path, factory, name):
    """An untrained classifier with ELMo, and a baseline that is right: it is said in words, with what to try."""
    ours = write_classifier(tmp_path / "elmo", factory=factory)
    theirs = write_classifier(tmp_path / "baseline", has_elmo=False, n_updates=30, factory=factory)
    DocBin(docs=make_texts(spacy.blank("en")), store_user_data=True).to_disk(tmp_path / "test.spacy")
    result = call("report", ours, "--baseline", theirs, "--data", tmp_path / "test.spacy")
    check_texts(result.output, without=["not scored here", "none of these in common"])
    (line,) = (line for line in result.stdout.splitlines() if line.startswith(name))
    check_texts(line, "with ELMo", "without", "95 % interval", "introduced")
    assert f"ELMo is below the baseline: {name} \u2212" in result.stdout
    for remedy in ("--components." + factory + ".model.tok2vec.initial_gamma 0.02", "init-adaptation"):
        assert remedy in result.stdout, remedy
    page = (ours / "report.html").read_text(encoding="utf8")
    shown = Elements(page)
    check_texts(shown.text, "Where ELMo does not help", "Text categories", "layers are concatenated: no weights")
    check_texts(shown.text, "errors introduced by ELMo")
    check_texts(shown.text.partition("The whole config")[0], without=["cats_", "softmax(w)", "token layer"])
    names = [row[0] for row in shown.rows if row]
    assert names.count(name) == 1 and len([row for row in shown.rows if row == ["", name, "TEXTCAT (micro F)"]]) == 1
    rows = {row[0]: row[1:] for row in shown.rows if row}
    values = [tuple(rows[title]) for title in rows if title.startswith("TEXTCAT")]
    assert factory != "textcat" or ("TEXTCAT (micro P)" not in rows and len(values) == 5), rows


@pytest.mark.issue(59)
def test_what_the_data_do_not_annotate_is_named(tmp_path):
    """A tagger and a classifier, on texts that have categories only."""
    nlp = spacy.load(write_classifier(tmp_path / "one", has_elmo=False) / "model-best")
    nlp.add_pipe("tagger").add_label("X")
    nlp.add_pipe("textcat_multilabel", name="emotions").add_label("joy")
    nlp.get_pipe("tagger").initialize(lambda: [Example.from_dict(nlp.make_doc("a"), {"tags": ["X"]})])
    nlp.get_pipe("emotions").initialize(
        lambda: [Example.from_dict(nlp.make_doc("a"), {"cats": {"joy": 1.0, "bad": 0.0}})]
    )
    nlp.to_disk(tmp_path / "model")
    DocBin(docs=make_texts(nlp), store_user_data=True).to_disk(tmp_path / "test.spacy")
    shown = " ".join(call("report", tmp_path / "model", "--data", tmp_path / "test.spacy").stderr.split())
    check_texts(shown, "'tagger' is not scored", "which has no tags", "Of textcat, emotions only 'emotions' is scored")


@pytest.mark.issue(62)
@pytest.mark.parametrize(
    "ours, theirs, said",
    [
        ([0.80, 0.81], [0.87, 0.88], "ELMo is below the baseline: TAG \u22127.00 points."),
        ([0.80, 0.90], [0.84, 0.88], "ELMo is not significantly above or below the baseline: TAG \u22121.00"),
        ([0.80], [0.87], "ELMo is below the baseline: TAG \u22127.00 points. With one seed"),
        ([0.84, 0.85], [0.87, 0.88], "ELMo is not significantly above or below the baseline: TAG \u22123.00"),
        ([0.91, 0.92], [0.87, 0.88], None),
        ([0.90], [0.87], None),
    ],
)
def test_elmo_not_above_the_baseline_is_said_with_what_to_try(tmp_path, ours, theirs, said):
    """Scores of seeds on the development data, of a tagger that reads ELMo alone."""
    for name, values in (("elmo", ours), ("baseline", theirs)):
        for seed, value in enumerate(values):
            folder = write_output(tmp_path / f"{name}-{seed}", {}, has_elmo=name == "elmo", seed=seed)
            write_scores(folder, {"tag_acc": value})
    shown = call("report", tmp_path / "elmo-0", "--baseline", tmp_path / "baseline-0").stdout
    page = Elements((tmp_path / "elmo-0" / "report.html").read_text(encoding="utf8")).text
    if said is None:
        check_texts(shown + page, without=["below the baseline", "not significant", "Try:"])
        return
    command = "init-config accuracy.cfg --component tagger --optimize accuracy --lang en --baseline"
    check_texts(shown, said, command, "which tagger reads alone", "--fine-tune")
    check_texts(page, said, command)


@pytest.mark.issue(62)
@pytest.mark.parametrize("macro_f, says_below", [(0.52, False), (0.48, True)])
def test_text_categories_are_judged_by_the_score_of_their_component(tmp_path, macro_f, says_below):
    """Without data: macro F for exclusive categories, whatever the other averages are."""
    for name, value, auc in (("elmo", macro_f, 0.90), ("baseline", 0.50, 0.91)):
        folder = write_classifier(tmp_path / name, has_elmo=name == "elmo")
        scores = {"cats_score": value, "cats_macro_f": value, "cats_macro_auc": auc, "cats_micro_f": 1 - value}
        write_scores(folder, scores)
    shown = call("report", tmp_path / "elmo", "--baseline", tmp_path / "baseline").stdout
    assert ("ELMo is below the baseline: TEXTCAT (macro F) \u22122.00 points. With" in shown) == says_below
    assert ("below the baseline" in shown) == says_below, shown


@pytest.mark.issue(62)
def test_advice_is_only_on_what_was_learned(tmp_path):
    """Not on frozen components, nor on scores of 0 with ELMo and without; a new config keeps the frozen components."""
    for name in ("elmo", "baseline"):
        folder = write_output(tmp_path / name, {}, has_elmo=name == "elmo")
        nlp = spacy.load(folder / "model-best")
        example = Example.from_dict(Doc(nlp.vocab, ["a"]), {"sent_starts": [1]})
        nlp.add_pipe("senter").initialize(lambda examples=(example,): examples)
        nlp.config["training"]["frozen_components"] = ["senter"]
        nlp.config["paths"]["base"] = "my pipe"
        nlp.to_disk(folder / "model-best")
        write_scores(folder, {"tag_acc": 0.8 if name == "elmo" else 0.9, "sents_f": 0.3, "pos_acc": 0.0})
    arguments = ("report", tmp_path / "elmo", "--baseline", tmp_path / "baseline")
    shown = call(*arguments).stdout
    check_texts(shown, "below the baseline: TAG \u221210.00 points.", without=["SENT F +0.00,", "SENT F +0.00 points."])
    check_texts(shown, "--component tagger --optimize accuracy --lang en --from 'my pipe' --baseline")
    for name in ("elmo", "baseline"):
        write_scores(tmp_path / name, {"tag_acc": 0.0, "sents_f": 0.3})
    result = call(*arguments)
    check_texts(result.stdout, without=["below the baseline", "Try:"])
    check_texts(" ".join(result.stderr.split()), "Neither training has learned anything that is scored as TAG:")


@pytest.mark.issue(62)
@pytest.mark.parametrize("ended", ["elmo", "baseline"])
@pytest.mark.parametrize("steps", [(), (0,), (0, 200)])
def test_trainings_that_ended_before_an_evaluation_are_not_judged(outputs, tmp_path, ended, steps):
    """They leave a model-last, or the model-best of update 0, which answer at random."""
    for name in ("elmo", "baseline"):
        write_output(tmp_path / name, {"Acme": "ORG"}, has_elmo=name == "elmo")
    if steps:
        rows = [{"step": step, "score": 0.25, "scores": {"tag_acc": 0.25}} for step in steps]
        srsly.write_jsonl(tmp_path / ended / "scores.jsonl", rows)
    else:
        (tmp_path / ended / "model-best").rename(tmp_path / ended / "model-last")
    arguments = ("--baseline", tmp_path / "baseline", "--data", outputs / "test.spacy")
    result = call("report", tmp_path / "elmo", *arguments)
    said, said_if_judged = f"{ended}' ended before its first evaluation", "not significantly above or below"
    is_judged = 200 in steps
    assert (said_if_judged in result.stdout, said in " ".join(result.stderr.split())) == (is_judged, not is_judged)
    check_texts(result.stdout, "TAG", without=[] if is_judged else ["Try:", "below the baseline"])


@pytest.mark.issue(62)
@pytest.mark.parametrize("name", ["elmo", "baseline"])
@pytest.mark.parametrize(
    "scores, is_other",
    [({"tag_acc": 0.7}, False), ({"tag_acc": 0.6}, True), ({"tag_acc": 0.7, "ents_p": 0.5}, True), ({}, False)],
)
def test_log_of_an_earlier_training_is_noted_and_not_drawn(tmp_path, name, scores, is_other):
    """The logger of spaCy keeps a log that exists, so that a second training in the same folder leaves the first's."""
    folders = [tmp_path / folder for folder in ("elmo", "baseline")]
    for folder in folders:
        write_output(folder, {"Acme": "ORG"}, has_elmo=folder.name == "elmo", metrics={"tag_acc": 0.5})
        write_logs(folder)
    write_scores(tmp_path / name, {**scores, "speed": 9000.0, "tagger_loss": 3.5})
    notes = " ".join(call("report", folders[0], "--baseline", folders[1]).stderr.split())
    said = f"{name}' has the scores of its model-best: it is the log of another training, and is not drawn."
    assert (said in notes) == is_other and "no scores.jsonl" not in notes
    outputs = {folder.name: read_output(folder) for folder in folders}
    assert [bool(outputs[folder].score_log) for folder in ("elmo", "baseline")] == [
        folder != name or not is_other for folder in ("elmo", "baseline")
    ]


@pytest.mark.issue(62)
def test_log_of_a_training_that_ended_early_does_not_speak_for_the_next(tmp_path):
    folder = write_output(tmp_path / "elmo", {"Acme": "ORG"})
    srsly.write_jsonl(folder / "scores.jsonl", [{"step": 0, "score": 0.02, "scores": {"tag_acc": 2.0}}])
    write_scores(folder, {"tag_acc": 0.6})
    notes = " ".join(call("report", folder).stderr.split())
    page = Elements((folder / "report.html").read_text(encoding="utf8")).text
    check_texts(notes, "the log of another training", without=["ended before its first evaluation"])
    check_texts(page, "the log of another training", without=["no scores.jsonl", "Scores on the development data at"])


@pytest.mark.issue(62)
@pytest.mark.parametrize("frozen, config", [([], "{}/model-best/config.cfg"), (["tagger"], "CONFIG{}.cfg")])
def test_commands_for_the_next_seed_are_whole(tmp_path, frozen, config):
    """Quoted, with a folder for logs, unused by others; frozen components have no weights in the saved config."""
    ours, theirs = (tmp_path / name for name in ("my run", "my baseline"))
    for folder in (ours, theirs):
        write_output(folder, {"Acme": "ORG"}, has_elmo=folder == ours, metrics={"tag_acc": 0.5})
        nlp = spacy.load(folder / "model-best")
        nlp.config["training"]["frozen_components"] = frozen
        nlp.config["paths"].update(logs=str(folder), train="a b.spacy")
        nlp.to_disk(folder / "model-best")
    (tmp_path / "my baseline_1").mkdir()  # in use
    result = call("report", ours, "--baseline", theirs)
    commands = [shlex.split(line) for line in result.stderr.splitlines() if line.startswith("python -m spacy")]
    assert len(commands) == 4, result.stderr
    for folder, suffix, (train, score) in zip((ours, theirs), ("", "_baseline"), (commands[:2], commands[2:])):
        new = f"{folder}_2"
        data = ["--paths.train", "a b.spacy"] if frozen else []
        name = config.format(suffix if frozen else folder)
        options = ["--output", new, "--training.seed", "2", "--paths.logs", new]
        assert train[3:] == ["train", name, *data, *options]
        assert score[3:] == ["evaluate", f"{new}/model-best", "TEST.spacy", "--output", f"{new}/metrics.json"]
    shutil.copytree(ours, f"{ours}_2")
    config = Config().from_disk(f"{ours}_2/model-best/config.cfg", interpolate=False)
    config["training"]["seed"], config["paths"]["logs"] = 2, f"{ours}_2"
    config.to_disk(f"{ours}_2/model-best/config.cfg")
    call("report", ours, "--baseline", theirs)
    page = Elements((ours / "report.html").read_text(encoding="utf8")).text
    check_texts(page, "2 seeds with ELMo, 1 seed without")


@pytest.mark.issue(62)
def test_a_number_that_is_not_the_seed_stays_in_the_name_of_the_next(tmp_path):
    """As in names by training texts; else both trainings would have the same next folder."""
    for size in ("1000", "_5000"):
        ours = write_output(tmp_path / f"texts{size}", {"Acme": "ORG"}, metrics=METRICS)
        theirs = write_output(tmp_path / f"plain{size}", {"Acme": "ORG"}, has_elmo=False, metrics=METRICS)
        result = call("report", ours, "--baseline", theirs)
        check_texts(result.stderr, f"--output {ours}_1 ", f"--output {theirs}_1 ")
        write_output(tmp_path / f"texts{size}_1", {"Acme": "ORG"}, metrics=METRICS, seed=1)
        result = call("report", ours, "--baseline", theirs)
        check_texts(" ".join(result.stderr.split()), "over different numbers of seeds: 2 with ELMo, 1 without")


@pytest.mark.issue(62)
def test_paths_in_commands_of_the_page_are_quoted(tmp_path):
    folder = write_output(tmp_path / "my run", {"Acme": "ORG"})
    change_config(folder, logs="runs/other", logger=FILE_LOGGER)
    call("report", folder)
    page = Elements((folder / "report.html").read_text(encoding="utf8")).text
    check_texts(page, f"evaluate '{folder}/model-best' TEST.spacy --output '{folder}/metrics.json'")
    check_texts(page, f"train with --paths.logs '{folder}'")
