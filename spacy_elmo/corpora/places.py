"""The sources at a place: a file, a folder with all below it, a pattern, an address, or stdin."""

import os
import re
from collections import deque
from glob import escape, glob, has_magic
from pathlib import Path
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Sequence, Set, Tuple, TypeVar

from ..files import AnyPath, to_path
from ..util import MAX_NAMED
from .sources import (
    COMPRESSION_SUFFIXES,
    DESCRIPTOR,
    STDIN,
    TEXT_SUFFIXES,
    Source,
    filesystem_of,
    is_address,
    make_source,
    split_suffix,
)

MANIFEST = "_embed.json"  # readers of Parquet pass over files whose names begin with "_"
SKIPPED = ".skipped.jsonl"  # ends the name of a list of texts that could not be read
# Files in output folders of `embed`, `index` and `pretrain`.
OUTPUT_MARKS = (MANIFEST, "tokens.sqlite", "text/numbers.bin", "model-last/weights.safetensors")
VOCABULARY_START = b"<S>\n</S>\n<UNK>\n"  # of the output of `vocab`, and of the vocabulary of a biLM
ANY_DEPTH = re.compile(r"(^|.*?[/\\])\*\*(?:[/\\]|$)(.*)", re.DOTALL)  # before and after the first `**` of a pattern

OnMessage = Callable[[str], Any]
PlaceT = TypeVar("PlaceT")


def ignore_message(text: str) -> None:
    """text (str): Ignored."""


def abbreviate(names: Sequence[str]) -> str:
    """RETURNS (str): The first names, and the number of further names."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def find_sources(
    place: str, on_message: OnMessage = ignore_message, *, output: Optional[AnyPath] = None
) -> List[Source]:
    """The sources of a place, sorted by name: a file, a folder, searched at any depth, a pattern with `*` or `**`, an
    address such as s3://BUCKET/FOLDER (each of these, by `fsspec`), or "-" for stdin. Links are followed, and each
    folder and file is read once. Outputs of this package in a folder, of earlier commands and of this one, are
    not texts.

    on_message (OnMessage): Called with a message on files of a folder that are not read.
    output (Optional[AnyPath]): The file or folder that is being written.
    RAISES (ValueError): If there are no files, or for an address of an unknown kind.
    """
    target = None if output is None else _locate_output(os.fsdecode(output), place)
    if is_address(place):
        return [Source(name) for name in _find_remote(place, on_message, target)]
    path = to_path(place)
    if str(path) == STDIN or DESCRIPTOR.fullmatch(str(path)) or (path.exists() and not path.is_dir()):
        return [make_source(str(path))]
    left_out: Dict[str, str] = {}
    if path.is_dir():
        files = [file for folder in _walk_folders(path, left_out) for file in _list_folder(folder, left_out)]
        files = _select_files(_keep_files(files, left_out), path, place, on_message, target)
    else:
        files = _without_outputs(_keep_files(_match_paths(str(path), left_out), left_out), None, target)
    if left_out:
        named = abbreviate([f"{name} ({reason})" for name, reason in sorted(left_out.items())])
        on_message(f"Not read in '{place}': {named}")
    files = sorted(_require_files(files, place, is_folder=path.is_dir()), key=lambda file: file.parts)
    return drop_repeated([make_source(str(file)) for file in files], on_message)


def _locate_output(output: str, place: str) -> Optional[Path]:
    """The path of the output, with all links resolved, if it may be in the place: both at addresses, or neither."""
    if is_address(place) != is_address(output):
        return None
    return Path(filesystem_of(output)[1]) if is_address(output) else to_path(output).resolve()


def _find_remote(place: str, on_message: OnMessage, target: Optional[Path]) -> List[str]:
    """RETURNS (List[str]): Addresses of the files at an address, sorted."""
    remote, root = filesystem_of(place)
    is_folder = remote.isdir(root)
    if is_folder:
        files = _select_files([Path(name) for name in remote.find(root)], Path(root), place, on_message, target)
        names = [str(file) for file in files]
    else:
        names = [name for name in remote.glob(root) if remote.isfile(name)]
    return sorted(map(remote.unstrip_protocol, _require_files(names, place, is_folder=is_folder)))


def drop_repeated(sources: Sequence[Source], on_message: OnMessage) -> List[Source]:
    """RETURNS (List[Source]): Each file once, under its first name, though links have others."""
    first: Dict[str, Source] = {}
    repeated = [source.name for source in sources if first.setdefault(source.key, source) is not source]
    if repeated:
        on_message(f"Files named more than once are read once: {abbreviate(repeated)}")
    return list(first.values())


def _walk_folders(folder: Path, left_out: Dict[str, str]) -> Iterator[Path]:
    """YIELDS (Path): A folder and those below it that are not hidden, each once; links come last."""
    seen: Set[Tuple[int, int]] = set()
    queue: Deque[Path] = deque([folder])
    while queue:
        current = queue.popleft()
        identity = (status := current.stat()).st_dev, status.st_ino
        if identity in seen:
            continue
        seen.add(identity)
        yield current
        for entry in _list_folder(current, left_out):
            if os.path.isdir(entry) and not entry.name.startswith("."):
                queue.append(entry) if entry.is_symlink() else queue.appendleft(entry)


def _list_folder(folder: Path, left_out: Dict[str, str]) -> List[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        left_out[str(folder)] = error.strerror or str(error)
        return []


def _match_paths(pattern: str, left_out: Dict[str, str]) -> List[Path]:
    """RETURNS (List[Path]): What a pattern matches. Unlike `glob`, `**` follows links to folders once each."""
    match = ANY_DEPTH.fullmatch(pattern)
    if match is None:
        return (
            [Path(name) for name in glob(pattern)] if has_magic(pattern) else [Path(pattern)] * os.path.lexists(pattern)
        )
    folders = [folder for folder in map(Path, glob(match[1] or ".")) if os.path.isdir(folder)]
    below = [inner for folder in folders for inner in _walk_folders(folder, left_out)]
    matches = [
        file for folder in below for file in _match_paths(os.path.join(escape(str(folder)), match[2] or "*"), left_out)
    ]
    return list(dict.fromkeys(matches))


def _keep_files(files: List[Path], left_out: Dict[str, str]) -> List[Path]:
    """Leave out folders, and what is not a regular file, with the reason."""
    regular_files = [file for file in files if os.path.isfile(file)]
    for file in set(files) - set(regular_files):
        if not file.name.startswith(".") and not file.is_dir():
            left_out[str(file)] = _problem_of(file)
    return regular_files


def _problem_of(file: Path) -> str:
    try:
        file.stat()
    except FileNotFoundError:
        return "a link without a target"
    except OSError as error:
        return error.strerror or str(error)
    return "a pipe or a device"


def _select_files(
    files: List[Path], folder: Path, place: str, on_message: OnMessage, target: Optional[Path]
) -> List[Path]:
    """The files of a folder that are read, without hidden files and outputs; other suffixes give a message."""
    texts = _without_outputs(files, folder, target)
    if n_outputs := sum(_is_searched(file) for file in set(files) - set(texts)):
        on_message(f"Files in '{place}' that commands of this package wrote are not read as texts: {n_outputs:,}")
    names = {file: file.relative_to(folder) for file in texts}
    files = [file for file, name in names.items() if not any(folder_name.startswith(".") for folder_name in name.parts)]
    known = [file for file in files if _is_searched(file)]
    left_out = sorted(str(names[file]) for file in set(files) - set(known))
    if known and left_out:
        named = abbreviate(left_out)
        on_message(f"Files in '{place}' with other suffixes are not read, unless they are named: {named}")
    return known


def _is_searched(file: Path) -> bool:
    """Whether a file in a folder is read: by its suffix; a compressed file without another suffix is text."""
    suffix, compression = split_suffix(file)
    return suffix in TEXT_SUFFIXES or (compression != "" and suffix == "")


def _without_outputs(files: List[Path], folder: Optional[Path], target: Optional[Path]) -> List[Path]:
    """folder (Optional[Path]): The folder of the files, in which outputs of other commands are left out.
    target (Optional[Path]): The output that is being written, with all links resolved.
    """
    outputs = {
        Path(name[: -len(mark) - 1])
        for name in (file.as_posix() for file in (files if folder is not None else []))
        for mark in OUTPUT_MARKS
        if name.endswith(f"/{mark}")
    } - {folder}
    files = [file for file in files if not file.name.endswith(SKIPPED) and outputs.isdisjoint(file.parents)]
    files = [file for file in files if folder is None or not is_vocabulary(file)]
    if target is None or target in (folder, folder and folder.resolve()):
        return files
    return [file for file in files if target not in ((real := file.resolve()), *real.parents)]


def is_vocabulary(file: Path) -> bool:
    """RETURNS (bool): Whether a .txt file begins as the vocabulary of a biLM does."""
    try:
        if file.suffix.lower() != ".txt":
            return False
        with file.open("rb") as content:
            return content.read(len(VOCABULARY_START)) == VOCABULARY_START
    except OSError:  # at an address, or its reader reports why
        return False


def _require_files(items: List[PlaceT], place: str, *, is_folder: bool) -> List[PlaceT]:
    if not items:
        problem = "no file or folder has this path, or matches it as a pattern"
        if is_folder:
            suffixes = ", ".join([*TEXT_SUFFIXES, *COMPRESSION_SUFFIXES])
            problem = f"the folder has no files that end in {suffixes}"
        raise ValueError(f"There are no texts at '{place}': {problem}.")
    return items
