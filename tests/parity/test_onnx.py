"""The graph in onnxruntime against the numbers of bilm-tf and AllenNLP."""

from pathlib import Path

import numpy as np
import pytest
from export.running import needs_onnx, open_graph, run_in_batches
from parity.cases import CASES, LM_CASES, SLOW_CASES, Case, join, largest_difference, limit_of

from spacy_elmo import load_bilm
from spacy_elmo.export import export_onnx


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW_CASES else name for name in CASES]
)
def test_groundtruth(name: str, shared_data: Path, tmp_path: Path) -> None:
    needs_onnx()
    case = Case(shared_data.parent, name, tmp_path)
    export_onnx(case.bilm, tmp_path / "elmo.onnx")
    session = open_graph(tmp_path / "elmo.onnx")
    sentences = [case.texts[i] for i in case.facts["sentences"]]
    found = join(run_in_batches(session, case.bilm, sentences))
    assert largest_difference(found, case.truth["stateless"]) <= limit_of(case.bilm.config.n_layers)
    assert largest_difference(found, join(case.bilm.embed(sentences))) <= limit_of(case.bilm.config.n_layers)


@pytest.mark.parametrize("name", LM_CASES)
def test_language_models(name: str, shared_data: Path, tmp_path: Path) -> None:
    """Also forward only, and words as input."""
    needs_onnx()
    folder = shared_data / "elmo-groundtruth" / "lm"
    bilm = load_bilm(folder / name, vocab=folder / "vocab.txt")
    export_onnx(bilm, tmp_path / "elmo.onnx")
    sentences = [line.split() for line in (folder / "text.txt").read_text(encoding="utf8").splitlines()]
    found = join(run_in_batches(open_graph(tmp_path / "elmo.onnx"), bilm, sentences))
    assert np.isfinite(found).all()
    assert largest_difference(found, join(bilm.embed(sentences))) <= 2e-5
