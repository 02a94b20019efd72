"""`elmo pretrain --paths.init` with a training checkpoint of bilm-tf, and the commands that read one."""

from pathlib import Path

import numpy as np
import pytest
import torch
from reference.seeded_weights import make_arrays, make_options, make_softmax
from reference.tensorflow_files import write_checkpoint
from typer.testing import CliRunner

from spacy_elmo import load_bilm
from spacy_elmo.cli._app import app
from spacy_elmo.pretraining.config import read_config
from spacy_elmo.pretraining.distributed import Ranks
from spacy_elmo.pretraining.prepare import make_run
from spacy_elmo.weights.tensorflow import read_accumulators

CONFIG = Path(__file__).parents[2] / "configs" / "adapt.cfg"
WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "on", "mat", "."]
SETTINGS = {
    **{"batch_size": 2, "unroll_steps": 4, "max_tokens": 16, "eval_every": 2, "softmax.kind": "full"},
    **{"optimizer.name": "adagrad", "optimizer.init_accumulators": True},
}


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat .\n" * 20, encoding="utf8")
    return path


@pytest.fixture
def model():
    options = make_options(lstm={"dim": 6, "projection_dim": 4}, char_cnn={"filters": [[1, 4], [2, 3]], "n_highway": 1})
    return options, {**make_arrays(options), **make_softmax(options, n_words=len(WORDS))}


@pytest.fixture
def checkpoint(model, tmp_path):
    sums = {name: 1 + np.abs(array) for name, array in model[1].items()}
    return write_checkpoint(tmp_path / "training", *model, WORDS, accumulators=sums)


def arguments(text, init, output, **changes):
    settings = {name: str(value).lower() for name, value in {**SETTINGS, **changes}.items()}
    paths = ["--paths.init", init, "--paths.train", text, "--paths.valid", text]
    options = [part for name, value in settings.items() for part in (f"--pretraining.{name}", value)]
    return ["pretrain", *map(str, (CONFIG, output, *paths, *options))]


def test_a_run_starts_with_the_accumulators(checkpoint, text, tmp_path):
    overrides = {"paths.init": str(checkpoint), "paths.train": str(text), "paths.valid": str(text)}
    overrides.update({f"pretraining.{name}": value for name, value in SETTINGS.items()})
    run = make_run(read_config(CONFIG, overrides), tmp_path / "out", Ranks())
    wanted = read_accumulators(checkpoint, load_bilm(checkpoint), initial=1.0)
    moments, _ = run.trainer.optimizer.state_dict()
    assert {name for name in moments if name.endswith(".sum")} == {f"{name}.sum" for name in wanted}
    for name, array in wanted.items():
        assert (moments[f"{name}.sum"] == torch.from_numpy(array)).all(), name
    assert (moments["network.char_cnn.embedding.sum"][0] == 1).all()  # the mask, which bilm-tf has not
    assert (moments["network.char_cnn.embedding.sum"][1:] > 1).all()


def test_pretrain_goes_on_from_a_checkpoint_and_resumes(checkpoint, text, tmp_path):
    output = tmp_path / "out"
    result = CliRunner().invoke(app, arguments(text, checkpoint, output))
    assert result.exit_code == 0, result.output
    bilm = load_bilm(output / "model-last")
    assert bilm.meta["init"]["meta"]["n_updates"] == 7
    assert all(torch.isfinite(parameter).all() for parameter in bilm.network.parameters())
    result = CliRunner().invoke(app, [*arguments(text, checkpoint, output, max_tokens=32), "--resume"])
    assert result.exit_code == 0, result.output
    without = {"optimizer.init_accumulators": False}
    fresh = CliRunner().invoke(app, arguments(text, checkpoint, tmp_path / "2", **without))
    assert "has Adagrad's accumulators" in " ".join(fresh.output.split())
    other = load_bilm(tmp_path / "2" / "model-last")
    assert not torch.equal(other.head.weight, bilm.head.weight)


def test_accumulators_that_cannot_be_taken_over(model, checkpoint, text, tmp_path):
    plain = write_checkpoint(tmp_path / "plain", *model, WORDS)
    options, arrays = model
    sums = {name: np.ones_like(array) for name, array in arrays.items() if name != "softmax/b"}
    sums["char_embed"] = np.zeros_like(sums["char_embed"])
    wrong = write_checkpoint(tmp_path / "wrong", options, arrays, WORDS, accumulators=sums)
    for init, reason in (
        (plain, "no variables that end in '/Adagrad'"),
        (wrong, r"2 problem\(s\):.*- missing: softmax/b \[9\].*- not positive: char_embed"),
        ("en_elmo_sm", "not a TensorFlow checkpoint"),
    ):
        if init == "en_elmo_sm":
            with pytest.raises(ValueError, match=f"{reason}"):
                read_accumulators(init, load_bilm(checkpoint), initial=1.0)
            continue
        result = CliRunner().invoke(app, arguments(text, init, tmp_path / "out"))
        assert result.exit_code == 1
        with pytest.raises(ValueError, match=f"(?s){reason}"):
            read_accumulators(init, load_bilm(init), initial=1.0)
        assert "accumulators cannot be taken over" in result.output and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "changes, message",
    [
        (["--vocabulary.new_head", "true"], "vocabulary.new_head makes a new softmax"),
        (["--pretraining.optimizer.name", "adam"], "init_accumulators needs name 'adagrad'"),
    ],
)
def test_settings_that_do_not_fit_accumulators(changes, message, checkpoint, text, tmp_path):
    result = CliRunner().invoke(app, [*arguments(text, checkpoint, tmp_path / "out"), *changes])
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize("name", ["", "model.ckpt-7", "model.ckpt-7.index"])
def test_commands_read_a_checkpoint(name, checkpoint, text, tmp_path):
    path = str(checkpoint / name)
    result = CliRunner().invoke(app, ["inspect", path, "--json"])
    assert result.exit_code == 0 and '"source_format":"tf-checkpoint"' in result.output
    result = CliRunner().invoke(app, ["perplexity", path, str(text), "--json"])
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(app, ["convert", path, str(tmp_path / "native")])
    assert result.exit_code == 0, result.output
    assert (load_bilm(tmp_path / "native").head.weight == load_bilm(path).head.weight).all()
