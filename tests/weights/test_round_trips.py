"""Any biLM to any format and back: every number stays the same, bit for bit."""

import zipfile
from pathlib import Path
from typing import Any, Callable, Dict

import numpy as np
import pytest
import torch
from reference.seeded_manylangs import MANYLANGS_KINDS, make_architecture, write_manylangs
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
from transformers_tiny import make_transformer
from weights.same import assert_same

from spacy_elmo import BiLM, load_bilm, load_mixes, save_bilm
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.network import AdaptiveHead, BiLMNetwork
from spacy_elmo.text.words import Vocabulary
from spacy_elmo.weights.archive import Listing
from spacy_elmo.weights.contents import read_contents
from spacy_elmo.weights.formats import FORMATS
from spacy_elmo.weights.formats.native import bilm_from_bytes, bilm_to_bytes
from spacy_elmo.weights.load import detect_format

WRITTEN = [format for format in FORMATS if format.write is not None]


def _original(folder: Path, **changes: Any) -> BiLM:
    """Of bilm-tf, with a softmax and words."""
    options = make_options(**changes)
    return load_bilm(write_model(folder, options, {**make_arrays(options), **make_softmax(options)}, WORDS))


def _files(folder: Path) -> BiLM:
    save_bilm(_original(folder / "original"), folder / "source", format="bilm-tf")
    names = {"options": "options.json", "weights": "weights.hdf5", "vocab": "vocab.txt"}
    return load_bilm(**{key: folder / "source" / name for key, name in names.items()})  # type: ignore[arg-type]


def _zip(folder: Path) -> BiLM:
    """As NLPL packs them."""
    _original(folder / "source")
    with zipfile.ZipFile(folder / "source.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in (folder / "source").iterdir():
            archive.write(path, path.name)
    return load_bilm(folder / "source.zip")


def _token_embeddings(folder: Path) -> BiLM:
    bilm = _original(folder / "original")
    cached = BiLM(bilm.network, vocabulary=bilm.vocabulary, token_embeddings=torch.randn(len(WORDS), 8))
    save_bilm(cached, folder / "source", format="bilm-tf")
    return load_bilm(folder / "source")


def _shared_softmax(folder: Path) -> BiLM:
    options = make_options(char_cnn=..., share_embedding_softmax=True)
    arrays = {**make_arrays(options), "softmax/b": make_softmax(options)["softmax/b"]}
    return load_bilm(write_model(folder, options, arrays, WORDS))


def _rounded(format: str, dtype: str) -> Callable[[Path], BiLM]:
    def make(folder: Path) -> BiLM:
        save_bilm(_original(folder / "original"), folder / "source", format=format, dtype=dtype)
        return load_bilm(folder / "source")

    return make


# Every dtype of every format that is written, and every other form that is read.
SOURCES: Dict[str, Callable[[Path], BiLM]] = {
    **{f"{known.name} {dtype}": _rounded(known.name, dtype) for known in WRITTEN for dtype in known.dtypes},
    "three files": _files,
    "zip": _zip,
    "token embeddings": _token_embeddings,
    "softmax shared with the word table": _shared_softmax,
}


def check_same(bilm: BiLM, folder: Path) -> None:
    """The biLM is the same after native, after HDF5, and after native again."""
    is_shared = bilm.head is not None and bilm.head.weight is bilm.network.word_embedding
    again = bilm
    for step, format in enumerate(("native", "bilm-tf", "native")):
        save_bilm(again, folder / str(step), format=format)
        again = load_bilm(folder / str(step))
        assert_same(again, bilm)
        assert (again.head is not None and again.head.weight is again.network.word_embedding) == is_shared
        if bilm.token_embeddings is not None:
            assert again.token_embeddings is not None and torch.equal(again.token_embeddings, bilm.token_embeddings)


@pytest.mark.parametrize("source", SOURCES)
def test_source_to_native_to_hdf5_to_native(source: str, tmp_path: Path) -> None:
    check_same(SOURCES[source](tmp_path), tmp_path)


@pytest.mark.parametrize("variant", VARIANTS)
def test_file_to_native_to_hdf5_to_native(variant: str, tmp_path: Path) -> None:
    bilm = _original(tmp_path / "original", **VARIANTS[variant])
    assert bilm.vocabulary and bilm.vocabulary.words == WORDS
    check_same(bilm, tmp_path)
    copied, arrays = (read_arrays(tmp_path / name / "weights.hdf5") for name in ("1", "original"))
    assert {name: array.tobytes() for name, array in copied.items()} == {
        name: array.tobytes() for name, array in arrays.items()
    }


def _adaptive(folder: Path) -> BiLM:
    bilm = _original(folder)
    torch.manual_seed(0)
    bilm.head = AdaptiveHead(len(WORDS), bilm.config.projection_width, [4, 7], div_value=2.0).eval()
    return bilm


def _highways(folder: Path) -> BiLM:
    torch.manual_seed(0)
    sizes = {"n_layers": 3, "cell_width": 8, "projection_width": 4}
    config = BiLMConfig(n_words=len(WORDS), has_skip=False, highway_between=True, **sizes)
    return BiLM(BiLMNetwork(config), vocabulary=Vocabulary(WORDS))


def _manylangs(kind: str) -> Callable[[Path], BiLM]:
    def make(folder: Path) -> BiLM:
        write_manylangs(folder, make_architecture(**MANYLANGS_KINDS[kind]))
        bilm = load_bilm(folder)
        bilm.embed(SENTENCES)  # torch's LSTM over characters depends on the words that are computed together, by 3e-8
        return bilm

    return make


# What only the native format can hold, and why HDF5 of bilm-tf cannot; an adaptive softmax is left out of it.
NATIVE = {
    "adaptive softmax": (_adaptive, None),
    "highways between layers": (_highways, "highways"),
    "transformer": (lambda folder: make_transformer(head=True), "encoder is 'transformer'.*char_cnn.has_layer_norm"),
    "manylangs": (_manylangs("characters and words"), "tables of its own"),
    "manylangs, words": (_manylangs("words"), "tables of its own"),
    "manylangs, LSTM over characters": (_manylangs("LSTM over characters"), "LSTM|tables of its own"),
    "manylangs, plain LSTM": (_manylangs("plain LSTM"), "tables of its own"),
}


@pytest.mark.parametrize("kind", NATIVE)
def test_native_files_and_bytes_hold_every_kind(kind: str, tmp_path: Path) -> None:
    make, reason = NATIVE[kind]
    bilm = make(tmp_path / "source")
    assert ("highway around LSTM layer 2" in read_contents(bilm).n_parameters) == kind.startswith("highways")
    content = bilm_to_bytes(bilm)
    assert content == bilm_to_bytes(bilm_from_bytes(content))
    save_bilm(bilm, tmp_path / "native")
    for again in (load_bilm(tmp_path / "native"), bilm_from_bytes(content)):
        assert_same(again, bilm)
        assert again.meta == bilm.meta
        if bilm.head is not None:
            assert not again.head.training and getattr(again.head, "settings", 0) == getattr(bilm.head, "settings", 0)
            text = [WORDS[3:9]] * 3
            np.testing.assert_allclose(again.token_losses(text), bilm.token_losses(text), atol=1e-5)
    for dtype, limit in (("float16", 1e-3), ("int8", 0.01)):
        save_bilm(bilm, tmp_path / dtype, dtype=dtype)
        rounded = load_bilm(tmp_path / dtype).network.state_dict()
        for key, tensor in bilm.network.state_dict().items():
            assert (rounded[key] - tensor).abs().max() <= limit * tensor.abs().max(), (dtype, key)
    if reason is None:
        with pytest.warns(UserWarning, match="12 words"):
            save_bilm(bilm, tmp_path / "tf", format="bilm-tf")
        again, bilm.head = load_bilm(tmp_path / "tf"), None
        assert_same(again, bilm)
    else:
        with pytest.raises(ValueError, match=f"bilm-tf.*({reason})"):
            save_bilm(bilm, tmp_path / "tf", format="bilm-tf")
        assert not (tmp_path / "tf").exists()


@pytest.mark.parametrize("format", WRITTEN, ids=lambda format: format.name)
def test_what_a_format_writes_is_detected_and_read_by_it_alone(format, bilm, tmp_path):
    folder = tmp_path / "written"
    folder.mkdir()
    format.write(bilm, folder, "float32")
    assert {path.name for path in folder.iterdir()} <= set(format.file_names)
    assert detect_format(folder)[0] is format
    assert all(other.detect(Listing(folder)) is None for other in FORMATS if other is not format)
    assert load_mixes(folder) == []


def test_a_name_after_the_path_is_refused_where_there_is_one_bilm(bilm, tmp_path):
    _manylangs("words")(tmp_path / "manylangs")
    save_bilm(bilm, tmp_path / "tf", format="bilm-tf")
    for path in ("en_elmo_sm", str(tmp_path / "manylangs"), str(tmp_path / "tf")):
        with pytest.raises(ValueError, match="'other'.*one biLM without a name"):
            load_bilm(f"{path}#other")
    with pytest.raises(ValueError, match="'other'"):
        load_bilm(options=tmp_path / "tf" / "options.json", weights=f"{tmp_path}/tf/weights.hdf5#other")
