"""The fuzzing harness itself: it finds planted faults, repeats itself, and leaves the file as it was."""

import json
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
from weights.fuzzing import (
    MIB,
    Limits,
    fuzz,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "a.json").write_bytes(json.dumps({"a": [1, {"b": 2}], "c": "text"}).encode())
    return tmp_path / "a.json"


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
def test_memory_of_a_reader_is_limited(file: Path) -> None:
    def allocate(path: Path) -> None:
        np.zeros(8 * 1024 * MIB, "uint8")  # more than the memory that this process has freed

    fuzz(lambda path: np.zeros(64 * MIB, "uint8"), file, n=1)
    with pytest.raises(AssertionError, match=r"asked for more than 33,554,432 bytes"):
        fuzz(allocate, file, n=1, limits=Limits(n_bytes=32 * MIB))
