"""`elmo pretrain --paths.init` with a training checkpoint of bilm-tf, and the commands that read one."""

from pathlib import Path

import numpy as np
import pytest
import torch
from cli.calls import call, call_json
from reference.seeded_weights import make_arrays, make_options, make_softmax
from reference.tensorflow_files import write_checkpoint

from spacy_elmo import load_bilm

CONFIG = Path(__file__).parents[2] / "configs" / "adapt.cfg"
WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "on", "mat", "."]
SETTINGS = {
    **{"batch_size": 2, "unroll_steps": 4, "max_tokens": 16, "eval_every": 2, "softmax.kind": "full"},
    "optimizer.name": "adagrad",
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


def test_pretrain_goes_on_from_a_checkpoint_and_resumes(checkpoint, text, tmp_path):
    call(*arguments(text, checkpoint, tmp_path / "out"))
    bilm = load_bilm(tmp_path / "out" / "model-last")
    assert bilm.meta["init"]["meta"]["n_updates"] == 7
    assert all(torch.isfinite(parameter).all() for parameter in bilm.network.parameters())
    call(*arguments(text, checkpoint, tmp_path / "out", max_tokens=32), "--resume")


def test_commands_read_a_checkpoint(checkpoint, text, tmp_path):
    path = checkpoint / "model.ckpt-7"
    assert call_json("inspect", path)["origin"]["format"] == "tf-checkpoint"
    call("perplexity", path, text)
    call("convert", path, tmp_path / "native")
    assert (load_bilm(tmp_path / "native").head.weight == load_bilm(str(path)).head.weight).all()
