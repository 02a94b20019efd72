"""Run an exported graph in onnxruntime, from words or ids in NumPy only."""

from pathlib import Path
from typing import Any, List, Sequence

import numpy as np
import pytest

from spacy_elmo import BiLM
from spacy_elmo.text.words import character_ids


def open_graph(path: Path) -> Any:
    """A session with one thread; the test is skipped without onnx or onnxruntime."""
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install spacy-elmo[onnx]")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return runtime.InferenceSession(str(path), options)


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
