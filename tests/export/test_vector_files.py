"""HDF5 files of `elmo embed`: the layout of AllenNLP 0.9's command, atomic, in bounded memory."""

import json
from pathlib import Path
from typing import Any, Dict, List

import h5py
import numpy as np
import pytest
from cli.calls import call
from export.running import make_bilm

from spacy_elmo import BiLM, save_bilm
from spacy_elmo.export import vector_files

LINES = ["the cat sat", "", "the cat", "the cat sat", "é \U0001f600 / a:b"]


@pytest.fixture
def bilm(tmp_path: Path) -> BiLM:
    bilm = make_bilm()
    save_bilm(bilm, tmp_path / "bilm")
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf8")
    return bilm


def _embed(folder: Path, *options: Any, name: str = "out.hdf5", code: int = 0) -> Any:
    return call("embed", folder / "bilm", folder / "in.txt", folder / name, *options, code=code)


def _read(path: Path) -> Dict[str, Any]:
    with h5py.File(path, "r") as file:
        return {name: file[name][()] for name in file}


@pytest.mark.parametrize(
    "options, choose",
    [
        ([], lambda layers: layers.mean(axis=0)),
        (["--to", "hdf5", "--store", "layers"], lambda layers: layers),
        (["--store", "top"], lambda layers: layers[-1]),
        (["--pool", "max"], lambda layers: layers.mean(axis=0).max(axis=0, initial=-9 if layers.size else 0)),
    ],
)
def test_file_has_a_dataset_per_line(bilm: BiLM, tmp_path: Path, options: List[str], choose: Any) -> None:
    _embed(tmp_path, *options)
    arrays = _read(tmp_path / "out.hdf5")
    index = json.loads(arrays.pop("sentence_to_index")[0])
    assert index == {"the cat sat": "3", "": "1", "the cat": "2", "é \U0001f600 / a:b": "4"}
    assert sorted(arrays) == ["0", "1", "2", "3", "4"]
    for number, layers in enumerate(bilm.embed([line.split() for line in LINES])):
        found, wanted = arrays[str(number)], choose(layers)
        assert found.dtype == "float32" and found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_texts_can_be_left_out_and_no_lines_give_only_the_index(bilm: BiLM, tmp_path: Path) -> None:
    _embed(tmp_path, "--forget-sentences", "--dtype", "float16", name="OUT.HDF5")
    arrays = _read(tmp_path / "OUT.HDF5")
    assert sorted(arrays) == ["0", "1", "2", "3", "4"] and arrays["0"].dtype == "float16"
    (tmp_path / "in.txt").write_text("", encoding="utf8")
    _embed(tmp_path)
    assert json.loads(_read(tmp_path / "out.hdf5")["sentence_to_index"][0]) == {}


def test_an_existing_file_is_kept_until_the_new_one_is_complete(
    bilm: BiLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _embed(tmp_path)
    before = (tmp_path / "out.hdf5").read_bytes()
    assert "EL134" in _embed(tmp_path, code=1).stderr
    monkeypatch.setattr(vector_files.Hdf5Writer, "add", lambda *_: (_ for _ in ()).throw(ValueError("stop")))
    _embed(tmp_path, "--force", code=1)
    assert (tmp_path / "out.hdf5").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bilm", "in.txt", "out.hdf5"]
