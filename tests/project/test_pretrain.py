"""What raw text gives within a time limit: a pretrained tok2vec, static vectors and a biLM; and that of a treebank."""

import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy
import pytest
import spacy
import srsly
from spacy.tokens import Doc, DocBin
from spacy.training.initialize import init_nlp

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


def _set_clock(script, seconds, monkeypatch):
    """For the script alone: other threads read the clock, too."""
    clock = iter(seconds)
    monkeypatch.setattr(script, "time", SimpleNamespace(monotonic=lambda: next(clock)))


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


def test_floret_fills_the_time_with_passes(script, text, tmp_path, floret, monkeypatch):
    # Start; before and after a text of one word, and the probe, a 20th of the text; then; end.
    _set_clock(script, [0.0, 1.0, 1.5, 1.5, 2.5, 2.5, 100.0], monkeypatch)
    source = script.make_source("floret", [str(text)], tmp_path, limit_s=42)
    assert [settings["epoch"] for settings in floret.asked] == [1, 1, 3]  # 39 s left, 10 s a pass
    assert (source.words, source.elapsed_s, source.limit_s) == (3 * 200 * 9, 100.0, 42)
    assert source.text == "raw/text.txt"
    assert srsly.read_json(tmp_path / "floret" / "record.json") == asdict(source)
    vectors = spacy.load(tmp_path / "floret").vocab.vectors
    assert vectors.mode == "floret" and vectors.shape == (10, 3)


def test_bilm_fills_the_time(
    script,
    invoke,
    text,
    tmp_path,
    tiny_bilm,
    monkeypatch,
):
    called = []

    def pretrain(config, run, settings):
        called.append((config.name, settings["pretraining.max_tokens"]))
        shutil.copytree(tiny_bilm, run / "model-last")
        rows = [{"n_tokens": n, "tokens_per_s": 50.0} for n in (8, called[-1][1] + 2)]
        srsly.write_jsonl(run / "log.jsonl", rows)

    monkeypatch.setattr(script, "call_pretrain", pretrain)
    # Start, after the probe, end; the same without time left.
    _set_clock(script, [0.0, 40.0, 130.0, 0.0, 40.0], monkeypatch)
    source = script.make_source("bilm", [str(text)], tmp_path, limit_s=140)
    assert called == [("pretrain_en_elmo_sm.cfg", 200_000), ("pretrain_en_elmo_sm.cfg", 4850)]  # 0.97 * 100 s * 50
    assert (source.words, source.elapsed_s, source.limit_s, source.kind) == (4852, 130.0, 140, "bilm")
    assert source.digest == digest_bilm(tiny_bilm)
    assert script.load_source(tmp_path, "bilm", "elmo_ner.cfg") == asdict(source)
    late = invoke(script.app, "timed", "bilm", text, "--output", tmp_path, "--seconds", 30, "--force", code=1)
    assert "Allow more time" in " ".join(late.output.split())


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


@pytest.mark.slow
def test_pretrained_weights_are_those_that_training_starts_from(script, import_script, text, tmp_path):
    experiments, training = import_script("paper_experiments"), import_script("paper_run")
    script.make_source("tok2vec", [str(text)], tmp_path, limit_s=1)
    docs = [Doc(spacy.blank("en").vocab, words=["The", "Thames"], ents=["O", "B-location"])]
    for split in ("train", "dev"):
        DocBin(docs=docs).to_disk(tmp_path / f"{split}.spacy")
    tokens = []
    for condition in ("baseline", "tok2vec"):
        (run,) = [run for run in experiments.EXPERIMENTS["alternatives-wnut17"] if run.condition == condition]
        options = experiments.Options(alternatives=tmp_path)
        training.make_config(run, options).to_disk(tmp_path / "run.cfg")
        overrides = training.make_overrides(run, 0, tmp_path, tmp_path, options)
        nlp = init_nlp(training.Config().from_disk(tmp_path / "run.cfg", overrides=overrides).interpolate())
        tokens.append(_encode(nlp))
    assert not numpy.allclose(tokens[0], tokens[1])
    nlp.get_pipe("tok2vec").model.from_disk(tmp_path / "tok2vec-ner" / "model-last.bin")
    assert numpy.array_equal(_encode(nlp), tokens[1])


def _encode(nlp):
    """The vectors of the tok2vec, which is a component of its own or the first layers of the NER."""
    is_shared = "tok2vec" in nlp.pipe_names
    tok2vec = nlp.get_pipe("tok2vec").model if is_shared else nlp.get_pipe("ner").model.get_ref("tok2vec").layers[0]
    return tok2vec.predict([nlp.make_doc("The bank")])[0]


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
