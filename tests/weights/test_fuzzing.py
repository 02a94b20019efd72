"""The fuzzing harness itself: it finds planted faults, repeats itself, and leaves the file as it was."""

import io
import json
import random
import tarfile
import warnings
import zipfile
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
from weights.fuzzing import (
    MIB,
    Limits,
    damaged,
    fuzz,
    mutate_bytes,
    mutate_head,
    mutate_json,
    mutate_tar,
    mutate_text,
    mutate_zip,
    mutator_of,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "a.json").write_bytes(json.dumps({"a": [1, {"b": 2}], "c": "text"}).encode())
    return tmp_path / "a.json"


def archive_of(is_tar: bool) -> bytes:
    stream = io.BytesIO()
    if is_tar:
        with tarfile.open(fileobj=stream, mode="w:gz") as archive:
            for name in ("a.json", "b.bin"):
                info = tarfile.TarInfo(name)
                info.size = 2
                archive.addfile(info, io.BytesIO(b"{}"))
    else:
        with zipfile.ZipFile(stream, "w") as archive:
            for name in ("a.json", "b.bin"):
                archive.writestr(name, "{}")
    return stream.getvalue()


def refuse(path: Path) -> None:
    raise ValueError("[EL022] refused")


@pytest.mark.issue(17)
def test_results_and_errors_are_counted(file: Path) -> None:
    before = file.read_bytes()
    result = fuzz(refuse, file, n=5)
    assert result.n_errors == 5 and result.codes == {"EL022": 5} and result.n_loaded == 0
    assert fuzz(Path.read_bytes, file, n=5).n_loaded == 5
    assert file.read_bytes() == before


def fail_with(error: BaseException) -> Callable[[Path], Any]:
    def read(path: Path) -> None:
        raise error

    return read


def fail_of_memory(path: Path) -> None:
    try:
        np.ones(2**40)
    except MemoryError as error:
        raise ValueError("[EL022] hidden") from error


@pytest.mark.issue(17)
@pytest.mark.parametrize(
    "read, text",
    [
        (fail_with(KeyError("a")), "damaged copy 0 of a.json: KeyError"),
        (fail_with(ValueError("no code")), "ValueError: no code"),
        (fail_with(RecursionError("deep")), "RecursionError"),
        (fail_of_memory, "asked for more than"),
    ],
)
def test_other_errors_fail(read: Callable[[Path], Any], text: str, file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(AssertionError, match=text):
        fuzz(read, file, n=3)
    assert file.read_bytes() == before


@pytest.mark.issue(17)
def test_warnings_of_libraries_fail(file: Path) -> None:
    fuzz(lambda path: warnings.warn("[WL020] ours", UserWarning, stacklevel=1), file, n=1)
    with pytest.raises(AssertionError, match="overflow encountered"):
        fuzz(lambda path: np.float32(3e38) * np.float32(10), file, n=1)


@pytest.mark.issue(17)
def test_memory_of_a_reader_is_limited(file: Path) -> None:
    def allocate(path: Path) -> None:
        np.zeros(8 * 1024 * MIB, "uint8")  # more than the memory that this process has freed

    fuzz(lambda path: np.zeros(64 * MIB, "uint8"), file, n=1)
    with pytest.raises(AssertionError, match=r"asked for more than 33,554,432 bytes"):
        fuzz(allocate, file, n=1, limits=Limits(n_bytes=32 * MIB))


@pytest.mark.issue(17)
def test_processor_time_of_a_reader_is_limited(file: Path) -> None:
    with pytest.raises(AssertionError, match="reading took .* at most -1.0 s"):
        fuzz(Path.read_bytes, file, n=1, limits=Limits(seconds=-1.0))


@pytest.mark.issue(17)
@pytest.mark.parametrize(
    "name, content, mutate",
    [
        ("a.bin", b"0123456789" * 10, mutate_bytes),
        ("b.bin", b"0123456789" * 1000, mutate_head),
        ("a.json", b'{"a": [1, 2, {"b": null}]}', mutate_json),
        ("a.txt", b"one\ntwo\nthree\n", mutate_text),
        ("a.zip", archive_of(False), mutate_zip),
        ("a.tar.gz", archive_of(True), mutate_tar),
    ],
)
def test_mutations_are_seeded_and_many(name: str, content: bytes, mutate: Any) -> None:
    copies = [damaged(content, name, number, mutate) for number in range(100)]
    assert copies == [damaged(content, name, number, mutate) for number in range(100)]
    assert len(set(copies)) > 60 and sum(copy != content for copy in copies) > 80
    assert mutate(b"" if mutate is mutate_bytes else content, random.Random(0)) is not None
    assert mutator_of(name) in (mutate, mutate_bytes)
