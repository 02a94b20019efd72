"""Checkpoints that somebody has changed, with checksums that are right again: one clear error, or a run that works."""

import copy
import hashlib
import json
import random

import pytest
import torch
from pretraining.small_run import make_run, write_text
from safetensors.torch import load_file, save_file

from spacy_elmo.pretraining.checkpoint import CHECKSUMS, RECORD, TENSORS, list_checkpoints

OTHERS = [None, True, -1, 10**9, 0.5, "", "word", [], [1], [["a"]], {}, {"a": 1}]


@pytest.fixture
def run_path(tmp_path):
    """A run with one checkpoint."""
    run = make_run(tmp_path / "run", write_text(tmp_path / "text.txt"), max_tokens=32 * 9, keep_checkpoints=1)
    run.begin()
    for report in run.reports():
        if report.step == 8:
            break
    return tmp_path / "run"


def _resume(run_path):
    """RETURNS (str): The error, empty if there is none. Errors other than a ValueError are raised."""
    try:
        run = make_run(run_path, run_path.parent / "text.txt", max_tokens=32 * 9, keep_checkpoints=1)
        run.begin(resume=True)
        next(run.reports())
    except ValueError as error:
        return str(error)
    return ""


def _sign(folder):
    sums = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in (TENSORS, RECORD)}
    (folder / CHECKSUMS).write_text(json.dumps(sums))


def _places(value, path=()):
    """All places within a record."""
    found = [path] if path else []
    if isinstance(value, dict):
        found += [place for key, inner in value.items() for place in _places(inner, (*path, key))]
    elif isinstance(value, list) and value:
        found += [place for i in {0, len(value) - 1} for place in _places(value[i], (*path, i))]
    return found


def _change(record, chance):
    *path, last = chance.choice(_places(record))
    inner = record
    for key in path:
        inner = inner[key]
    if chance.random() < 0.3:
        del inner[last]
    else:
        inner[last] = copy.deepcopy(chance.choice(OTHERS))


@pytest.mark.issue(15)
@pytest.mark.parametrize(
    "content, message",
    [
        ("[]", "should be an object"),
        ('{"step": 7}', "state.n_tokens is missing"),
        ("null", "should be an object"),
        ("[" * 100_000, "cannot be read"),
        ("\u00e9", "cannot be read"),
    ],
    ids=["list", "keys", "null", "deep", "text"],
)
def test_a_record_of_another_shape_is_told_with_its_path(run_path, content, message):
    (folder,) = list_checkpoints(run_path)
    (folder / RECORD).write_text(content, encoding="utf8")
    _sign(folder)
    told = _resume(run_path)
    assert "EL129" in told and str(run_path) in told and message in told


@pytest.mark.issue(15)
def test_checksums_of_another_shape_are_told(run_path):
    (folder,) = list_checkpoints(run_path)
    for content in ("[" * 100_000, "[]", '{"state.json": [1]}'):
        (folder / CHECKSUMS).write_text(content)
        assert "EL129" in _resume(run_path)


def _fuzz_records(run_path, n_times):
    (folder,) = list_checkpoints(run_path)
    whole = (folder / RECORD).read_text(encoding="utf8")
    n_refused = 0
    for seed in range(n_times):
        record, chance = json.loads(whole), random.Random(seed)
        for _ in range(chance.randint(1, 3)):
            _change(record, chance)
        folder.mkdir(exist_ok=True)
        (folder / RECORD).write_text(json.dumps(record), encoding="utf8")
        _sign(folder)
        n_refused += bool(_resume(run_path))
    return n_refused


@pytest.mark.issue(15)
def test_changed_records_give_clear_errors(run_path):
    assert _fuzz_records(run_path, 25) > 10


@pytest.mark.slow
@pytest.mark.issue(15)
def test_many_changed_records_give_clear_errors(run_path):
    assert _fuzz_records(run_path, 400) > 200


@pytest.mark.issue(15)
def test_changed_tensors_give_clear_errors(run_path):
    (folder,) = list_checkpoints(run_path)
    whole = load_file(folder / TENSORS)
    names = sorted(whole)
    changes = {
        "gone": lambda tensor: None,
        "longer": lambda tensor: torch.cat([tensor.reshape(-1), tensor.reshape(-1)]),
        "float": lambda tensor: tensor.double(),
        "large": lambda tensor: torch.full_like(tensor, 120),
    }
    for kind, change in changes.items():
        for name in random.Random(0).sample(names, 4) + [name for name in names if name.startswith("lanes.")]:
            tensors = {**whole, name: change(whole[name])}
            save_file({key: tensor for key, tensor in tensors.items() if tensor is not None}, folder / TENSORS)
            _sign(folder)
            told = _resume(run_path)
            assert told or kind in ("float", "large"), (kind, name)
    (folder / TENSORS).write_bytes(b"nothing")
    _sign(folder)
    assert "EL129" in _resume(run_path)
