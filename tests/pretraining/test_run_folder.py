"""Checkpoints that somebody has changed, with checksums that are right again: one clear error that names the file."""

import hashlib
import json
import shutil

import pytest
import torch
from pretraining.small_run import make_run, train, write_text
from safetensors.torch import load_file, save_file

from spacy_elmo.pretraining.run_folder import CHECKSUMS, RECORD, TENSORS, list_checkpoints


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A text, and a run with one checkpoint."""
    folder = tmp_path_factory.mktemp("made")
    train(make_run(folder / "run", write_text(folder / "text.txt"), max_tokens=32 * 9, keep_checkpoints=1), 8)
    return folder


@pytest.fixture
def run_path(made, tmp_path):
    """A copy that a test may damage."""
    return shutil.copytree(made, tmp_path / "copy") / "run"


def _resume(run_path):
    """RETURNS (str): The error, which names the folder."""
    with pytest.raises(ValueError) as error:
        make_run(run_path, run_path.parent / "text.txt", max_tokens=32 * 9, keep_checkpoints=1).begin(resume=True)
    assert str(run_path) in str(error.value)
    return str(error.value)


def _sign(folder):
    sums = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in (TENSORS, RECORD)}
    (folder / CHECKSUMS).write_text(json.dumps(sums))


@pytest.mark.parametrize(
    "name, content, message",
    [
        (RECORD, "[]", "TypeError"),
        (RECORD, '{"step": 7}', "KeyError: 'n_tokens'"),
        (RECORD, "[" * 100_000, "RecursionError"),
        (RECORD, "\u00e9", "JSONDecodeError"),
        (TENSORS, "nothing", "SafetensorError"),
        (CHECKSUMS, "[" * 100_000, "RecursionError"),
        (CHECKSUMS, "[]", "TypeError"),
        (CHECKSUMS, '{"state.json": [1]}', "KeyError: 'state.safetensors'"),
    ],
    ids=["list", "keys", "deep", "text", "tensors", "deep sums", "list of sums", "other sums"],
)
def test_a_file_of_another_structure_is_told(run_path, name, content, message):
    (folder,) = list_checkpoints(run_path)
    (folder / name).write_text(content, encoding="utf8")
    if name != CHECKSUMS:
        _sign(folder)
    told = _resume(run_path)
    assert "EL129" in told and message in told


def test_tensors_of_another_model_are_told(run_path):
    (folder,) = list_checkpoints(run_path)
    # Copies: tensors of older versions are mapped from the file, which is written again below.
    whole = {name: tensor.clone() for name, tensor in load_file(folder / TENSORS).items()}
    for part in ("network", "head", "optimizer", "state", "random"):
        name = next(name for name in sorted(whole) if name.startswith(f"{part}."))
        other_shape = torch.cat([whole[name].reshape(-1)] * 3).reshape(3, -1)
        missing = {other: tensor for other, tensor in whole.items() if other != name}
        for tensors in (missing, {**whole, name: other_shape}):
            save_file(tensors, folder / TENSORS)
            _sign(folder)
            assert "does not fit this run" in _resume(run_path), name
