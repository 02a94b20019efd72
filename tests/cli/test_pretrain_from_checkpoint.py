"""`elmo pretrain --paths.init` with a training checkpoint of bilm-tf, and the commands that read one."""

from pathlib import Path

import numpy as np
import pytest
import torch
from cli.calls import call, call_json, told
from reference.seeded_weights import make_arrays, make_options, make_softmax
from reference.tensorflow_files import write_checkpoint

from spacy_elmo import load_bilm
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
    call(*arguments(text, checkpoint, tmp_path / "out"))
    bilm = load_bilm(tmp_path / "out" / "model-last")
    assert bilm.meta["init"]["meta"]["n_updates"] == 7
    assert all(torch.isfinite(parameter).all() for parameter in bilm.network.parameters())
    call(*arguments(text, checkpoint, tmp_path / "out", max_tokens=32), "--resume")
    without = arguments(text, checkpoint, tmp_path / "2", **{"optimizer.init_accumulators": False})
    assert "has Adagrad's accumulators" in told(*without)
    assert not torch.equal(load_bilm(tmp_path / "2" / "model-last").head.weight, bilm.head.weight)


def test_accumulators_that_cannot_be_taken_over(model, checkpoint, text, tmp_path):
    options, arrays = model
    plain = write_checkpoint(tmp_path / "plain", options, arrays, WORDS)
    sums = {name: np.ones_like(array) for name, array in arrays.items() if name != "softmax/b"}
    sums["char_embed"] = np.zeros_like(sums["char_embed"])
    wrong = write_checkpoint(tmp_path / "wrong", options, arrays, WORDS, accumulators=sums)
    shown = told(*arguments(text, plain, tmp_path / "out"), code=1)
    assert "no variables that end in '/Adagrad'" in shown
    shown = told(*arguments(text, wrong, tmp_path / "out"), code=1)
    for problem in ("2 problem(s):", "- missing: softmax/b [9]", "- not positive: char_embed"):
        assert problem in shown
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match="not a TensorFlow checkpoint"):
        read_accumulators("en_elmo_sm", load_bilm(checkpoint), initial=1.0)


@pytest.mark.parametrize(
    "changes, message",
    [
        (["--vocabulary.new_head", "true"], "vocabulary.new_head makes a new softmax"),
        (["--pretraining.optimizer.name", "adam"], "init_accumulators needs name 'adagrad'"),
    ],
)
def test_settings_that_do_not_fit_accumulators(changes, message, checkpoint, text, tmp_path):
    assert message in told(*arguments(text, checkpoint, tmp_path / "out"), *changes, code=1)


def test_commands_read_a_checkpoint(checkpoint, text, tmp_path):
    path = checkpoint / "model.ckpt-7"
    assert call_json("inspect", path)["provenance"]["format"] == "tf-checkpoint"
    call("perplexity", path, text)
    call("convert", path, tmp_path / "native")
    assert (load_bilm(tmp_path / "native").head.weight == load_bilm(str(path)).head.weight).all()
