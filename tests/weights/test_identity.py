"""The digest of weights follows their bytes, and nothing beside them."""

import hashlib
from pathlib import Path

import pytest

from spacy_elmo.weights.identity import digest_bilm

CONTENT = b"weights"


def test_digest_is_that_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "weights.hdf5").write_bytes(CONTENT)
    (tmp_path / "options.json").write_text("{}")
    wanted = hashlib.sha256(CONTENT).hexdigest()[:12]
    assert digest_bilm(tmp_path) == digest_bilm(str(tmp_path / "weights.hdf5")) == wanted
    (tmp_path / "options.json").write_text('{"changed": true}')
    assert digest_bilm(tmp_path) == wanted


def test_digest_of_several_files_depends_on_their_names_and_contents(tmp_path: Path) -> None:
    for name in ("a.pkl", "b.pkl"):
        (tmp_path / name).write_bytes(CONTENT)
    first = digest_bilm(tmp_path)
    (tmp_path / "b.pkl").rename(tmp_path / "c.pkl")
    renamed = digest_bilm(tmp_path)
    (tmp_path / "c.pkl").write_bytes(b"other")
    assert len({first, renamed, digest_bilm(tmp_path)}) == 3


def test_packaged_weights_have_a_digest() -> None:
    assert len(digest_bilm("en_elmo_sm")) == 12


def test_missing_weights_are_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match="EL370"):
            digest_bilm(path)
