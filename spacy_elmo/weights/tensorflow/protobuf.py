"""The wire format of protocol buffers: numbered fields of a message, without its schema."""

import struct
from typing import Iterator, Tuple, Union

from .damage import Damaged

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types
Value = Union[int, memoryview]


def read_varint(buffer: memoryview, at: int) -> Tuple[int, int]:
    """buffer (memoryview): Bytes.
    at (int): Where the number begins.
    RETURNS (Tuple[int, int]): The number, 0 to 2^64 - 1, and the position after it.
    RAISES (Damaged): If it is truncated or too long.
    """
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(buffer):
            raise Damaged("a number is truncated")
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= 2**64:
                break
            return value, at
    raise Damaged("a number has more than 64 bits")


def read_fields(message: memoryview) -> Iterator[Tuple[int, Value]]:
    """message (memoryview): An encoded message.
    YIELDS (Tuple[int, Value]): Number of a field, and its value: an integer, or the bytes of a string, a message or a
        packed array, not copied. Fields of eight bytes are yielded as bytes, too.
    RAISES (Damaged): If it is not a message.
    """
    at = 0
    while at < len(message):
        tag, at = read_varint(message, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == VARINT:
            value, at = read_varint(message, at)
            yield number, value
            continue
        if wire_type == BYTES:
            n_bytes, at = read_varint(message, at)
        elif wire_type in (FIXED32, FIXED64):
            n_bytes = 4 if wire_type == FIXED32 else 8
        else:
            raise Damaged(f"field {number} of a message has the unknown wire type {wire_type}")
        if at + n_bytes > len(message):
            raise Damaged(f"field {number} of a message is truncated")
        content = message[at : at + n_bytes]
        at += n_bytes
        yield number, struct.unpack("<I", content)[0] if wire_type == FIXED32 else content


def as_int(value: Value) -> int:
    """RETURNS (int): A value that should be an integer, as signed 64-bit number.
    RAISES (Damaged): If it is not.
    """
    if not isinstance(value, int):
        raise Damaged("a field of a message has bytes, should be an integer")
    return value - 2**64 if value >= 2**63 else value


def as_bytes(value: Value) -> memoryview:
    """RETURNS (memoryview): A value that should be bytes.
    RAISES (Damaged): If it is not.
    """
    if isinstance(value, int):
        raise Damaged("a field of a message has an integer, should be bytes")
    return value


def as_text(value: Value, max_bytes: int) -> str:
    """RETURNS (str): A value that should be text in UTF-8.
    RAISES (Damaged): If it is not, or longer than `max_bytes`.
    """
    content = as_bytes(value)
    if len(content) > max_bytes:
        raise Damaged(f"a name has {len(content):,} bytes, should be at most {max_bytes:,}")
    try:
        return bytes(content).decode("utf8")
    except UnicodeDecodeError as error:
        raise Damaged(f"a name is not valid UTF-8: {error.reason}") from error
