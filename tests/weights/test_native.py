import json

import numpy as np
import pytest
import torch
from reference.seeded_weights import WORDS
from safetensors.numpy import load_file

from spacy_elmo import BiLM, load_bilm, save_bilm
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.lm_head import AdaptiveHead
from spacy_elmo.bilm.model import BiLMNetwork
from spacy_elmo.text.words import Vocabulary
from spacy_elmo.weights import bilm_from_bytes, bilm_to_bytes
from spacy_elmo.weights.files import MAX_JSON_BYTES


def assert_equal(first, second, **tolerance):
    assert first.config == second.config
    for key, tensor in first.network.state_dict().items():
        other = second.network.state_dict()[key]
        assert other.dtype == torch.float32
        torch.testing.assert_close(other, tensor, **(tolerance or {"rtol": 0, "atol": 0}))
    assert (first.head is None) == (second.head is None)
    if first.head is not None:
        torch.testing.assert_close(second.head.weight, first.head.weight, **(tolerance or {"rtol": 0, "atol": 0}))
    assert first.vocabulary == second.vocabulary


def test_native_float16_is_float32_in_memory(bilm, tmp_path):
    save_bilm(bilm, tmp_path / "half", dtype="float16")
    assert {array.dtype for array in load_file(tmp_path / "half" / "weights.safetensors").values()} == {np.dtype("f2")}
    again = load_bilm(tmp_path / "half")
    assert_equal(bilm, again, atol=2e-3, rtol=1e-3)
    save_bilm(again, tmp_path / "half2", dtype="float16")
    first, second = (load_file(tmp_path / name / "weights.safetensors") for name in ("half", "half2"))
    assert all(second[key].tobytes() == first[key].tobytes() for key in first)
    assert set(second) - set(first) == {"steady.h", "steady.c"}  # which settled with the rounded weights


def test_native_keeps_meta_and_says_its_format(bilm, tmp_path):
    bilm.meta = {"corpus": "née", "tokens_seen": 12}
    save_bilm(bilm, tmp_path / "native")
    assert sorted(path.name for path in (tmp_path / "native").iterdir()) == [
        "config.json",
        "meta.json",
        "vocab.txt",
        "weights.safetensors",
    ]
    assert load_bilm(tmp_path / "native").meta == bilm.meta
    assert bilm_from_bytes(bilm_to_bytes(bilm)).meta == bilm.meta
    record = json.loads((tmp_path / "native" / "config.json").read_text())
    assert record["format_version"] == 1
    del record["bilm"]["highway_between"]  # as in files from before this setting
    (tmp_path / "native" / "config.json").write_text(json.dumps(record))
    assert not load_bilm(tmp_path / "native").config.highway_between


def test_native_keeps_the_steady_state_of_its_very_weights(bilm, tmp_path):
    save_bilm(bilm, tmp_path / "native")
    save_bilm(bilm, tmp_path / "half", dtype="float16")
    stored = load_file(tmp_path / "native" / "weights.safetensors")
    np.testing.assert_array_equal(stored["steady.h"], bilm.steady_state.h.numpy())
    np.testing.assert_array_equal(stored["steady.c"], bilm.steady_state.c.numpy())
    assert torch.equal(load_bilm(tmp_path / "native").steady_state.h, bilm.steady_state.h)
    assert torch.equal(bilm_from_bytes(bilm_to_bytes(bilm)).steady_state.c, bilm.steady_state.c)
    # Rounded weights settle elsewhere: their state is computed anew.
    assert "steady.h" not in load_file(tmp_path / "half" / "weights.safetensors")


def test_bytes_are_reproducible_and_hold_no_pickle(bilm):
    content = bilm_to_bytes(bilm)
    assert content == bilm_to_bytes(bilm_from_bytes(content))
    header = content[8 : 8 + int.from_bytes(content[:8], "little")]
    assert json.loads(header)["bilm.lstm.0.bias"]["dtype"] == "F32"
    numbers = [entry for name, entry in json.loads(header).items() if name != "__metadata__"]
    n_bytes = sum(4 * int(np.prod(entry["shape"])) for entry in numbers)
    assert len(content) == 8 + len(header) + n_bytes  # JSON and plain numbers, nothing else


def test_values_beyond_float16_are_refused(bilm, tmp_path):
    with torch.no_grad():
        bilm.network.encoder.layers[0].bias[0, 0] = 1e6
    for kind in ("native", "bilm-tf"):
        with pytest.raises(ValueError, match="not finite in float16: .*"):
            save_bilm(bilm, tmp_path / "half", format=kind, dtype="float16")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["original"]


@pytest.fixture
def native(bilm, tmp_path):
    save_bilm(bilm, tmp_path / "native")
    return tmp_path / "native"


def test_native_damaged(native):
    weights = native / "weights.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="EL022.*cannot be read as safetensors"):
        load_bilm(native)
    with pytest.raises(ValueError, match="EL022.*cannot be read as safetensors"):
        bilm_from_bytes(b"PK\x03\x04" + bytes(99))
    weights.write_bytes(content)
    for name, content, text in (("meta.json", "[1]", "meta data"), ("config.json", "{", "JSON")):
        (native / name).write_text(content)
        with pytest.raises(ValueError, match=f"(?s)EL022.*{name}.* cannot be read as {text}"):
            load_bilm(native)


def test_native_vocabulary(native, tmp_path):
    (tmp_path / "other.txt").write_text("\n".join(["<S>", "</S>", "<UNK>"]))
    with pytest.raises(ValueError, match="3 words, but the softmax has 12 rows"):
        load_bilm(native, vocab=tmp_path / "other.txt")
    with pytest.raises(ValueError, match="softmax cannot be added"):
        load_bilm(native, softmax=tmp_path / "softmax.hdf5")


def with_adaptive_head(bilm):
    torch.manual_seed(0)
    bilm.head = AdaptiveHead(len(WORDS), bilm.config.projection_width, [4, 7], div_value=2.0).eval()
    return bilm


def test_native_keeps_an_adaptive_softmax(bilm, tmp_path):
    bilm = with_adaptive_head(bilm)
    save_bilm(bilm, tmp_path / "native")
    text = [WORDS[3:9]] * 3
    for again in (load_bilm(tmp_path / "native"), bilm_from_bytes(bilm_to_bytes(bilm))):
        assert again.head.settings == bilm.head.settings and not again.head.training
        for key, tensor in bilm.head.state_dict().items():
            assert torch.equal(again.head.state_dict()[key], tensor), key
        np.testing.assert_allclose(again.token_losses(text), bilm.token_losses(text), atol=1e-5)


def test_highways_between_layers_are_kept_in_the_native_format_alone(tmp_path):
    torch.manual_seed(0)
    sizes = {"n_layers": 3, "cell_width": 8, "projection_width": 4}
    config = BiLMConfig(n_words=len(WORDS), has_skip=False, highway_between=True, **sizes)
    bilm = BiLM(BiLMNetwork(config), vocabulary=Vocabulary(WORDS))
    with pytest.raises(ValueError, match="highways"):
        save_bilm(bilm, tmp_path / "tf", format="bilm-tf")
    assert not any(tmp_path.iterdir())
    save_bilm(bilm, tmp_path / "native")
    assert_equal(bilm, load_bilm(tmp_path / "native"))
    assert_equal(bilm, bilm_from_bytes(bilm_to_bytes(bilm)))


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
    save_bilm(with_adaptive_head(bilm) if block == "adaptive_softmax" else bilm, tmp_path / "native")
    record = json.loads((tmp_path / "native" / "config.json").read_text())
    (record if block is None else record[block]).update(changes)
    (tmp_path / "native" / "config.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=part):
        load_bilm(tmp_path / "native")


def test_meta_data_that_could_not_be_read_are_not_written(bilm, tmp_path):
    bilm.meta = {"words": "é" * (MAX_JSON_BYTES // 6)}
    with pytest.raises(ValueError, match="EL036.*meta.json' has 2,097,.* should have at most 2,097,152"):
        save_bilm(bilm, tmp_path / "native")
    assert not (tmp_path / "native").exists()
    bilm.meta = {"words": "é" * (MAX_JSON_BYTES // 6 - 10)}
    save_bilm(bilm, tmp_path / "native")
    assert load_bilm(tmp_path / "native").meta == bilm.meta
