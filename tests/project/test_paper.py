"""Experiments of the paper: their configs, what is skipped, what is stored, and what is refused."""

import shutil
from pathlib import Path

import numpy
import pytest
import spacy
import srsly
from nn.tiny import make_bilm
from spacy.training import Example
from spacy.util import load_model_from_config

from spacy_elmo import save_bilm

SCRIPT = "paper"
RESULT = {"cpu_seconds": 1.0, "test": {}}
WITHOUT_ELMO = ("baseline", "tok2vec", "floret", "bilstm-none")


@pytest.fixture
def trained(script, monkeypatch):
    """The names of the runs, instead of their training."""
    names = []

    def run_experiment(run, seed, corpus_dir, options, *, pipeline_dir):
        names.append(run.name(seed))
        result = {**RESULT, "settings": script.describe_settings(run, seed, options)}
        if pipeline_dir is not None:
            pipeline_dir.mkdir(parents=True)
            srsly.write_json(pipeline_dir / "result.json", result)
        return result

    monkeypatch.setattr(script, "run_experiment", run_experiment)
    return names


@pytest.fixture
def bilm(tiny_bilm, tmp_path):
    """A copy that a test may change."""
    return Path(shutil.copytree(tiny_bilm, tmp_path / "bilm"))


def test_finished_runs_are_skipped(script, invoke, trained, tmp_path):
    invoke(script.paper_cli, "sample", "--seed", 0, "--results", tmp_path)
    assert trained == ["sample-baseline-100pct-seed0", "sample-elmo-100pct-seed0"]
    (tmp_path / f"{trained[1]}.json").unlink()  # as if the experiment had been interrupted
    invoke(script.paper_cli, "sample", "--seed", 0, "--seed", 1, "--results", tmp_path)
    assert trained[2:] == ["sample-elmo-100pct-seed0", "sample-baseline-100pct-seed1", "sample-elmo-100pct-seed1"]
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.json" for name in trained}
    for _ in range(2):  # without a kept pipeline they are not finished
        invoke(script.paper_cli, "sample", "--seed", 0, "--results", tmp_path, "--keep", tmp_path / "kept")
    assert trained[5:] == trained[:2] and {path.name for path in (tmp_path / "kept").iterdir()} == set(trained[:2])


def test_result_of_other_settings_and_wrong_arguments_are_refused(script, invoke, trained, tmp_path):
    invoke(script.paper_cli, "sample", "--seed", 0, "--max-steps", 2, "--results", tmp_path)
    for seed in (0, 1):  # seeds of one table differ in nothing else
        result = invoke(script.paper_cli, "sample", "--seed", seed, "--results", tmp_path, code=1)
        assert "training.max_steps" in result.output
    path = tmp_path / "sample-elmo-100pct-seed0.json"
    stored = srsly.read_json(path)
    assert len(stored["settings"]["config_digest"]) == 12
    srsly.write_json(path, {**stored, "settings": {**stored["settings"], "config_digest": "0123456789ab"}})
    again = ("sample", "--seed", 0, "--max-steps", 2, "--results", tmp_path)
    assert "config_digest" in invoke(script.paper_cli, *again, code=1).output
    for arguments, problem in (
        (["glue"], "no experiment"),
        (["sample", "--bilm", "no_such_bilm"], "no weights of the biLM"),
        (["gains-wikigold", "--assets-dir", "no-such-folder"], "does not exist"),
    ):
        result = invoke(script.paper_cli, *arguments, "--results", tmp_path / "new", code=1)
        assert problem in " ".join(result.output.split())


@pytest.mark.issue(51)
def test_stored_results_are_of_the_configs_of_their_experiments(import_script):
    """Otherwise an experiment with one of them stops before its first training."""
    experiments, paper_run, results = (import_script(name) for name in ("paper_experiments", "paper_run", "results"))
    runs = {run.name(""): run for runs in experiments.EXPERIMENTS.values() for run in runs}
    settings = [result["settings"] for result in results.keep_in_use(results.read_results(results.RESULTS_DIR))]
    digests = {"{task}-{condition}-{share}pct-seed".format(**one): one.get("config_digest") for one in settings}
    assert len(digests) > 10
    for name, digest in digests.items():
        is_classifier = runs[name].is_classifier
        config = spacy.util.Config() if is_classifier else paper_run.make_config(runs[name], experiments.Options())
        assert digest in (None, paper_run.digest_config(config)), name


def test_result_of_other_weights_is_not_finished(script, invoke, trained, bilm, tmp_path):
    arguments = ("sample", "--seed", 0, "--bilm", bilm, "--results", tmp_path / "results")
    invoke(script.paper_cli, *arguments)
    path = tmp_path / "results" / "sample-elmo-100pct-seed0.json"
    before = srsly.read_json(path)["settings"]["bilm_digest"]
    (bilm / "meta.json").write_text('{"name": "renamed"}')
    invoke(script.paper_cli, *arguments)
    assert len(trained) == 2  # a description is not a weight
    shutil.rmtree(bilm)  # the config may change with the weights
    save_bilm(make_bilm(seed=16), bilm)
    result = invoke(script.paper_cli, *arguments, "--seed", 1)
    assert "other weights" in result.output
    assert trained[2:] == ["sample-elmo-100pct-seed0", "sample-baseline-100pct-seed1", "sample-elmo-100pct-seed1"]
    assert srsly.read_json(path)["settings"]["bilm_digest"] not in (before, None)


@pytest.mark.issue(16)
def test_threshold_is_the_best_of_the_development_data(import_script, monkeypatch):
    script, nlp = import_script("paper_run"), spacy.blank("en")
    pipe = nlp.add_pipe("textcat_multilabel")
    right, wrong = ({"cats": {"joy": 1.0, "fear": 0.0}}, {"cats": {"joy": 0.0, "fear": 0.0}})
    examples = [Example.from_dict(nlp.make_doc("yes"), right), Example.from_dict(nlp.make_doc("no"), wrong)]
    nlp.initialize(lambda: examples)
    scores = numpy.zeros((2, 2), dtype="float32")
    scores[:, pipe.labels.index("joy")] = 0.32, 0.12  # as unsure as a network of rare categories
    monkeypatch.setattr(type(pipe), "predict", lambda self, docs: scores[: len(docs)])
    assert script.choose_threshold(nlp, examples) == 0.3 == pipe.cfg["threshold"]
    assert nlp.evaluate(examples)["cats_f_per_type"]["joy"]["f"] == 1.0
    examples.reverse()  # the higher score is wrong now
    assert script.choose_threshold(nlp, examples) == 0.1


@pytest.mark.slow
def test_every_run_makes_a_pipeline(import_script, tmp_path):
    experiments, script = import_script("paper_experiments"), import_script("paper_run")
    found = {}
    every = [run for runs in experiments.EXPERIMENTS.values() for run in runs if run.share == 100]
    runs = {run.name(0): run for run in every if not run.condition.startswith("minilm")}  # see test_minilm.py
    for run in runs.values():
        overrides = script.make_overrides(run, 0, tmp_path, tmp_path, experiments.Options())
        script.make_config(run, experiments.Options()).to_disk(tmp_path / "run.cfg")
        config = script.Config().from_disk(tmp_path / "run.cfg", interpolate=True, overrides=overrides)
        nlp = load_model_from_config(config, auto_fill=True)
        found[run.task, run.condition] = "elmo" in nlp.pipe_names
        has_fixed_length = run.condition == "elmo-averaged" or run.dataset == "hwu64"  # as their configs say
        assert config["training"]["patience"] == (0 if has_fixed_length else 1600), run
    assert all(found[key] == (key[1] not in WITHOUT_ELMO) for key in found)
    assert {task for task, _ in found} >= {"wnut17", "wikigold", "ncbi-disease", "ewt-tags", "ewt-parser", "goemotions"}


@pytest.mark.slow
def test_sample_is_trained_and_scored(script, invoke, tiny_bilm, tmp_path):
    arguments = ("sample", "--seed", 0, "--max-steps", 2, "--bilm", tiny_bilm, "--results", tmp_path)
    invoke(script.paper_cli, *arguments)
    stored = srsly.read_json(tmp_path / "sample-elmo-100pct-seed0.json")
    assert len(stored["settings"]["bilm_digest"]) == 12
    assert 0 < stored["test"]["tag_acc"] < 1
    assert [(mix["component"], mix["place"], len(mix["shares"])) for mix in stored["mixes"]] == [
        ("tagger", None, 3),
        ("ner", None, 3),
    ]
    assert "mixes" not in srsly.read_json(tmp_path / "sample-baseline-100pct-seed0.json")
    assert [step for step, _ in stored["curve"]] == [0, 2] and stored["last_step"] == 2
    assert stored["best_dev_score"] == max(score for _, score in stored["curve"])
    assert stored["train_words"] > stored["train_docs"] > 100
    text = (tmp_path / "sample-elmo-100pct-seed0.json").read_text()
    assert stored["settings"]["bilm"] == tiny_bilm.name and str(tiny_bilm.parent) not in text
