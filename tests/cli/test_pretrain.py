"""`elmo pretrain`: from a config and a text to a model."""

import os
import signal
from pathlib import Path

import pytest
import srsly
import torch
from thinc.api import Config
from typer.testing import CliRunner

from spacy_elmo import load_bilm
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.cli._app import app
from spacy_elmo.pretraining.config import PretrainConfig
from spacy_elmo.pretraining.run import Pretraining

CONFIGS = Path(__file__).parents[2] / "configs"
CONFIG = CONFIGS / "pretrain_en_elmo_sm.cfg"
SMALL = [
    *("--pretraining.batch_size", "4", "--pretraining.unroll_steps", "8", "--pretraining.max_tokens", "320"),
    *("--pretraining.eval_every", "5", "--pretraining.softmax.kind", "full", "--pretraining.precision", "float32"),
    *("--bilm.char_cnn.filters", "[[1,4],[2,8]]", "--bilm.cell_width", "16", "--bilm.projection_width", "8"),
]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "corpus" / "text.txt"
    path.parent.mkdir()
    path.write_text("the cat sat on the mat .\nthe mat was under the cat .\n" * 30, encoding="utf8")
    return path


def _run(*arguments):
    return CliRunner().invoke(app, ["pretrain", *(str(argument) for argument in arguments)])


def test_pretrain_writes_a_model_that_knows_its_origin(text, tmp_path):
    output = tmp_path / "out"
    result = _run(CONFIG, output, "--paths.train", text.parent, "--paths.valid", text, *SMALL)
    assert result.exit_code == 0, result.output
    bilm = load_bilm(output / "model-last")
    assert bilm.meta["name"] == "en_elmo_sm" and bilm.meta["training"]["corpus"] == ["text.txt"]
    assert bilm.config.cell_width == 16 and "cat" in bilm.vocabulary
    assert [row["step"] for row in srsly.read_jsonl(output / "log.jsonl")] == [5, 10]
    assert (output / "model-best").is_dir() and "Forward" in result.output


@pytest.mark.parametrize(
    "change, message",
    [
        (["--paths.train", "no/such.txt"], "There are no texts"),
        (["--pretraining.optimizer.lern_rate", "1"], "did you mean learn_rate?"),
        (["--corpus.langs", "en"], "did you mean lang?"),
        (["--paths.train", "-"], "is '-' (stdin)"),
        (["--pretraining.softmax.n_negatives", "99999", "--pretraining.softmax.kind", "sampled"], "distinct negatives"),
        (["--bilm.cell_width", "0"], "cell_width"),
        (["--optimizer.name", "Adam"], "optimizer"),
        (["--gpu-id", "99"], "99"),
        (["--corpus.lang", "qq"], "--corpus.lang"),
        (["--pretraining.unroll_steps", "2.5", "--vocabulary.n_words", "all"], "have a wrong type"),
        (["--pretraning.batch_size", "4"], "did you mean pretraining?"),
        (["--paths.vocab", "nope.txt"], "does not exist"),
        (["--pretraining.optimizer.sparse", "true"], "no gradient would be sparse"),
    ],
)
def test_errors_are_shown_before_anything_is_written(text, tmp_path, change, message):
    result = _run(CONFIG, tmp_path / "out", "--paths.train", text, "--paths.valid", text, *SMALL, *change)
    assert result.exit_code == 1 and message in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()


def test_an_output_below_a_file_is_an_error_at_once(text, tmp_path):
    result = _run(CONFIG, text / "out", "--paths.train", text, "--paths.valid", text, *SMALL)
    assert result.exit_code == 1 and "EL178" in " ".join(result.output.split())
    assert "Counting" not in result.output


@pytest.mark.parametrize("name", ["pretrain_en_elmo_sm.cfg", "pretrain_small_text.cfg"])
def test_config_names_every_setting(name):
    config = Config().from_disk(CONFIGS / name)
    assert BiLMConfig.from_dict(config["bilm"]).to_dict() == {**config["bilm"], "n_words": None}
    assert PretrainConfig.from_dict(config["pretraining"]).to_dict() == config["pretraining"]


def test_a_stopped_run_resumes(text, tmp_path):
    """The log of a run that was made longer is that of a run that was long from the start."""
    paths = ["--paths.train", text, "--paths.valid", text, *SMALL, "--pretraining.schedule.name", "constant"]
    assert _run(CONFIG, tmp_path / "a", *paths, "--pretraining.checkpoint_every", "1").exit_code == 0
    result = _run(CONFIG, tmp_path / "a", *paths, "--pretraining.max_tokens", "640", "--resume")
    assert result.exit_code == 0 and "Resumed at step 10" in result.output, result.output
    assert _run(CONFIG, tmp_path / "b", *paths, "--pretraining.max_tokens", "640").exit_code == 0
    first, second = (list(srsly.read_jsonl(tmp_path / name / "log.jsonl")) for name in "ab")
    assert [row["loss"] for row in first] == [row["loss"] for row in second] and len(first) == 4


@pytest.fixture
def stopped(text, tmp_path):
    """A run with a checkpoint, and the command that goes on with it."""
    command = [CONFIG, tmp_path / "run", "--paths.train", text, "--paths.valid", text, *SMALL]
    assert _run(*command).exit_code == 0
    return [*command, "--pretraining.max_tokens", "640", "--resume"]


def test_a_resumed_run_does_not_count_its_words_again(stopped):
    result = _run(*stopped)
    assert result.exit_code == 0 and "Counting" not in result.output, result.output


@pytest.mark.parametrize(
    "change, message",
    [
        (["--corpus.lang", "en"], "corpus.lang: None then, en now"),
        (["--vocabulary.n_words", "3"], "vocabulary.n_words: 30000 then, 3 now"),
        (["--paths.valid", "other.txt"], "held-out text: 60 sentences with sha256"),
        (["--paths.train", "text.txt"], " bytes then, 4 bytes now"),
    ],
    ids=["corpus", "vocabulary", "valid", "train"],
)
def test_another_text_cannot_be_resumed(stopped, tmp_path, monkeypatch, change, message):
    monkeypatch.chdir(tmp_path)
    Path("other.txt").write_text("the mat sat .\n" * 60)
    Path("text.txt").write_text("cat\n")
    result = _run(*stopped, *change)
    assert result.exit_code == 1 and "EL156" in " ".join(result.output.split()), result.output
    told = " ".join(result.output.split())
    assert message in told and "version of spacy-elmo" in told and "--paths.init" in told


def test_going_on_from_another_bilm(text, tmp_path):
    paths = ["--paths.train", text, "--paths.valid", text, *SMALL]
    assert _run(CONFIG, tmp_path / "a", *paths).exit_code == 0
    result = _run(CONFIG, tmp_path / "b", *paths, "--paths.init", tmp_path / "a" / "model-last")
    assert result.exit_code == 0, result.output
    first, second = (list(srsly.read_jsonl(tmp_path / name / "log.jsonl")) for name in "ab")
    assert second[-1]["forward"] < first[-1]["forward"]
    other = tmp_path / "words.txt"
    other.write_text("<S>\n</S>\n<UNK>\nmat\n")
    result = _run(CONFIG, tmp_path / "c", *paths, "--paths.init", tmp_path / "a" / "model-last", "--paths.vocab", other)
    assert result.exit_code == 1 and "new_head" in result.output
    result = _run(
        *(CONFIG, tmp_path / "c", *paths, "--paths.init", tmp_path / "a" / "model-last", "--paths.vocab", other),
        *("--vocabulary.new_head", "true"),
    )
    assert result.exit_code == 0, result.output
    assert load_bilm(tmp_path / "c" / "model-last").vocabulary.words == ["<S>", "</S>", "<UNK>", "mat"]
    result = _run(CONFIG, tmp_path / "d", *paths, "--paths.init", tmp_path / "a" / "model-last", "--bilm.n_layers", "1")
    assert result.exit_code == 1 and "n_layers: 1 in the block, 2 in the biLM" in " ".join(result.output.split())


def test_the_curve_is_drawn_from_the_log(text, tmp_path):
    pytest.importorskip("matplotlib")
    result = _run(CONFIG, tmp_path / "out", "--paths.train", text, "--paths.valid", text, *SMALL)
    assert result.exit_code == 0
    assert (tmp_path / "out" / "perplexity.png").read_bytes().startswith(b"\x89PNG")


def test_what_was_read_is_reported(text, tmp_path):
    raw = tmp_path / "raw.txt"
    raw.write_bytes(b"The cat sat. It slept!\n\nA \xff mat.\n" * 20)
    result = _run(
        *(CONFIG, tmp_path / "out", "--paths.train", raw, "--paths.valid", raw, *SMALL),
        *("--corpus.lang", "en", "--corpus.running_text", "true"),
    )
    assert result.exit_code == 0, result.output
    output = " ".join(result.output.split())
    last = list(srsly.read_jsonl(tmp_path / "out" / "log.jsonl"))[-1]
    assert f"Read {last['read']['n_tokens']:,} tokens in" in output and last["n_dropped"] >= 0
    assert f"{last['read']['n_empty']:,} empty lines or texts skipped" in output
    assert f"{last['read']['n_undecodable']:,} invalid UTF-8 sequences" in output
    assert load_bilm(tmp_path / "out" / "model-last").vocabulary.ids(["slept"])[0] > 2


@pytest.mark.parametrize("n_reports, next_start", [(0, "starts again"), (1, "resumes from")])
def test_ctrl_c_tells_what_was_read_and_how_to_go_on(text, tmp_path, monkeypatch, n_reports, next_start):
    reports = Pretraining.reports

    def interrupted(run):
        for number, report in enumerate(reports(run)):
            if number == n_reports:
                raise KeyboardInterrupt
            yield report

    monkeypatch.setattr(Pretraining, "reports", interrupted)
    result = _run(CONFIG, tmp_path / "out", "--paths.train", text, "--paths.valid", text, *SMALL)
    output = " ".join(result.output.split())
    assert result.exit_code == 1 and "Stopped at step" in output and "tokens in" in output
    assert f"The same command with --resume {next_start}" in output


@pytest.mark.issue(15)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_before_the_first_checkpoint_loses_nothing(text, tmp_path, monkeypatch, number):
    """The run that is stopped by it and resumed is the run that was never stopped, to the last bit."""
    command = [CONFIG, "--paths.train", text, "--paths.valid", text, *SMALL, "--pretraining.dropout", "0.1"]
    command += ["--pretraining.report_every", "1"]
    before = signal.getsignal(number)
    assert _run(command[0], tmp_path / "whole", *command[1:]).exit_code == 0
    reports = Pretraining.reports

    def interrupted(run):
        for report in reports(run):
            if report.step == 3:
                os.kill(os.getpid(), number)
            yield report

    with monkeypatch.context() as patch:
        patch.setattr(Pretraining, "reports", interrupted)
        result = _run(command[0], tmp_path / "parts", *command[1:])
    assert result.exit_code == 1 and "Stopped at step 3" in result.output
    assert [path.name for path in (tmp_path / "parts" / "checkpoints").glob("step-*")] == ["step-00000003"]
    assert _run(command[0], tmp_path / "parts", *command[1:], "--resume").exit_code == 0
    assert signal.getsignal(number) is before
    rows = [list(srsly.read_jsonl(tmp_path / name / "log.jsonl")) for name in ("whole", "parts")]
    losses = [[(row["loss"], row.get("forward")) for row in found] for found in rows]
    assert losses[0] == losses[1]
    first, second = (load_bilm(tmp_path / name / "model-last").network.state_dict() for name in ("whole", "parts"))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.issue(15)
def test_a_second_ctrl_c_stops_at_once(text, tmp_path, monkeypatch):
    def interrupted(run):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        yield from ()

    monkeypatch.setattr(Pretraining, "reports", interrupted)
    result = _run(CONFIG, tmp_path / "out", "--paths.train", text, "--paths.valid", text, *SMALL)
    assert result.exit_code == 1 and "starts again" in " ".join(result.output.split())


@pytest.mark.issue(15)
def test_without_a_terminal_every_report_is_a_row(text, tmp_path):
    result = _run(
        *(CONFIG, tmp_path / "out", "--paths.train", text, "--paths.valid", text, *SMALL),
        *("--pretraining.report_every", "1"),
    )
    rows = [line.split() for line in result.stdout.splitlines() if line[:8].strip().isdecimal()]
    assert [int(row[0]) for row in rows] == list(range(1, 11))
    assert rows[0][3:6] == ["-", "-", "-"] and rows[4][5] == "0.0%"


@pytest.mark.issue(15)
def test_a_small_text_with_the_settings_of_a_large_one_is_told(text, tmp_path):
    settings = [*SMALL, "--pretraining.max_passes", "1", "--pretraining.eval_every", "100"]
    raw = tmp_path / "raw.txt"
    raw.write_text("The cat sat.\n" * 30, encoding="utf8")
    result = _run(CONFIG, tmp_path / "a", "--paths.train", raw, "--paths.valid", raw, *settings)
    told = " ".join(result.stderr.split())
    assert result.exit_code == 0 and all(part in told for part in ("warm-up of the learning rate", "WL102", "WL103"))
    fitting = ["--vocabulary.n_words", "5", "--pretraining.schedule.warmup_steps", "1"]
    result = _run(CONFIG, tmp_path / "b", "--paths.train", text, "--paths.valid", text, *settings, *fitting)
    assert result.exit_code == 0 and "⚠" not in result.stderr


@pytest.mark.issue(15)
@pytest.mark.parametrize("words, is_told", [("the cat sat on mat . was under", True), ("the cat", False)])
def test_a_vocabulary_file_with_all_words_of_the_text_is_told(words, is_told, text, tmp_path):
    vocab = tmp_path / "words.txt"
    vocab.write_text("\n".join(["<S>", "</S>", "<UNK>", *words.split()]) + "\n", encoding="utf8")
    paths = ["--paths.train", text, "--paths.valid", text, "--paths.vocab", vocab]
    result = _run(CONFIG, tmp_path / "a", *paths, *SMALL)
    assert result.exit_code == 0 and ("WL102" in result.stderr) is is_told


@pytest.mark.issue(15)
def test_options_of_the_text_are_those_of_the_other_commands(text, tmp_path, monkeypatch):
    found = {}
    monkeypatch.setattr("spacy_elmo.cli.pretrain.make_run", lambda config, *_, **__: found.update(config) or 1 / 0)
    _run(CONFIG, tmp_path / "a", "--lang", "en", "--running-text", "--format", "text", "--meta.name", "it")
    assert found["corpus"] == {"format": "text", "lang": "en", "running_text": True} and found["meta"]["name"] == "it"
    _run(CONFIG, tmp_path / "a", "-l", "en", "--corpus.lang", "de")
    assert found["corpus"] == {"format": "auto", "lang": "de", "running_text": False}


def test_a_forward_model_has_no_backward_perplexity(text, tmp_path):
    forward = ("--bilm.directions", "forward")
    result = _run(CONFIG, tmp_path / "out", "--paths.train", text, "--paths.valid", text, *SMALL, *forward)
    assert result.exit_code == 0 and "nan" not in result.output
    assert [row["backward"] for row in srsly.read_jsonl(tmp_path / "out" / "log.jsonl")] == [None, None]
