"""Download a published biLM: one address after another, continued where it stopped, checked before it is used.

RFC 9110, sec. 14: a range request with If-Range continues the file of the same strong ETag, or starts again. Only http
and https are opened; redirects are limited, and never lead from https to http.
"""

import json
import os
import re
import shutil
import time
import urllib.request
from codecs import BOM_UTF8
from contextlib import closing
from dataclasses import asdict, dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Set, Tuple
from urllib.error import HTTPError
from urllib.parse import urlsplit

from ..about import __version__
from ..errors import Errors
from ..files import check_not_read, hash_file, is_hidden, naming, only_writer, write_text
from .archive import GZIP_MAGIC, HDF5_MAGIC, MIB, ZIP_MAGIC
from .meta import RECORD_NAME, read_record
from .published import Published, PublishedFile
from .save import find_replaceable

TIMEOUT_S = 30.0
N_TRIES = 3  # per address
RETRY_WAIT_S = 1.0  # before the second try, twice as long before the third
BUSY = (408, 425, 429)  # statuses after which another try may succeed (RFC 9110, 6585, 8470), beside those from 500 on
BEGINNINGS: Dict[str, bytes] = {".hdf5": HDF5_MAGIC, ".zip": ZIP_MAGIC, ".gz": GZIP_MAGIC, ".json": b"{"}
REFUSED_ADDRESS = (
    "The address '{url}' is refused: {reason}. Pass another address, or fetch the file by other means and pass it "
    "as `local_files`."
)

# Sends a request: an address, with http or https, and headers. The reply is urllib's or like it: `status`, `headers` (a
# mapping that ignores capitalization), `read(n)` and `close()`, also for a status that reports an error. A refused
# address or redirect is a ValueError, a connection that fails an OSError.
Opener = Callable[[str, Mapping[str, str]], Any]
OnBytes = Callable[[int], Any]


@dataclass(frozen=True)
class Downloaded:
    """A file in its place.

    name (str): Its name in the folder.
    url (str): Where it came from: an address, or the path of a local file.
    n_bytes (int): Its size.
    sha256 (str): Its checksum.
    is_documented (bool): Whether the registry has this checksum; otherwise this is the checksum of the first download.
    """

    name: str
    url: str
    n_bytes: int
    sha256: str
    is_documented: bool


class AddressError(Exception):
    """An address that cannot provide the file, however often it is tried."""


class Interrupted(AddressError):
    """Another try may provide it."""


def check_url(url: str) -> str:
    """The same address. ValueError for anything but http and https with a host."""
    try:
        address = urlsplit(url)
        is_fine = address.scheme in ("http", "https") and bool(address.hostname)
    except ValueError:
        is_fine = False
    if not is_fine:
        raise ValueError(REFUSED_ADDRESS.format(url=url, reason="it is not an address with http or https and a host"))
    return url


class SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows at most 5 redirects, to http and https only, and not from https to http."""

    max_redirections = 5

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        check_url(newurl)
        if urlsplit(req.full_url).scheme == "https" and urlsplit(newurl).scheme != "https":
            reason = f"it is a redirect from https ({req.full_url}) to http, which is not encrypted"
            raise ValueError(REFUSED_ADDRESS.format(url=newurl, reason=reason))
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def open_url(url: str, headers: Mapping[str, str]) -> Any:
    """The default `Opener`, with urllib and its proxies from the environment."""
    director = urllib.request.OpenerDirector()
    handlers = (urllib.request.ProxyHandler, urllib.request.HTTPHandler, urllib.request.HTTPSHandler, SafeRedirects)
    for handler in (*handlers, urllib.request.HTTPDefaultErrorHandler, urllib.request.HTTPErrorProcessor):
        director.add_handler(handler())
    request = urllib.request.Request(check_url(url), headers={"User-Agent": f"spacy-elmo/{__version__}", **headers})
    try:
        return director.open(request, timeout=TIMEOUT_S)
    except HTTPError as error:
        return error


def download(
    published: Published,
    folder: Path,
    *,
    local_files: Sequence[Path] = (),
    mirrors: Sequence[str] = (),
    force: bool = False,
    opener: Opener = open_url,
    on_bytes: OnBytes = lambda n: None,
) -> Tuple[Downloaded, ...]:
    """Put the files of a published biLM into a folder, with a record of their origin in origin.json.

    Each file is written to NAME.part, where a later call continues it, checked, and renamed when all are complete.

    published (Published): The published biLM.
    folder (Path): Output.
    local_files (Sequence[Path]): Local files, or folders with them; then nothing is downloaded.
    mirrors (Sequence[str]): Folders on the web with the files, tried before the documented ones.
    force (bool): Replace the files of an earlier download, or of a biLM that `save_bilm` wrote; other files stay.
    opener (Opener): Sends the requests.
    on_bytes (OnBytes): Called with the number of bytes of each chunk; negative if they are discarded.
    RETURNS (Tuple[Downloaded, ...]): The files.
    RAISES (ValueError): EL025 if the folder has other files; EL372 for files of a biLM from elsewhere; for a mirror
        that is not on the web; if a local file is missing or in the folder; if no address provides a file; for a file
        of another checksum or size than is documented.
    """
    _check_folder(published, folder, force)
    first = [check_url(mirror).rstrip("/") + "/" for mirror in mirrors]
    local = _match_files(published, local_files) if local_files else {}
    for file in published.files if local_files else ():
        check_file(local[file.name], file)
    check_not_read(folder, local.values())
    folder.mkdir(parents=True, exist_ok=True)
    with only_writer(folder):
        _check_folder(published, folder, force)  # another process may have completed it meanwhile
        partials = {file.name: _partial_path(folder, file) for file in published.files}
        urls: Dict[str, str] = {}
        for file in published.files:
            if local_files:
                shutil.copyfile(local[file.name], partials[file.name])
                urls[file.name] = str(local[file.name])
            else:
                addresses = [mirror + file.path.rpartition("/")[2] for mirror in first]
                addresses += [mirror + file.path for mirror in published.mirrors]
                urls[file.name] = _fetch_file(addresses, partials[file.name], file, opener, on_bytes)
        return _finish_files(published, folder, urls)


def _match_files(published: Published, local_files: Sequence[Path]) -> Dict[str, Path]:
    """The local file of each name in the folder: by published name, by name in the folder, or by suffix. ValueError if
    there is none, or several, for a file.
    """
    paths = [path for place in local_files for path in (sorted(place.iterdir()) if place.is_dir() else [place])]
    problems = [f"'{path}' does not exist" for path in paths if not path.exists()]
    paths = [path for path in paths if path.is_file() and (path in local_files or not is_hidden(path.name))]
    matched: Dict[str, Path] = {}
    for file in published.files:
        original = file.path.rpartition("/")[2]
        candidates = [path for path in paths if path.name == original]
        candidates = candidates or [path for path in paths if path.name == file.name]
        if not candidates:
            is_only = len(published.files) == 1 and len(paths) == 1
            candidates = paths if is_only else [path for path in paths if path.suffix == Path(file.name).suffix]
        if len(candidates) == 1:
            matched[file.name] = candidates[0]
        else:
            which = f"may be any of {', '.join(map(str, candidates))}" if candidates else "is missing"
            problems.append(f"{original} {which}")
    if problems:
        listing = "".join(f"\n- {text}" for text in problems)
        raise ValueError(
            f"The `local_files` do not fit '{published.name}':{listing}\nPass each file once, or the folder "
            "that contains them; `python -m spacy elmo download --list --json` has their published names."
        )
    return matched


def _fetch_file(addresses: Sequence[str], partial: Path, file: PublishedFile, opener: Opener, on_bytes: OnBytes) -> str:
    """Download a file from the first address that provides it, and return this address. The rest of an interrupted
    download is appended to the partial file. ValueError with the problem of each address.
    """
    problems = ""
    for url in addresses:
        for attempt in range(1, N_TRIES + 1):
            try:
                _fetch(url, partial, opener, on_bytes)
                check_file(partial, file)
                return url
            except (AddressError, ValueError) as error:
                if isinstance(error, Interrupted) and attempt < N_TRIES:
                    time.sleep(RETRY_WAIT_S * attempt)
                    continue
                if isinstance(error, ValueError):
                    _discard(partial, on_bytes)
                problems += f"\n- {url}: {error}"
            break
    raise ValueError(
        f"No mirror provides '{file.name}':{problems}\nCheck the connection and run the command again: it continues an "
        "interrupted download. Or pass another mirror in `mirrors`, or a file fetched by other means in "
        "`local_files`."
    )


def _fetch(url: str, partial: Path, opener: Opener, on_bytes: OnBytes) -> None:
    """One request; what arrives is appended to the partial file."""
    note = _read_note(partial, url)
    start = partial.stat().st_size if note else 0
    if start and start == note.get("total"):
        return
    headers = {"Range": f"bytes={start}-", "If-Range": str(note["version"])} if start else {}
    try:
        reply = opener(url, headers)
    except (OSError, HTTPException) as error:
        raise Interrupted(f"no connection ({getattr(error, 'reason', error)})") from error
    with closing(reply):
        total = _total_bytes(reply, start)
        if reply.status == 416:  # the file is shorter now
            _discard(partial, on_bytes)
            raise Interrupted(f"it has no bytes after {start:,}")
        if reply.status != 206:  # another version or address, or a server without ranges
            _discard(partial, on_bytes)
            start = 0
        _write_note(partial, url, reply, total)
        _append(reply, partial, start, total, on_bytes)


def _total_bytes(reply: Any, start: int) -> Optional[int]:
    """The size of the whole file, if the server sends it; the reply has its bytes from `start` on, or from 0 on."""
    status = reply.status or 0
    if status == 206:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", reply.headers.get("Content-Range", ""))
        if start and match is not None and int(match[1]) == start:
            return None if match[2] == "*" else int(match[2])
    if status != 200 and not (status == 416 and start):
        what = "another range" if status == 206 else "too many redirects" if 300 <= status < 400 else "no file"
        raise (Interrupted if status >= 500 or status in BUSY else AddressError)(f"status {status}, {what}")
    length = reply.headers.get("Content-Length", "")
    return int(length) if length.isdigit() else None


def _append(reply: Any, partial: Path, n_bytes: int, total: Optional[int], on_bytes: OnBytes) -> None:
    with naming(partial), partial.open("ab") as file:
        while True:
            try:
                chunk = reply.read(MIB)
            except (OSError, HTTPException) as error:
                raise Interrupted(f"interrupted ({error})") from error
            if not chunk:
                break
            n_bytes += len(chunk)
            file.write(chunk)
            on_bytes(len(chunk))
    if total is not None and n_bytes != total:
        text = f"interrupted after {n_bytes:,} of {total:,} bytes"
        raise AddressError(text) if n_bytes > total else Interrupted(text)


def _partial_path(folder: Path, file: PublishedFile) -> Path:
    """The name of a file while it is incomplete."""
    return folder / f"{file.name}.part"


def _note_of(partial: Path) -> Path:
    """The note beside a partial download, with its address and version."""
    return partial.with_name(f"{partial.name}.json")


def _read_note(partial: Path, url: str) -> Dict[str, Any]:
    """The note of a partial download from this address that can be continued, else an empty note."""
    try:
        note = json.loads(_note_of(partial).read_text(encoding="utf8"))
    except (OSError, ValueError):
        return {}
    is_usable = isinstance(note, dict) and note.get("url") == url and isinstance(note.get("version"), str)
    return note if is_usable and partial.is_file() else {}


def _write_note(partial: Path, url: str, reply: Any, total: Optional[int]) -> None:
    """Without a strong ETag of the file its download cannot be continued safely, and starts again."""
    tag = reply.headers.get("ETag", "")
    if tag and not tag.startswith("W/"):
        _note_of(partial).write_text(json.dumps({"url": url, "version": tag, "total": total}), encoding="utf8")
    else:
        _note_of(partial).unlink(missing_ok=True)


def _discard(partial: Path, on_bytes: OnBytes = lambda n: None) -> None:
    if partial.is_file():
        on_bytes(-partial.stat().st_size)
    partial.unlink(missing_ok=True)
    _note_of(partial).unlink(missing_ok=True)


def check_file(path: Path, file: PublishedFile) -> None:
    """Compare a complete file with its documentation. ValueError for another checksum or size, and if it begins with
    other bytes than files of its kind.
    """
    name, n_bytes = file.name, path.stat().st_size
    expected = BEGINNINGS.get(Path(name).suffix, b"")
    with path.open("rb") as opened:
        start = opened.read(64)
    start = start.removeprefix(BOM_UTF8).lstrip() if name.endswith(".json") else start
    if not start.startswith(expected):
        raise ValueError(
            f"'{name}' begins with {repr(start[:24])}, but should begin with {repr(expected)}. It may be a web page "
            "with an error message. Open its address in a browser, or use another mirror."
        )
    problems = []
    if file.sha256 is not None and (sha256 := hash_file(path)) != file.sha256:
        problems.append(f"the sha256 {sha256}, but should have {file.sha256}")
    if file.n_bytes is not None and n_bytes != file.n_bytes:
        problems.append(f"{n_bytes:,} bytes, but should have {file.n_bytes:,}")
    if problems:
        raise ValueError(
            f"'{name}' is not the published file: it has {' and '.join(problems)}. Download it again or from another "
            "mirror, or give the file of its publisher. Files of your own need no download: every command takes their "
            "path."
        )


def _check_folder(published: Published, folder: Path, force: bool) -> None:
    partials = [_partial_path(folder, file) for file in published.files]
    names = {path.name for partial in partials for path in (partial, _note_of(partial))}
    has_others = folder.is_dir() and not force and any(path.name not in names for path in folder.iterdir())
    if folder.is_file() or has_others:
        raise ValueError(Errors.EL025.format(path=folder, kind="file" if folder.is_file() else "folder with files"))
    if folder.is_dir():
        find_replaceable(folder, known=_recorded_names(folder) | names)


def _finish_files(published: Published, folder: Path, urls: Mapping[str, str]) -> Tuple[Downloaded, ...]:
    """Rename all files when all of them are complete, then write the record."""
    files = []
    for file in published.files:
        partial = _partial_path(folder, file)
        n_bytes, sha256 = partial.stat().st_size, hash_file(partial)
        files.append(Downloaded(file.name, urls[file.name], n_bytes, sha256, file.sha256 is not None))
    # First the old files: a process killed here leaves no folder with files of two biLMs.
    for name in (*find_replaceable(folder, known=_recorded_names(folder)), RECORD_NAME):
        (folder / name).unlink(missing_ok=True)
    for file in published.files:
        os.replace(_partial_path(folder, file), folder / file.name)
        _note_of(_partial_path(folder, file)).unlink(missing_ok=True)
    names = ("name", "language", "format", "note", "licence", "licence_source", "paper", "documented")
    record = {**{name: getattr(published, name) for name in names}, "files": [asdict(file) for file in files]}
    write_text(folder / RECORD_NAME, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    return tuple(files)


def _recorded_names(folder: Path) -> Set[str]:
    files = (read_record(folder) or {}).get("files")
    names = [file.get("name") for file in files if isinstance(file, dict)] if isinstance(files, list) else []
    return {name for name in names if isinstance(name, str) and name and Path(name).name == name}
