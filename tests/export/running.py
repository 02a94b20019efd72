"""BiLMs to export, the vectors of a few texts, and an exported graph in onnxruntime, from words or ids in NumPy."""

from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
import pytest
import torch

from spacy_elmo import BiLM, BiLMConfig, CharCNNConfig, load_bilm
from spacy_elmo.bilm.config import TransformerConfig
from spacy_elmo.bilm.network import BiLMNetwork
from spacy_elmo.export import export_onnx
from spacy_elmo.text.words import Vocabulary, character_ids

WORDS = [["the", "cat", "sat"], [], ["a", "dog", "\U0001f600"], ["the"]]
TEXTS = [" ".join(words) for words in WORDS]
VOCABULARY = ["<S>", "</S>", "<UNK>", "the", "cat", "sat"]
CHARACTERS: Dict[str, Any] = {"embedding_width": 4, "filters": ((1, 8), (3, 8)), "n_highway": 1}
TRANSFORMER: Dict[str, Any] = {"encoder": "transformer", "transformer": TransformerConfig(24, 2, 70)}
# Settings of the biLM and of its character CNN that differ from the default.
CASES: Dict[str, Tuple[Dict[str, Any], Dict[str, Any]]] = {
    "two layers": ({}, {}),
    "no highway": ({}, {"n_highway": 0}),
    "tanh": ({}, {"activation": "tanh", "n_highway": 2}),
    "no projection": ({"cell_width": 8}, {}),
    "no CNN projection": ({"projection_width": 16}, {}),
    "CNN projection of equal width": ({"projection_width": 16}, {"always_project": True}),
    "no skip": ({"has_skip": False}, {}),
    "highways between layers": ({"has_skip": False, "highway_between": True, "n_layers": 3}, {}),
    "forward only": ({"directions": "forward"}, {}),
    "no clips": ({"cell_clip": None, "projection_clip": None}, {}),
    "tight clips": ({"cell_clip": 0.05, "projection_clip": 0.02}, {}),
    "one layer": ({"n_layers": 1}, {}),
    "short words": ({}, {"max_characters": 7}),
    "words": ({"char_cnn": None, "n_words": len(VOCABULARY)}, {}),
    "projection before the highways": ({}, {"projection": "after_cnn"}),
    "layer norm of characters": ({}, {"has_layer_norm": True}),
    "transformer": (TRANSFORMER, {}),
    "transformer of AllenNLP": ({**TRANSFORMER, "n_layers": 3}, {"has_layer_norm": True, "projection": "after_cnn"}),
    "transformer, forward only": ({**TRANSFORMER, "directions": "forward"}, {}),
    "transformer, words": ({**TRANSFORMER, "char_cnn": None, "n_words": len(VOCABULARY)}, {}),
}


def make_bilm(case: str = "two layers") -> BiLM:
    """Random weights, large enough that the clips cut."""
    settings, characters = CASES[case]
    base: Dict[str, Any] = (
        {"projection_width": 8} if "encoder" in settings else {"cell_width": 16, "projection_width": 8}
    )
    if "char_cnn" not in settings:
        base["char_cnn"] = CharCNNConfig(**{**CHARACTERS, **characters})
    torch.manual_seed(0)
    network = BiLMNetwork(BiLMConfig(**{**base, **settings})).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return BiLM(network, vocabulary=Vocabulary(VOCABULARY))


def embed_texts(path: str, **settings: Any) -> List[Any]:
    """Rows of each of `TEXTS`, of the library."""
    return load_bilm(path).embed(WORDS, **{"layers": "mean", **settings})


def check_rows(actual: Any, expected: List[Any], atol: float = 1e-6) -> None:
    """Compare the rows of each text."""
    assert len(actual) == len(expected)
    for rows, other in zip(actual, expected):
        np.testing.assert_allclose(np.array(list(rows), dtype="float32").reshape(other.shape), other, atol=atol)


def open_graph(path: Path) -> Any:
    """A session with one thread; the test is skipped without onnx or onnxruntime."""
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install spacy-elmo[onnx]")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return runtime.InferenceSession(str(path), options)


def export_graph(bilm: BiLM, folder: Path) -> Any:
    """RETURNS: A session of onnxruntime with the graph."""
    needs_onnx()
    export_onnx(bilm, folder / "elmo.onnx", force=True)
    return open_graph(folder / "elmo.onnx")


def run_graph(session: Any, bilm: BiLM, sentences: Sequence[Sequence[str]], *, n_extra: int = 0) -> List[Any]:
    """Layers (L+1, n, D) of each sentence. n_extra: columns of padding beyond the longest sentence."""
    (layers,) = session.run(None, make_feed(session, bilm, sentences, n_extra))
    return [layers[:, row, : len(words)] for row, words in enumerate(sentences)]


def run_in_batches(session: Any, bilm: BiLM, sentences: Sequence[Sequence[str]], batch_size: int = 8) -> List[Any]:
    """The same for many sentences, in batches of similar length."""
    order = sorted(range(len(sentences)), key=lambda row: len(sentences[row]))
    found: List[Any] = [None] * len(sentences)
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        for row, layers in zip(rows, run_graph(session, bilm, [sentences[row] for row in rows])):
            found[row] = layers
    return found


def make_feed(session: Any, bilm: BiLM, sentences: Sequence[Sequence[str]], n_extra: int = 0) -> Any:
    """Inputs of the graph."""
    lengths = np.array([len(words) for words in sentences], dtype="int64")
    n_steps = max(1, max(lengths)) + n_extra
    name = session.get_inputs()[0].name
    if name == "char_ids":
        max_characters = session.get_inputs()[0].shape[2]
        ids = [_pad(character_ids(words, max_characters), n_steps) for words in sentences]
    else:
        ids = [_pad(bilm.vocabulary.ids(words), n_steps) for words in sentences]  # type: ignore[union-attr]
    return {name: np.stack(ids), "lengths": lengths}


def _pad(ids: Any, n_steps: int) -> Any:
    rows = np.zeros((n_steps, *ids.shape[1:]), dtype="int64")
    rows[: len(ids)] = ids
    return rows


def largest_difference(found: Sequence[Any], wanted: Sequence[Any]) -> float:
    """Largest absolute difference of arrays of the same shapes."""
    assert [array.shape for array in found] == [array.shape for array in wanted]
    return max((float(np.abs(a - b).max(initial=0.0)) for a, b in zip(found, wanted)), default=0.0)


def needs_onnx() -> Any:
    """The package onnx; the test is skipped without it."""
    return pytest.importorskip("onnx", reason="needs onnx: pip install spacy-elmo[onnx]")
