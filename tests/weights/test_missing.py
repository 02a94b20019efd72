"""An unknown path: one line per format says which of its files are there, and where near misses are."""

import io
import shlex
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from reference.seeded_weights import make_arrays, make_options, write_model
from reference.tensorflow_files import write_module

from spacy_elmo import load_bilm, save_bilm
from spacy_elmo.weights.formats import FORMATS, NATIVE, detect_format


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model", make_options(), make_arrays(make_options()))


def message_of(path: Path) -> str:
    with pytest.raises(ValueError, match="EL020") as error:
        detect_format(path)
    return str(error.value)


# Files at the path, and what the message says of them.
CASES = {
    "empty folder": ([], ["native: config.json is missing, weights.safetensors is missing;", "bilm-tf: *opt"]),
    "half of native": (["config.json"], ["native: config.json is there, weights.safetensors is missing;"]),
    "other half": (["weights.safetensors"], ["native: config.json is missing, weights.safetensors is there"]),
    "half of bilm-tf": (["options.json"], ["bilm-tf: options.json is there, *.hdf5 or *.h5 is missing"]),
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
    "config of AllenNLP alone": (["config.json"], ["allennlp: weights.th or best.th is missing;"]),
    "state dict of another name": (
        ["training_state_epoch_3.th"],
        ["allennlp: weights.th or best.th is missing (there is training_state_epoch_3.th: a wrong name?)"],
    ),
    "another format deeper": (
        ["elmo/options.json", "elmo/weights.h5"],
        ["*.hdf5 or *.h5 is missing, all of them are in 'elmo/'"],
    ),
}


@pytest.mark.issue(17)
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


@pytest.mark.issue(17)
def test_a_single_file_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "vectors.bin"
    path.write_bytes(b"\0" * 10)
    assert "native: 'vectors.bin' is a single file that is neither a zip nor a tar" in message_of(path)


def write_tar(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    return path


@pytest.mark.issue(17)
def test_members_of_a_tar_are_listed(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "model.tar.gz", "model/config.json", "model/vocabulary/tokens.txt")
    message = message_of(path)
    assert "it is in no known format" in message and "single file" not in message
    for text in (
        "native: config.json is there, weights.safetensors is missing;",
        "manylangs: config.json is there, token_embedder.pkl is missing, encoder.pkl is missing;",
        "allennlp: weights.th or best.th is missing;",
        "tf-hub: saved_model.pb or tfhub_module.pb is missing;",
        "bilm-tf: *options.json is missing, *.hdf5 or *.h5 is missing;",
    ):
        assert f"\n- {text}" in message
    (tmp_path / "downloaded").mkdir()
    path.rename(tmp_path / "downloaded" / "model.tar.gz")
    assert "allennlp: weights.th or best.th is missing;" in message_of(tmp_path / "downloaded")


@pytest.mark.issue(17)
@pytest.mark.parametrize("name", ["elmo 3.tar.gz", "elmo 3"])
def test_a_packed_module_of_tf_hub_is_named(name: str, tmp_path: Path) -> None:
    own = {key: array for key, array in make_arrays(make_options()).items() if not key.startswith("softmax")}
    mix = {"weights": np.zeros(3, dtype="float32"), "scaling": np.array(1, dtype="float32")}
    write_module(tmp_path / "module", own, mix)
    with tarfile.open(tmp_path / name, "w:gz") as archive:
        archive.add(tmp_path / "module", ".")
    message = message_of(tmp_path / name)
    assert "it is an archive with the files of tf-hub, which is not read in place. Unpack it" in message
    command = shlex.split(message.partition("`")[2].partition("`")[0])
    assert command[:4] == ["python", "-m", "tarfile", "-e"]
    subprocess.run([sys.executable, *command[1:]], check=True, capture_output=True)
    assert load_bilm(command[-1]).config.n_layers == 2


@pytest.mark.issue(17)
def test_a_folder_with_one_archive_is_read_as_the_archive(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "downloaded").mkdir()
    with zipfile.ZipFile(tmp_path / "downloaded" / "144.zip", "w") as archive:
        for name in ("options.json", "weights.hdf5"):
            archive.write(folder / name, name)
    (tmp_path / "downloaded" / "origin.json").write_text("{}")
    assert (load_bilm(tmp_path / "downloaded").embed([["a"]])[0] == load_bilm(folder).embed([["a"]])[0]).all()
    (tmp_path / "downloaded" / "145.zip").write_bytes(b"PK")
    assert "*options.json is missing" in message_of(tmp_path / "downloaded"), "two archives are ambiguous"


@pytest.mark.issue(17)
@pytest.mark.parametrize("name", ["config.json", "weights.safetensors"])
def test_a_file_of_a_native_folder_stands_for_it(name: str, folder: Path, tmp_path: Path) -> None:
    save_bilm(load_bilm(folder), tmp_path / "native")
    format, files = detect_format(tmp_path / "native" / name)
    assert format is NATIVE and files.folder == tmp_path / "native"


@pytest.mark.issue(17)
def test_token_embeddings_are_no_weights(folder: Path) -> None:
    (folder / "weights.hdf5").rename(folder / "token_embeddings.hdf5")
    assert "bilm-tf: options.json is there" in message_of(folder)


@pytest.mark.issue(17)
def test_options_stand_for_the_weights_beside_them(folder: Path) -> None:
    assert detect_format(folder / "options.json")[1].weights.path == folder / "weights.hdf5"
    (folder / "a_weights.hdf5").write_bytes((folder / "weights.hdf5").read_bytes())
    (folder / "a_options.json").write_bytes((folder / "options.json").read_bytes())
    assert detect_format(folder / "a_options.json")[1].weights.path == folder / "a_weights.hdf5"
    with pytest.raises(ValueError, match="EL021.*2 files with HDF5 weights.*a folder of their own"):
        detect_format(folder / "options.json")


@pytest.mark.issue(17)
def test_a_file_that_only_ends_like_a_zip_is_in_no_format(tmp_path: Path) -> None:
    """Of these bytes `zipfile.is_zipfile` says that the zip spans several disks."""
    locator = b"PK\x06\x07" + bytes([1, 0, 0, 0]) + bytes(8) + bytes([2, 0, 0, 0])
    (tmp_path / "model").write_bytes(b"text" + locator + b"PK\x05\x06" + bytes(18))
    with pytest.raises(ValueError, match="EL020.*no known format"):
        load_bilm(tmp_path / "model")
