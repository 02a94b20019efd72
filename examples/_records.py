"""Reading of the recipes' data: files of JSON lines, whose fields are checked when they are read.

Lines that cannot be used end a recipe with one message: file, line, field, the value found and the value needed.
"""

import argparse
import gzip
import json
import re
import zlib
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Mapping, NoReturn, Optional, Sequence, Tuple

PARTS = ("train", "dev", "test")
MISSING = object()  # the value of a field that is not there
MAX_SHOWN = 60  # characters of a value in a message
SURROGATE = re.compile("[\ud800-\udfff]")  # half of a character, which UTF-8 cannot encode


class Field:
    """A value of a line and its name. Each method checks that it is of one kind, and raises a ValueError if not.

    value (Any): As JSON has it. name (str): Its place in the line, such as `frames[0].tags`; empty for the line itself.
    """

    def __init__(self, value: Any, name: str = "") -> None:
        self.value, self.name = value, name

    def __getitem__(self, key: str) -> "Field":
        """RETURNS (Field): That of an object; one that is missing fails when it is read."""
        if not isinstance(self.value, dict):
            self.fail(f"an object with '{key}'")
        return Field(self.value.get(key, MISSING), f"{self.name}.{key}" if self.name else key)

    def as_list(self, n: Optional[int] = None, least: int = 0) -> List["Field"]:
        """RETURNS (List[Field]): The items of a list: `n` of them if it is given, `least` or more."""
        if not isinstance(self.value, list):
            self.fail("a list")
        found = f"a list of {len(self.value)}"
        if n is not None and len(self.value) != n:
            self.fail(f"a list of {n}", found)
        if len(self.value) < least:
            self.fail(f"a list of {least} or more", found)
        return [Field(value, f"{self.name}[{i}]") for i, value in enumerate(self.value)]

    def as_words(self, n: Optional[int] = None) -> Tuple[str, ...]:
        """RETURNS (Tuple[str, ...]): The words of a list, one or more, none of them empty."""
        for item in self.as_list(n, least=1):
            if not is_text(item.value) or not item.value:
                item.fail("a text that is not empty")
        return tuple(self.value)

    def as_text(self) -> str:
        """RETURNS (str): A text that has more than spaces."""
        if not is_text(self.value) or not self.value.strip():
            self.fail("a text that is not empty")
        return self.value

    def as_label(self, labels: Sequence[str]) -> int:
        """RETURNS (int): The place of the value among the labels."""
        if self.value not in labels:
            self.fail(f"one of {', '.join(labels)}")
        return labels.index(self.value)

    def as_number(self, low: int, high: int) -> int:
        """RETURNS (int): A whole number from `low` to `high`, both included; not 1.0, not true."""
        if type(self.value) is not int or not low <= self.value <= high:
            self.fail(f"{low}" if low == high else f"a whole number from {low} to {high}")
        return self.value

    def as_span(self, n: int) -> Tuple[int, int]:
        """RETURNS (Tuple[int, int]): First and last of `n` words: the first two items of a list, or fields so named."""
        if not isinstance(self.value, (list, dict)):
            self.fail("a list, or an object with 'first' and 'last',")
        first, last = self.as_list(least=2)[:2] if isinstance(self.value, list) else (self["first"], self["last"])
        return first.as_number(0, n - 1), last.as_number(first.value, n - 1)

    def fail(self, needed: str, found: Optional[str] = None) -> NoReturn:
        """found (Optional[str]): In place of the value. RAISES (ValueError): With what was found and what is needed."""
        if found is None:
            found = "missing" if self.value is MISSING else json.dumps(self.value, ensure_ascii=False)
        shown = found if len(found) <= MAX_SHOWN else f"{found[:MAX_SHOWN]}..."
        raise ValueError(f"{repr(self.name) if self.name else 'the line'} is {shown}, where {needed} is needed")


Reader = Callable[[Field], List[Any]]  # makes a list of items of a line, which may be empty


def is_text(value: Any) -> bool:
    """RETURNS (bool): Whether it is a string that UTF-8 can encode."""
    return isinstance(value, str) and not SURROGATE.search(value)


def read_sentences(sentences: Field, words: Sequence[str]) -> Tuple[Tuple[str, ...], ...]:
    """sentences (Field): Pairs of first word and end; each begins at the end of the one before, the last ends the text.

    RETURNS (Tuple[Tuple[str, ...], ...]): The words of each sentence.
    """
    pairs = [sentence.as_list(2) for sentence in sentences.as_list(least=1)]
    start, found = 0, []
    for first, end in pairs:
        found.append(tuple(words[first.as_number(start, start) : end.as_number(start + 1, len(words))]))
        start = end.value
    pairs[-1][1].as_number(len(words), len(words))
    return tuple(found)


def check_distinct(spans: Field, found: Sequence[Tuple[int, int]]) -> None:
    """found (Sequence[Tuple[int, int]]): The spans in their order. RAISES (ValueError): If one occurs twice."""
    for one, other in zip(found, found[1:]):
        if one == other:
            spans.fail("each of them once", f"a list with {list(one)} twice")


def read_all(
    arguments: argparse.Namespace, readers: Mapping[str, Reader], what: str, every: int = 1
) -> Dict[str, Dict[str, List[Any]]]:
    """Read the parts of all data sets that are there, before the first is used. RAISES (SystemExit): As the others."""
    found = {}
    for name in find_folders(arguments.data, readers):
        found[name] = read_parts(arguments.data / name, readers[name], arguments.limit, every)
        check_parts(found[name], what)
    return found


def find_folders(data: Path, names: Iterable[str]) -> List[str]:
    """RETURNS (List[str]): Those that are folders of the data. RAISES (SystemExit): If none is."""
    names = list(names)
    found = [name for name in names if (data / name).is_dir()]
    if not found:
        raise SystemExit(f"--data is '{data}', which has no folder {' or '.join(names)}: give the one that contains it")
    return found


def read_parts(folder: Path, read: Reader, limit: Optional[int] = None, every: int = 1) -> Dict[str, List[Any]]:
    """RETURNS (Dict[str, List[Any]]): The items of `train`, there of every nth line, of `dev` and of `test`."""
    return {
        name: read_items(folder / f"{name}.jsonl.gz", read, limit, every if name == "train" else 1) for name in PARTS
    }


def read_items(path: Path, read: Reader, limit: Optional[int] = None, every: int = 1) -> List[Any]:
    """RETURNS (List[Any]): The items of every nth line. RAISES (SystemExit): If any line cannot be used."""
    lines = [parse(read, line, path, number) for number, line in enumerate(read_jsonl(path, limit), start=1)]
    return [item for items in lines[::every] for item in items]


def read_jsonl(path: Path, limit: Optional[int] = None) -> List[Any]:
    """The values of a .jsonl.gz file, the first `limit` of them. RAISES (SystemExit): If there are none."""
    if not path.is_file():
        raise SystemExit(f"'{path}' does not exist: give the folder of the data set with --data")
    values: List[Any] = []
    try:
        with gzip.open(path, "rt", encoding="utf8") as lines:
            for _, line in zip(range(limit or 10**9), lines):
                values.append(json.loads(line))
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        where = f"'{path}', line {len(values) + 1}"
        raise SystemExit(f"{where}, is not gzip-compressed JSON ({error}): fetch or write the file again") from error
    if not values:
        raise SystemExit(f"'{path}' has no lines, where at least one is needed: fetch or write the file again")
    return values


def parse(read: Reader, line: Any, path: Path, number: int) -> List[Any]:
    """RETURNS (List[Any]): What `read` makes of a line. RAISES (SystemExit): If a field is not as it reads it."""
    try:
        return read(Field(line))
    except ValueError as error:
        told = f"'{path}', line {number}: {error}"
        raise SystemExit(f"{told}. Correct it, or give the folder that examples/README.md names with --data") from error


def check_parts(parts: Mapping[str, Sequence[Any]], what: str) -> None:
    """RAISES (SystemExit): If a part has nothing to train on or to score."""
    for name, items in parts.items():
        if not items:
            raise SystemExit(f"The part '{name}' has no {what}: raise --limit, lower --every, or check --data")
