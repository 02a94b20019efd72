"""An unknown path: one line per format says which of its files are there, and where near misses are."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from spacy_elmo import load_bilm
from spacy_elmo.weights.formats import FORMATS, detect_format


def message_of(path: Path) -> str:
    with pytest.raises(ValueError, match="EL020") as error:
        detect_format(path)
    return str(error.value)


# Files at the path, and what the message says of them.
CASES = {
    "empty folder": ([], ["native: config.json is missing, weights.safetensors is missing;", "bilm-tf: *opt"]),
    "half of native": (["config.json"], ["native: config.json is there, weights.safetensors is missing;"]),
    "weights alone": (["a.hdf5"], ["bilm-tf: *options.json is missing, a.hdf5 is there"]),
    "wrong name": (
        ["config.json", "model.safetensors"],
        ["weights.safetensors is missing (there is model.safetensors: a wrong name?)"],
    ),
    "misspelled": (["confg.json"], ["config.json is missing (there is confg.json: a wrong name?)"]),
    "one folder deeper": (
        ["inner/config.json", "inner/weights.safetensors", "inner/notes.txt"],
        ["all of them are in 'inner/': pass '{path}/inner' instead"],
    ),
    "state dict of another name": (
        ["training_state_epoch_3.th"],
        ["allennlp: weights.th or best.th is missing (there is training_state_epoch_3.th: a wrong name?)"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_folder_that_is_no_model(case: str, tmp_path: Path) -> None:
    files, texts = CASES[case]
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    message = message_of(tmp_path)
    assert all(f"\n- {format.name}: " in message for format in FORMATS)
    for text in texts:
        assert text.format(path=tmp_path) in message


def test_members_of_a_tar_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "model.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("model/config.json", "model/vocabulary/tokens.txt"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    message = message_of(path)
    assert "it is in no known format" in message and "single file" not in message
    for text in (
        "native: config.json is there, weights.safetensors is missing;",
        "allennlp: weights.th or best.th is missing;",
    ):
        assert f"\n- {text}" in message


def test_a_folder_with_one_archive_is_read_as_the_archive(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "downloaded").mkdir()
    with zipfile.ZipFile(tmp_path / "downloaded" / "144.zip", "w") as archive:
        for name in ("options.json", "weights.hdf5"):
            archive.write(folder / name, name)
    (tmp_path / "downloaded" / "origin.json").write_text("{}")
    assert (load_bilm(tmp_path / "downloaded").embed([["a"]])[0] == load_bilm(folder).embed([["a"]])[0]).all()
    (tmp_path / "downloaded" / "145.zip").write_bytes(b"PK")
    assert "*options.json is missing" in message_of(tmp_path / "downloaded"), "two archives are ambiguous"


def test_options_stand_for_the_weights_beside_them(folder: Path) -> None:
    (folder / "a_weights.hdf5").write_bytes((folder / "weights.hdf5").read_bytes())
    (folder / "a_options.json").write_bytes((folder / "options.json").read_bytes())
    assert detect_format(folder / "a_options.json")[1].weights.path == folder / "a_weights.hdf5"
    with pytest.raises(ValueError, match="EL021.*2 files with HDF5 weights.*a folder of their own"):
        detect_format(folder / "options.json")
