"""Digests of files follow their bytes, those of biLMs the weights; the origin lists files."""

import hashlib
import pickle
import zipfile
from pathlib import Path

import pytest

from spacy_elmo.inference import products
from spacy_elmo.pipeline.model import make_random_bilm
from spacy_elmo.weights.contents import hash_weights, read_origin
from spacy_elmo.weights.formats.native import bilm_from_bytes, bilm_to_bytes

CONTENT = b"weights"
BILM = {
    "char_cnn": {"embedding_width": 4, "filters": [[1, 8], [2, 8]], "n_highway": 1},
    "n_layers": 2,
    "cell_width": 16,
    "projection_width": 8,
}


def test_digest_is_that_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "weights.hdf5").write_bytes(CONTENT)
    (tmp_path / "options.json").write_text("{}")
    wanted = hashlib.sha256(CONTENT).hexdigest()[:12]
    assert hash_weights(tmp_path) == hash_weights(str(tmp_path / "weights.hdf5")) == wanted
    (tmp_path / "options.json").write_text('{"changed": true}')
    assert hash_weights(tmp_path) == wanted


def test_digest_of_several_files_depends_on_their_names_and_contents(tmp_path: Path) -> None:
    for name in ("a.pkl", "b.pkl"):
        (tmp_path / name).write_bytes(CONTENT)
    first = hash_weights(tmp_path)
    (tmp_path / "b.pkl").rename(tmp_path / "c.pkl")
    renamed = hash_weights(tmp_path)
    (tmp_path / "c.pkl").write_bytes(b"other")
    assert len({first, renamed, hash_weights(tmp_path)}) == 3


@pytest.mark.issue(59)
def test_weights_behind_links_count_once(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.pkl").write_bytes(CONTENT)
    (tmp_path / "bilm").mkdir()
    for name in ("link", "again"):
        (tmp_path / "bilm" / name).symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "elsewhere" / "loop").symlink_to(tmp_path / "bilm", target_is_directory=True)
    before = hash_weights(tmp_path / "bilm")
    assert before == hashlib.sha256(CONTENT).hexdigest()[:12]
    (tmp_path / "elsewhere" / "a.pkl").write_bytes(b"other")
    assert hash_weights(tmp_path / "bilm") == hashlib.sha256(b"other").hexdigest()[:12] != before


def test_missing_weights_are_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match="Give the name of a packaged biLM, or the path of"):
            hash_weights(path)


@pytest.mark.issue(50)
def test_digest_of_a_bilm_differs_by_weights_and_survives_rounding() -> None:
    bilm, same, other = (make_random_bilm(BILM, seed) for seed in (1, 1, 2))
    before = bilm.digest
    assert before == same.digest != other.digest
    for dtype in ("float32", "float16", "int8"):
        assert bilm_from_bytes(bilm_to_bytes(bilm, dtype)).digest == before
    for precision in ("bfloat16", "int8"):
        if products.is_supported_on_cpu(precision):
            assert make_random_bilm(BILM, 1).set_precision(precision).digest == before
    version = bilm.version
    next(bilm.network.parameters()).data.neg_()
    bilm.clear_caches()
    assert bilm.version not in (version, same.version, other.version) and bilm.version == bilm.version
    assert bilm.digest != before and pickle.loads(pickle.dumps(bilm)).digest == bilm.digest


def test_a_zip_is_one_file(folder: Path, tmp_path: Path) -> None:
    (folder / "options.json.part").write_text("incomplete")
    (folder / ".hidden").write_text("hidden")
    names = [Path(file.name).name for file in read_origin(folder).files]
    assert names == ["options.json", "vocab.txt", "weights.hdf5"]
    with zipfile.ZipFile(tmp_path / "144.zip", "w") as archive:
        for name in ("options.json", "weights.hdf5"):
            archive.write(folder / name, name)
    found = read_origin(tmp_path / "144.zip")
    assert [file.name for file in found.files] == [str(tmp_path / "144.zip")]
    assert found.format == "bilm-tf" and found.download is None
    content = (tmp_path / "144.zip").read_bytes()
    assert found.files[0].sha256 == hashlib.sha256(content).hexdigest() and found.n_bytes == len(content)
