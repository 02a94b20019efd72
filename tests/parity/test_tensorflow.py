"""The stored cases of bilm-tf once more, with weights and softmax out of a TensorFlow checkpoint."""

import pytest
from parity.cases import (
    CASES,
    LIMIT,
    LM_CASES,
    MADE_CASES,
    Case,
    join,
    largest_difference,
    limit_of,
    lm_differences,
    read_json,
)
from reference.seeded_weights import read_arrays
from reference.tensorflow_files import write_checkpoint

from spacy_elmo import load_bilm


@pytest.mark.parametrize("name", [name for name in CASES if name not in MADE_CASES])
def test_vectors_out_of_a_checkpoint(name, shared_data, tmp_path):
    case = Case(shared_data.parent, name, tmp_path)
    folder = write_checkpoint(tmp_path / "tf", read_json(case.options), read_arrays(case.weights))
    bilm = load_bilm(folder)
    assert bilm.meta["source_format"] == "tf-checkpoint"
    found = join(bilm.embed([case.texts[i] for i in case.facts["sentences"]]))
    assert largest_difference(found, case.truth["stateless"]) < limit_of(bilm.config.n_layers)


@pytest.mark.parametrize("name", LM_CASES)
def test_perplexities_out_of_a_checkpoint(name, shared_data, tmp_path):
    root = shared_data / "elmo-groundtruth" / "lm"
    options, arrays = read_json(root / name / "options.json"), read_arrays(root / name / "weights.hdf5")
    words = (root / "vocab.txt").read_text(encoding="utf8").splitlines()
    bilm = load_bilm(write_checkpoint(tmp_path / "tf", options, arrays, words, accumulators=arrays))
    assert bilm.meta["source_format"] == "tf-checkpoint"
    differences = dict(lm_differences(shared_data.parent, name, bilm))
    assert not {array: value for array, value in differences.items() if value > LIMIT}
