"""Any format to native to bilm-tf's HDF5 and back to native: every number stays the same, bit for bit."""

import zipfile
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import numpy as np
import pytest
import torch
from reference.seeded_weights import (
    SENTENCES,
    VARIANTS,
    WORDS,
    make_arrays,
    make_options,
    make_softmax,
    read_arrays,
    write_model,
)

from spacy_elmo import BiLM, load_bilm, save_bilm
from spacy_elmo.weights.formats import FORMATS
from spacy_elmo.weights.native import bilm_from_bytes, bilm_to_bytes
from spacy_elmo.weights.tensor_map import to_arrays

# Settings that differ from the first case.


def _save(**settings: Any) -> Callable[[BiLM, Path], BiLM]:
    def make(bilm: BiLM, folder: Path) -> BiLM:
        save_bilm(bilm, folder / "source", **settings)
        return load_bilm(folder / "source")

    return make


def _files(bilm: BiLM, folder: Path) -> BiLM:
    save_bilm(bilm, folder / "source", format="bilm-tf")
    names = {"options": "options.json", "weights": "weights.hdf5", "vocab": "vocab.txt"}
    return load_bilm(**{key: folder / "source" / name for key, name in names.items()})  # type: ignore[arg-type]


def _zip(bilm: BiLM, folder: Path) -> BiLM:
    """As NLPL packs them."""
    save_bilm(bilm, folder / "source", format="bilm-tf")
    with zipfile.ZipFile(folder / "source.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in (folder / "source").iterdir():
            archive.write(path, path.name)
    return load_bilm(folder / "source.zip")


def _token_embeddings(bilm: BiLM, folder: Path) -> BiLM:
    cached = BiLM(bilm.network, vocabulary=bilm.vocabulary, token_embeddings=torch.randn(len(WORDS), 8))
    save_bilm(cached, folder / "source", format="bilm-tf")
    return load_bilm(folder / "source")


def _bytes(bilm: BiLM, folder: Path) -> BiLM:
    return bilm_from_bytes(bilm_to_bytes(bilm))


# Ways to a biLM: every dtype of every format that is written, and every other form that is read.
SOURCES: Dict[str, Callable[[BiLM, Path], BiLM]] = {
    **{f"{known.name} {dtype}": _save(format=known.name, dtype=dtype) for known in FORMATS for dtype in known.dtypes},
    "three files": _files,
    "zip": _zip,
    "token embeddings": _token_embeddings,
    "bytes": _bytes,
}


def all_arrays(bilm: BiLM) -> Dict[str, Any]:
    """Everything with numbers, as bits."""
    arrays = dict(to_arrays(bilm.network))
    if bilm.head is not None:
        arrays.update({f"head.{key}": array for key, array in to_arrays(bilm.head).items()})
    if bilm.token_embeddings is not None:
        arrays["token_embeddings"] = bilm.token_embeddings.numpy()
    return {key: array.view("uint32") for key, array in arrays.items()}


def go_around(bilm: BiLM, folder: Path) -> List[Tuple[str, BiLM]]:
    """The biLM after native, after HDF5, and after native again."""
    steps = []
    for name, format in (("first", "native"), ("second", "bilm-tf"), ("third", "native")):
        save_bilm(bilm, folder / name, format=format)
        bilm = load_bilm(folder / name)
        steps.append((f"{name}, {format}", bilm))
    return steps


def check_same(bilm: BiLM, folder: Path) -> None:
    """Arrays, words and vectors are those of the source after each step."""
    wanted, vectors = all_arrays(bilm), bilm.embed(SENTENCES)
    assert all(array.dtype == "uint32" for array in wanted.values())
    for step, found in go_around(bilm, folder):
        arrays = all_arrays(found)
        assert set(arrays) == set(wanted), step
        assert [key for key in wanted if not np.array_equal(arrays[key], wanted[key])] == [], step
        assert found.config == bilm.config, step
        assert (found.vocabulary and found.vocabulary.words) == (bilm.vocabulary and bilm.vocabulary.words), step
        assert all(np.array_equal(a, b) for a, b in zip(found.embed(SENTENCES), vectors)), step


@pytest.mark.parametrize("source", SOURCES)
def test_source_to_native_to_hdf5_to_native(source: str, folder: Path, tmp_path: Path) -> None:
    check_same(SOURCES[source](load_bilm(folder), tmp_path), tmp_path)


@pytest.mark.parametrize("variant", VARIANTS)
def test_file_to_native_to_hdf5_to_native(variant: str, tmp_path: Path) -> None:
    options = make_options(**VARIANTS[variant])
    arrays = {**make_arrays(options), **make_softmax(options)}
    bilm = load_bilm(write_model(tmp_path / "original", options, arrays, WORDS))
    assert bilm.vocabulary and bilm.vocabulary.words == WORDS
    check_same(bilm, tmp_path)
    copied = read_arrays(tmp_path / "second" / "weights.hdf5")
    assert {name: array.tobytes() for name, array in copied.items()} == {
        name: array.tobytes() for name, array in arrays.items()
    }
