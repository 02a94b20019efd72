"""Seeded fuzzing of readers: damaged copies of a file must load, or give an error of this package.

A test names a reader and a valid file; `fuzz` damages the file n times, reads it each time, and counts the errors:

    assert fuzz(load_bilm, folder, folder / "weights.hdf5", n=2000) > 1000
"""

import json
import random
import traceback
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, List, Optional, Tuple

try:
    import resource
except ImportError:  # Windows has no limits on the address space
    resource = None  # type: ignore[assignment]

Mutator = Callable[[bytes, random.Random], bytes]
N_BYTES = 512 * 2**20  # address space of one read, also if the reader turns the MemoryError into an error of its own
EXTREMES = [0, 1, -1, 2**7, 2**8 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1]
STRANGE = [None, True, -1, 0, 1.5, 2**31, 10**30, 1e308, float("nan"), "", "text", "\ud800", [], {}, [[]], ["x", None]]
STRANGE_TEXT = ["", "\0", "\r", "\ufeff", "\u2028", "\u3000", "\t", "a\tb\tc", "-1", "1e308", str(10**30), "x" * 70_000]


def fuzz(
    read: Callable[[Path], Any], path: Path, file: Optional[Path] = None, *, n: int, mutate: Optional[Mutator] = None
) -> int:
    """Damage a file n times, read it each time, and restore it.

    read (Callable[[Path], Any]): Reads `path`.
    path (Path): The file, or the folder or archive that contains it.
    file (Optional[Path]): The file to damage, by default `path`.
    n (int): Number of damaged copies. Copy k is the same in every run.
    mutate (Optional[Mutator]): By default by the suffix of the file.
    RETURNS (int): Damaged files that gave an error of the package; the others were read.
    RAISES (AssertionError): For the first copy that gives anything else, with its number.
    """
    file = file or path
    content, n_errors = file.read_bytes(), 0
    try:
        for k in range(n):
            file.write_bytes((mutate or mutator_of(file.name))(content, random.Random(f"{file.name}:{k}")))
            n_errors += _gives_error(read, path, file, f"damaged copy {k} of {file.name}")
    finally:
        file.write_bytes(content)
    return n_errors


def _gives_error(read: Callable[[Path], Any], path: Path, file: Path, case: str) -> bool:
    """Whether a file gives an error of the package that names it, or the folder or archive with it, in bounded memory
    and without warnings of libraries.
    """
    error = None
    with warnings.catch_warnings(record=True) as caught, _limited_memory():
        warnings.simplefilter("always")
        try:
            read(path)
        except Exception as raised:  # all: anything but an error of ours fails the test
            error = raised
    foreign = [str(one) for one in caught if not issubclass(one.category, UserWarning)]
    assert not foreign, f"{case}: {foreign[0]}"
    if error is None:
        return False
    chain = "".join(traceback.format_exception(error))
    is_of_memory = ("MemoryError" in chain or "allocate memory" in chain) and "torch/serialization.py" not in chain
    names_it = any(name in str(error) for name in (path.name, file.name, str(file.parent)))
    if is_of_memory or not is_ours(error) or not names_it:
        raise AssertionError(f"{case}: {type(error).__name__}: {error}") from error
    return True


def is_ours(error: BaseException) -> bool:
    """Whether an error was raised by the package itself: no error of a decoder, which would not name the file."""
    *_, last = traceback.extract_tb(error.__traceback__)
    is_raised_here = str(error).startswith("[EL") or "spacy_elmo" in Path(last.filename).parts
    return isinstance(error, (ValueError, OSError)) and not isinstance(error, UnicodeError) and is_raised_here


@contextmanager
def _limited_memory() -> Iterator[None]:
    """Limit the address space of the process to its present size and `N_BYTES`, on Linux."""
    status = Path("/proc/self/statm")
    if resource is None or not status.is_file():
        yield
        return
    limits = resource.getrlimit(resource.RLIMIT_AS)
    present = int(status.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (present + N_BYTES, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def mutator_of(name: str) -> Mutator:
    """The changes that go deepest into a file of this kind, bytes among them; members of archives are files, too."""
    by_suffix = {".json": mutate_json, ".txt": mutate_text, ".dic": mutate_text}
    return by_suffix.get(Path(name).suffix, mutate_bytes)


def mutate_bytes(content: bytes, draw: random.Random) -> bytes:
    """Change one to three places of a file, or cut off its end."""
    if content and draw.random() < 0.1:
        return content[: draw.randrange(len(content))]
    for _ in range(draw.choice([1, 1, 2, 3])):
        size = draw.choice([1, 1, 2, 4, 8, 64, 512])
        start, other = draw.randrange(len(content) + 1), draw.randrange(len(content) + 1)
        start -= start % size if size <= 8 and draw.random() < 0.7 else 0  # where a format may have an integer
        chunk, copied = content[start : start + size], content[other : other + size]
        extreme = (draw.choice(EXTREMES) % 2 ** (8 * size)).to_bytes(size, draw.choice(["little", "big"]))  # type: ignore
        flipped = bytes([byte ^ 1 << draw.randrange(8) for byte in chunk[:1]]) + chunk[1:]
        random_bytes, fill = draw.randbytes(size), draw.choice([b"\0", b"\xff"]) * size
        changes = [flipped, random_bytes, fill, b"", random_bytes + chunk, chunk + chunk, copied, extreme, extreme]
        content = content[:start] + draw.choice(changes) + content[start + size :]
    return content


def mutate_json(content: bytes, draw: random.Random) -> bytes:
    """Put a strange value into some place of the tree, take the place away, or change bytes."""
    tree = json.loads(content)
    places: List[Tuple[Any, Any]] = []
    nodes = [tree]
    for node in nodes:
        keys: Any = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else []
        places += [(node, key) for key in keys]
        nodes += [node[key] for key in keys]
    if not places or draw.random() < 0.3:
        return mutate_bytes(content, draw)
    for node, key in draw.choices(places, k=draw.choice([1, 1, 2])):
        if isinstance(node, dict) and draw.random() < 0.2:
            node.pop(key, None)
        else:
            node[key] = draw.choice(STRANGE)
    return json.dumps(tree).encode()


def mutate_text(content: bytes, draw: random.Random) -> bytes:
    """Delete, repeat, replace or extend a line, or change bytes."""
    lines = content.split(b"\n")
    i, other, strange = draw.randrange(len(lines)), draw.choice(lines), draw.choice(STRANGE_TEXT).encode()
    at = draw.randrange(len(lines[i]) + 1)
    changes = [[], [other, lines[i]], [strange], [lines[i][:at] + strange + lines[i][at:]], None]
    change = draw.choice(changes)
    return mutate_bytes(content, draw) if change is None else b"\n".join(lines[:i] + change + lines[i + 1 :])
