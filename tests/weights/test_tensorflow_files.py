"""TensorFlow's checkpoint formats: what was written is read bit for bit."""

import numpy as np
import pytest
from reference.tensorflow_files import write_bundle

from spacy_elmo.weights.tensorflow import STATE_NAME, find_checkpoint, open_checkpoint
from spacy_elmo.weights.tf_bundle import crc32c

DRAW = np.random.default_rng(0)
ARRAYS = {
    "lm/char_embed": DRAW.normal(size=(9, 4)).astype("float32"),
    "lm/char_embed/Adagrad": DRAW.normal(size=(9, 4)).astype("float32"),
    "lm/half": DRAW.normal(size=(3, 2)).astype("float16"),
    "lm/double": DRAW.normal(size=(2, 3, 2)),
    "lm/large": DRAW.normal(size=(70, 40)).astype("float32"),
    "lm/empty": np.zeros((0, 3), dtype="float32"),
    "step": np.array(7.0, dtype="float32"),
    "counts": DRAW.integers(-9, 9, size=4).astype("int32"),
    "long": DRAW.integers(-9, 9, size=(2, 2)),
}
CUTS = {"lm/large": (0, 7), "lm/char_embed": (1, 3)}


def test_crc32c_equals_published_values():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4
    assert crc32c(bytes(range(32))) == 0x46DD794E


@pytest.mark.parametrize("settings", [{}, {"n_shards": 3, "cuts": CUTS}])
def test_format_v2_is_read_bit_for_bit(settings, tmp_path):
    found = open_checkpoint(write_bundle(tmp_path / "model.ckpt-7", ARRAYS, **settings)).read(ARRAYS)
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array, strict=True)


@pytest.mark.issue(17)
def test_a_state_file_of_empty_lines_takes_linear_time(tmp_path):
    (tmp_path / STATE_NAME).write_bytes(b"\n" * 1_000_000)
    assert find_checkpoint(tmp_path) is None
