import os
import re
from pathlib import Path

import pytest
from reference.seeded_weights import make_arrays, make_options, write_model

import spacy_elmo.weights.formats.native
from spacy_elmo import files, load_bilm, save_bilm


@pytest.fixture
def other(tmp_path):
    options = make_options(lstm={"n_layers": 1})
    return load_bilm(write_model(tmp_path / "other", options, make_arrays(options)))


@pytest.mark.parametrize("kind", ["native", "bilm-tf"])
def test_save_never_overwrites_without_force(kind, bilm, other, tmp_path):
    target = tmp_path / "deep" / "er"
    save_bilm(bilm, target, format=kind)
    before = {path.name: path.read_bytes() for path in target.iterdir()}
    with pytest.raises(ValueError, match="EL025.*already a folder with files"):
        save_bilm(other, target, format=kind)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before
    save_bilm(other, target, format=kind, force=True)
    again = load_bilm(target)
    assert again.config == other.config
    assert again.head is None and again.vocabulary is None  # vocab.txt of the first model is gone
    assert [path.name for path in target.parent.iterdir()] == ["er"]


def test_save_over_another_format_leaves_one_model(bilm, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / ".DS_Store").write_bytes(b"Bud1")  # a folder with hidden files only is empty
    save_bilm(bilm, tmp_path / "model", format="bilm-tf")
    (tmp_path / "model" / "notes.txt").write_text("mine")
    save_bilm(bilm, tmp_path / "model", force=True)
    names = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert names == [".DS_Store", "config.json", "meta.json", "notes.txt", "vocab.txt", "weights.safetensors"]


@pytest.mark.parametrize(
    "names",
    [
        ["vocab.txt", "notes.txt"],
        ["options.json", "elmo_weights.hdf5"],
        ["model.ckpt-7.index", "options.json", "checkpoint"],
        ["config.json", "weights.safetensors", "model.tar.gz"],
    ],
)
@pytest.mark.parametrize("kind", ["native", "bilm-tf"])
def test_force_deletes_no_model_from_elsewhere(names, kind, bilm, tmp_path):
    folder = tmp_path / "task"
    folder.mkdir()
    for name in names:
        (folder / name).write_text(f"my {name}")
    with pytest.raises(ValueError, match=f"EL372.*'{re.escape(str(folder))}'.*Nothing is deleted"):
        save_bilm(bilm, folder, format=kind, force=True)
    assert {file.name: file.read_text() for file in folder.iterdir()} == {name: f"my {name}" for name in names}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("n_renames", [1, 2])
def test_a_kill_while_a_model_is_replaced_leaves_a_whole_one(n_renames, bilm, other, tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def die(*paths):
        raise Killed

    done, move = [], os.rename

    def rename(source, target):
        move(source, target)
        done.append(target)
        if len(done) == n_renames:
            monkeypatch.setattr(files, "heal_folder", die)  # nothing is done after a kill
            raise Killed

    target = tmp_path / "model"
    save_bilm(bilm, target)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename)
        with pytest.raises(Killed):
            save_bilm(other, target, force=True)
    assert load_bilm(target).config == (bilm if n_renames == 1 else other).config
    monkeypatch.undo()
    save_bilm(other, target, force=True)
    assert load_bilm(target).config == other.config and [path.name for path in tmp_path.glob("*model*")] == ["model"]


def test_a_folder_that_cannot_be_renamed_is_replaced_file_by_file(bilm, other, tmp_path, monkeypatch):
    def refuse(*paths):
        raise OSError(16, "Device or resource busy")

    save_bilm(bilm, tmp_path / "model")
    monkeypatch.setattr(os, "rename", refuse)
    save_bilm(other, tmp_path / "model", force=True)
    assert load_bilm(tmp_path / "model").config == other.config


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="names of open files are those of Linux")
def test_save_is_on_the_disk_before_it_has_its_name(bilm, tmp_path, monkeypatch):
    steps, move = [], os.rename
    monkeypatch.setattr(os, "fsync", lambda opened: steps.append(Path(f"/proc/self/fd/{opened}").resolve().name))
    monkeypatch.setattr(os, "rename", lambda *paths: (steps.append("rename"), move(*paths)))
    save_bilm(bilm, tmp_path / "model")
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert names < set(steps[: steps.index("rename")]) and steps[-2:] == ["rename", tmp_path.name]


def test_save_never_replaces_a_file(bilm, tmp_path):
    (tmp_path / "model").write_text("text")
    for force in (False, True):
        with pytest.raises(ValueError, match="EL025.*already a file"):
            save_bilm(bilm, tmp_path / "model", force=force)


def test_save_that_fails_leaves_nothing(bilm, tmp_path, monkeypatch):
    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(spacy_elmo.weights.formats.native, "write_vocabulary", fail)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OSError, match="model': disk full"):
        save_bilm(bilm, tmp_path / "model")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("setting", [{"format": "pickle"}, {"dtype": "int4"}])
def test_save_refuses_unknown_settings(setting, bilm, tmp_path):
    with pytest.raises(ValueError, match="but should be one of"):
        save_bilm(bilm, tmp_path / "model", **setting)
    assert not (tmp_path / "model").exists()
