"""Provenance of a biLM on disk, for formats of any kind."""

import hashlib
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from reference.seeded_weights import make_arrays, make_options, write_model

import spacy_elmo.weights.formats
from spacy_elmo.weights.formats import NATIVE
from spacy_elmo.weights.identity import read_provenance
from spacy_elmo.weights.sources import Source


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


@dataclass(frozen=True)
class Nested:
    """The result of a format's `detect`, with files in fields of several kinds."""

    first: Source
    rest: Any


@pytest.mark.issue(17)
@pytest.mark.parametrize("is_opaque", [False, True])
def test_files_of_any_format_are_found(
    is_opaque: bool, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "options.json.part").write_text("incomplete")
    (folder / ".hidden").write_text("hidden")
    (folder / "a.dic").write_text("a")
    nested = Nested(Source(folder / "options.json"), [{"a": folder / "a.dic"}, 3, None])
    other = replace(NATIVE, name="other", detect=lambda path: object() if is_opaque else nested)
    monkeypatch.setattr(spacy_elmo.weights.formats, "FORMATS", (other,))
    found = read_provenance(folder)
    names = ["a.dic", "options.json"] + (["weights.hdf5"] if is_opaque else [])
    assert found.format == "other" and [Path(file.name).name for file in found.files] == names
