"""Damaged and hostile checkpoints: an error of ours that names the file, before memory is taken."""

import struct
import tracemalloc

import numpy as np
import pytest
from reference.seeded_weights import WORDS, make_arrays, make_options
from reference.tensorflow_files import (
    MAGIC,
    fixed32,
    masked_crc,
    message,
    shape_message,
    slice_message,
    table,
    varint,
    write_bundle,
    write_checkpoint,
)

from spacy_elmo import load_bilm
from spacy_elmo.weights.tf_bundle import Bundle, slice_key

ONES = np.ones((2, 3), dtype="float32")
MANY = 2**40


def entry(dtype=1, shape=(2, 3), place=(0, 0, 24), slices=()):
    """A BundleEntryProto. place: Data file, offset, size."""
    fields = [(1, dtype), (2, shape_message(shape)), (3, place[0]), (4, place[1]), (5, place[2])]
    parts = [(7, slice_message(extents)) for extents in slices]
    return message([*fields, *parts]) + fixed32(6, masked_crc(ONES.tobytes()))


@pytest.mark.parametrize(
    "change, reason",
    [
        (entry(shape=(MANY, 3)), "has 24 bytes, which do not fit it"),
        (entry(shape=(MANY, 3), place=(0, 0, MANY * 12)), "declares 13,194,139,533,312 bytes in data file 0"),
        (entry(shape=(2, -3)), "has negative sizes"),
        (entry(shape=(1,) * 17), "more than 16 dimensions"),
        (entry(place=(0, 8, 24)), "is at 8 to 32 of 24 bytes"),
        (entry(place=(0, MANY, 24)), "of 24 bytes"),
        (entry(place=(0, -1, 24)), "negative number"),
        (entry(place=(1, 0, 24)), "refers to data file 1, but there are 1"),
        (entry(dtype=7), "has the data type 7"),
        (entry(dtype=2), "which do not fit it"),
        (entry(slices=[[(0, 1), (0, -1)]]), "slices of W do not cover"),
        (entry()[:-4] + b"abcd", "checksum of W differs"),
        (entry()[:-5], "a number is truncated|checksum of W differs"),
        (b"\x0f", "unknown wire type 7"),
        (b"\x12\x7f", "field 2 of a message is truncated"),
        (b"\x0a\x01\x01", "has bytes, should be an integer"),
        (b"\x10\x01", "has an integer, should be bytes"),
        (b"\x08" + b"\xff" * 10, "more than 64 bits"),
        (message([(2, message([(3, 1)]))]), "rank of a shape is unknown"),
    ],
)
def test_entries_of_format_v2(change, reason, tmp_path):
    index = write_bundle(tmp_path / "model.ckpt", {"W": ONES}, change={"W": change})
    with pytest.raises(ValueError, match=f"EL320.*model.ckpt.*({reason})"):
        Bundle(index).read(["W"])


def test_the_same_bytes_are_not_read_many_times(tmp_path):
    """Otherwise a small index could fill the memory with copies of one array."""
    names = {f"W{i}": entry() for i in range(50)}
    index = write_bundle(tmp_path / "model.ckpt", {"W": ONES}, change=names)
    bundle = Bundle(index)
    assert (bundle.read(["W7"])["W7"] == ONES).all()
    with pytest.raises(ValueError, match="EL320.*declares 1,200 bytes in data file 0, which has 24"):
        bundle.read(names)


@pytest.mark.parametrize(
    "slices, reason",
    [
        ([[(0, 1), (0, -1)]], "do not cover its shape"),
        ([[(0, 1), (0, -1)], [(0, 1), (0, -1)]], "do not cover its shape"),
        ([[(0, 3), (0, -1)]], "is not inside its shape"),
        ([[(0, MANY), (0, -1)]], "is not inside its shape"),
        ([[(-1, 2), (0, -1)]], "is not inside its shape"),
        ([[(0, 2)]], "has 1 dimensions, should have 2"),
        ([[(0, 1), (0, -1)]] * 1001, "has 1,001 slices"),
    ],
)
def test_slices(slices, reason, tmp_path):
    index = write_bundle(tmp_path / "model.ckpt", {"W": ONES}, change={"V": entry(slices=slices)})
    with pytest.raises(ValueError, match=f"EL320.*{reason}"):
        Bundle(index).read(["V"])


@pytest.mark.parametrize(
    "header, reason",
    [
        (message([(1, 0)]), "declares 0 data files"),
        (message([(1, 10_001)]), "declares 10,001 data files"),
        (message([(1, 1), (2, 1)]), "big-endian"),
    ],
)
def test_headers(header, reason, tmp_path):
    index = write_bundle(tmp_path / "model.ckpt", {"W": ONES}, header=header)
    with pytest.raises(ValueError, match=f"EL320.*{reason}"):
        Bundle(index)


def footer(index_offset, index_size):
    handles = varint(0) + varint(0) + varint(index_offset) + varint(index_size)
    return handles.ljust(40, b"\0") + struct.pack("<Q", MAGIC)


def stored(block, kind=0):
    return block + bytes([kind]) + struct.pack("<I", masked_crc(block + bytes([kind])))


def restarts(*numbers):
    return b"".join(struct.pack("<I", number) for number in numbers)


@pytest.mark.parametrize(
    "content, reason",
    [
        (b"", "has 0 bytes, should have at least 48"),
        (b"\0" * 48, "does not end like a table"),
        (footer(0, MANY), "not inside the file"),
        (footer(MANY, 8), "not inside the file"),
        (b"\xff" * 40 + struct.pack("<Q", MAGIC), "more than 64 bits"),
        (b"abcd\0\0\0\0\0" + footer(0, 4), "checksum of the block at 0 differs"),
        (stored(b"") + footer(0, 0), "shorter than its list of restarts"),
        (stored(restarts(MANY % 2**32 + 99)) + footer(0, 4), "shorter than its list of restarts"),
        (stored(restarts(0, 1), 9) + footer(0, 8), "is compressed"),
        (stored(b"\0\5\0ab" + restarts(0, 1)) + footer(0, 13), "entry of a block is truncated"),
        (stored(b"\1\0\0" + restarts(0, 1)) + footer(0, 11), "entry of a block is truncated"),
    ],
)
def test_tables(content, reason, tmp_path):
    index = tmp_path / "model.ckpt.index"
    index.write_bytes(content)
    with pytest.raises(ValueError, match=f"EL320.*model.ckpt.index.*{reason}"):
        Bundle(index)


def test_keys_have_a_limit(tmp_path):
    """A key may share all bytes of the one before, so that a few bytes could declare many long keys."""
    index = write_bundle(tmp_path / "model.ckpt", {"W": ONES})
    index.write_bytes(table({b"": message([(1, 1)]), b"W" * 5000: entry()}))
    with pytest.raises(ValueError, match="EL320.*a key has 5,000 bytes"):
        Bundle(index)


def test_names_are_text(tmp_path):
    index = write_bundle(tmp_path / "model.ckpt", {"W": ONES})
    index.write_bytes(table({b"": message([(1, 1)]), b"\xff\xfe": entry()}))
    with pytest.raises(ValueError, match="EL320.*a name is not valid UTF-8"):
        Bundle(index)
    index.write_bytes(table({b"W": entry()}))
    with pytest.raises(ValueError, match="EL320.*has no header"):
        Bundle(index)


def test_errors_take_no_memory(tmp_path):
    large = entry(shape=(2**28, 4), place=(0, 0, 2**32))
    index = write_bundle(tmp_path / "model.ckpt", {"W": ONES}, change={"W": large})
    tracemalloc.start()
    with pytest.raises(ValueError, match="EL320"):
        Bundle(index).read(["W"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**24


def test_declared_slices_take_no_memory(tmp_path):
    """The slices cover a huge shape, but their values are few."""
    extents = ((0, MANY), (0, 3))
    change = {"V": entry(shape=(MANY, 3), slices=[extents])}
    checkpoint = Bundle(write_bundle(tmp_path / "a", {"W": ONES}, change=change))
    checkpoint._slices[slice_key("V", extents)] = checkpoint.variables["W"]
    with pytest.raises(ValueError, match="EL320.*a slice of V is"):
        checkpoint.read(["V"])


def test_missing_files(tmp_path):
    options = make_options()
    write_checkpoint(tmp_path, options, make_arrays(options), WORDS, n_shards=2)
    (tmp_path / "model.ckpt-7.data-00001-of-00002").unlink()
    with pytest.raises(ValueError, match="no 'model.ckpt-7.data-00001-of-00002'"):
        load_bilm(tmp_path)
