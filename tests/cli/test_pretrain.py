"""`elmo pretrain`: from a config and a text to a model."""

import math
import os
import re
import shutil
import signal
from pathlib import Path

import pytest
import srsly
import torch
from cli.calls import SMALL_BILM, SMALL_RUN, as_options, call, follow, refused, told

from spacy_elmo import load_bilm
from spacy_elmo.pretraining import trainer
from spacy_elmo.pretraining.run import Pretraining
from spacy_elmo.pretraining.run_folder import list_checkpoints
from spacy_elmo.util import has_matplotlib

CONFIG = Path(__file__).parents[2] / "configs" / "pretrain_en_elmo_sm.cfg"
SMALL = as_options({**SMALL_RUN, **SMALL_BILM})


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "corpus" / "text.txt"
    path.parent.mkdir()
    path.write_text("the cat sat on the mat .\nthe mat was under the cat .\n" * 30, encoding="utf8")
    return path


def _run(output, text, *options, code=0):
    """RETURNS (str): What a run with a small model prints, in one line."""
    return told("pretrain", CONFIG, output, "--paths.train", text, "--paths.valid", text, *SMALL, *options, code=code)


def _log(output, *names):
    """RETURNS (List[Tuple]): Some columns of the log."""
    return [tuple(row.get(name) for name in names) for row in srsly.read_jsonl(output / "log.jsonl")]


def test_model_knows_its_origin(text, tmp_path):
    output = tmp_path / "out"
    assert "Forward" in told(*("pretrain", CONFIG, output, "--paths.train", text.parent, "--paths.valid", text, *SMALL))
    bilm = load_bilm(output / "model-last")
    assert bilm.meta["name"] == "en_elmo_sm" and bilm.meta["training"]["corpus"] == ["text.txt"]
    assert bilm.config.cell_width == 16 and "cat" in bilm.vocabulary
    assert _log(output, "step") == [(5,), (10,)] and (output / "model-best").is_dir()
    if has_matplotlib:
        assert (output / "perplexity.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "change, message",
    [
        ([], "cannot be a folder"),
        (["--paths.train", "no/such.txt"], "There are no texts"),
        (["--corpus.langs", "en"], "Unknown setting"),
        (["--paths.valid", "-"], "is '-' (stdin)"),
        (["--bilm.cell_width", "0"], "cell_width"),
        (["--optimizer.name", "Adam"], "optimizer"),
        (["--gpu-id", "99"], "99"),
        (["--corpus.lang", "qq"], "Set `corpus.lang`"),
        (
            ["--pretraining.unroll_steps", "2.5", "--vocabulary.n_words", "all"],
            "unroll_steps is 2.5, should be a valid integer",
        ),
        (["--paths.vocab", "nope.txt"], "'nope.txt' cannot be used as vocabulary"),
        (["--pretraining.softmax.kind", "half"], "softmax.kind is 'half', should be 'auto'"),
    ],
)
def test_errors_are_shown_before_anything_is_written(text, tmp_path, change, message):
    output = tmp_path / "out" if change else text / "out"
    assert message in _run(output, text, *change, code=1) and not output.exists()


@pytest.mark.issue(52)
def test_the_text_is_tokenized_once(text, tmp_path):
    """Also if an error follows; in a cache for several runs; again if the text or a setting of the text changes."""
    negatives = ("--pretraining.softmax.n_negatives", "99999", "--pretraining.softmax.kind", "sampled")
    assert "distinct negatives" in _run(tmp_path / "a", text, *negatives, code=1)
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["text"]
    shown = _run(tmp_path / "a", text)
    assert "tokenized before: Read 420 tokens in 60 sentences" in shown and "Tokenizing" not in shown
    assert "tokenized before" in _run(tmp_path / "a", text, "--force", "--vocabulary.n_words", "3")
    assert len(load_bilm(tmp_path / "a" / "model-last").vocabulary) == 6
    cache = ("--paths.cache", tmp_path / "cache")
    assert "Tokenizing" in _run(tmp_path / "b", text, *cache) and not (tmp_path / "b" / "text").exists()
    assert "tokenized before" in _run(tmp_path / "c", text, *cache)
    assert "Tokenizing" in _run(tmp_path / "d", text, *cache, "--pretraining.max_sentence_tokens", "5")
    text.write_text(text.read_text() + "the end\n")
    assert "Read 422 tokens" in _run(tmp_path / "a", text, "--force") and len(list((tmp_path / "cache").iterdir())) == 2


@pytest.mark.issue(52)
def test_a_text_from_stdin_is_stored(text, tmp_path):
    command = ("pretrain", CONFIG, tmp_path / "a", "--paths.train", "-", "--paths.valid", text, *SMALL)
    assert "Read 420 tokens in 60 sentences" in told(*command, input=text.read_bytes())
    _run(tmp_path / "b", text)
    assert _log(tmp_path / "b", "loss") == _log(tmp_path / "a", "loss")
    assert "Resumed at step 10" in told(*command, "--pretraining.max_tokens", "640", "--resume", input=b"")
    assert "Read 3 tokens" in told(*command, "--force", input=b"the cat sat\n")


def test_a_run_made_longer_is_one_that_was_long_from_the_start(text, tmp_path):
    constant, longer = ("--pretraining.schedule.name", "constant"), ("--pretraining.max_tokens", "640")
    _run(tmp_path / "a", text, *constant, "--pretraining.checkpoint_every", "1")
    shown = _run(tmp_path / "a", text, *constant, *longer, "--resume")
    assert "Resumed at step 10" in shown and "Counting" not in shown
    _run(tmp_path / "b", text, *constant, *longer)
    assert _log(tmp_path / "a", "loss") == _log(tmp_path / "b", "loss") and len(_log(tmp_path / "a", "loss")) == 4


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
def test_another_text_cannot_be_resumed(text, tmp_path, monkeypatch, change, message):
    _run(tmp_path / "run", text)
    monkeypatch.chdir(tmp_path)
    Path("other.txt").write_text("the mat sat .\n" * 60)
    Path("text.txt").write_text("cat\n")
    shown = _run(tmp_path / "run", text, "--pretraining.max_tokens", "640", "--resume", *change, code=1)
    assert message in shown and "EL156" in shown and "version of spacy-elmo" in shown and "paths.init" in shown


def test_what_was_read_is_reported(text, tmp_path):
    text.write_bytes(b"The cat sat. It's late!\n\nA \xff mat.\n" * 20)
    options = ("--lang", "en", "--running-text", "--format", "text")  # as of the other commands
    shown = _run(tmp_path / "out", text, *options)
    pattern = r"Training text: Read [\d,]+ tokens in [\d,]+ sentences; (\d+) empty lines .*?; (\d+) invalid UTF-8"
    counts = re.search(pattern, shown)
    assert counts is not None and counts.groups() == ("20", "20")
    ((read, n_dropped),) = _log(tmp_path / "out", "read", "n_dropped")[-1:]
    assert read["n_empty"] >= 20 and n_dropped >= 0
    assert (load_bilm(tmp_path / "out" / "model-last").vocabulary.ids(["late", "'s"]) > 2).all()
    assert "'qq'" in _run(tmp_path / "b", text, "-l", "en", "--corpus.lang", "qq", code=1)  # its name has the last word


@pytest.mark.issue(15)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_before_the_first_checkpoint_loses_nothing(text, tmp_path, monkeypatch, number):
    """The run that is stopped by it and resumed is the run that was never stopped, to the last bit."""
    options = ("--pretraining.dropout", "0.1", "--pretraining.report_every", "1")
    before = signal.getsignal(number)
    _run(tmp_path / "whole", text, *options)
    reports = Pretraining.reports

    def interrupted(run):
        for report in reports(run):
            if report.step == 3:
                os.kill(os.getpid(), number)
            yield report

    with monkeypatch.context() as patch:
        patch.setattr(Pretraining, "reports", interrupted)
        shown = _run(tmp_path / "parts", text, *options, code=1)
    assert "Stopped at step 3" in shown and "tokens in" in shown and "with --resume resumes from" in shown
    assert [path.name for path in (tmp_path / "parts" / "checkpoints").glob("step-*")] == ["step-00000003"]
    assert "model-last' is the biLM so far" in shown
    stopped = load_bilm(tmp_path / "parts" / "model-last")
    assert stopped.meta["training"]["n_updates"] == 3 and stopped.perplexity([["the", "cat"]]).mean > 1
    _run(tmp_path / "parts", text, *options, "--resume")
    assert signal.getsignal(number) is before
    assert _log(tmp_path / "whole", "loss", "forward") == _log(tmp_path / "parts", "loss", "forward")
    first, second = (load_bilm(tmp_path / name / "model-last").network.state_dict() for name in ("whole", "parts"))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.issue(48)
def test_a_run_given_as_a_bilm_says_where_its_bilm_is(text, tmp_path):
    run = tmp_path / "run"
    _run(run, text)
    checkpoint = max((run / "checkpoints").glob("step-*"))
    places = [run, run / "checkpoints", checkpoint, checkpoint / "state.safetensors"]
    commands = [("inspect", place) for place in places]
    commands += [("perplexity", run, text), ("embed", run, text, tmp_path / "v.npz"), ("convert", run, tmp_path / "b")]
    commands += [
        ("pretrain", CONFIG, tmp_path / "c", "--paths.train", text, "--paths.valid", text, "--paths.init", run)
    ]
    for command in commands:
        assert f"EL020] No biLM at '{run}" in (shown := refused(*command)) and f"'{run / 'model-best'}' or" in shown
    shutil.rmtree(run / "model-best")
    shutil.rmtree(run / "model-last")
    for place in places:
        shown = refused("inspect", place)
        assert f"pretrain CONFIG {run} --resume" in shown and f"'{run / 'model-last'}' is written at" in shown


@pytest.mark.issue(15)
def test_a_second_ctrl_c_stops_at_once(text, tmp_path, monkeypatch):
    def interrupted(run):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        yield from ()

    monkeypatch.setattr(Pretraining, "reports", interrupted)
    assert "starts again" in _run(tmp_path / "out", text, code=1)


@pytest.mark.issue(48)
@pytest.mark.parametrize("has_units, precision", [(True, "bfloat16"), (False, "float32")])
def test_the_precision_fits_the_processor_and_is_kept_on_another_one(has_units, precision, text, tmp_path, monkeypatch):
    auto, output = ("--pretraining.precision", "auto"), tmp_path / "out"
    monkeypatch.setattr(trainer, "has_bfloat16_units", lambda device: has_units)
    shown = _run(output, text, *auto)
    assert f"Matrix products in {precision}" in shown and "emulates" not in shown
    monkeypatch.setattr(trainer, "has_bfloat16_units", lambda device: not has_units)
    shown = _run(output, text, *auto, "--pretraining.max_tokens", "640", "--resume")
    assert f"Matrix products in {precision}" in shown and ("emulates" in shown) is has_units
    assert _log(output, "precision") == [(precision,)] * 4
    assert load_bilm(output / "model-last").meta["training"]["settings"]["precision"] == precision
    assert srsly.read_json(list_checkpoints(output)[0] / "state.json")["settings"]["precision"] == precision
    for chosen in () if has_units else ("bfloat16", "float16"):
        monkeypatch.setattr(trainer, "has_bfloat16_units", lambda device: False)
        shown = _run(tmp_path / chosen, text, "--pretraining.precision", chosen)
        assert f"emulates {chosen}" in shown and "times as long" in shown


@pytest.mark.issue(15)
def test_a_small_text_with_the_settings_of_a_large_one_is_told(text, tmp_path):
    settings = ("--pretraining.max_passes", "1", "--pretraining.eval_every", "100")
    fitting = ("--vocabulary.n_words", "5", "--pretraining.schedule.warmup_steps", "1")
    longer = ("--pretraining.batch_size", "2", "--pretraining.max_passes", "14")
    assert "⚠" not in _run(tmp_path / "b", text, *settings, *fitting, *longer, "--pretraining.max_tokens", "0")
    vocab = tmp_path / "words.txt"
    vocab.write_text("\n".join(["<S>", "</S>", "<UNK>", *"the cat sat on mat . was under".split()]), encoding="utf8")
    assert "WL102" in _run(tmp_path / "c", text, "--paths.vocab", vocab)  # all words of the text
    text.write_text("The cat sat.\n" * 30, encoding="utf8")
    shown = _run(tmp_path / "a", text, *settings)
    assert all(part in shown for part in ("warm-up of the learning rate", "WL102", "WL103"))


@pytest.mark.issue(15)
@pytest.mark.issue(40)
@pytest.mark.issue(48)
def test_what_a_run_prints_without_a_terminal(text, tmp_path):
    """A row per report, warnings before it starts, the time left, and what its perplexity means with what is next."""
    paths, output = ("--paths.train", text, "--paths.valid", text), tmp_path / "out"
    settings = (*paths, *SMALL, "--pretraining.report_every", "1", "--meta.lang", "la")
    result = call("pretrain", CONFIG, output, *settings)
    rows = [line.split() for line in result.stdout.splitlines() if line[:8].strip().isdecimal()]
    assert [int(row[0]) for row in rows] == list(range(1, 11))
    assert rows[0][3:6] == ["-", "-", "-"] and rows[4][5] == "0.0%"
    assert all(":" in row[-1] for row in rows) and rows[-1][-1] == "00:00"  # time left
    assert result.stderr.index("10 updates, and") < result.stderr.index("Saved the biLM")
    places = [result.output.index(text) for text in ("Forward", "Time left at this speed", "Saved the biLM")]
    assert places == sorted(places) and result.output.count("Time left at this speed") == 1
    best = min(math.sqrt(forward * backward) for forward, backward in _log(output, "forward", "backward") if forward)
    assert f"Held-out perplexity {best:.1f}" in result.stderr
    explore, train = (line.split() for line in result.stderr.splitlines()[-2:])  # each can be copied as it is
    assert explore[:5] == ["python", "-m", "spacy", "elmo", "explore"] and explore[-1] == train[-1]
    assert load_bilm(explore[-1]).meta["lang"] == "la" and train[-4:-2] == ["--lang", "la"]
    follow(train, tmp_path)
    again = _run(tmp_path / "b", text, "--paths.init", output / "model-last")
    assert "updates, and" not in again  # it knows the language already


@pytest.mark.issue(62)
def test_next_command_is_in_a_language_that_spacy_has(text, tmp_path):
    """Maltese is none: a pipeline is one of any language, though the biLM is Maltese."""
    paths = ("--paths.train", text, "--paths.valid", text)
    result = call("pretrain", CONFIG, tmp_path / "out", *paths, *SMALL, "--meta.lang", "mt")
    train = result.stderr.splitlines()[-1].split()
    assert train[-4:-2] == ["--lang", "xx"] and load_bilm(train[-1]).meta["lang"] == "mt"
    follow(train, tmp_path)


def test_a_vocabulary_or_sizes_that_differ_from_the_initial_bilm_are_refused(text, tmp_path):
    """What comes of an initial biLM is in test_adapt.py."""
    _run(tmp_path / "a", text)
    init = ("--paths.init", tmp_path / "a" / "model-last")
    (tmp_path / "words.txt").write_text("<S>\n</S>\n<UNK>\nmat\n")
    vocab = ("--paths.vocab", tmp_path / "words.txt")
    assert "new_head" in _run(tmp_path / "c", text, *init, *vocab, code=1)
    _run(tmp_path / "c", text, *init, *vocab, "--vocabulary.new_head", "true")
    assert load_bilm(tmp_path / "c" / "model-last").vocabulary.words == ["<S>", "</S>", "<UNK>", "mat"]
    shown = _run(tmp_path / "d", text, *init, "--bilm.n_layers", "1", code=1)
    assert "n_layers: 1 in the block, 2 in the biLM" in shown
