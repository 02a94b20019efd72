"""The graph in onnxruntime equals the biLM, whatever is padded, for every kind of biLM."""

from pathlib import Path
from typing import List

import numpy as np
import pytest
import torch
from export.running import (
    CASES,
    VOCABULARY,
    export_graph,
    largest_difference,
    make_bilm,
    make_feed,
    needs_onnx,
    run_graph,
)

from spacy_elmo import BiLM, load_bilm
from spacy_elmo.nn import batch_to_ids
from spacy_elmo.text.words import Vocabulary

SENTENCES: List[List[str]] = [["the", "cat", "sat", "é\U0001f600"], ["the"], [], ["x" * 60, "", "cat", "the", "cat"]]


@pytest.mark.parametrize("case", CASES)
def test_graph_equals_the_bilm_whatever_is_padded(case: str, tmp_path: Path) -> None:
    onnx, bilm = needs_onnx(), make_bilm(case)
    session = export_graph(bilm, tmp_path)
    onnx.checker.check_model(str(tmp_path / "elmo.onnx"), full_check=True)
    together = run_graph(session, bilm, SENTENCES)
    assert largest_difference(together, bilm.embed(SENTENCES)) < 2e-5
    padded = run_graph(session, bilm, SENTENCES, n_extra=7)
    alone = [run_graph(session, bilm, [words])[0] for words in SENTENCES]
    assert largest_difference(padded, together) < 1e-6
    assert largest_difference(alone, together) < 1e-6
    feed = make_feed(session, bilm, SENTENCES)
    for n_rows, n_columns in ((2, 0), (2, 3), (0, 3), (0, 0)):  # no sentence has a word
        nothing = {
            name: np.zeros((n_rows, n_columns, *ids.shape[2:])[: ids.ndim], "int64") for name, ids in feed.items()
        }
        (layers,) = session.run(None, nothing)
        assert layers.shape == (*together[0].shape[:1], n_rows, n_columns, *together[0].shape[2:]) and not layers.any()


def test_graph_uses_token_embeddings(tmp_path: Path) -> None:
    network, table = make_bilm().network, torch.randn(len(VOCABULARY), 8)
    bilm = BiLM(network, vocabulary=Vocabulary(VOCABULARY), token_embeddings=table)
    session = export_graph(bilm, tmp_path)
    assert session.get_inputs()[0].name == "word_ids"
    assert largest_difference(run_graph(session, bilm, SENTENCES), bilm.embed(SENTENCES)) < 2e-5


def test_ids_are_those_of_batch_to_ids_and_behind_a_sentence_are_not_read(tmp_path: Path) -> None:
    bilm = make_bilm()
    session = export_graph(bilm, tmp_path)
    feed = make_feed(session, bilm, SENTENCES)
    assert np.array_equal(feed["char_ids"], batch_to_ids(SENTENCES).numpy())
    (wanted,) = session.run(None, feed)
    for row, length in enumerate(feed["lengths"]):
        feed["char_ids"][row, length:] = 5
    (found,) = session.run(None, feed)
    assert np.array_equal(found, wanted)
    assert all(not found[:, row, length:].any() for row, length in enumerate(feed["lengths"]))


@pytest.mark.slow
def test_packaged_bilm_is_equal_in_onnxruntime(tmp_path: Path) -> None:
    bilm = load_bilm("en_elmo_sm")
    sentences = [*SENTENCES, "She sat on the bank of the river .".split() * 20]
    assert largest_difference(run_graph(export_graph(bilm, tmp_path), bilm, sentences), bilm.embed(sentences)) < 2e-5


def test_a_sequence_longer_than_the_positions_of_a_transformer_is_an_error(tmp_path: Path) -> None:
    bilm = make_bilm("transformer")
    session = export_graph(bilm, tmp_path)
    longest = [["the"] * 68, ["cat"]]
    assert largest_difference(run_graph(session, bilm, longest), bilm.embed(longest)) < 2e-5
    with pytest.raises(Exception, match="out of"):
        run_graph(session, bilm, [["the"] * 69])
