"""Texts in every kind of file and stream, and files that are not text."""

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import threading
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin

SENTENCES = [f"the cat sat on mat {i} .".split() for i in range(300)]
PLAIN = "".join(f"{' '.join(words)}\n" for words in SENTENCES).encode()
N_TOKENS = 7 * 300


def make_zstd(content):
    return pytest.importorskip("zstandard").ZstdCompressor().compress(content)


def make_docbin():
    vocab = spacy.blank("xx").vocab
    return DocBin(docs=[Doc(vocab, words=words) for words in SENTENCES]).to_bytes()


def make_parquet():
    arrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    content = io.BytesIO()
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    parquet.write_table(arrow.table({"words": SENTENCES}), content)
    return content.getvalue()


def make_json_lines():
    return "".join(json.dumps({"id": i, "words": words}) + "\n" for i, words in enumerate(SENTENCES)).encode()


def make_json_array():
    return json.dumps([{"text": " ".join(words)} for words in SENTENCES], indent=1).encode()


# Contents with the same words, by a name that does not fit them, if there is one.
CONTENTS = {
    "text": ("text", lambda: PLAIN),
    "gzip": ("text.txt", lambda: gzip.compress(PLAIN)),
    "bzip2": ("TEXT.TXT.BZ2", lambda: bz2.compress(PLAIN)),
    "bzip2 without suffix": ("text", lambda: bz2.compress(PLAIN)),
    "xz": ("Text.Txt.XZ", lambda: lzma.compress(PLAIN)),
    "lzma": ("text.lzma", lambda: lzma.compress(PLAIN, lzma.FORMAT_ALONE)),
    "Zstandard": ("text.ZST", lambda: make_zstd(PLAIN)),
    "JSON lines": ("TEXTS.JSONL", make_json_lines),
    "JSON lines by another name": ("texts.txt", make_json_lines),
    "JSON lines compressed": ("texts.jsonl.BZ2", lambda: bz2.compress(make_json_lines())),
    "JSON array": ("texts.JSON", make_json_array),
    "JSON array by another name": ("texts", make_json_array),
    "DocBin": ("DOCS.SPACY", make_docbin),
    "DocBin by another name": ("docs.txt", make_docbin),
    "DocBin compressed": ("docs.bin.gz", lambda: gzip.compress(make_docbin())),
    "Parquet": ("T.PARQUET", make_parquet),
    "Parquet by another name": ("t.txt", make_parquet),
    "Parquet compressed": ("t.parquet.gz", lambda: gzip.compress(make_parquet())),
}


@contextmanager
def open_pipe(content):
    """YIELDS (str): The name of a pipe, as of `<(command)` in a shell."""
    reading, writing = os.pipe()

    def write():
        with os.fdopen(writing, "wb") as file:
            for start in range(0, len(content), 1000):
                file.write(content[start : start + 1000])
                file.flush()

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    yield f"/dev/fd/{reading}"
    os.close(reading)
    thread.join()


@contextmanager
def open_fifo(content, path):
    os.mkfifo(path)
    thread = threading.Thread(target=path.write_bytes, args=(content,), daemon=True)
    thread.start()
    yield path
    thread.join()


needs_pipes = pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="needs pipes with a name")


def _tar():
    header = bytearray(512)
    header[:5], header[257:262] = b"a.txt", b"ustar"
    return bytes(header) + PLAIN


def _hdf5():
    return b"\x89HDF\r\n\x1a\n" + bytes(100)


def _npz():
    content = io.BytesIO()
    np.savez(content, a=np.zeros(3))
    return content.getvalue()


def make_zip():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("corpus.txt", PLAIN)
    return content.getvalue()


def _sqlite():
    return b"SQLite format 3\0" + bytes(84)


def _pickle():
    return pickle.dumps({"text": "a"})


NOT_TEXT = {
    "zip": (make_zip, "a zip archive.*Unpack it"),
    "npz": (_npz, r"NumPy arrays \(.npz\)"),
    "tar": (_tar, "a tar archive.*Unpack it"),
    "tar.gz": (lambda: gzip.compress(_tar()), "a tar archive.*Unpack it"),
    "gzip in gzip": (lambda: gzip.compress(gzip.compress(PLAIN)), "compressed twice, inside by gzip.*Decompress it"),
    "bzip2 in gzip": (lambda: gzip.compress(bz2.compress(PLAIN)), "compressed twice, inside by bzip2"),
    "xz in bzip2": (lambda: bz2.compress(lzma.compress(PLAIN)), "compressed twice, inside by xz"),
    "7z": (lambda: b"7z\xbc\xaf\x27\x1c" + bytes(30), "a 7z archive"),
    "LZ4": (lambda: b"\x04\x22\x4d\x18" + b"xyz" * 9, "compressed by LZ4.*Decompress it"),
    "HDF5": (_hdf5, "an HDF5 file"),
    "SQLite": (_sqlite, "an SQLite database"),
    "pickle": (_pickle, "a pickle of Python"),
    "PDF": (lambda: b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj", "a PDF document.*Extract its text"),
    "PNG": (lambda: b"\x89PNG\r\n\x1a\n" + bytes(30), "a picture"),
    "JPEG": (lambda: b"\xff\xd8\xff\xe0\0\x10JFIF", "a picture"),
    "safetensors": (lambda: (100).to_bytes(8, "little") + b'{"a": 1}', "a file of safetensors"),
    "Arrow": (lambda: b"ARROW1\0\0" + bytes(30), "an Arrow or Feather file"),
    "program": (lambda: b"\x7fELF\2\1\1" + bytes(30), "a program"),
    "UTF-16": (lambda: PLAIN.decode().encode("utf-16"), "text in UTF-16, by its byte order mark.*iconv -f UTF-16 "),
    "UTF-16LE": (lambda: PLAIN.decode().encode("utf-16-le"), "NUL bytes, as UTF-16LE.*iconv -f UTF-16LE"),
    "UTF-16BE": (lambda: PLAIN.decode().encode("utf-16-be"), "NUL bytes, as UTF-16BE.*iconv -f UTF-16BE"),
    "UTF-32LE": (lambda: PLAIN.decode().encode("utf-32-le"), "NUL bytes, as UTF-32LE"),
    "Chinese": (lambda: ("\u6c34\u8fb9 \u7684\n" * 9).encode("utf-16-le"), "NUL bytes.*iconv -f UTF-16LE"),
    "one NUL": (lambda: PLAIN + b"a\0b\n", r"NUL bytes.*tr -d '\\000'"),
    "NUL after a while": (lambda: PLAIN * 50 + b"a\0b\n", r"NUL bytes.*tr -d '\\000'"),
    "random": (lambda: np.random.default_rng(0).bytes(5000), "not text in UTF-8, since it has NUL bytes"),
}
