"""Sorted string tables of LevelDB, read block by block: prefix-compressed keys, CRC-32C, optional Snappy.

Format: LevelDB, doc/table_format.md. A file has data blocks, an index block with the position of each of them, and a
footer of 48 bytes with the position of the index block. TensorFlow stores checkpoints in such files.
"""

import os
import struct
from pathlib import Path
from typing import BinaryIO, Iterator, Tuple

from ..limits import expanded_limit
from .crc32c import masked_crc32c
from .damage import Damaged
from .protobuf import read_varint
from .snappy import decompress

MAGIC = b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"
FOOTER_BYTES = 48
TRAILER_BYTES = 5  # after each block: kind of compression, masked CRC of the block and the kind
UNCOMPRESSED, SNAPPY = 0, 1
MAX_KEY_BYTES = 4096
MAX_ENTRIES = 100_000

Handle = Tuple[int, int]  # offset and size of a block, without its trailer


def is_sorted_table(path: Path) -> bool:
    """path (Path): A file.
    RETURNS (bool): Whether it ends like a sorted table.
    """
    if not path.is_file() or path.stat().st_size < FOOTER_BYTES:
        return False
    with path.open("rb") as file:
        file.seek(-len(MAGIC), os.SEEK_END)
        return file.read() == MAGIC


def read_table(file: BinaryIO) -> Iterator[Tuple[bytes, memoryview]]:
    """Read the entries of a table in their order. One block at a time is in memory.

    file (BinaryIO): A table, open for reading.
    YIELDS (Tuple[bytes, memoryview]): Key and value; keys ascend.
    RAISES (Damaged): For a file that is not a table, or damaged.
    """
    n_bytes = file.seek(0, os.SEEK_END)
    index = _index_handle(file, n_bytes)
    budget = expanded_limit(n_bytes)  # bytes of all blocks after decompression
    end, previous, n_entries = 0, None, 0
    for _, content in _entries(_read_block(file, index, n_bytes, budget)):
        offset, size = _handle(content, 0)[0]
        if offset < end:
            raise Damaged("its blocks overlap")
        end = offset + size + TRAILER_BYTES
        block = _read_block(file, (offset, size), n_bytes, budget)
        budget -= len(block)
        for key, value in _entries(block):
            n_entries += 1
            if previous is not None and key <= previous:
                raise Damaged("its keys are not in ascending order")
            if n_entries > MAX_ENTRIES:
                raise Damaged(f"it has more than {MAX_ENTRIES:,} entries")
            previous = key
            yield key, value


def _index_handle(file: BinaryIO, n_bytes: int) -> Handle:
    if n_bytes < FOOTER_BYTES:
        raise Damaged(f"it has {n_bytes:,} bytes, should have at least {FOOTER_BYTES}")
    file.seek(n_bytes - FOOTER_BYTES)
    footer = memoryview(file.read(FOOTER_BYTES))
    if len(footer) != FOOTER_BYTES or bytes(footer[-len(MAGIC) :]) != MAGIC:
        raise Damaged("it does not end like a table of TensorFlow")
    _, at = _handle(footer, 0)  # of the block of meta data, which is empty
    return _handle(footer, at)[0]


def _handle(buffer: memoryview, at: int) -> Tuple[Handle, int]:
    offset, at = read_varint(buffer, at)
    size, at = read_varint(buffer, at)
    return (offset, size), at


def _read_block(file: BinaryIO, handle: Handle, n_bytes: int, budget: int) -> memoryview:
    offset, size = handle
    if offset + size + TRAILER_BYTES > n_bytes - FOOTER_BYTES:
        raise Damaged(f"a block of {size:,} bytes at {offset:,} is not inside the file of {n_bytes:,} bytes")
    file.seek(offset)
    stored = memoryview(file.read(size + TRAILER_BYTES))
    if len(stored) != size + TRAILER_BYTES:
        raise Damaged(f"the block at {offset:,} is truncated")
    kind, crc = struct.unpack("<BI", stored[size:])
    if masked_crc32c(stored[: size + 1]) != crc:
        raise Damaged(f"the checksum of the block at {offset:,} differs")
    if kind == UNCOMPRESSED:
        return stored[:size]
    if kind == SNAPPY:
        return memoryview(decompress(stored[:size], budget))
    raise Damaged(f"the block at {offset:,} has the unknown compression {kind}")


def _entries(block: memoryview) -> Iterator[Tuple[bytes, memoryview]]:
    """Keys and values of a block. Each key omits the bytes that it shares with the one before."""
    n_restarts = struct.unpack("<I", block[-4:])[0] if len(block) >= 4 else len(block)
    end = len(block) - 4 - 4 * n_restarts
    if end < 0:
        raise Damaged("a block is shorter than its list of restarts")
    at, key = 0, b""
    while at < end:
        n_shared, at = read_varint(block, at)
        n_own, at = read_varint(block, at)
        n_value, at = read_varint(block, at)
        if n_shared > len(key) or at + n_own + n_value > end:
            raise Damaged("an entry of a block is truncated")
        if n_shared + n_own > MAX_KEY_BYTES:
            raise Damaged(f"a key has {n_shared + n_own:,} bytes, should have at most {MAX_KEY_BYTES:,}")
        key = key[:n_shared] + bytes(block[at : at + n_own])
        at += n_own
        yield key, block[at : at + n_value]
        at += n_value
