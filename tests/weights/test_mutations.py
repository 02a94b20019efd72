"""Files with seeded random damage: they load, or there is an error of ours that names what is wrong."""

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest
from reference.seeded_weights import WORDS, make_arrays, make_options, make_softmax, write_arrays, write_model
from weights.fuzzing import fuzz

from spacy_elmo import load_bilm, save_bilm
from spacy_elmo.weights import bilm_from_bytes, bilm_to_bytes


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model in every format, tiny."""
    folder = tmp_path_factory.mktemp("mutations")
    sizes = {"lstm": {"dim": 4, "projection_dim": 3, "n_layers": 1}, "char_cnn": {"filters": [[1, 2]], "n_highway": 1}}
    options = make_options(**sizes)
    write_model(folder / "tf", options, {**make_arrays(options), **make_softmax(options)}, WORDS)
    bilm = load_bilm(folder / "tf")
    bilm.meta = {"corpus": {"name": "made up", "n_tokens": 12, "files": ["a", "b"]}, "epochs": [1.5, None]}
    save_bilm(bilm, folder / "native")
    save_bilm(bilm, folder / "int8", dtype="int8")
    (folder / "native.bytes").write_bytes(bilm_to_bytes(bilm))
    (folder / "int8.bytes").write_bytes(bilm_to_bytes(bilm, dtype="int8"))
    (folder / "tf" / "packed.txt.gz").write_bytes(gzip.compress((folder / "tf" / "vocab.txt").read_bytes()))
    with zipfile.ZipFile(folder / "nlpl.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in (("options.json",) * 2, ("model.hdf5", "weights.hdf5"), ("vocab.txt.gz", "packed.txt.gz")):
            archive.write(folder / "tf" / member, name)
        archive.writestr("meta.json", '{"id": 1, "corpora": [{"language": "eng"}]}')
    write_arrays(folder / "softmax.hdf5", make_softmax(options))
    write_arrays(folder / "token_embeddings.hdf5", {"embedding": np.ones((len(WORDS), 3), "float32")})
    return folder


READERS = {
    "tf/weights.hdf5": lambda path: load_bilm(path.parent),
    "tf/options.json": lambda path: load_bilm(path.parent),
    "tf/vocab.txt": lambda path: load_bilm(path.parent),
    "tf/packed.txt.gz": lambda path: load_bilm(path.parent, vocab=path),
    "softmax.hdf5": lambda path: load_bilm(path.parent / "tf", softmax=path),
    "token_embeddings.hdf5": lambda path: load_bilm(path.parent / "tf", token_embeddings=path),
    "nlpl.zip": load_bilm,
    "native/config.json": lambda path: load_bilm(path.parent),
    "native/weights.safetensors": lambda path: load_bilm(path.parent),
    "native/meta.json": lambda path: load_bilm(path.parent),
    "native/vocab.txt": lambda path: load_bilm(path.parent),
    "native.bytes": lambda path: bilm_from_bytes(path.read_bytes()),
    "int8/weights.safetensors": lambda path: load_bilm(path.parent),
    "int8.bytes": lambda path: bilm_from_bytes(path.read_bytes()),
}


@pytest.mark.issue(15)
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_loads_or_gives_an_error_of_ours(model: Path, name: str) -> None:
    READERS[name](model / name)
    fuzz(READERS[name], model / name, n=30)


@pytest.mark.slow
@pytest.mark.issue(17)
@pytest.mark.parametrize("name", READERS)
def test_many_damaged_files_load_or_give_an_error_of_ours(model: Path, name: str) -> None:
    assert fuzz(READERS[name], model / name, n=2000).n_errors > 10
