"""Models and numbers of the program ELMoForManyLangs itself: `emfl` in the ground truth."""

import json

import numpy as np
import pytest
from parity.cases import join, largest_difference

from spacy_elmo import load_bilm, save_bilm

CASES = ("chars", "words", "chars-words")
LIMIT = 2e-5
# The random LSTMs of these cases amplify a rounding error by up to 160 while they continue from a state: the stored
# numbers themselves differ from float64 by 3.3e-5 there.
LIMIT_CONTINUED = 2e-4


@pytest.fixture(params=CASES)
def case(request, shared_data):
    folder = shared_data / "elmo-groundtruth" / "emfl" / request.param
    with np.load(folder / "truth.npz") as truth:
        return folder, json.loads((folder / "sentences.json").read_text()), dict(truth)


def test_layers_and_average(case, tmp_path):
    folder, sentences, truth = case
    bilm = load_bilm(folder)
    assert largest_difference(join(bilm.embed(sentences)), truth["layers"]) < LIMIT
    assert largest_difference(np.concatenate(bilm.embed(sentences, layers="mean")), truth["average"]) < LIMIT
    save_bilm(bilm, tmp_path / "native")
    assert largest_difference(join(load_bilm(tmp_path / "native").embed(sentences)), truth["layers"]) < LIMIT


def test_second_call(case):
    folder, sentences, truth = case
    bilm = load_bilm(folder)
    order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i]))  # the rows of a batch, the longest first
    rows = [sentences[i] for i in order]
    _, state = bilm.embed(rows, state=None, return_state=True)
    again, _ = bilm.embed(rows, state=state, return_state=True)
    found = join([again[order.index(i)] for i in range(len(sentences))])
    assert largest_difference(found, truth["second_call"]) < LIMIT_CONTINUED


def test_every_stored_case_is_in_the_table(shared_data):
    folder = shared_data / "elmo-groundtruth" / "emfl"
    assert {path.name for path in folder.iterdir() if path.is_dir()} == set(CASES)
