"""int8 on disk: a quarter of the size, the numbers of int8 products, and errors."""

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from spacy_elmo import load_bilm, save_bilm
from spacy_elmo.inference import products
from spacy_elmo.inference.products import full_state
from spacy_elmo.pipeline.model import make_random_bilm
from spacy_elmo.weights import bilm_from_bytes, bilm_to_bytes

SENTENCES = [["She", "sat", "on", "the", "bank"], ["Oslo"]]


CONFIG = {"char_cnn": {"filters": [[1, 32], [2, 32]], "n_highway": 1}, "cell_width": 256, "projection_width": 64}


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    path = tmp_path_factory.mktemp("full") / "model"
    save_bilm(make_random_bilm(CONFIG, 0), path)
    return path


@pytest.fixture(scope="module")
def folder(full, tmp_path_factory):
    path = tmp_path_factory.mktemp("int8") / "model"
    save_bilm(load_bilm(full), path, dtype="int8")
    return path


def test_saving_what_was_rounded_again_changes_nothing(folder, full, tmp_path):
    save_bilm(load_bilm(folder), tmp_path / "again", dtype="int8")
    first, second = (load_file(path / "weights.safetensors") for path in (folder, tmp_path / "again"))
    assert set(first) < set(second) == set(first) | {"steady.h", "steady.c"}  # that of the rounded weights
    assert all(array.dtype == second[key].dtype and np.array_equal(array, second[key]) for key, array in first.items())
    sizes = [(path / "weights.safetensors").stat().st_size for path in (folder, full)]
    assert sizes[0] < 0.31 * sizes[1]


@pytest.mark.skipif(not products.works("int8"), reason="torch without int8 products")
def test_the_file_holds_what_the_products_use(folder, full):
    rounded = load_bilm(full, precision="int8")
    for other in (
        load_bilm(folder, precision="int8"),
        bilm_from_bytes(bilm_to_bytes(rounded, "int8")).set_precision("int8"),
    ):
        for key, tensor in full_state(rounded.network).items():
            assert torch.equal(full_state(other.network)[key], tensor)
        for one, two in zip(rounded.embed(SENTENCES), other.embed(SENTENCES)):
            assert np.array_equal(one, two)
    exact = load_bilm(folder).embed(SENTENCES)
    assert max(np.abs(one - two).max() for one, two in zip(exact, rounded.embed(SENTENCES))) < 0.2


@pytest.mark.parametrize("fault", ["missing", "shape", "nan", "overflow"])
def test_wrong_scales_are_named(folder, tmp_path, fault):
    broken = tmp_path / "broken"
    save_bilm(load_bilm(folder), broken, dtype="int8")
    arrays = load_file(broken / "weights.safetensors")
    name = "bilm.lstm.0.input_weight.scale"
    if fault == "missing":
        del arrays[name]
    elif fault in ("nan", "overflow"):  # without a warning of NumPy
        arrays[name][0, 0, :] = np.nan if fault == "nan" else 3e38
    else:
        arrays[name] = arrays[name][:, :, :-1]
    save_file({key: np.ascontiguousarray(array) for key, array in arrays.items()}, broken / "weights.safetensors")
    with pytest.raises(ValueError, match=r"(?s)scale is .*should be float32|not finite: bilm.lstm.0.input_w"):
        load_bilm(broken)


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_a_model_in_fewer_bits_is_saved_as_what_it_rounds_to(full, tmp_path, precision):
    if not products.works(precision):
        pytest.skip(f"torch without {precision} products")
    bilm = load_bilm(full, precision=precision)
    wanted = full_state(bilm.network)
    for format in ("native", "bilm-tf"):
        bilm.head = None
        save_bilm(bilm, tmp_path / format, format=format)
        found = load_bilm(tmp_path / format).network.state_dict()
        assert all(torch.equal(found[key], wanted[key]) for key in wanted)
    assert "steady.h" not in load_file(tmp_path / "native" / "weights.safetensors")  # it was not computed in float32
