"""Decompression of Snappy blocks, from its format description (google/snappy, format_description.txt)."""

from typing import Tuple

from .damage import Damaged
from .protobuf import read_varint


def decompress(block: memoryview, max_bytes: int) -> bytes:
    """block (memoryview): A block without framing.
    max_bytes (int): Maximum size of the result.
    RETURNS (bytes): The content.
    RAISES (Damaged): If it is not a Snappy block, or declares more bytes.
    """
    n_bytes, at = read_varint(block, 0)
    if n_bytes > max_bytes:
        raise Damaged(f"a compressed block declares {n_bytes:,} bytes, should be at most {max_bytes:,}")
    content = bytearray()
    while at < len(block):
        at = _add_element(content, block, at)
        if len(content) > n_bytes:
            raise Damaged(f"a compressed block has more than the {n_bytes:,} bytes that it declares")
    if len(content) != n_bytes:
        raise Damaged(f"a compressed block has {len(content):,} bytes, but declares {n_bytes:,}")
    return bytes(content)


def _add_element(content: bytearray, block: memoryview, at: int) -> int:
    """Append a literal, or a copy of earlier bytes. RETURNS (int): The position after the element."""
    tag = block[at]
    if tag & 3 == 0:
        length, at = _literal_length(tag, block, at + 1)
        if at + length > len(block):
            raise Damaged("a literal of a compressed block is truncated")
        content += block[at : at + length]
        return at + length
    length, offset, at = _copy(tag, block, at + 1)
    if not 1 <= offset <= len(content):
        raise Damaged(f"a compressed block refers {offset:,} bytes back, but has only {len(content):,} so far")
    source = bytes(content[len(content) - offset :][:length])
    content += (source * -(-length // len(source)))[:length]  # a copy may overlap itself
    return at


def _literal_length(tag: int, block: memoryview, at: int) -> Tuple[int, int]:
    n_more = max(0, (tag >> 2) - 59)  # lengths above 60 follow in 1 to 4 bytes
    return (tag >> 2) + 1 if not n_more else _number(block, at, n_more) + 1, at + n_more


def _copy(tag: int, block: memoryview, at: int) -> Tuple[int, int, int]:
    """RETURNS (Tuple[int, int, int]): Length, offset and the position after them."""
    if tag & 3 == 1:
        return (tag >> 2 & 7) + 4, tag >> 5 << 8 | _number(block, at, 1), at + 1
    n_bytes = 2 if tag & 3 == 2 else 4
    return (tag >> 2) + 1, _number(block, at, n_bytes), at + n_bytes


def _number(block: memoryview, at: int, n_bytes: int) -> int:
    if at + n_bytes > len(block):
        raise Damaged("an element of a compressed block is truncated")
    return int.from_bytes(block[at : at + n_bytes], "little")
