"""Provenance of a biLM on disk, for formats of any kind."""

import hashlib
import zipfile
from pathlib import Path

import pytest
from reference.seeded_weights import make_arrays, make_options, write_model

from spacy_elmo.weights.identity import read_provenance


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model", make_options(), make_arrays(make_options()))


@pytest.mark.issue(17)
def test_a_zip_is_one_file(folder: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "144.zip", "w") as archive:
        for name in ("options.json", "weights.hdf5"):
            archive.write(folder / name, name)
    found = read_provenance(tmp_path / "144.zip")
    assert [file.name for file in found.files] == [str(tmp_path / "144.zip")]
    assert found.format == "bilm-tf" and found.origin is None
    content = (tmp_path / "144.zip").read_bytes()
    assert found.files[0].sha256 == hashlib.sha256(content).hexdigest() and found.n_bytes == len(content)


@pytest.mark.issue(17)
def test_packaged_model_is_found() -> None:
    found = read_provenance("en_elmo_sm")
    assert found.format == "native" and "weights.safetensors" in {Path(file.name).name for file in found.files}
