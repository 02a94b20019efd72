"""Published biLMs: their registry, and their download from mirrors, continued where it stopped, with checksums."""

import json
import os
import re
import shutil
import urllib.request
from codecs import BOM_UTF8
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from functools import lru_cache
from http.client import HTTPException
from math import prod
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Set, Tuple
from urllib.error import HTTPError
from urllib.parse import urlsplit

from ..about import __version__
from ..bilm.config import BiLMConfig
from ..errors import Errors
from ..util import hash_file, is_hidden, naming, only_writer, write_text
from .bilm_tf import read_options
from .files import HDF5_SUFFIXES, MAX_JSON_BYTES, MIB, File, read_json, read_shapes
from .formats import find_replaceable
from .meta import RECORD_NAME, read_record
from .tensor_map import count_numbers, network_shapes

REFUSED_ADDRESS = (
    "The address '{url}' is refused: {reason}. Pass another address, or fetch the file by other means and pass it "
    "with --from."
)

# The registry of published biLMs: where each of them is documented to be, under which licence and paper.
#
# `origins.json` lists facts with their sources. A sha256 or a size is null unless the publisher or a log of a download
# documents it; nothing in it is estimated.

REGISTRY = Path(__file__).parent / "origins.json"
NLPL_NAME = re.compile(r"nlpl-(\d{1,6})")
MAX_NAMED = 12  # names in an error


@dataclass(frozen=True)
class OriginFile:
    """A file of a published biLM.

    path (str): Its path, relative to a mirror.
    name (str): Its name in the folder of the download.
    n_bytes (Optional[int]): Its documented size.
    sha256 (Optional[str]): Its documented checksum.
    """

    path: str
    name: str
    n_bytes: Optional[int]
    sha256: Optional[str]


@dataclass(frozen=True)
class Origin:
    """A published biLM.

    name (str): Name on the command line.
    aliases (Tuple[str, ...]): Other names.
    language (Optional[str]): Code of the language, None if it is not known.
    format (str): Format of the files.
    n_parameters (Optional[int]): Documented number of parameters.
    note (str): Documented training data.
    files (Tuple[OriginFile, ...]): Its files.
    mirrors (Tuple[str, ...]): Addresses that `path` is relative to, in the order in which they are tried.
    licence (Optional[str]): Licence, as stated by the publisher; None if no statement is known.
    licence_source (Optional[str]): Where it is stated.
    paper (Optional[str]): Paper to cite.
    documented (str): Page that documents the addresses.
    """

    name: str
    aliases: Tuple[str, ...]
    language: Optional[str]
    format: str
    n_parameters: Optional[int]
    note: str
    files: Tuple[OriginFile, ...]
    mirrors: Tuple[str, ...]
    licence: Optional[str]
    licence_source: Optional[str]
    paper: Optional[str]
    documented: str

    @property
    def size(self) -> str:
        """RETURNS (str): The documented size: of all files, or in parameters, or "not documented"."""
        sizes = [file.n_bytes for file in self.files]
        if all(size is not None for size in sizes):
            return f"{sum(size or 0 for size in sizes) / 1e6:,.0f} MB"
        if self.n_parameters is not None:
            return f"{self.n_parameters / 1e6:.1f} M parameters"
        return "not documented"


@lru_cache(maxsize=1)
def read_origins() -> Tuple[Origin, ...]:
    """RETURNS (Tuple[Origin, ...]): All published biLMs of the registry."""
    record = _read_registry()
    return tuple(_origin(entry, record["sources"]) for entry in record["models"])


def find_origin(name: str) -> Origin:
    """name (str): Name or alias, or nlpl-NUMBER for any entry of the NLPL repository.
    RETURNS (Origin): The published biLM.
    RAISES (ValueError): For an unknown name.
    """
    by_name = {name: origin for origin in read_origins() for name in (origin.name, *origin.aliases)}
    if name in by_name:
        return by_name[name]
    number = NLPL_NAME.fullmatch(name)
    if number is None:
        close = get_close_matches(name, by_name, n=MAX_NAMED)
        shown = close or [origin.name for origin in read_origins()][:MAX_NAMED]
        kind = "Similar" if close else "Some"
        listing = ", ".join(shown)
        raise ValueError(
            f"There is no published biLM '{name}' in the registry. {kind} names: {listing}. List all names with "
            "`python -m spacy elmo download --list`; nlpl-NUMBER is any entry of the NLPL repository."
        )
    files = [{"path": f"{number[1]}.zip", "name": f"{number[1]}.zip", "n_bytes": None, "sha256": None}]
    entry = {"name": name, "source": "nlpl", "language": None, "format": "zip", "note": "not in the registry"}
    return _origin({**entry, "aliases": [], "n_parameters": None, "files": files}, _read_registry()["sources"])


def describe_published(lang: str) -> str:
    """RETURNS (str): A sentence on the published biLMs of a language, with the command that downloads the first."""
    code = lang.lower().replace("_", "-").split("-")[0]
    names = [origin.name for origin in read_origins() if origin.language == code]
    if not names:
        return f"`elmo download --list` has none for '{lang}' either: train one with `elmo pretrain`."
    command = f"python -m spacy elmo download {names[0]} --dest weights/{names[0]}"
    return f"`elmo download --list` has for '{lang}': {', '.join(names)} (`{command}`)."


def _read_registry() -> Dict[str, Any]:
    registry: Dict[str, Any] = json.loads(REGISTRY.read_text(encoding="utf8"))
    return registry


def _origin(entry: Mapping[str, Any], sources: Mapping[str, Any]) -> Origin:
    """An entry with the facts of its source, where it has none of its own."""
    facts = {**sources[entry["source"]], **entry}
    lists = {name: tuple(facts[name]) for name in ("aliases", "mirrors")}
    files = tuple(OriginFile(**file) for file in facts["files"])
    return Origin(**{**{field.name: facts[field.name] for field in fields(Origin)}, **lists, "files": files})


# Compare the files of a published biLM with the number of parameters that is documented of it.

UNIT = 100_000  # numbers of parameters are documented in 0.1 M


def check_facts(origin: Origin, paths: Mapping[str, Path]) -> None:
    """Compare the sizes that options and weights have with the documented number of parameters, if there is one.

    origin (Origin): The published biLM.
    paths (Mapping[str, Path]): Its files, complete, by their names in the folder of the download.
    RAISES (ValueError): If they are another biLM.
    """
    problems = ""
    for name, path in paths.items() if origin.n_parameters is not None else ():
        try:
            found = _count(name, path)
        except ValueError as error:
            problems += f"\n- '{path}' has no sizes to compare: {error}"
            continue
        wanted = origin.n_parameters or 0
        if found is not None and round(found / UNIT) != round(wanted / UNIT):
            problems += f"\n- '{path}' is of a biLM with {found:,} parameters, documented are {wanted / 1e6:.1f} M"
    if problems:
        raise not_published(origin.name, problems)


def not_published(name: str, problems: str) -> ValueError:
    """RETURNS (ValueError): Files are not those of a published biLM; `problems` are lines after a dash."""
    return ValueError(
        f"These files are not those of the published '{name}':{problems}\nPass the files of its publisher, or "
        "another name (`python -m spacy elmo download --list`). Files of your own need no download: every command "
        "takes their path."
    )


def count_parameters(config: BiLMConfig) -> int:
    """RETURNS (int): Parameters of a biLM of these sizes without softmax, as in the papers; no memory is taken."""
    return sum(count_numbers(network_shapes(config)).values())


def _count(name: str, path: Path) -> Optional[int]:
    if name == "options.json":
        return count_parameters(read_options(read_json(File(path)), str(path)))
    if name.endswith(HDF5_SUFFIXES):
        shapes = read_shapes(File(path))
        return sum(prod(shape) for key, shape in shapes.items() if not key.startswith("softmax/"))
    return None


# Requests over HTTP; programs can pass an opener of their own.
#
# Only http and https are opened. Redirects are limited, and never lead from https to http.

TIMEOUT_S = 30.0


# Sends a request: an address, with http or https, and headers. The reply is urllib's or like it: `status`, `headers` (a
# mapping that ignores capitalization), `read(n)` and `close()`, also for a status that reports an error. A refused
# address or redirect is a ValueError, a connection that fails an OSError.
Opener = Callable[[str, Mapping[str, str]], Any]


def check_url(url: str) -> str:
    """RETURNS (str): The same address.
    RAISES (ValueError): For anything but http and https with a host.
    """
    try:
        parts = urlsplit(url)
        is_fine = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_fine = False
    if not is_fine:
        raise ValueError(REFUSED_ADDRESS.format(url=url, reason="it is not an address with http or https and a host"))
    return url


class SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows at most 5 redirects, to http and https only, and not from https to http."""

    max_redirections = 5

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """RAISES (ValueError): If the redirect is refused."""
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


# Download one file: mirrors in order, resumed where it was interrupted, checked before it is used.
#
# RFC 9110, sec. 14: a range request with If-Range continues the same version of a file, or starts again.

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
    """A mirror that cannot provide the file: another try makes no sense."""


class Interrupted(MirrorError):
    """Another try may provide it."""


def fetch_file(
    urls: Sequence[str], part: Path, file: OriginFile, opener: Opener, on_bytes: Callable[[int], Any]
) -> str:
    """Download a file to `part`, from the first mirror that provides it.

    urls (Sequence[str]): Addresses, in the order in which they are tried.
    part (Path): Output. If it exists, from an interrupted download, the rest is appended.
    file (OriginFile): Its documented name, size and checksum.
    opener (Opener): Sends the requests.
    on_bytes (Callable[[int], Any]): Called with the number of bytes of each chunk; negative if they are discarded.
    RETURNS (str): The address it came from.
    RAISES (ValueError): With the problem of each mirror.
    """
    problems = ""
    for url in urls:
        for attempt in range(1, N_TRIES + 1):
            try:
                _fetch(url, part, opener, max_bytes_of(file.name), on_bytes)
                check_file(part, file)
                return url
            except Interrupted as error:
                if attempt < N_TRIES:
                    continue
                problems += f"\n- {url}: {error}"
            except (MirrorError, ValueError) as error:
                if isinstance(error, ValueError):
                    _discard(part, on_bytes)
                problems += f"\n- {url}: {error}"
            break
    raise ValueError(
        f"No mirror provides '{file.name}':{problems}\nCheck the connection and run the command again: it continues an "
        "interrupted download. Or pass another mirror with --mirror, or a file fetched by other means with "
        "--from."
    )


def check_file(path: Path, file: OriginFile) -> None:
    """path (Path): A complete file.
    file (OriginFile): What is documented of it.
    RAISES (ValueError): For another checksum or size, if it is too large, if it begins with other bytes than files of
        its kind.
    """
    name, found_bytes, max_bytes = file.name, path.stat().st_size, max_bytes_of(file.name)
    if found_bytes > max_bytes:
        raise ValueError(
            f"'{name}' has {found_bytes:,} bytes, but should have at most {max_bytes:,}: no published "
            "file of this kind is larger. Check that it is the right file."
        )
    wanted = BEGINNINGS.get(Path(name).suffix, b"")
    with path.open("rb") as opened:
        start = opened.read(64)
    start = start.removeprefix(BOM_UTF8).lstrip() if name.endswith(".json") else start
    if not start.startswith(wanted):
        raise ValueError(
            f"'{name}' begins with {repr(start[:24])}, but should begin with {repr(wanted)}. It may be a web page "
            "with an error message. Open its address in a browser, or use another mirror."
        )
    if file.sha256 is not None and (found := hash_file(path)) != file.sha256:
        raise ValueError(
            f"'{name}' has the sha256 {found}, but should have {file.sha256}. The file is damaged or another one. "
            "Download it again, or from another mirror."
        )
    if file.n_bytes is not None and found_bytes != file.n_bytes:
        raise not_published(name, f"\n- '{path}' has {found_bytes:,} bytes, documented are {file.n_bytes:,}")


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
    try:
        reply = opener(url, headers)
    except ValueError as error:  # a redirect that is refused
        raise MirrorError(str(error)) from error
    except (OSError, HTTPException) as error:
        raise Interrupted(f"no connection ({getattr(error, 'reason', error)})") from error
    try:
        total = _total_bytes(reply, start)
        if reply.status == 416:  # the file is shorter now
            _discard(part, on_bytes)
            raise Interrupted(f"it has no bytes after {start:,}")
        if total is not None and total > max_bytes:
            raise MirrorError(f"it has {total:,} bytes, should have at most {max_bytes:,}")
        if reply.status != 206:  # another version or mirror, or a server without ranges
            _discard(part, on_bytes)
            start = 0
        _write_note(part, url, reply, total)
        _append(reply, part, start, total, max_bytes, on_bytes)
    finally:
        reply.close()


def _total_bytes(reply: Any, start: int) -> Optional[int]:
    """The size of the whole file, if the server says it."""
    status = reply.status or 0
    if status == 206 and start:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", reply.headers.get("Content-Range", ""))
        if match is None or int(match[1]) != start:
            raise MirrorError(f"it answered with another range than the one after byte {start:,}")
        return None if match[2] == "*" else int(match[2])
    if status != 200 and not (status == 416 and start):
        what = "too many redirects" if 300 <= status < 400 else "no file"
        raise (Interrupted if 500 <= status < 600 else MirrorError)(f"status {status}, {what}")
    length = reply.headers.get("Content-Length", "")
    return int(length) if length.isdigit() else None


def _append(
    reply: Any, part: Path, start: int, total: Optional[int], max_bytes: int, on_bytes: Callable[[int], Any]
) -> None:
    n_bytes = start
    with naming(part), part.open("ab") as file:
        while True:
            try:
                chunk = reply.read(CHUNK_BYTES)
            except (OSError, HTTPException) as error:
                raise Interrupted(f"interrupted ({error})") from error
            if not chunk:
                break
            n_bytes += len(chunk)
            if n_bytes > max_bytes:
                raise MirrorError(f"it sent more than {max_bytes:,} bytes")
            file.write(chunk)
            on_bytes(len(chunk))
    if total is not None and n_bytes != total:
        text = f"interrupted after {n_bytes:,} of {total:,} bytes"
        raise MirrorError(text) if n_bytes > total else Interrupted(text)


def _read_note(part: Path, url: str) -> Dict[str, Any]:
    """The note of a partial download from this address that can be continued, else an empty one."""
    try:
        note = json.loads(note_of(part).read_text(encoding="utf8"))
    except (OSError, ValueError):
        return {}
    is_usable = isinstance(note, dict) and note.get("url") == url and isinstance(note.get("version"), str)
    return note if is_usable and part.is_file() else {}


def _write_note(part: Path, url: str, reply: Any, total: Optional[int]) -> None:
    """Without a strong version of the file its download cannot be continued safely, and starts again."""
    tag, date = reply.headers.get("ETag", ""), reply.headers.get("Last-Modified", "")
    version = tag if tag and not tag.startswith("W/") else date
    if version:
        note_of(part).write_text(json.dumps({"url": url, "version": version, "total": total}), encoding="utf8")
    else:
        note_of(part).unlink(missing_ok=True)


def _discard(part: Path, on_bytes: Callable[[int], Any] = lambda n: None) -> None:
    if part.is_file():
        on_bytes(-part.stat().st_size)
    part.unlink(missing_ok=True)
    note_of(part).unlink(missing_ok=True)


# Download a published biLM into a folder, or put files there that were fetched by other means.


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


def download(
    origin: Origin,
    folder: Path,
    *,
    given: Sequence[Path] = (),
    mirrors: Sequence[str] = (),
    force: bool = False,
    opener: Opener = open_url,
    on_bytes: Callable[[int], Any] = lambda n: None,
) -> Tuple[Downloaded, ...]:
    """Put the files of a published biLM into a folder, with a record of their origin in origin.json.

    Each file is written to NAME.part, where a later call continues it, checked, and renamed when all are complete.

    origin (Origin): The published biLM.
    folder (Path): Output.
    given (Sequence[Path]): Local files, or folders with them; then nothing is downloaded.
    mirrors (Sequence[str]): Folders on the web with the files, tried before the documented ones.
    force (bool): Replace the files of an earlier download, or of a biLM that `save_bilm` wrote; other files are kept.
    opener (Opener): Sends the requests.
    on_bytes (Callable[[int], Any]): Called with the number of bytes of each chunk.
    RETURNS (Tuple[Downloaded, ...]): The files.
    RAISES (ValueError): EL025 if the folder has other files, for a mirror that is not on the web, if no
        mirror provides a file, for a wrong file, if `given` lacks files, for another
        size or number of parameters than is documented, EL372 for files of a biLM from elsewhere.
    """
    _check_folder(origin, folder, force)
    own_mirrors = [check_url(mirror).rstrip("/") + "/" for mirror in mirrors]
    sources = match_given(origin, given) if given else {}
    if given:
        for file in origin.files:
            check_file(sources[file.name], file)
        check_facts(origin, sources)
    folder.mkdir(parents=True, exist_ok=True)
    with only_writer(folder):
        _check_folder(origin, folder, force)  # another process may have completed it meanwhile
        places: Dict[str, str] = {}
        for file in origin.files:
            part = part_of(folder, file)
            if given:
                shutil.copyfile(sources[file.name], part)
                places[file.name] = str(sources[file.name])
            else:
                urls = [mirror + file.path.rpartition("/")[2] for mirror in own_mirrors]
                urls += [mirror + file.path for mirror in origin.mirrors]
                places[file.name] = fetch_file(urls, part, file, opener, on_bytes)
        if not given:
            parts = {file.name: part_of(folder, file) for file in origin.files}
            try:
                check_facts(origin, parts)
            except ValueError:  # no later call continues wrong files
                for part in parts.values():
                    _discard(part)
                raise
        return _put_in_place(origin, folder, places)


def part_of(folder: Path, file: OriginFile) -> Path:
    """RETURNS (Path): The name of a file while it is incomplete."""
    return folder / f"{file.name}.part"


def match_given(origin: Origin, given: Sequence[Path]) -> Dict[str, Path]:
    """Find the files of a biLM among local files: by published name, by name in the folder, or by suffix.

    RETURNS (Dict[str, Path]): The local file of each name in the folder.
    RAISES (ValueError): If there is none, or several, for a file.
    """
    paths = [path for place in given for path in (sorted(place.iterdir()) if place.is_dir() else [place])]
    problems = [f"'{path}' does not exist" for path in paths if not path.exists()]
    paths = [path for path in paths if path.is_file() and (path in given or not is_hidden(path.name))]
    matched: Dict[str, Path] = {}
    for file in origin.files:
        published = file.path.rpartition("/")[2]
        found = [path for path in paths if path.name == published]
        found = found or [path for path in paths if path.name == file.name]
        if not found:
            is_only = len(origin.files) == 1 and len(paths) == 1
            found = paths if is_only else [path for path in paths if path.suffix == Path(file.name).suffix]
        if len(found) == 1:
            matched[file.name] = found[0]
        else:
            which = f"may be any of {', '.join(map(str, found))}" if found else "is missing"
            problems.append(f"{published} {which}")
    if problems:
        listing = "".join(f"\n- {text}" for text in problems)
        raise ValueError(
            f"The files given by --from do not fit '{origin.name}':{listing}\nPass each file once, or the folder "
            "that contains them; `python -m spacy elmo download --list --json` has their published names."
        )
    return matched


def _check_folder(origin: Origin, folder: Path, force: bool) -> None:
    if folder.is_file():
        raise ValueError(Errors.EL025.format(path=folder, kind="file"))
    parts = [part_of(folder, file) for file in origin.files]
    own = {path.name for part in parts for path in (part, note_of(part))}
    if folder.is_dir() and not force and any(path.name not in own for path in folder.iterdir()):
        raise ValueError(Errors.EL025.format(path=folder, kind="folder with files"))
    if folder.is_dir():
        find_replaceable(folder, known=_recorded_names(folder) | own)


def _put_in_place(origin: Origin, folder: Path, places: Mapping[str, str]) -> Tuple[Downloaded, ...]:
    """Rename all files when all of them are complete, then write the record."""
    files = []
    for file in origin.files:
        part = part_of(folder, file)
        files.append(
            Downloaded(file.name, places[file.name], part.stat().st_size, hash_file(part), file.sha256 is not None)
        )
    # First the old files: a process killed here leaves no folder with files of two biLMs.
    for name in (*find_replaceable(folder, known=_recorded_names(folder)), RECORD_NAME):
        (folder / name).unlink(missing_ok=True)
    for file in origin.files:
        os.replace(part_of(folder, file), folder / file.name)
        note_of(part_of(folder, file)).unlink(missing_ok=True)
    names = ("name", "language", "format", "note", "licence", "licence_source", "paper", "documented")
    record = {**{name: getattr(origin, name) for name in names}, "files": [asdict(file) for file in files]}
    write_text(folder / RECORD_NAME, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    return tuple(files)


def _recorded_names(folder: Path) -> Set[str]:
    """Names of the files of an earlier download."""
    files = (read_record(folder) or {}).get("files")
    names = [file.get("name") for file in files if isinstance(file, dict)] if isinstance(files, list) else []
    return {name for name in names if isinstance(name, str) and name and Path(name).name == name}
