"""Download one file: mirrors in order, resumed where it was interrupted, checked before it is used.

RFC 9110, sec. 14: a range request with If-Range continues the same version of a file, or starts again.
"""

import json
import re
from codecs import BOM_UTF8
from http.client import HTTPException
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ..._compat import hash_file
from ...errors import Errors
from ..limits import MAX_JSON_BYTES, MIB
from .http import Opener, Reply

CHUNK_BYTES = MIB
N_TRIES = 3  # per mirror
MAX_BYTES: Dict[str, int] = {".json": MAX_JSON_BYTES, ".txt": 256 * MIB, ".meta": 256 * MIB, ".index": 16 * MIB}
MAX_FILE_BYTES = 8 * 1024 * MIB  # of all other files; the largest published ones have less than 5 GB
NOTE_SUFFIX = ".json"  # beside a .part file: where it comes from
BEGINNINGS: Dict[str, bytes] = {
    ".hdf5": b"\x89HDF\r\n\x1a\n",
    ".zip": b"PK\x03\x04",
    ".gz": b"\x1f\x8b",
    ".json": b"{",
}


class MirrorError(Exception):
    """A mirror that cannot provide the file.

    is_final (bool): Another try makes no sense.
    """

    def __init__(self, reason: str, *, is_final: bool = True) -> None:
        super().__init__(reason)
        self.is_final = is_final


def fetch_file(
    urls: Sequence[str],
    part: Path,
    *,
    opener: Opener,
    name: str,
    n_bytes: Optional[int] = None,
    sha256: Optional[str] = None,
    on_bytes: Callable[[int], Any] = lambda n: None,
) -> str:
    """Download a file to `part`, from the first mirror that provides it.

    urls (Sequence[str]): Addresses, in the order in which they are tried.
    part (Path): Output. If it exists, from an interrupted download, the rest is appended.
    opener (Opener): Sends the requests.
    name (str): Name of the file; its suffix decides on the largest size, and on the first bytes that it must have.
    n_bytes (Optional[int]): The documented size.
    sha256 (Optional[str]): The documented checksum.
    on_bytes (Callable[[int], Any]): Called with the number of bytes of each chunk; negative if they are discarded.
    RETURNS (str): The address it came from.
    RAISES (ValueError): EL362 with the problem of each mirror.
    """
    problems: List[str] = []
    for url in urls:
        for attempt in range(1, N_TRIES + 1):
            try:
                _fetch(url, part, opener, max_bytes_of(name), on_bytes)
                check_file(part, name, sha256, n_bytes)
                return url
            except (MirrorError, ValueError) as error:
                is_final = getattr(error, "is_final", True)
                if isinstance(error, ValueError):
                    _discard(part, on_bytes)
                if is_final or attempt == N_TRIES:
                    problems.append(f"\n- {url}: {error}")
                    break
    raise ValueError(Errors.EL362.format(name=name, problems="".join(problems)))


def check_file(path: Path, name: str, sha256: Optional[str], n_bytes: Optional[int] = None) -> None:
    """path (Path): A complete file.
    name (str): Its final name.
    sha256 (Optional[str]): The documented checksum.
    n_bytes (Optional[int]): The documented size.
    RAISES (ValueError): EL363 for another checksum, EL364 if it is too large, EL366 if it begins with other bytes than
        files of its kind, EL371 for another size.
    """
    found_bytes, max_bytes = path.stat().st_size, max_bytes_of(name)
    if found_bytes > max_bytes:
        raise ValueError(Errors.EL364.format(name=name, n_bytes=f"{found_bytes:,}", max_bytes=f"{max_bytes:,}"))
    wanted = BEGINNINGS.get(Path(name).suffix)
    with path.open("rb") as file:
        start = file.read(64).removeprefix(BOM_UTF8).lstrip() if name.endswith(".json") else file.read(64)
    if wanted is not None and not start.startswith(wanted):
        raise ValueError(Errors.EL366.format(name=name, found=repr(start[:24]), wanted=repr(wanted)))
    if sha256 is not None and (found := hash_file(path)) != sha256:
        raise ValueError(Errors.EL363.format(name=name, found=found, wanted=sha256))
    if n_bytes is not None and found_bytes != n_bytes:
        problem = f"\n- '{path}' has {found_bytes:,} bytes, documented are {n_bytes:,}"
        raise ValueError(Errors.EL371.format(name=name, problems=problem))


def max_bytes_of(name: str) -> int:
    """RETURNS (int): Maximum size of a file with this name."""
    return MAX_BYTES.get(Path(name).suffix, MAX_FILE_BYTES)


def note_of(part: Path) -> Path:
    """RETURNS (Path): The note beside a partial download, with its address and version."""
    return part.with_name(part.name + NOTE_SUFFIX)


def _fetch(url: str, part: Path, opener: Opener, max_bytes: int, on_bytes: Callable[[int], Any]) -> None:
    """One request; what arrives is appended to `part`."""
    note = _read_note(part, url)
    start = part.stat().st_size if note else 0
    if start and start == note.get("total"):
        return
    headers = {"Range": f"bytes={start}-", "If-Range": str(note["version"])} if start else {}
    reply = _request(opener, url, headers)
    try:
        total = _total_bytes(reply, start, url)
        if reply.status == 416:  # the file is shorter now
            _discard(part, on_bytes)
            raise MirrorError(f"it has no bytes after {start:,}", is_final=False)
        if total is not None and total > max_bytes:
            raise MirrorError(f"it has {total:,} bytes, should have at most {max_bytes:,}")
        if reply.status != 206:  # another version or mirror, or a server without ranges
            _discard(part, on_bytes)
            start = 0
        _write_note(part, url, reply, total)
        _append(reply, part, start, total, max_bytes, on_bytes)
    finally:
        reply.close()


def _request(opener: Opener, url: str, headers: Mapping[str, str]) -> Reply:
    try:
        return opener(url, headers)
    except ValueError as error:  # a redirect that is refused
        raise MirrorError(str(error)) from error
    except (OSError, HTTPException) as error:
        raise MirrorError(f"no connection ({getattr(error, 'reason', error)})", is_final=False) from error


def _total_bytes(reply: Reply, start: int, url: str) -> Optional[int]:
    """The size of the whole file, if the server says it."""
    status = reply.status or 0
    if status == 206 and start:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", reply.headers.get("Content-Range", ""))
        if match is None or int(match[1]) != start:
            raise MirrorError(f"it answered with another range than the one after byte {start:,}")
        return None if match[2] == "*" else int(match[2])
    if status != 200 and not (status == 416 and start):
        what = "too many redirects" if 300 <= status < 400 else "no file"
        raise MirrorError(f"status {status}, {what}", is_final=not 500 <= status < 600)
    length = reply.headers.get("Content-Length", "")
    return int(length) if length.isdigit() else None


def _append(
    reply: Reply, part: Path, start: int, total: Optional[int], max_bytes: int, on_bytes: Callable[[int], Any]
) -> None:
    n_bytes = start
    with part.open("ab") as file:
        while chunk := _read(reply):
            n_bytes += len(chunk)
            if n_bytes > max_bytes:
                raise MirrorError(f"it sent more than {max_bytes:,} bytes")
            file.write(chunk)
            on_bytes(len(chunk))
    if total is not None and n_bytes != total:
        raise MirrorError(f"interrupted after {n_bytes:,} of {total:,} bytes", is_final=n_bytes > total)


def _read(reply: Reply) -> bytes:
    try:
        return reply.read(CHUNK_BYTES)
    except (OSError, HTTPException) as error:
        raise MirrorError(f"interrupted ({error})", is_final=False) from error


def _read_note(part: Path, url: str) -> Dict[str, Any]:
    """The note of a partial download from this address that can be continued, else an empty one."""
    try:
        note = json.loads(note_of(part).read_text(encoding="utf8"))
    except (OSError, ValueError):
        return {}
    is_usable = isinstance(note, dict) and note.get("url") == url and isinstance(note.get("version"), str)
    return note if is_usable and part.is_file() else {}


def _write_note(part: Path, url: str, reply: Reply, total: Optional[int]) -> None:
    """Without a strong version of the file its download cannot be continued safely, and starts again."""
    tag, date = reply.headers.get("ETag", ""), reply.headers.get("Last-Modified", "")
    version = tag if tag and not tag.startswith("W/") else date
    if version:
        note_of(part).write_text(json.dumps({"url": url, "version": version, "total": total}), encoding="utf8")
    else:
        note_of(part).unlink(missing_ok=True)


def _discard(part: Path, on_bytes: Callable[[int], Any]) -> None:
    if part.is_file():
        on_bytes(-part.stat().st_size)
    part.unlink(missing_ok=True)
    note_of(part).unlink(missing_ok=True)
