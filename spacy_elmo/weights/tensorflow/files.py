"""Find the files of a TensorFlow checkpoint or of a TF-Hub module."""

import re
from codecs import BOM_UTF8
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Tuple, Union

from ...errors import Errors
from ..bilm_tf.files import HDF5_SUFFIXES, TOKEN_EMBEDDINGS_NAME, VOCAB_NAME, find_options
from ..limits import MIB
from ..sources import Source, list_sources
from .bundle import INDEX_SUFFIX, Bundle
from .damage import Damaged, reading
from .saved_slices import SavedSlices
from .sorted_table import is_sorted_table

STATE_NAME = "checkpoint"  # text with the name of the newest checkpoint
MAX_STATE_BYTES = MIB
NEWEST = re.compile(rb'^[ \t]*model_checkpoint_path\s*:\s*"((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)")
SHARDS = re.compile(r"-\?{5}-of-\d{5}$")  # all files of format V1, in a file `checkpoint`
SHARD = re.compile(r"(?P<prefix>.+?)(?P<data>\.data)?-\d{5}-of-(?P<n>\d{5})")
GRAPHS = ("saved_model.pb", "tfhub_module.pb")
HUB_INDEX = Path("variables") / "variables.index"
CHECKPOINT_WANTED = (
    "a folder with a checkpoint of TensorFlow (checkpoint, *.index, *.data-*) and options.json; the path of such a "
    "checkpoint, with or without .index"
)
HUB_WANTED = f"a folder of a TF-Hub module with {' or '.join(GRAPHS)} and {HUB_INDEX.as_posix()}"

Checkpoint = Union[Bundle, SavedSlices]


@dataclass(frozen=True)
class CheckpointFiles:
    """The files of a checkpoint of bilm-tf.

    file (Path): PREFIX.index of format V2, or the first file of format V1.
    options (Source): options.json.
    vocab (Optional[Source]): Vocabulary, one word per line.
    token_embeddings (Optional[Source]): Precomputed word vectors.
    """

    file: Path
    options: Source
    vocab: Optional[Source] = None
    token_embeddings: Optional[Source] = None


@dataclass(frozen=True)
class HubFiles:
    """The files of a TF-Hub module.

    file (Path): The index of its variables.
    """

    file: Path


def open_checkpoint(file: Path) -> Checkpoint:
    """file (Path): See `CheckpointFiles`.
    RETURNS (Checkpoint): With its variables, but not their values.
    RAISES (ValueError): EL320, EL321.
    """
    if file.name.endswith(INDEX_SUFFIX):
        return Bundle(file)
    match = SHARD.fullmatch(file.name)
    if match is None:
        return SavedSlices([file])
    n_files = int(match["n"])
    names = [f"{match['prefix']}-{number:05d}-of-{n_files:05d}" for number in range(n_files)]
    missing = next((name for name in names if not file.with_name(name).is_file()), None)
    if missing is not None:
        raise ValueError(Errors.EL321.format(path=file, missing=missing))
    return SavedSlices([file.with_name(name) for name in names])


def find_checkpoint(path: Path) -> Optional[Path]:
    """Find the file of a checkpoint with the names of its variables.

    path (Path): A folder, a file of a checkpoint, or the prefix of its files, which need not exist itself.
    RETURNS (Optional[Path]): See `CheckpointFiles.file`; None if this is not a checkpoint.
    RAISES (ValueError): EL320 for a damaged file `checkpoint`, EL321 if the checkpoint that it names is missing, EL324
        if there are several checkpoints, and none is named.
    """
    if path.is_dir():
        return _in_folder(path)
    if path.name == STATE_NAME and path.is_file():
        return _in_folder(path.parent)
    if path.name.endswith(INDEX_SUFFIX) and (is_sorted_table(path) or _data_files(path)):
        return path
    match = SHARD.fullmatch(path.name)
    prefix = path.with_name(match["prefix"]) if match else path
    prefix = prefix.with_suffix("") if path.suffix == ".meta" else prefix
    return _of_prefix(prefix)


def detect_tf_checkpoint(path: Path) -> Optional[CheckpointFiles]:
    """path (Path): A folder, a file, or the prefix of the files of a checkpoint.
    RETURNS (Optional[CheckpointFiles]): The files; None for another format, also for a folder with HDF5 weights.
    RAISES (ValueError): EL020 without options, EL021 if there are several, EL320, EL321, EL324.
    """
    file = None if _has_hdf5_weights(path) else find_checkpoint(path)
    return None if file is None else CheckpointFiles(file, _options_beside(file), *_words_beside(file))


def with_options(path: Path, options: Source) -> Optional[CheckpointFiles]:
    """path (Path): A folder, a file, or the prefix of the files of a checkpoint.
    options (Source): Its options, which may be in another folder.
    RETURNS (Optional[CheckpointFiles]): The files; None if this is not a checkpoint.
    RAISES (ValueError): See `find_checkpoint`.
    """
    file = find_checkpoint(path)
    return None if file is None else CheckpointFiles(file, options, *_words_beside(file))


def detect_tf_hub(path: Path) -> Optional[HubFiles]:
    """path (Path): A folder or file that exists.
    RETURNS (Optional[HubFiles]): The files of a module; None for another format.
    RAISES (ValueError): EL020 for a module without variables.
    """
    is_index = path.parts[-2:] == HUB_INDEX.parts
    folder = path.parent.parent if is_index else path
    if not any((folder / name).is_file() for name in GRAPHS):
        return None
    if not (folder / HUB_INDEX).is_file():
        reason = f"{HUB_INDEX.as_posix()} is missing"
        raise ValueError(Errors.EL020.format(path=path, reason=reason, wanted=HUB_WANTED))
    return HubFiles(folder / HUB_INDEX)


def _has_hdf5_weights(path: Path) -> bool:
    """Whether this is a folder that is read as bilm-tf: a dump may lie beside the checkpoint that it was made from."""
    names = list_sources(path) if path.is_dir() else ()
    return any(name.endswith(HDF5_SUFFIXES) and not name.endswith(TOKEN_EMBEDDINGS_NAME) for name in names)


def _in_folder(folder: Path) -> Optional[Path]:
    state = folder / STATE_NAME
    indices = [folder / name for name in list_sources(folder) if name.endswith(INDEX_SUFFIX)]
    indices = [file for file in indices if _data_files(file)]
    if state.is_file():
        name = _newest(state)
        found = None if name is None else _of_prefix(folder / name)
        if name is not None and found is None:
            raise ValueError(Errors.EL321.format(path=state, missing=f"{name}{INDEX_SUFFIX}"))
        if found is not None:
            return found
    if len(indices) > 1:
        names = ", ".join(file.name for file in indices)
        raise ValueError(Errors.EL324.format(path=folder, n=len(indices), names=names))
    return indices[0] if indices else None


def _newest(state: Path) -> Optional[str]:
    """The name in a file `checkpoint`, without its folder, which may be that of another machine."""
    with reading(state), state.open("rb") as file:
        content = file.read(MAX_STATE_BYTES + 1)
        if len(content) > MAX_STATE_BYTES:
            raise Damaged(f"it has more than {MAX_STATE_BYTES:,} bytes")
        match = NEWEST.search(content.removeprefix(BOM_UTF8))
        if match is None:
            return None
        try:
            path = ESCAPE.sub(_unescape, match[1]).decode("utf8")
        except UnicodeDecodeError as error:
            raise Damaged(f"the name of the newest checkpoint is not valid UTF-8: {error.reason}") from error
        name = SHARDS.sub("", re.split(r"[/\\]", path)[-1])
        if name in ("", ".", "..") or "\0" in name:
            raise Damaged("the name of the newest checkpoint is empty")
    return name


def _unescape(match: "re.Match[bytes]") -> bytes:
    code = match[1]
    if code.isdigit():
        return bytes([int(code, 8) % 256])
    return {b"n": b"\n", b"t": b"\t", b"r": b"\r"}.get(code, code)


def _of_prefix(prefix: Path) -> Optional[Path]:
    """The file of a checkpoint with this prefix: format V2, or format V1 in one file or several."""
    index = prefix.with_name(prefix.name + INDEX_SUFFIX)
    if index.is_file():
        return index
    if is_sorted_table(prefix):
        return prefix
    shards = _matching(prefix, "")
    return shards[0] if shards and is_sorted_table(shards[0]) else None


def _data_files(index: Path) -> List[Path]:
    return _matching(index.with_name(index.name.removesuffix(INDEX_SUFFIX)), ".data")


def _matching(prefix: Path, ending: str) -> List[Path]:
    if not prefix.parent.is_dir():
        return []
    pattern = re.compile(re.escape(prefix.name + ending) + r"-\d{5}-of-\d{5}")
    return sorted(file for file in prefix.parent.iterdir() if pattern.fullmatch(file.name))


def _options_beside(file: Path) -> Source:
    """options.json, else the only file that ends so."""
    beside = list_sources(file.parent)
    if "options.json" in beside:
        return beside["options.json"]
    found = find_options(beside.values())
    if not found:
        reason = "it is a TensorFlow checkpoint without options.json in the same folder"
        wanted = "the options.json of the training, or a file given by `options=...` (`--options`)"
        raise ValueError(Errors.EL020.format(path=file, reason=reason, wanted=wanted))
    if len(found) > 1:
        names = ", ".join(option.name for option in found)
        raise ValueError(Errors.EL021.format(path=file.parent, n=len(found), kind="options", names=names))
    return found[0]


def _words_beside(file: Path) -> Tuple[Optional[Source], Optional[Source]]:
    """Vocabulary and token embeddings. The vocabulary is vocab.txt, else the only file with a name such as
    vocab-2016-09-10.txt, the one of the released models.
    """
    beside = list_sources(file.parent)
    named = [name for name in beside if name.startswith("vocab") and name.endswith(".txt")]
    only = beside[named[0]] if len(named) == 1 else None
    return beside.get(VOCAB_NAME, only), beside.get(TOKEN_EMBEDDINGS_NAME)
