"""Saving and loading transformer biLMs."""

import numpy as np
import pytest
import torch
from transformers_tiny import SENTENCES, make_transformer

from spacy_elmo import load_bilm, save_bilm
from spacy_elmo.weights.native import bilm_from_bytes, bilm_to_bytes


@pytest.mark.parametrize("dtype, tolerance", [("float32", 0.0), ("float16", 0.01), ("int8", 0.2)])
def test_native_format_round_trips(tmp_path, dtype, tolerance):
    bilm = make_transformer(head=True)
    save_bilm(bilm, tmp_path / "saved", dtype=dtype)
    loaded = load_bilm(tmp_path / "saved")
    assert loaded.config == bilm.config and loaded.vocabulary == bilm.vocabulary
    for one, other in zip(loaded.embed(SENTENCES), bilm.embed(SENTENCES)):
        assert np.abs(one - other).max(initial=0) <= tolerance
    if dtype == "float32":
        weights = loaded.network.state_dict()
        assert all(torch.equal(weights[name], weight) for name, weight in bilm.network.state_dict().items())


def test_export_to_bilm_tf_is_refused(tmp_path):
    wanted = r"encoder is 'transformer'.*char_cnn.has_layer_norm"
    with pytest.raises(ValueError, match=wanted):
        save_bilm(make_transformer(), tmp_path / "saved", format="bilm-tf")
    assert not (tmp_path / "saved").exists()


def test_int8_bilm_gives_the_same_vectors_after_saving():
    bilm = make_transformer()
    try:
        bilm.set_precision("int8")
    except ValueError as error:  # EL015: this processor has no such products
        pytest.skip(str(error))
    loaded = bilm_from_bytes(bilm_to_bytes(bilm, "int8")).set_precision("int8")
    assert all(np.array_equal(*pair) for pair in zip(loaded.embed(SENTENCES), bilm.embed(SENTENCES)))
