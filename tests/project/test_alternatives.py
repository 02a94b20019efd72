"""What else raw text can give: a pretrained tok2vec and static vectors, within a time limit, in the same network."""

import shutil
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Callable, Dict, Iterator

import numpy
import pytest
import spacy
import srsly
import typer
from typer.testing import CliRunner

from spacy_elmo.weights.formats import locate
from spacy_elmo.weights.identity import digest_bilm

TIMES = {"limit_s": 60.0, "elapsed_s": 90.0, "cpu_s": 30.0}
RECORD = {"kind": "tok2vec", "text": "a.txt", "share": 5, "words": 9000, **TIMES, "digest": "d"}
LINES = [f"The bank of the river number {i % 7} floods ." for i in range(200)]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "raw" / "text.txt"
    path.parent.mkdir()
    path.write_text("\n".join(LINES), encoding="utf8")
    return path


class _Vectors:
    """What floret trains, here of zeros."""

    def save_floret_vectors(self, path: str) -> None:
        lines = ["10 3 4 5 2 2166136261 < >", *(f"{row} 0 0 0" for row in range(10))]
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf8")


@pytest.fixture
def floret(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module in the place of floret, which records what it is asked for."""
    module: Any = ModuleType("floret")
    module.__spec__ = spacy.__spec__
    module.asked = []
    module.train_unsupervised = lambda path, **settings: module.asked.append(settings) or _Vectors()
    monkeypatch.setitem(sys.modules, "floret", module)
    return module


def _invoke(command: Any, *arguments: object) -> Any:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_share_takes_the_first_sentences_of_each_hundred(import_script: Callable[[str], Any], text: Path) -> None:
    script = import_script("raw_text")
    found = [" ".join(tokens) for tokens in script.read_sentences([str(text)], 2)]
    assert found == [*LINES[:2], *LINES[100:102]]
    assert script.name_texts([str(text)]) == "raw/text.txt"
    text.write_text("\n")
    for nothing in (str(text), ""):
        with pytest.raises(ValueError, match="P030"):
            next(script.read_sentences([nothing]))


def test_missing_and_broken_alternatives_are_named(import_script: Callable[[str], Any], tmp_path: Path) -> None:
    script = import_script("alternatives")
    with pytest.raises(FileNotFoundError, match="P031.*pretrain_tok2vec.py"):
        script.load_source(tmp_path, "tok2vec", "baseline_ner.cfg")
    folder = tmp_path / "tok2vec-ner"
    folder.mkdir()
    script.save_source(folder, script.Source(**RECORD))
    assert script.load_source(tmp_path, "tok2vec", "baseline_ner.cfg") == RECORD
    (folder / "record.json").write_text('{"kind": "tok2vec"}')
    with pytest.raises(ValueError, match="P032"):
        script.load_source(tmp_path, "tok2vec", "baseline_ner.cfg")


def test_table_says_what_each_was_made_from(import_script: Callable[[str], Any]) -> None:
    settings = {"task": "wnut17", "condition": "tok2vec", "share": 100, "seed": 0, "source": RECORD}
    result = {"settings": settings, "test": {"ents_f": 0.2}}
    rows = import_script("paper_tables").make_alternatives([result]).splitlines()
    wanted = "a.txt, 5 % | 9,000 | 1.5 min (0.5) | 20.00 (n = 1) |"
    assert rows[2:] == [f"| WNUT-17, NER F | without ELMo, tok2vec from `spacy pretrain` | {wanted}"]


def test_table_says_what_the_bilm_was_made_from(import_script: Callable[[str], Any]) -> None:
    settings = {"task": "wnut17", "share": 100, "seed": 0}
    made = [{**settings, "condition": "tok2vec", "source": RECORD}]
    packaged = {"bilm": "en_elmo_sm", "bilm_digest": digest_bilm("en_elmo_sm")}
    made += [{**settings, "condition": "elmo", **packaged}, {**settings, "condition": "elmo-finetuned", "bilm": "tiny"}]
    tables = import_script("paper_tables")
    table = tables.make_alternatives([{"settings": found, "test": {"ents_f": 0.2}} for found in made])
    meta = srsly.read_json(locate("en_elmo_sm") / "meta.json")
    wanted = f"| with ELMo | {meta['corpus']['name']} | {meta['training']['n_tokens']:,} | "
    assert wanted in table and " h | 20.00" in table
    assert "| with ELMo, fine-tuned |  |  |  | 20.00" in table  # another biLM
    made[1]["bilm_digest"] = "0123456789ab"
    table = tables.make_alternatives([{"settings": found, "test": {"ents_f": 0.2}} for found in made])
    assert "| with ELMo |  |  |  | 20.00" in table  # earlier weights


def test_results_of_older_alternatives_are_left_out(import_script: Callable[[str], Any]) -> None:
    settings = {"task": "wnut17", "condition": "tok2vec", "share": 100, "seed": 0, "source": RECORD}
    old = {"settings": settings, "finished_at": "2026-11-22T08:00:00+00:00"}
    new = {"settings": {**settings, "source": {**RECORD, "digest": "e"}}, "finished_at": "2026-11-23T08:00:00+00:00"}
    assert import_script("weights_in_use").split_by_weights([old, new]) == ([new], [old])


def test_complete_alternatives_are_kept(import_script: Callable[[str], Any], tmp_path: Path, text: Path) -> None:
    script, alternatives = import_script("pretrain_tok2vec"), import_script("alternatives")
    folder = tmp_path / "tok2vec-ner"
    folder.mkdir()
    alternatives.save_source(folder, alternatives.Source(**RECORD))
    result = _invoke(script.pretrain_cli, text, "--output", tmp_path)
    assert result.exit_code == 1 and "P033" in result.output
    assert _invoke(script.pretrain_cli, text, "--output", tmp_path, "--skip-complete").exit_code == 0
    assert srsly.read_json(folder / "record.json") == RECORD


def test_experiment_without_alternatives_says_how_to_make_them(
    import_script: Callable[[str], Any], tmp_path: Path
) -> None:
    script = import_script("paper")
    arguments = ("alternatives-wnut17", "--results", tmp_path, "--alternatives", tmp_path)
    result = _invoke(script.paper_cli, *arguments)
    assert result.exit_code == 1 and "P031" in result.output


def _set_clock(script: Any, seconds: Iterator[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """For the script alone: other threads read the clock, too."""
    clock = SimpleNamespace(monotonic=lambda: next(seconds), process_time=time.process_time)
    monkeypatch.setattr(script, "time", clock)


def test_floret_fills_the_time_with_passes(
    import_script: Callable[[str], Any], text: Path, tmp_path: Path, floret: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = import_script("train_floret")
    # Start; before and after a text of one word, and the probe, a 20th of the text; then; end.
    seconds = iter([0.0, 1.0, 1.5, 1.5, 2.5, 2.5, 100.0])
    _set_clock(script, seconds, monkeypatch)
    source = script.train_floret([str(text)], tmp_path, limit_s=42)
    assert [settings["epoch"] for settings in floret.asked] == [1, 1, 3]  # 39 s left, 10 s a pass
    assert (source.words, source.elapsed_s, source.limit_s) == (3 * 200 * 9, 100.0, 42)
    assert srsly.read_json(tmp_path / "floret" / "record.json") == asdict(source)
    vectors = spacy.load(tmp_path / "floret").vocab.vectors
    assert vectors.mode == "floret" and vectors.shape == (10, 3)


def test_floret_needs_its_package_and_time(
    import_script: Callable[[str], Any], text: Path, tmp_path: Path, floret: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = import_script("train_floret")
    seconds = iter([0.0, 1.0, 1.5, 1.5, 2.5, 2.5])
    _set_clock(script, seconds, monkeypatch)
    late = _invoke(script.floret_cli, text, "--output", tmp_path, "--seconds", 5)
    assert late.exit_code == 1 and "P035" in late.output
    monkeypatch.setattr(script, "find_spec", lambda name: None)
    missing = _invoke(script.floret_cli, text, "--output", tmp_path)
    assert missing.exit_code == 1 and "P034" in missing.output


def test_bilm_fills_the_time(
    import_script: Callable[[str], Any], text: Path, tmp_path: Path, tiny_bilm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = import_script("pretrain_bilm")
    called = []

    def pretrain(config: Path, run: Path, settings: Dict[str, Any]) -> None:
        called.append((config.name, settings["pretraining.max_tokens"]))
        shutil.copytree(tiny_bilm, run / "model-last")
        rows = [{"n_tokens": n, "tokens_per_s": 50.0} for n in (8, called[-1][1] + 2)]
        srsly.write_jsonl(run / "log.jsonl", rows)

    monkeypatch.setattr(script, "call_pretrain", pretrain)
    clock = iter([0.0, 40.0, 130.0, 0.0, 40.0])  # start, after the probe, end; the same without time left
    monkeypatch.setattr(script, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    source = script.pretrain_bilm([str(text)], tmp_path, limit_s=140)
    assert called == [("pretrain_en_elmo_sm.cfg", 200_000), ("pretrain_en_elmo_sm.cfg", 4850)]  # 0.97 * 100 s * 50
    assert (source.words, source.elapsed_s, source.limit_s, source.kind) == (4852, 130.0, 140, "bilm")
    assert source.digest == digest_bilm(tiny_bilm)
    assert import_script("alternatives").load_source(tmp_path, "bilm", "elmo_ner.cfg") == asdict(source)
    kept = _invoke(script.bilm_cli, text, "--output", tmp_path, "--skip-complete")
    assert "complete, kept" in " ".join(kept.output.split()) and len(called) == 2
    late = _invoke(script.bilm_cli, text, "--output", tmp_path, "--seconds", 30, "--force")
    assert late.exit_code == 1 and "P036" in late.output


@pytest.mark.slow
def test_timed_bilm_is_that_of_the_run(import_script: Callable[[str], Any], text: Path, tmp_path: Path) -> None:
    experiments, script = import_script("paper_experiments"), import_script("paper_run")
    import_script("prepare_data").prepare("sample", tmp_path / "corpus")
    pretraining = import_script("pretrain_bilm")
    pretraining.PROBE_TOKENS = 200
    small = import_script("read_config").CONFIG_DIR / "pretrain_small_text.cfg"
    source = pretraining.pretrain_bilm([str(text)], tmp_path, limit_s=30, config=small)
    run = experiments.Run("sample", "sample", "elmo-timed", "elmo_ner.cfg", source="bilm")
    options = experiments.Options(max_steps=1, alternatives=tmp_path)
    result = script.run_experiment(run, 0, tmp_path / "corpus", options, pipeline_dir=tmp_path / "kept")
    assert result["settings"]["bilm"] is None and result["settings"]["source"]["digest"] == source.digest
    assert spacy.load(tmp_path / "kept").get_pipe("elmo").model.get_dim("nO") == 128  # en_elmo_sm has 256


@pytest.mark.slow
def test_both_alternatives_train_in_the_same_network(
    import_script: Callable[[str], Any], text: Path, tmp_path: Path, floret: Any
) -> None:
    experiments, script = import_script("paper_experiments"), import_script("paper_run")
    import_script("prepare_data").prepare("sample", tmp_path / "corpus")
    options = experiments.Options(max_steps=1, alternatives=tmp_path)
    baseline = experiments.Run("sample", "sample", "baseline", "baseline_ner.cfg")
    pretrained = import_script("pretrain_tok2vec").pretrain_tok2vec([str(text)], baseline.config, tmp_path, limit_s=1)
    import_script("train_floret").train_floret([str(text)], tmp_path, limit_s=60)
    assert pretrained.words > 0
    for source in ("tok2vec", "floret"):
        run = replace(baseline, condition=source, source=source)
        result = script.run_experiment(run, 0, tmp_path / "corpus", options)
        assert result["settings"]["source"]["kind"] == source and str(tmp_path) not in str(result["settings"])


@pytest.mark.slow
def test_pretrained_weights_are_those_that_training_starts_from(
    import_script: Callable[[str], Any], text: Path, tmp_path: Path
) -> None:
    experiments, script = import_script("paper_experiments"), import_script("paper_run")
    import_script("pretrain_tok2vec").pretrain_tok2vec([str(text)], "baseline_ner.cfg", tmp_path, limit_s=1)
    tokens = []
    for condition in ("baseline", "tok2vec"):
        (run,) = [run for run in experiments.EXPERIMENTS["alternatives-wnut17"] if run.condition == condition]
        options = experiments.Options(alternatives=tmp_path)
        script.make_config(run, options).to_disk(tmp_path / "run.cfg")
        overrides = script.make_overrides(run, 0, tmp_path, tmp_path, options)
        nlp = _initialize(script.Config().from_disk(tmp_path / "run.cfg", overrides=overrides), tmp_path)
        tokens.append(_encode(nlp))
    assert not numpy.allclose(tokens[0], tokens[1])
    nlp.get_pipe("tok2vec").model.from_disk(tmp_path / "tok2vec-ner" / "model-last.bin")
    assert numpy.array_equal(_encode(nlp), tokens[1])


def _encode(nlp: Any) -> Any:
    """The vectors of the tok2vec, which is a component of its own or the first layers of the NER."""
    is_shared = "tok2vec" in nlp.pipe_names
    tok2vec = nlp.get_pipe("tok2vec").model if is_shared else nlp.get_pipe("ner").model.get_ref("tok2vec").layers[0]
    return tok2vec.predict([nlp.make_doc("The bank")])[0]


def _initialize(config: Any, folder: Path) -> Any:
    from spacy.tokens import Doc, DocBin
    from spacy.training.initialize import init_nlp

    docs = [Doc(spacy.blank("en").vocab, words=["The", "Thames"], ents=["O", "B-location"])]
    for split in ("train", "dev"):
        DocBin(docs=docs).to_disk(folder / f"{split}.spacy")
    return init_nlp(config.interpolate())
