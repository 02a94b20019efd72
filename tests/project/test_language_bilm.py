"""A biLM for another language, from the training text of its treebank, and the tagger that reads it."""

from pathlib import Path
from typing import Any, Callable

import pytest
import spacy
import typer
from spacy.tokens import Doc, DocBin
from typer.testing import CliRunner

from spacy_elmo import load_bilm
from spacy_elmo.weights.identity import digest_bilm

WORDS = ["La", "banque", "de", "la", "rivière", "déborde", "."]
TAGS = ["DET", "NOUN", "ADP", "DET", "NOUN", "VERB", "PUNCT"]


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    folder = tmp_path / "assets" / "ud" / "fr_sequoia"
    folder.mkdir(parents=True)
    doc = Doc(spacy.blank("fr").vocab, words=WORDS * 9, pos=TAGS * 9, sent_starts=([True] + [False] * 6) * 9)
    for split in ("train", "dev", "test"):
        DocBin(docs=[doc] * 3).to_disk(folder / f"{split}.spacy")
    return tmp_path / "assets"


def _invoke(command: Any, *arguments: object) -> Any:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_unknown_treebank_and_missing_text_are_named(
    import_script: Callable[[str], Any], assets: Path, tmp_path: Path
) -> None:
    script = import_script("language_bilm")
    unknown = _invoke(script.language_cli, "de_gsd", "--output", tmp_path / "out")
    assert unknown.exit_code == 1 and "P050" in unknown.output
    missing = _invoke(script.language_cli, "ru_taiga", "--output", tmp_path / "out", "--assets-dir", assets)
    assert missing.exit_code == 1 and "P002" in missing.output


@pytest.mark.slow
def test_failed_pretraining_is_named(
    import_script: Callable[[str], Any], assets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = import_script("language_bilm")
    monkeypatch.setattr(script, "CONFIG", tmp_path / "no.cfg")
    failed = _invoke(script.language_cli, "fr_sequoia", "--output", tmp_path / "out", "--assets-dir", assets)
    assert failed.exit_code == 1 and "P051" in failed.output
    assert not list((tmp_path / "out").iterdir())


def test_taggers_of_both_conditions_have_the_language(import_script: Callable[[str], Any], tmp_path: Path) -> None:
    experiments, script = import_script("paper_experiments"), import_script("paper_run")
    found = []
    for run in experiments.EXPERIMENTS["language-fr_sequoia"]:
        options = experiments.Options()
        script.make_config(run, options).to_disk(tmp_path / "run.cfg")
        overrides = script.make_overrides(run, 0, tmp_path, tmp_path, options)
        config = script.Config().from_disk(tmp_path / "run.cfg", overrides=overrides)
        found.append((config["nlp"]["lang"], config["nlp"]["pipeline"]))
        assert config["training"]["score_weights"]["pos_acc"] == 1.0
    assert found == [("fr", ["tok2vec", "morphologizer"]), ("fr", ["elmo", "tok2vec", "morphologizer"])]


@pytest.mark.slow
def test_bilm_is_pretrained_and_read_by_the_tagger(
    import_script: Callable[[str], Any], assets: Path, tmp_path: Path
) -> None:
    script, paper = import_script("language_bilm"), import_script("paper")
    arguments = ("fr_sequoia", "--output", tmp_path, "--assets-dir", assets, "--passes", 3)
    result = _invoke(script.language_cli, *arguments)
    assert result.exit_code == 0, result.output
    path = tmp_path / "fr_sequoia_elmo"
    assert load_bilm(path).meta["lang"] == "fr"
    before = digest_bilm(path)
    assert "--force" in _invoke(script.language_cli, *arguments).output and digest_bilm(path) == before
    options = ("--seed", 0, "--max-steps", 1, "--assets-dir", assets, "--bilm", path, "--results", tmp_path / "results")
    trained = _invoke(paper.paper_cli, "language-fr_sequoia", *options)
    assert trained.exit_code == 0, trained.output
    results = import_script("results").read_results(tmp_path / "results")
    table = import_script("paper_tables").make_languages(results)
    assert "| French, UD Sequoia, UPOS |" in table
