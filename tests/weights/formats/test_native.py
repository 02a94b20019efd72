"""Files and bytes of our own: what is in them, in full and in reduced precision, and configs that do not fit."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from inference.forcing import needs_kernel
from reference.seeded_weights import SENTENCES, WORDS
from safetensors.numpy import load, load_file, save, save_file

from spacy_elmo import BiLM, load_bilm, save_bilm
from spacy_elmo.bilm.network import AdaptiveHead
from spacy_elmo.inference import products
from spacy_elmo.inference.products import full_state
from spacy_elmo.pipeline.model import make_random_bilm
from spacy_elmo.weights import bilm_from_bytes, bilm_to_bytes

WIDE = {"char_cnn": {"filters": [[1, 32], [2, 32]], "n_highway": 1}, "cell_width": 256, "projection_width": 64}


@pytest.fixture
def native(bilm: BiLM, tmp_path: Path) -> Path:
    save_bilm(bilm, tmp_path / "native")
    return tmp_path / "native"


def arrays_of(folder: Path) -> "dict[str, np.ndarray]":
    return load_file(folder / "weights.safetensors")


def test_native_keeps_meta_and_says_its_format(bilm, tmp_path):
    bilm.meta = {"corpus": "née", "tokens_seen": 12}
    save_bilm(bilm, tmp_path / "native")
    names = {path.name for path in (tmp_path / "native").iterdir()}
    assert names == {"config.json", "meta.json", "vocab.txt", "weights.safetensors"}
    assert load_bilm(tmp_path / "native").meta == bilm.meta
    assert bilm_from_bytes(bilm_to_bytes(bilm)).meta == bilm.meta
    record = json.loads((tmp_path / "native" / "config.json").read_text())
    assert record["format_version"] == 1
    del record["bilm"]["highway_between"]  # as in files from before this setting
    (tmp_path / "native" / "config.json").write_text(json.dumps(record))
    assert not load_bilm(tmp_path / "native").config.highway_between


def test_native_keeps_the_steady_state_of_its_very_weights(bilm, native):
    stored = arrays_of(native)
    np.testing.assert_array_equal(stored["steady.h"], bilm.steady_state.h.numpy())
    np.testing.assert_array_equal(stored["steady.c"], bilm.steady_state.c.numpy())
    assert torch.equal(load_bilm(native).steady_state.h, bilm.steady_state.h)
    assert torch.equal(bilm_from_bytes(bilm_to_bytes(bilm)).steady_state.c, bilm.steady_state.c)


def test_bytes_are_json_and_plain_numbers(bilm):
    content = bilm_to_bytes(bilm)
    header = content[8 : 8 + int.from_bytes(content[:8], "little")]
    numbers = [entry for name, entry in json.loads(header).items() if name != "__metadata__"]
    assert {entry["dtype"] for entry in numbers} == {"F32"}
    assert len(content) == 8 + len(header) + sum(4 * int(np.prod(entry["shape"])) for entry in numbers)


@pytest.mark.parametrize("dtype, size", [("float16", 0.51), ("int8", 0.31)])
def test_saving_what_was_rounded_again_changes_nothing(dtype, size, tmp_path):
    bilm = make_random_bilm(WIDE, 0)
    for name, kind in (("full", "float32"), ("first", dtype), ("second", dtype)):
        save_bilm(bilm if name != "second" else load_bilm(tmp_path / "first"), tmp_path / name, dtype=kind)
    first, second = arrays_of(tmp_path / "first"), arrays_of(tmp_path / "second")
    # Rounded weights have another steady state, which is computed when they are loaded.
    assert set(second) == set(first) | {"steady.h", "steady.c"} > set(first)
    assert all(array.dtype == second[key].dtype and np.array_equal(array, second[key]) for key, array in first.items())
    sizes = [(tmp_path / name / "weights.safetensors").stat().st_size for name in ("first", "full")]
    assert sizes[0] < size * sizes[1]
    assert {tensor.dtype for tensor in load_bilm(tmp_path / "first").network.state_dict().values()} == {torch.float32}


def test_values_beyond_float16_are_refused(bilm, tmp_path):
    with torch.no_grad():
        bilm.network.encoder.layers[0].bias[0, 0] = 1e6
    for kind in ("native", "bilm-tf"):
        with pytest.raises(ValueError, match="not finite in float16: .*"):
            save_bilm(bilm, tmp_path / "half", format=kind, dtype="float16")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["original"]


@needs_kernel
def test_int8_files_hold_what_the_products_use(tmp_path):
    bilm = make_random_bilm(WIDE, 0)
    save_bilm(bilm, tmp_path / "full")
    save_bilm(bilm, tmp_path / "int8", dtype="int8")
    rounded = load_bilm(tmp_path / "full", precision="int8")
    for other in (
        load_bilm(tmp_path / "int8", precision="int8"),
        bilm_from_bytes(bilm_to_bytes(rounded, "int8")).set_precision("int8"),
    ):
        for key, tensor in full_state(rounded.network).items():
            assert torch.equal(full_state(other.network)[key], tensor)
        for one, two in zip(rounded.embed(SENTENCES), other.embed(SENTENCES)):
            assert np.array_equal(one, two)


@pytest.mark.parametrize("fault", ["missing", "shape", "nan", "overflow"])
def test_wrong_scales_of_int8_are_named(tmp_path, fault):
    save_bilm(make_random_bilm(WIDE, 0), tmp_path, dtype="int8")
    arrays = arrays_of(tmp_path)
    name = "bilm.lstm.0.input_weight.scale"
    if fault == "missing":
        del arrays[name]
    elif fault == "shape":
        arrays[name] = np.ascontiguousarray(arrays[name][:, :, :-1])
    else:  # without a warning of NumPy
        arrays[name][0, 0, :] = np.nan if fault == "nan" else 3e38
    save_file(arrays, tmp_path / "weights.safetensors")
    with pytest.raises(ValueError, match=r"(?s)scale is .*should be float32|not finite: bilm.lstm.0.input_w"):
        load_bilm(tmp_path)


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_a_model_in_reduced_precision_is_saved_as_what_it_rounds_to(tmp_path, precision):
    if not products.is_supported_on_cpu(precision):
        pytest.skip(f"torch without {precision} products")
    bilm = make_random_bilm(WIDE, 0).set_precision(precision)
    wanted = full_state(bilm.network)
    for format in ("native", "bilm-tf"):
        save_bilm(bilm, tmp_path / format, format=format)
        saved = load_bilm(tmp_path / format).network.state_dict()
        assert all(torch.equal(saved[key], wanted[key]) for key in wanted)
    assert "steady.h" not in arrays_of(tmp_path / "native")  # it was not computed in float32


def test_native_takes_no_other_softmax_and_only_a_vocabulary_that_fits(native, tmp_path):
    (tmp_path / "other.txt").write_text("\n".join(["<S>", "</S>", "<UNK>"]))
    with pytest.raises(ValueError, match="3 words, but the softmax has 12 rows"):
        load_bilm(native, vocab=tmp_path / "other.txt")
    with pytest.raises(ValueError, match="softmax cannot be added"):
        load_bilm(native, softmax=tmp_path / "softmax.hdf5")


@pytest.mark.parametrize(
    "block, changes, part",
    [
        (None, {"bilm": None}, "EL023.*bilm is None, should be a block of settings"),
        (None, {"format_version": 99}, "EL023.*format_version is 99"),
        (None, {"shares_softmax": "yes"}, "EL023.*shares_softmax.*should be true or false"),
        (None, {"shares_softmax": True}, "EL023.*shares_softmax.*has no word table"),
        ("bilm", {"n_layer": 2}, "EL023.*bilm.n_layer is not a setting"),
        ("bilm", {"n_layers": 2e9}, "EL023.*n_layers is 2000000000.*, should be at most 1000"),
        ("adaptive_softmax", {"n_words": None}, "EL023.*adaptive_softmax"),
        ("adaptive_softmax", {"cutoffs": [70]}, "EL023.*cutoffs"),
        ("adaptive_softmax", {"depth": 3}, "EL023.*depth"),
        ("adaptive_softmax", {"cutoffs": [4, 8]}, "(?s)EL026.*wrong shape: adaptive.tails.0.bias"),
    ],
)
def test_native_config_of_another_kind(block, changes, part, bilm, tmp_path):
    if block == "adaptive_softmax":
        bilm.head = AdaptiveHead(len(WORDS), bilm.config.projection_width, [4, 7], div_value=2.0).eval()
    save_bilm(bilm, tmp_path / "native")
    record = json.loads((tmp_path / "native" / "config.json").read_text())
    (record if block is None else record[block]).update(changes)
    (tmp_path / "native" / "config.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=part):
        load_bilm(tmp_path / "native")


def with_header(content, **changes):
    """Bytes of a biLM with other settings in the header."""
    length = int.from_bytes(content[:8], "little")
    record = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["spacy_elmo"])
    return save(load(content), metadata={"spacy_elmo": json.dumps({**record, **changes})})


@pytest.mark.parametrize(
    "header, text",
    [
        ({"vocabulary": [1, None]}, "vocabulary is not a list of strings"),
        ({"vocabulary": ["a"]}, "missing special words"),
        ({"config": None, "meta": 3}, "config is missing.*meta is a int"),
        ({"config": {"bilm": {"n_layers": 0}}}, "EL023.*format_version is missing"),
        *((header, "EL022|does not describe a biLM") for header in ("null", "{", "[" * 100_000)),
    ],
)
def test_header_of_bytes_is_checked(header, text, folder):
    content = bilm_to_bytes(load_bilm(folder))
    assert bilm_from_bytes(with_header(content, meta=None)).meta == {}
    is_record = isinstance(header, dict)
    changed = with_header(content, **header) if is_record else save(load(content), metadata={"spacy_elmo": header})
    with pytest.raises(ValueError, match=text):
        bilm_from_bytes(changed)


BILM = {
    "char_cnn": {"embedding_width": 4, "filters": [[1, 8], [2, 8]], "n_highway": 1},
    "n_layers": 2,
    "cell_width": 16,
    "projection_width": 8,
}


@pytest.mark.issue(50)
def test_digest_of_a_bilm_differs_by_weights_and_survives_rounding() -> None:
    bilm, same, other = (make_random_bilm(BILM, seed) for seed in (1, 1, 2))
    before = bilm.digest
    assert before == same.digest != other.digest
    for dtype in ("float32", "float16", "int8"):
        assert bilm_from_bytes(bilm_to_bytes(bilm, dtype)).digest == before
    for precision in ("bfloat16", "int8"):
        if products.is_supported_on_cpu(precision):
            assert make_random_bilm(BILM, 1).set_precision(precision).digest == before
    version = bilm.version
    next(bilm.network.parameters()).data.neg_()
    bilm.clear_caches()
    assert bilm.version not in (version, same.version, other.version) and bilm.version == bilm.version
    assert bilm.digest != before and pickle.loads(pickle.dumps(bilm)).digest == bilm.digest
