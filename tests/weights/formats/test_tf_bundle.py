"""TensorFlow's checkpoints, format V2: read bit for bit; hostile ones are errors before memory is taken."""

import tracemalloc

import numpy as np
import pytest
from reference.tensorflow_files import fixed32, masked_crc, message, shape_message, table, write_bundle

from spacy_elmo.weights.formats.tf_bundle import Bundle, crc32c

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


def test_crc32c_equals_published_values():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4
    assert crc32c(bytes(range(32))) == 0x46DD794E


@pytest.mark.parametrize("settings", [{}, {"n_shards": 3}])
def test_format_v2_is_read_bit_for_bit(settings, tmp_path):
    found = Bundle(write_bundle(tmp_path / "model.ckpt-7", ARRAYS, **settings)).read(ARRAYS)
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array, strict=True)


ONES = np.ones((2, 3), dtype="float32")
MANY = 2**40


def entry(dtype=1, shape=(2, 3), place=(0, 0, 24)):
    """A BundleEntryProto. place: Data file, offset, size."""
    fields = [(1, dtype), (2, shape_message(shape)), (3, place[0]), (4, place[1]), (5, place[2])]
    return message(fields) + fixed32(6, masked_crc(ONES.tobytes()))


@pytest.mark.parametrize(
    "change, reason",
    [
        (entry(shape=(MANY, 3)), "has 24 bytes, which do not fit it"),
        (
            entry(shape=(MANY, 3), place=(0, 0, MANY * 12)),
            "declares 13,194,139,533,312 bytes in model.ckpt.data-00000-of-00001",
        ),
        (entry(shape=(2, -3)), "which do not fit it"),
        (entry(place=(0, 8, 24)), "checksum of W differs, or its bytes are missing"),
        (entry(place=(1, 0, 24)), "no 'model.ckpt.data-00001-of-00001'"),
        (entry(dtype=7), "of data type 7"),
        (entry(place=(0, 0, 0)), "has 0 bytes, .*partitioned variables are not"),
        (entry()[:-4] + b"abcd", "checksum of W differs"),
    ],
)
def test_entries_of_format_v2(change, reason, tmp_path):
    index = write_bundle(tmp_path / "model.ckpt", {"W": ONES}, change={"W": change})
    tracemalloc.start()
    with pytest.raises(ValueError, match=f"model.ckpt.*({reason})"):
        Bundle(index).read(["W"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**24


@pytest.mark.parametrize(
    "records, reason",
    [
        ({b"": message([(1, 1), (2, 1)])}, "big-endian"),
        ({b"": message([(1, 1)]), b"\xff\xfe": entry()}, "can't decode byte 0xff"),
        (None, "does not end like a table"),
    ],
)
def test_tables_of_another_kind(records, reason, tmp_path):
    index = write_bundle(tmp_path / "model.ckpt", {"W": ONES})
    index.write_bytes(b"" if records is None else table(records))
    with pytest.raises(ValueError, match=f"EL022.*model.ckpt.index.*{reason}"):
        Bundle(index)


def test_the_same_bytes_are_not_read_many_times(tmp_path):
    """Otherwise a small index could fill the memory with copies of one array."""
    names = {f"W{i}": entry() for i in range(50)}
    index = write_bundle(tmp_path / "model.ckpt", {"W": ONES}, change=names)
    bundle = Bundle(index)
    assert (bundle.read(["W7"])["W7"] == ONES).all()
    with pytest.raises(ValueError, match="EL022.*declares 1,200 bytes in model.ckpt.data-.*, which has 24"):
        bundle.read(names)
