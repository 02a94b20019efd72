"""Seeded fuzzing of readers: damaged copies of a file must load, or give an error of this package.

A test names a reader and a valid file; `fuzz` damages the file n times and reads it each time:

    result = fuzz(load_bilm, folder, folder / "weights.hdf5", n=2000)
    assert result.n_errors > 1000

Every case can be repeated on its own: `damaged(content, name, number)`.
"""

import gzip
import io
import json
import random
import tarfile
import time
import traceback
import warnings
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

try:
    import resource
except ImportError:  # Windows has no limits on the address space
    resource = None  # type: ignore[assignment]

Mutator = Callable[[bytes, random.Random], bytes]

MIB = 2**20
EXTREMES = [0, 1, -1, 2**7, 2**8 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1]
STRANGE = [None, True, -1, 0, 1.5, 2**31, 10**30, 1e308, float("nan"), "", "text", "\ud800", [], {}, [[]], ["x", None]]
STRANGE_TEXT = ["", "\0", "\r", "\ufeff", "\u2028", "\u3000", "\t", "a\tb\tc", "-1", "1e308", str(10**30), "x" * 70_000]
STRANGE_NAMES = ["../escape", "/absolute", "a/../../b", "", ".", "x" * 300, "con\0trol", "folder/", "\\windows\\path"]


SECONDS = 10.0  # processor time of one read, which other processes on the machine do not change
N_BYTES = 512 * MIB  # address space of one read, also if the reader turns the MemoryError into an error of its own


def fuzz(
    read: Callable[[Path], Any], path: Path, file: Optional[Path] = None, *, n: int, mutate: Optional[Mutator] = None
) -> int:
    """Damage a file n times, read it each time, and restore it.

    read (Callable[[Path], Any]): Reads `path`.
    path (Path): The file, or the folder or archive that contains it.
    file (Optional[Path]): The file to damage, by default `path`.
    n (int): Number of damaged copies.
    mutate (Optional[Mutator]): By default by the suffix of the file, see `mutator_of`.
    RETURNS (int): Damaged files that gave an error of the package; the others were read.
    RAISES (AssertionError): For the first copy that gives anything else, with its number.
    """
    file = file or path
    content, n_errors = file.read_bytes(), 0
    try:
        for number in range(n):
            file.write_bytes(damaged(content, file.name, number, mutate))
            n_errors += _read_one(read, path, f"damaged copy {number} of {file.name}")
    finally:
        file.write_bytes(content)
    return n_errors


def damaged(content: bytes, name: str, number: int, mutate: Optional[Mutator] = None) -> bytes:
    """Always the same for the same arguments; the name is part of the seed."""
    return (mutate or mutator_of(name))(content, random.Random(f"{name}:{number}"))


def mutator_of(name: str) -> Mutator:
    """The changes that go deepest into a file of this kind, bytes among them."""
    by_suffix = {
        ".json": mutate_json,
        ".txt": mutate_text,
        ".dic": mutate_text,
        ".zip": mutate_zip,
        ".gz": mutate_tar if name.endswith(".tar.gz") else mutate_bytes,
        ".tar": mutate_tar,
    }
    return by_suffix.get(Path(name).suffix, mutate_bytes)


def mutate_bytes(content: bytes, draw: random.Random) -> bytes:
    """Change one to three places of a file."""
    for _ in range(draw.choice([1, 1, 2, 3])):
        content = draw.choice(BYTE_CHANGES)(content, draw) if content else draw.randbytes(8)
    return content


def mutate_json(content: bytes, draw: random.Random) -> bytes:
    """Put a strange value into some place of the tree, take the place away, or change bytes."""
    tree = json.loads(content)
    places = _places(tree)
    if not places or draw.random() < 0.3:
        return mutate_bytes(content, draw)
    for node, key in draw.choices(places, k=draw.choice([1, 1, 2])):
        if isinstance(node, dict) and draw.random() < 0.2:
            node.pop(key, None)
        else:
            node[key] = draw.choice(STRANGE)
    return json.dumps(tree).encode()


def mutate_text(content: bytes, draw: random.Random) -> bytes:
    """Delete, repeat, swap or replace lines, or change bytes."""
    lines = content.split(b"\n")
    i, j = draw.randrange(len(lines)), draw.randrange(len(lines))
    kind = draw.randrange(6)
    if kind == 0:
        del lines[i]
    elif kind == 1:
        lines.insert(i, lines[j])
    elif kind == 2:
        lines[i], lines[j] = lines[j], lines[i]
    elif kind == 3:
        lines[i] = draw.choice(STRANGE_TEXT).encode()
    elif kind == 4:
        at = draw.randrange(len(lines[i]) + 1)
        lines[i] = lines[i][:at] + draw.choice(STRANGE_TEXT).encode() + lines[i][at:]
    else:
        return mutate_bytes(content, draw)
    return b"\n".join(lines)


def mutate_zip(content: bytes, draw: random.Random) -> bytes:
    """Change one member by its own kind, the list of members, or the bytes of the archive."""
    if draw.random() < 0.4:
        return mutate_bytes(content, draw)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    changed = io.BytesIO()
    method = draw.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
    with warnings.catch_warnings(), zipfile.ZipFile(changed, "w") as archive:
        warnings.simplefilter("ignore", UserWarning)  # of names that occur twice
        for name, member in _change_members(members, draw):
            archive.writestr(zipfile.ZipInfo(name or " "), member, compress_type=method)  # without the time of day
    return changed.getvalue()


def mutate_tar(content: bytes, draw: random.Random) -> bytes:
    """The same for a tar archive, compressed or not; members may become links and devices, or leave the folder."""
    if draw.random() < 0.4:
        return mutate_bytes(content, draw)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        files = [(member, archive.extractfile(member)) for member in archive.getmembers()]
        members = [(member.name, file.read()) for member, file in files if file is not None]
    changed = io.BytesIO()
    kinds = [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE]
    with tarfile.open(fileobj=changed, mode="w") as archive:
        for name, member in _change_members(members, draw):
            info = tarfile.TarInfo(name.replace("\0", "0"))
            if draw.random() < 0.2:
                info.type, info.linkname = draw.choice(kinds), draw.choice(["../../etc/passwd", "/etc/passwd", name])
                info.linkname = info.linkname.replace("\0", "0")
            info.size = len(member) if info.isfile() else 0
            archive.addfile(info, io.BytesIO(member) if info.isfile() else None)
    is_gzip = content[:2] == b"\x1f\x8b"
    return gzip.compress(changed.getvalue(), mtime=0) if is_gzip else changed.getvalue()


def _change_members(members: List[Tuple[str, bytes]], draw: random.Random) -> List[Tuple[str, bytes]]:
    members = list(members)
    i = draw.randrange(len(members))
    name, member = members[i]
    kind = draw.randrange(8)
    if kind == 0:
        del members[i]
    elif kind == 1:
        members[i] = (draw.choice(STRANGE_NAMES), member)
    elif kind == 2:
        members.append((name, members[draw.randrange(len(members))][1]))
    elif kind == 3:
        members.append((f"folder/{name}", member))
    else:
        members[i] = (name, mutator_of(name)(member, draw))
    return members


def _flip(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << draw.randrange(8)]) + content[at + 1 :]


def _overwrite(content: bytes, draw: random.Random) -> bytes:
    start, stop = _chunk(content, draw)
    return content[:start] + draw.randbytes(stop - start) + content[stop:]


def _run(content: bytes, draw: random.Random) -> bytes:
    start, stop = _chunk(content, draw)
    return content[:start] + draw.choice([b"\0", b"\xff"]) * (stop - start) + content[stop:]


def _truncate(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content))]


def _insert(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    return content[:at] + draw.randbytes(draw.choice([1, 2, 4, 8, 64])) + content[at:]


def _delete(content: bytes, draw: random.Random) -> bytes:
    start, stop = _chunk(content, draw)
    return content[:start] + content[stop:]


def _duplicate(content: bytes, draw: random.Random) -> bytes:
    start, stop = _chunk(content, draw)
    return content[:stop] + content[start:stop] + content[stop:]


def _copy_chunk(content: bytes, draw: random.Random) -> bytes:
    start, stop = _chunk(content, draw)
    other = draw.randrange(len(content))
    return content[:start] + content[other : other + stop - start] + content[stop:]


def _extreme(content: bytes, draw: random.Random) -> bytes:
    """Overwrite an integer, at a multiple of its size or anywhere."""
    size = draw.choice([1, 2, 4, 8])
    at = draw.randrange(len(content))
    at -= at % size if draw.random() < 0.7 else 0
    value = draw.choice(EXTREMES) % 2 ** (8 * size)
    return content[:at] + value.to_bytes(size, draw.choice(["little", "big"])) + content[at + size :]  # type: ignore


BYTE_CHANGES: List[Mutator] = [
    _flip, _overwrite, _run, _truncate, _insert, _delete, _duplicate, _copy_chunk, _extreme, _extreme
]  # fmt: skip


def _chunk(content: bytes, draw: random.Random) -> Tuple[int, int]:
    start = draw.randrange(len(content))
    return start, min(len(content), start + draw.choice([1, 1, 4, 8, 64, 512]))


def _places(tree: Any) -> List[Tuple[Any, Any]]:
    """All containers of a JSON tree with each of their keys."""
    found: List[Tuple[Any, Any]] = []
    nodes = [tree]
    for node in nodes:
        keys: Any = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else []
        found += [(node, key) for key in keys]
        nodes += [node[key] for key in keys]
    return found


def _read_one(read: Callable[[Path], Any], path: Path, case: str) -> bool:
    """Whether there was an error."""
    start = time.process_time()
    error, foreign = _error_of(read, path)
    elapsed_s = time.process_time() - start
    assert elapsed_s <= SECONDS, f"{case}: reading took {elapsed_s:.1f} s, at most {SECONDS:.1f} s"
    assert not foreign, f"{case}: {foreign[0]}"
    if error is None:
        return False
    assert not _is_of_memory(error), f"{case}: the reader asked for more than {N_BYTES:,} bytes"
    if not is_ours(error):
        raise AssertionError(f"{case}: {type(error).__name__}: {error}") from error
    return True


def is_ours(error: BaseException) -> bool:
    """Whether an error was raised by the package itself: no error of a decoder, which would not name the file."""
    *_, last = traceback.extract_tb(error.__traceback__)
    is_raised_here = str(error).startswith("[EL") or "spacy_elmo" in Path(last.filename).parts
    return isinstance(error, (ValueError, OSError)) and not isinstance(error, UnicodeError) and is_raised_here


def _error_of(read: Callable[[Path], Any], path: Path) -> Tuple[Optional[BaseException], List[str]]:
    """The error, and warnings of libraries; those of this package are UserWarnings."""
    error = None
    with warnings.catch_warnings(record=True) as caught, _limited_memory(N_BYTES):
        warnings.simplefilter("always")
        try:
            read(path)
        except Exception as found:  # all: anything but an error of ours fails the test
            error = found
    return error, [str(one) for one in caught if not issubclass(one.category, UserWarning)]


def _is_of_memory(error: Optional[BaseException]) -> bool:
    """Whether an allocation failed, also as the cause of another error."""
    seen: Dict[int, BaseException] = {}
    while error is not None and id(error) not in seen:
        seen[id(error)] = error
        error = error.__cause__ or error.__context__
    return any(isinstance(one, MemoryError) or "allocate memory" in str(one) for one in seen.values())


@contextmanager
def _limited_memory(n_bytes: int) -> Iterator[None]:
    """Limit the address space of the process to its present size and n bytes more, on Linux."""
    status = Path("/proc/self/statm")
    if resource is None or not status.is_file():
        yield
        return
    limits = resource.getrlimit(resource.RLIMIT_AS)
    present = int(status.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (present + n_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
