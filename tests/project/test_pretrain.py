"""What raw text gives within a time limit: a pretrained tok2vec, static vectors and a biLM; and that of a treebank."""

import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType

import pytest
import spacy
import srsly
from spacy.tokens import Doc, DocBin

from spacy_elmo import load_bilm
from spacy_elmo.weights.identity import digest_bilm

SCRIPT = "pretrain"
TIMES = {"limit_s": 60.0, "elapsed_s": 90.0, "cpu_s": 30.0}
RECORD = {"kind": "tok2vec", "text": "a.txt", "share": 5, "words": 9000, **TIMES, "digest": "d"}
LINES = [f"The bank of the river number {i % 7} floods ." for i in range(200)]
WORDS = ["La", "banque", "de", "la", "rivière", "déborde", "."]
TAGS = ["DET", "NOUN", "ADP", "DET", "NOUN", "VERB", "PUNCT"]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "raw" / "text.txt"
    path.parent.mkdir()
    path.write_text("\n".join(LINES), encoding="utf8")
    return path


class _Vectors:
    """What floret trains, here of zeros."""

    def save_floret_vectors(self, path):
        lines = ["10 3 4 5 2 2166136261 < >", *(f"{row} 0 0 0" for row in range(10))]
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf8")


@pytest.fixture
def floret(monkeypatch):
    """A module in the place of floret, which records what it is asked for."""
    module = ModuleType("floret")
    module.__spec__ = spacy.__spec__
    module.asked = []
    module.train_unsupervised = lambda path, **settings: module.asked.append(settings) or _Vectors()
    monkeypatch.setitem(sys.modules, "floret", module)
    return module


def test_missing_broken_and_complete_alternatives_are_named(script, import_script, invoke, text, tmp_path):
    arguments = ("alternatives-wnut17", "--results", tmp_path / "results", "--alternatives", tmp_path)
    result = invoke(import_script("paper").paper_cli, *arguments, code=1)
    assert "pretrain.py timed tok2vec" in " ".join(result.output.split())
    path = tmp_path / "tok2vec-ner" / "record.json"
    path.parent.mkdir()
    srsly.write_json(path, RECORD)
    assert script.load_source(tmp_path, "tok2vec", "baseline_ner.cfg") == RECORD
    again = ("timed", "tok2vec", text, "--output", tmp_path)
    refused = invoke(script.app, *again, code=1)
    assert "--force" in refused.output
    invoke(script.app, *again, "--skip-complete")
    assert srsly.read_json(path) == RECORD
    path.write_text('{"kind": "tok2vec"}')
    with pytest.raises(ValueError, match="is not a record"):
        script.load_source(tmp_path, "tok2vec", "baseline_ner.cfg")


@pytest.mark.slow
def test_alternatives_train_in_the_same_network(
    script,
    import_script,
    text,
    tmp_path,
    floret,
    monkeypatch,
):
    experiments, training = import_script("paper_experiments"), import_script("paper_run")
    import_script("data").prepare("sample", tmp_path / "corpus")
    monkeypatch.setattr(script, "PROBE_TOKENS", 200)
    monkeypatch.setattr(script, "BILM_CONFIG", script.SMALL_CONFIG)
    baseline = experiments.Run("sample", "sample", "baseline", "baseline_ner.cfg")
    with_elmo = replace(baseline, condition="elmo", config="elmo_ner.cfg")
    limits = {"tok2vec": 1, "floret": 60, "bilm": 30}
    for kind, limit_s in limits.items():
        source = script.make_source(kind, [str(text)], tmp_path, limit_s=limit_s)
        assert source.words > 0
        run = replace(with_elmo if kind == "bilm" else baseline, condition=kind, source=kind)
        options = experiments.Options(max_steps=1, alternatives=tmp_path)
        result = training.run_experiment(run, 0, tmp_path / "corpus", options, pipeline_dir=tmp_path / f"kept-{kind}")
        assert result["settings"]["source"] == asdict(source) and str(tmp_path) not in str(result["settings"])
        assert result["settings"]["bilm"] is None
    elmo = spacy.load(tmp_path / "kept-bilm").get_pipe("elmo")
    assert elmo.model.get_dim("nO") == 128  # en_elmo_sm has 256


# Another language


@pytest.fixture
def assets(tmp_path):
    folder = tmp_path / "assets" / "ud" / "fr_sequoia"
    folder.mkdir(parents=True)
    doc = Doc(spacy.blank("fr").vocab, words=WORDS * 9, pos=TAGS * 9, sent_starts=([True] + [False] * 6) * 9)
    for split in ("train", "dev", "test"):
        DocBin(docs=[doc] * 3).to_disk(folder / f"{split}.spacy")
    return tmp_path / "assets"


def test_unknown_treebank_missing_text_and_failed_pretraining_are_named(script, invoke, assets, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "SMALL_CONFIG", tmp_path / "no.cfg")
    options = ("--output", tmp_path / "out", "--assets-dir", assets)
    for dataset, told in (("de_gsd", "no treebank"), ("ru_taiga", "missing below"), ("fr_sequoia", "no.cfg")):
        result = invoke(script.app, "language", dataset, *options, code=1)
        assert told in " ".join(result.output.split()), result.output
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.slow
def test_bilm_is_pretrained_and_read_by_the_tagger(script, import_script, invoke, assets, tmp_path):
    arguments = ("language", "fr_sequoia", "--output", tmp_path, "--assets-dir", assets, "--passes", 3)
    invoke(script.app, *arguments)
    path = tmp_path / "fr_sequoia_elmo"
    assert load_bilm(path).meta["lang"] == "fr"
    before = digest_bilm(path)
    assert "--force" in invoke(script.app, *arguments).output and digest_bilm(path) == before
    options = ("--seed", 0, "--max-steps", 1, "--assets-dir", assets, "--bilm", path, "--results", tmp_path / "results")
    invoke(import_script("paper").paper_cli, "language-fr_sequoia", *options)
    found = import_script("results").read_results(tmp_path / "results")
    tables = import_script("tables")
    assert "| French, UD Sequoia, UPOS |" in tables.make_gains(found, tables.LANGUAGES)
