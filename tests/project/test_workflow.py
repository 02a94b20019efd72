"""The commands that a user types, run in a copy of the project."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import spacy
import srsly
from spacy.tokens import Doc, DocBin

import spacy_elmo
from spacy_elmo import load_bilm

PACKAGE_PARENT = Path(spacy_elmo.__file__).parents[1]


@pytest.fixture(autouse=True)
def needs_entry_points():
    """Subprocesses find the factory only through the entry point."""
    if "elmo" not in entry_points(group="spacy_factories").names:
        pytest.skip("the package is not installed: pip install -e .")


def _spacy_project(*arguments, cwd):
    return _run_python("-m", "spacy", "project", "run", *arguments, cwd=cwd)


def _run_script(folder, script, *arguments):
    return _run_python(f"scripts/{script}.py", *arguments, cwd=folder)


def _run_python(*arguments, cwd):
    path = os.pathsep.join([str(PACKAGE_PARENT), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "default"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=500)


@pytest.mark.slow
def test_all_runs_from_the_root(project_copy, tiny_bilm):
    # An sdist would be built in a fresh environment, which is downloaded.
    variables = ("--vars.max_steps", 2, "--vars.bilm", tiny_bilm, "--vars.build", "none")
    result = _spacy_project("all", "project", *variables, cwd=project_copy.parent)
    assert result.returncode == 0, result.stdout + result.stderr
    for text in ("with ELMo, seed 0", "without ELMo, seed 0", "difference", "token layer", "layer 2"):
        assert text in result.stdout
    corpus = project_copy / "corpus" / "sample"
    assert {path.name for path in corpus.iterdir()} == {"train.spacy", "dev.spacy", "test.spacy"}
    assert (project_copy / "packages" / "en_elmo_sample-0.1.0" / "setup.py").is_file()
    page = project_copy / "training" / "sample" / "report-0.html"
    assert result.stdout.splitlines()[-1] == f"Report: {page.resolve()}"
    assert "Curves" in page.read_text(encoding="utf8")
    again = _spacy_project("train", ".", *variables, cwd=project_copy)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "Skipping 'train-elmo'" in again.stdout


def _write_bank(folder, lang, mark="."):
    """Write a treebank and sentences with entities. Returns the folder of the treebank."""
    rows = [
        "1\tAda\tAda\tPROPN\tNNP\t_\t2\tnsubj\t_\t_",
        "2\tran\trun\tVERB\tVBD\tTense=Past\t0\troot\t_\tSpaceAfter=No",
    ]
    sentence = "\n".join([*rows, f"3\t{mark}\t{mark}\tPUNCT\t{mark}\t_\t2\tpunct\t_\t_"]) + "\n\n"
    (folder / "bank").mkdir()
    for split in ("train", "dev", "test"):
        (folder / "bank" / f"{lang}_bank-ud-{split}.conllu").write_text(sentence * 30, encoding="utf8")
    for name, tagged in (("wikigold", "Ada\tB-PER\nsleeps\tO\n\n"), ("uner-ewt", "1\tAda\tB-PER\n2\tsleeps\tO\n\n")):
        (folder / "ner" / name).mkdir(parents=True)
        for split in ("train", "dev", "test"):
            (folder / "ner" / name / f"{split}.iob2").write_text(tagged * 9, encoding="utf8")
    return folder / "bank"


@pytest.mark.slow
@pytest.mark.issue(51)
def test_english_makes_a_package_of_any_treebank(project_copy, tiny_bilm, tmp_path):
    bank = _write_bank(tmp_path, "en")
    variables = (
        "--vars.treebank",
        bank,
        "--vars.assets_dir",
        tmp_path,
        "--vars.bilm",
        tiny_bilm,
        "--vars.max_steps",
        1,
    )
    english = project_copy / "english"
    result = _spacy_project("all", ".", *variables, cwd=english)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Ada\tPROPN\tNNP" in result.stdout and "works" in result.stdout
    scores = srsly.read_json(english / "training" / "en_elmo_bank-0" / "scores.json")
    assert scores["gold"]["Words"] == 1.0 and {"UPOS", "XPOS", "UFeats", "Lemmas", "LAS"} <= set(scores["raw"])
    assert {"ents_f"} <= set(scores["wikigold"]) and set(scores["stages"]) == {"treebank", "entities"}
    meta = srsly.read_json(english / "packages" / "en_elmo_bank-0.1.0" / "meta.json")
    assert meta["performance"]["gold_words"] == 1.0 and "3.8.13" in meta["spacy_version"]
    nlp = spacy.load(english / "packages" / "en_elmo_bank-0.1.0" / "en_elmo_bank" / "en_elmo_bank-0.1.0")
    doc = Doc(
        nlp.vocab,
        words=["Bob", "saw", "Ada"],
        deps=["nsubj", "ROOT", "obj"],
        heads=[1, 1, 1],
        pos=["PROPN", "VERB", "PROPN"],
    )
    assert [chunk.text for chunk in doc.noun_chunks] == ["Bob", "Ada"]
    again = _spacy_project("train", ".", *variables, cwd=english)
    assert again.returncode == 0 and again.stdout.count("trained already") == 2, again.stdout + again.stderr
    other = _spacy_project("train", ".", *variables[:-1], 2, cwd=english)
    assert other.returncode == 1 and "other settings: max_steps 2, there 1" in other.stdout, other.stdout
    scores["stages"]["treebank"]["settings"]["max_steps"] = 2
    srsly.write_json(english / "training" / "en_elmo_bank-0" / "scores.json", scores)
    package = _spacy_project("package", ".", *variables, cwd=english)
    assert package.returncode == 1 and "scores of another training" in package.stdout, package.stdout
    wheel = next((english / "packages" / "en_elmo_bank-0.1.0" / "dist").glob("*.whl"))
    wheel.write_bytes(b"PK")
    check = _spacy_project("check", ".", *variables, cwd=english)
    assert check.returncode == 1 and "Build the wheel again" in check.stdout, check.stdout


@pytest.mark.slow
@pytest.mark.issue(61)
@pytest.mark.parametrize(
    "lang, mark, name, advice",
    [
        ("en", ".", "en_elmo_bank", "--bilm en_elmo_sm"),
        ("be", "!", "xx_be_elmo_bank", "python -m spacy elmo pretrain pretrain.cfg runs/be_elmo"),
    ],
)
def test_a_treebank_without_a_bilm_gets_a_package_of_word_features(lang, mark, name, advice, project_copy, tmp_path):
    """Also of a language that spaCy does not have, with a tag that begins as those that spaCy's tagger excludes."""
    bank = _write_bank(tmp_path, lang, mark)
    variables = ("--vars.treebank", bank, "--vars.assets_dir", tmp_path, "--vars.bilm", "none", "--vars.max_steps", 1)
    english = project_copy / "english"
    result = _spacy_project("all", ".", *variables, cwd=english)
    assert result.returncode == 0, result.stdout + result.stderr
    assert advice in " ".join(result.stdout.split()) and f"{name}-0.1.0-py3-none-any.whl works" in result.stdout
    nlp = spacy.load(english / "packages" / f"{name}-0.1.0" / name / f"{name}-0.1.0")
    assert nlp.pipe_names[0] == "tok2vec" and ("ner" in nlp.pipe_names) == (lang == "en")
    assert nlp.meta["description"].endswith("on word features")
    speed = _run_script(english, "pipeline", "speed", "--treebank", bank, "--repeats", 1)
    assert "words per CPU second" in speed.stdout and "ratio" not in speed.stdout, speed.stdout + speed.stderr


@pytest.mark.slow
@pytest.mark.issue(61)
def test_languages_are_compared_and_resume(project_copy, tmp_path):
    bank, english = _write_bank(tmp_path, "hy"), project_copy / "english"
    (english / "languages.jsonl").unlink(missing_ok=True)
    train = ("languages", "train", bank, "--max-steps", 1)
    first = _run_script(english, *train)
    assert first.returncode == 0, first.stdout + first.stderr
    assert _run_script(english, *train).stdout.count("trained already") == 3
    for command in (("speed", bank), ("table",)):
        assert _run_script(english, "languages", *command).returncode == 0
    rows = list(srsly.read_jsonl(english / "languages.jsonl"))
    assert [row["system"] for row in rows] == ["spacy_parser", "biaffine_parser", "bilm", "parser_speed"]
    assert [row["settings"]["bilm"] for row in rows[:3]] == ["none", "none", "own_text"]
    assert "| bank | 90 | " in (english / "README.md").read_text(encoding="utf8")


@pytest.mark.slow
@pytest.mark.issue(62)
def test_complete_bilms_of_the_grid_are_kept(project_copy, tmp_path):
    """After a stop in the last pretraining, the first ones are not repeated."""
    doc = Doc(spacy.blank("xx").vocab, ["La", "banque", "déborde", "."] * 9, sent_starts=([True] + [False] * 3) * 9)
    treebanks = ("af_afribooms", "hy_bsut", "tr_framenet", "vi_vtb", "fr_sequoia")
    for folder in (tmp_path / "ud" / name for name in treebanks):
        folder.mkdir(parents=True)
        for split in ("train", "dev", "test"):
            DocBin(docs=[doc] * 3).to_disk(folder / f"{split}.spacy")
    experiments = project_copy / "experiments"
    command = ("pretrain-treebanks", ".", "--vars.assets_dir", tmp_path)
    first = _spacy_project(*command, cwd=experiments)
    assert first.returncode == 0, first.stdout + first.stderr
    logs = [experiments / "training" / f"{name}_small" / "log.jsonl" for name in treebanks]
    written = [log.read_text(encoding="utf8") for log in logs]
    shutil.rmtree(logs[-1].parent)
    (experiments / "project.lock").unlink()
    again = _spacy_project(*command, cwd=experiments)
    assert again.returncode == 0, again.stdout + again.stderr
    assert [log.read_text(encoding="utf8") for log in logs[:-1]] == written[:-1] and logs[-1].is_file()


@pytest.mark.slow
def test_a_bilm_of_a_treebank_is_pretrained_and_read_by_the_tagger(import_script, invoke, project_copy, tmp_path):
    words = ["La", "banque", "de", "la", "rivière", "déborde", "."] * 9
    tags = ["DET", "NOUN", "ADP", "DET", "NOUN", "VERB", "PUNCT"] * 9
    doc = Doc(spacy.blank("fr").vocab, words, pos=tags, sent_starts=([True] + [False] * 6) * 9)
    for folder in (tmp_path / "ud" / "fr_sequoia", tmp_path / "ud" / "ru_taiga-r2.7"):
        folder.mkdir(parents=True)
        for split in ("train", "dev", "test"):
            DocBin(docs=[doc] * 3).to_disk(folder / f"{split}.spacy")
    experiments = project_copy / "experiments"
    variables = ("--vars.assets_dir", tmp_path, "--vars.passes", 1)
    pretraining = _spacy_project("pretrain-languages", ".", *variables, cwd=experiments)
    assert pretraining.returncode == 0, pretraining.stdout + pretraining.stderr
    path = experiments / "training" / "fr_sequoia_elmo" / "model-best"
    assert load_bilm(path).meta["lang"] == "fr"
    options = ("--seed", 0, "--max-steps", 1, "--assets-dir", tmp_path, "--bilm", path, "--results", tmp_path)
    invoke(import_script("paper").paper_cli, "language-fr_sequoia", *options)
    results, tables = import_script("results").read_results(tmp_path), import_script("tables")
    assert [result["settings"]["bilm"] for result in results] == [None, "fr_sequoia_elmo"]
    assert "| French, UD Sequoia, UPOS |" in tables.make_gains(results, tables.LANGUAGES)
