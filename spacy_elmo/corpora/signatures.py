"""First bytes of files: how they are compressed, which binary format they have, and whether they are text."""

import codecs
import re
import zlib
from typing import Dict, Optional, Pattern, Tuple

# Suffixes of compressed files, with their first bytes; .xz includes .lzma, and .zst skippable frames.
COMPRESSIONS: Dict[str, Pattern[bytes]] = {
    ".gz": re.compile(rb"\x1f\x8b\x08"),
    ".bz2": re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
    ".xz": re.compile(rb"\xfd7zXZ\0|\x5d\0\0"),
    ".zst": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),
}
PARQUET = re.compile(rb"PAR1\x15")  # the header of a page or of the metadata follows
DOCBIN_KEYS = (b"\xa7version", b"\xa5attrs")  # of its msgpack, within zlib; the first is missing in old files
JSON_START = re.compile(rb'\s*(\[\s*)?\{\s*"')
JSON_TEXT = re.compile(rb'"(text|words|tokens)"\s*:')

UNPACK = "Unpack it, and give the texts in it"
DECOMPRESS = "Decompress it, or compress it by gzip, bzip2, xz or Zstandard"
EXPORT = "Write its texts to JSON lines, Parquet or a text file"
EXTRACT = "Extract its text into a file, in UTF-8"
OTHER = "Give a file with text"
# Binary formats that are not read: first bytes, name and remedy. More special ones come first. Others have NUL bytes.
BINARY: Tuple[Tuple[Pattern[bytes], str, str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), name, remedy)
    for pattern, name, remedy in (
        (rb"PK\x03\x04.{26}[^\0]{0,64}\.npy", "an archive of NumPy arrays (.npz)", EXPORT),
        (rb"PK\x03\x04.{26}[^\0]{0,64}/data\.pkl", "a file of PyTorch", OTHER),
        (rb"PK\x03\x04.{26}(\[Content_Types\]|_rels/|docProps/|word/|xl/|mimetype)", "an office document", EXTRACT),
        (rb"PK(\x03\x04|\x05\x06|\x07\x08)", "a zip archive", UNPACK),
        (rb".{257}ustar", "a tar archive", UNPACK),
        (rb"7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK),
        (rb"Rar!\x1a\x07", "a rar archive", UNPACK),
        (rb"\x04\x22\x4d\x18", "compressed by LZ4", DECOMPRESS),
        (rb"\x89HDF\r\n\x1a\n", "an HDF5 file", EXPORT),
        (rb"\x93NUMPY", "a NumPy array (.npy)", EXPORT),
        (rb"\x80[\2-\5][\x80-\xffc(}\]KXUJMGNq]", "a pickle of Python", EXPORT),
        (rb"SQLite format 3\0", "an SQLite database", EXPORT),
        (rb".{3}[\0-\3]\0{4}\{\s*\"", "a file of safetensors", OTHER),
        (rb"ARROW1\0\0|\xff{4}.{3}\0.{0,64}\0\0\n\0|FEA1.{0,64}\0", "an Arrow or Feather file", EXPORT),
        (rb"%PDF-\d", "a PDF document", EXTRACT),
        (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an office document", EXTRACT),
        (rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a.{0,16}[\0-\x08]|BM.{4}\0{4}", "a picture", EXTRACT),
        (rb"\x7fELF|MZ.{0,64}\0|\xcf\xfa\xed\xfe|\xca\xfe\xba\xbe|\0asm", "a program", OTHER),
    )
)
WIDE = {"UTF-32LE": 4, "UTF-32BE": 4, "UTF-16LE": 2, "UTF-16BE": 2}  # bytes of a code unit
REPLACEMENT = "\ufffd"
MOSTLY = 0.95  # of the characters of a text can be printed
ZLIB_STARTS = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
COMPRESSION_NAMES = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "Zstandard"}


def compression_of(start: bytes) -> Optional[str]:
    """RETURNS (Optional[str]): A key of `COMPRESSIONS`, None if the bytes are not compressed in a known way."""
    return next((suffix for suffix, magic in COMPRESSIONS.items() if magic.match(start)), None)


def format_by_content(start: bytes) -> Optional[str]:
    """RETURNS (Optional[str]): "docbin", "parquet" or "jsonl" by the first bytes of a file, decompressed; None for
    anything else. Lines of JSON have objects with a text or words.
    """
    if PARQUET.match(start):
        return "parquet"
    if _decompress_zlib(start).startswith(
        tuple(bytes([size]) + key for size in range(0x80, 0x90) for key in DOCBIN_KEYS)
    ):
        return "docbin"
    start = start.removeprefix(codecs.BOM_UTF8)
    return "jsonl" if JSON_START.match(start) and JSON_TEXT.search(start) else None


def name_binary(start: bytes) -> Optional[Tuple[str, str]]:
    """RETURNS (Optional[Tuple[str, str]]): What a file is, and what to do, if its first bytes are not text in UTF-8."""
    for encoding, marks in (
        ("UTF-32", (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)),
        ("UTF-16", (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)),
    ):
        if start.startswith(marks):
            return f"text in {encoding}, by its byte order mark", _convert(encoding)
    if format_by_content(start) == "docbin":
        return "a DocBin", "Read it as one: as docbin, not as text"
    if format_by_content(start) == "parquet":
        return "a Parquet file", "Read it as one: as parquet, not as text"
    for magic, name, remedy in BINARY:
        if magic.match(start):
            return name, remedy
    if _decompress_zlib(start):
        return "compressed by zlib", DECOMPRESS
    if inner := compression_of(start):  # of content, which is decompressed once
        return f"compressed twice, inside by {COMPRESSION_NAMES[inner]}", "Decompress it once"
    if 0 in start:
        return _name_text_with_nuls(start)
    return None


def name_other_than_docbin(start: bytes) -> str:
    """RETURNS (str): What a file is, by its first bytes, if it does not begin as a DocBin does; else ""."""
    if not start:
        return "it is empty"
    if start[:2] in ZLIB_STARTS:
        return ""
    if binary := name_binary(start):
        return f"it is {binary[0]}"
    n_invalid = start.decode("utf8", "replace").count(REPLACEMENT)
    return "it is text" if n_invalid < len(start) * (1 - MOSTLY) else "it does not begin as a DocBin does"


def _name_text_with_nuls(start: bytes) -> Tuple[str, str]:
    place = f"NUL bytes (the first is byte {start.index(0) + 1:,})"
    n_invalid = start.decode("utf8", "replace").count(REPLACEMENT) - start.count(REPLACEMENT.encode("utf8"))
    if start.count(0) + n_invalid < len(start) * (1 - MOSTLY):
        return f"text with {place}", "Remove them (`tr -d '\\000' < OLD > NEW`)"
    for encoding, size in WIDE.items():
        text = start.decode(encoding, "replace").replace(REPLACEMENT, "")
        n_printable = sum(character.isprintable() or character.isspace() for character in text)
        if n_printable > MOSTLY * (len(start) // size):
            return f"text with NUL bytes, as {encoding} without a byte order mark has", _convert(encoding)
    return f"not text in UTF-8, since it has {place}", f"{OTHER}; for UTF-16: `iconv -f UTF-16LE -t UTF-8 OLD > NEW`"


def _convert(encoding: str) -> str:
    return f"Save it as UTF-8 (`iconv -f {encoding} -t UTF-8 OLD > NEW`)"


def _decompress_zlib(start: bytes) -> bytes:
    """RETURNS (bytes): The first bytes of data compressed by zlib; empty for other data."""
    if len(start) < 2 or start[0] != 0x78 or (start[0] * 256 + start[1]) % 31:
        return b""
    try:
        return zlib.decompressobj().decompress(start, 64)
    except zlib.error:
        return b""
