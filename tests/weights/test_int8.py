"""int8 on disk: a quarter of the size, the numbers of int8 products, and errors."""

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from spacy_elmo import load_bilm, save_bilm
from spacy_elmo.inference import onednn
from spacy_elmo.inference.quantization import full_state
from spacy_elmo.weights import bilm_from_bytes, bilm_to_bytes

SENTENCES = [["She", "sat", "on", "the", "bank"], ["Oslo"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("int8") / "model"
    save_bilm(load_bilm("en_elmo_sm"), path, dtype="int8")
    return path


def test_int8_takes_about_a_quarter_of_the_space(folder, tmp_path):
    save_bilm(load_bilm("en_elmo_sm"), tmp_path / "full")
    sizes = [(path / "weights.safetensors").stat().st_size for path in (folder, tmp_path / "full")]
    assert sizes[0] < 0.31 * sizes[1]


def test_saving_what_was_rounded_again_changes_nothing(folder, tmp_path):
    save_bilm(load_bilm(folder), tmp_path / "again", dtype="int8")
    first, second = (load_file(path / "weights.safetensors") for path in (folder, tmp_path / "again"))
    assert set(first) < set(second) == set(first) | {"steady.h", "steady.c"}  # that of the rounded weights
    assert all(array.dtype == second[key].dtype and np.array_equal(array, second[key]) for key, array in first.items())


@pytest.mark.skipif(not onednn.works("int8"), reason="torch without int8 products")
def test_the_file_holds_what_the_products_use(folder):
    rounded = load_bilm("en_elmo_sm", precision="int8")
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


@pytest.mark.parametrize("fault", ["missing", "shape", "type"])
def test_wrong_scales_are_named(folder, tmp_path, fault):
    broken = tmp_path / "broken"
    save_bilm(load_bilm(folder), broken, dtype="int8")
    arrays = load_file(broken / "weights.safetensors")
    name = "bilm.lstm.0.input_weight.scale"
    if fault == "missing":
        del arrays[name]
    else:
        arrays[name] = arrays[name][:, :, :-1] if fault == "shape" else arrays[name].astype("float64")
    save_file({key: np.ascontiguousarray(array) for key, array in arrays.items()}, broken / "weights.safetensors")
    with pytest.raises(ValueError, match="EL022.*int8 weights: bilm.lstm.0.input_weight.scale is .*should be float32"):
        load_bilm(broken)


def test_scales_that_are_not_finite_are_refused(folder, tmp_path):
    broken = tmp_path / "broken"
    save_bilm(load_bilm(folder), broken, dtype="int8")
    arrays = load_file(broken / "weights.safetensors")
    arrays["bilm.lstm.0.input_weight.scale"][0, 0, 0] = np.nan
    save_file(arrays, broken / "weights.safetensors")
    with pytest.raises(ValueError, match="(?s)EL026.*not finite: bilm.lstm.0.input_weight"):
        load_bilm(broken)


def test_bilm_tf_knows_no_int8(tmp_path):
    with pytest.raises(ValueError, match="dtype is 'int8', but should be one of: float32, float16"):
        save_bilm(load_bilm("en_elmo_sm"), tmp_path / "tf", format="bilm-tf", dtype="int8")
    assert not (tmp_path / "tf").exists()


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_a_model_in_fewer_bits_is_saved_as_what_it_rounds_to(tmp_path, precision):
    if not onednn.works(precision):
        pytest.skip(f"torch without {precision} products")
    bilm = load_bilm("en_elmo_sm", precision=precision)
    wanted = full_state(bilm.network)
    for format in ("native", "bilm-tf"):
        bilm.head = None
        save_bilm(bilm, tmp_path / format, format=format)
        found = load_bilm(tmp_path / format).network.state_dict()
        assert all(torch.equal(found[key], wanted[key]) for key in wanted)
    assert "steady.h" not in load_file(tmp_path / "native" / "weights.safetensors")  # it was not computed in float32


@pytest.mark.issue(17)
def test_values_that_overflow_are_reported_without_a_warning_of_numpy(folder, tmp_path):
    save_bilm(load_bilm(folder), tmp_path / "model", dtype="int8")
    arrays = load_file(tmp_path / "model" / "weights.safetensors")
    arrays["bilm.lstm.0.input_weight.scale"][:] = 3e38
    save_file(arrays, tmp_path / "model" / "weights.safetensors")
    with pytest.raises(ValueError, match="(?s)EL026.*not finite: bilm.lstm.0.input_weight"):
        load_bilm(tmp_path / "model")
