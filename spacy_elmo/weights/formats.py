"""All formats in one table: find, detect, load and save biLMs."""

import os
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatch, fnmatchcase
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Any, Callable, Collection, Dict, List, Optional, Sequence, Set, Tuple

import torch
from safetensors import SafetensorError

from ..errors import Errors
from ..inference.bilm import BiLM
from ..inference.products import check_precision, quantizable_names
from ..inference.runtime import isolated
from ..util import DTYPES, PRECISIONS, AnyPath, aside_of, atomic_folder, is_hidden, shorten, to_path
from .allennlp import (
    ALLENNLP_WANTED,
    ALLENNLP_WEIGHTS,
    ARCHIVE_NAME,
    AllenNLPFiles,
    cannot_add,
    detect_allennlp,
    detect_state_dict,
    find_unknown_parts,
    no_such_part,
    read_allennlp,
    write_allennlp,
)
from .bilm_tf import (
    BILM_TF_WANTED,
    HDF5_SUFFIXES,
    TOKEN_EMBEDDINGS_NAME,
    TFFiles,
    detect_bilm_tf,
    find_foreign_parts,
    read_bilm_tf,
    write_bilm_tf,
)
from .manylangs import MANYLANGS_WANTED, ManyLangsFiles, detect_manylangs, read_manylangs
from .native import (
    CONFIG_NAME,
    LEXICON_NAME,
    NATIVE_WANTED,
    WEIGHTS_NAME,
    NativeFiles,
    detect_native,
    read_native,
    write_native,
)
from .parts import LoadedMix, mixes_from_meta, read_vocabulary
from .sources import TAR_SUFFIXES, PathLike, Source, is_tar, is_zip, list_sources, scan_tar
from .tensorflow import (
    CHECKPOINT_WANTED,
    HUB_WANTED,
    detect_tf_checkpoint,
    detect_tf_hub,
    find_checkpoint,
    read_tf_checkpoint,
    read_tf_hub,
    with_options,
)

NOTHING_TO_ADD = (
    "The biLM in '{path}' is in the {format} format, which contains all its parameters and words, so {given} cannot"
    " be added. Load it without {given}; a native biLM may be saved again from its original files with {given}."
)

# Convert a packaged name or a path to the path of a biLM.

MODELS_DIR = Path(__file__).parent.parent / "models"
PACKAGED_NAMES = ("en_elmo_sm",)
PART_MARK = "#"


def split_part(path: PathLike) -> Tuple[PathLike, Optional[str]]:
    """path (PathLike): A path, or a path, "#" and the name of a biLM in it.
    RETURNS (Tuple[PathLike, Optional[str]]): The path, and the name if the "#" is not part of the path.
    """
    whole, mark, part = str(path).rpartition(PART_MARK)
    return (whole, part) if mark and whole and not to_path(path).exists() else (path, None)


def resolve(path: AnyPath) -> str:
    """Let a path that is read later mean the same file after `os.chdir`.

    path (AnyPath): A path, or the name of a packaged model.
    RETURNS (str): The path from the root, or from the working directory of now; a name or a blank text as it is.
    """
    name = os.path.expanduser(os.fsdecode(path))
    is_path = name.strip() and name not in PACKAGED_NAMES and not os.path.isabs(name)
    return str(Path.cwd() / name) if is_path else name


def locate(path: PathLike) -> Path:
    """path (PathLike): Folder or file, or the name of a packaged model.
    RETURNS (Path): Its path, which need not exist.
    RAISES (ValueError): If a packaged model is not installed.
    """
    if isinstance(path, str) and path in PACKAGED_NAMES:
        return _packaged(path)
    path = to_path(path)
    # Another process is replacing the folder, or was killed while it did.
    return aside_of(path) if not path.exists() and aside_of(path).is_dir() else path


def _packaged(name: str) -> Path:
    folder = MODELS_DIR / name
    if not folder.is_dir() or detect_native(folder) is None:
        raise ValueError(
            f"The packaged biLM '{name}' is not installed (looked in '{folder}'). Install a release of spacy-elmo "
            "that includes it, or pass the path of other weights."
        )
    return folder


# Say which files of a format are missing at a path, and where files with similar names are.

Listing = Dict[str, List[str]]  # names of files by folder

ARCHIVE_SUFFIXES = (".zip", *TAR_SUFFIXES)
# `python -m zipfile` takes backslashes, which programs of Windows write, for a part of the name.
WITH_SLASHES = (
    "from zipfile import ZipFile as Z; import sys; a = Z(sys.argv[1]); "
    "[(setattr(m, 'filename', m.filename.replace(chr(92), '/')), a.extract(m, sys.argv[2])) for m in a.infolist()]"
)
COMMON_SUFFIXES = (".json", ".txt")
MAX_NAMES = 2000  # files considered, in a folder and in the folders below it
MAX_NAMED = 3  # names in a message
SIMILAR = 0.75  # ratio of difflib


def find_missing(path: Path, required: Sequence[str], places: Optional[Listing]) -> str:
    """Compare the files at a path with those that a format needs.

    path (Path): A folder or file.
    required (Sequence[str]): Patterns of names, each of which a file should match.
    places (Optional[Listing]): What `list_files` says of the path.
    RETURNS (str): For each pattern the file that is there, or that it is missing, with files of similar names, and the
        folder one level deeper that has all files, if there is one.
    """
    if places is None:
        return f"'{path.name}' is a single file that is neither a zip nor a tar"
    names = places.get("", [])
    texts = [_describe(pattern, names) for pattern in required]
    deeper = [place for place, found in places.items() if place and all(_match(each, found) for each in required)]
    if deeper:
        texts.append(f"all of them are in '{deeper[0]}/': pass '{path / deeper[0]}' instead")
    return ", ".join(texts)


def has_all(places: Optional[Listing], required: Sequence[str]) -> bool:
    """places (Optional[Listing]): What `list_files` says of a path.
    required (Sequence[str]): Patterns of names.
    RETURNS (bool): Whether all files that a format needs are there.
    """
    return places is not None and bool(required) and all(_match(each, places.get("", [])) for each in required)


def unpacking(path: Path) -> str:
    """path (Path): An archive.
    RETURNS (str): How to unpack it, as a sentence.
    """
    folder = str(path)
    for suffix in ARCHIVE_SUFFIXES:
        folder = folder.removesuffix(suffix)
    folder = folder if folder != str(path) else f"{folder}_files"
    tool = "-m tarfile -e"
    if is_zip(path):
        has_backslashes = any("\\" in (source.member or "") for source in list_sources(path).values())
        tool = f"-c {quote(WITH_SLASHES)}" if has_backslashes else "-m zipfile -e"
    command = f"python {tool} {quote(str(path))} {quote(folder)}"
    return f"Unpack it, and pass the folder with these files: `{command}`"


def only_archive(path: Path) -> Optional[Path]:
    """path (Path): A folder or file.
    RETURNS (Optional[Path]): The archive in a folder, if there is exactly one.
    """
    if not path.is_dir():
        return None
    files = (file for file in sorted(path.iterdir()) if file.is_file() and not is_hidden(file.name))
    archives = [file for file in files if file.name.endswith(ARCHIVE_SUFFIXES)]
    return archives[0] if len(archives) == 1 else None


def list_files(path: Path) -> Optional[Listing]:
    """path (Path): A folder or file.
    RETURNS (Optional[Listing]): Names of files by the folder they are in, "" for the path itself and for all files of
        an archive; None for a file that is no archive.
    """
    if path.is_file() and not is_zip(path) and not is_tar(path):
        return None
    places: Listing = {"": []}
    for place in _members(path) if path.is_file() else _files_below(path):
        folder = "" if path.is_file() or str(place.parent) == "." else str(place.parent)
        places.setdefault(folder, []).append(place.name)
    return places


def _members(path: Path) -> List[PurePosixPath]:
    """Members of an archive; their folders do not matter, since readers ignore them."""
    try:
        names = list(list_sources(path)) if is_zip(path) else scan_tar(path, lambda name: False).names
    except ValueError:  # a damaged file, which the readers report
        return []
    return [PurePosixPath(name) for name in names[:MAX_NAMES] if not is_hidden(name)]


def _files_below(path: Path) -> List[PurePosixPath]:
    """Files of a folder and of the folders in it, in alphabetical order."""
    found: List[PurePosixPath] = []
    for place in sorted(path.iterdir()) if path.is_dir() else []:
        try:
            inner = sorted(place.iterdir()) if place.is_dir() else [place]
        except OSError:
            continue
        found += [
            PurePosixPath(file.relative_to(path).as_posix())
            for file in inner
            if file.is_file() and not is_hidden(file.name)
        ]
        if len(found) > MAX_NAMES:
            break
    return found[:MAX_NAMES]


def _match(pattern: str, names: Sequence[str]) -> List[str]:
    return [name for name in names if any(fnmatch(name, each) for each in pattern.split("|"))]


def _describe(pattern: str, names: Sequence[str]) -> str:
    """What is there of one pattern."""
    found = _match(pattern, names)
    if found:
        return f"{found[0]} is there"
    wanted = pattern.replace("|", " or ")
    close = list(dict.fromkeys(name for each in pattern.split("|") for name in _close_to(each, names)))[:MAX_NAMED]
    return f"{wanted} is missing" + (f" (there is {', '.join(close)}: a wrong name?)" if close else "")


def _close_to(pattern: str, names: Sequence[str]) -> List[str]:
    """Similar names; also those with the same suffix, unless there are many kinds of such files."""
    exact = pattern.replace("*", "")
    suffix = PurePosixPath(exact).suffix
    same_suffix = [] if suffix in COMMON_SUFFIXES else [name for name in names if name.endswith(suffix or exact)]
    return [*get_close_matches(exact, names, n=MAX_NAMED, cutoff=SIMILAR), *same_suffix]


# The table of formats: functions to detect, read and write each of them, and the names of its files.
#
# A new format needs a module next to native.py and bilm_tf.py, and a row here.

INT8 = "int8"


@dataclass(frozen=True)
class LoadedModel:
    """The contents of the files of a model.

    bilm (BiLM): The biLM, float32, on the CPU.
    mixes (Sequence[LoadedMix]): The scalar mixes, empty for formats with a biLM only.
    """

    bilm: BiLM
    mixes: Sequence[LoadedMix] = ()


@dataclass(frozen=True)
class Extras:
    """Files that a user specifies in addition to the model.

    vocab (Optional[Source]): One word per line, in the order of the rows.
    token_embeddings (Optional[Source]): Precomputed vectors of its words.
    softmax (Optional[Source]): HDF5 with softmax/W and softmax/b.
    options (Optional[Source]): options.json of a model that does not have it.
    part (Optional[str]): Name of the biLM in a model with several.
    """

    vocab: Optional[Source] = None
    token_embeddings: Optional[Source] = None
    softmax: Optional[Source] = None
    options: Optional[Source] = None
    part: Optional[str] = None


@dataclass(frozen=True)
class Format:
    """A file format of biLMs.

    name (str): Name for `save_bilm` and the command line.
    detect (Callable[[Path], Optional[Any]]): Finds the files at an existing path by name, None for another format.
    read (Callable[[Any, Extras], LoadedModel]): Reads the output of `detect` into a model.
    write (Optional[Callable[[BiLM, Path, str], None]]): Writes a biLM to an empty folder, in a dtype; None for a format
        that is only read.
    file_names (Sequence[str]): Names of all files that `write` may write.
    dtypes (Sequence[str]): Dtypes that `write` supports.
    wanted (str): Description of the files that `detect` looks for.
    required (Sequence[str]): Patterns of names of the files that it needs ("a|b" for either), to say which of them are
        missing. Without them, the message has `wanted`.
    refuses (Optional[Callable[[BiLM], Optional[str]]]): The reason why `write` cannot write a biLM, None if it can.
    """

    name: str
    detect: Callable[[Path], Optional[Any]]
    read: Callable[[Any, Extras], LoadedModel]
    write: Optional[Callable[[BiLM, Path, str], None]]
    file_names: Sequence[str]
    dtypes: Sequence[str]
    wanted: str
    required: Sequence[str] = ()
    refuses: Optional[Callable[[BiLM], Optional[str]]] = None


def _refuse_extras(path: Path, format: str, extras: Extras, *names: str) -> None:
    given = [name for name in names if getattr(extras, name) is not None]
    if given:
        raise ValueError(NOTHING_TO_ADD.format(path=path, format=format, given=", ".join(given)))


def _read_native(files: NativeFiles, extras: Extras) -> LoadedModel:
    _refuse_extras(files.folder, "native", extras, "token_embeddings", "softmax")
    vocabulary = None if extras.vocab is None else read_vocabulary(extras.vocab, True)
    bilm = read_native(files, vocabulary)
    return LoadedModel(bilm, mixes_from_meta(bilm.meta, bilm.config.n_layers))


def _read_allennlp(files: AllenNLPFiles, extras: Extras) -> LoadedModel:
    place = files.place(files.weights)
    if extras.token_embeddings is not None:
        raise cannot_add(place, "token_embeddings", "allennlp")
    settings = {name: getattr(extras, name) for name in ("part", "options", "vocab", "softmax")}
    return LoadedModel(*read_allennlp(files, **settings))


def _read_with_words(read: Callable[..., Any]) -> Callable[[Any, Extras], LoadedModel]:
    """A reader of bilm-tf's formats, to which a user may add files of words."""

    def read_all(files: Any, extras: Extras) -> LoadedModel:
        found = read(files, **{name: getattr(extras, name) for name in ("vocab", "token_embeddings", "softmax")})
        return LoadedModel(*found) if isinstance(found, tuple) else LoadedModel(found)

    return read_all


def _read_manylangs(files: ManyLangsFiles, extras: Extras) -> LoadedModel:
    _refuse_extras(files.path, "manylangs", extras, "vocab", "token_embeddings", "softmax")
    return LoadedModel(read_manylangs(files))


NATIVE = Format(
    name="native",
    detect=detect_native,
    read=_read_native,
    write=write_native,
    file_names=("config.json", "weights.safetensors", "meta.json", "vocab.txt", LEXICON_NAME),
    dtypes=(*DTYPES, INT8),
    wanted=NATIVE_WANTED,
    required=(CONFIG_NAME, WEIGHTS_NAME),
)
BILM_TF = Format(
    name="bilm-tf",
    detect=detect_bilm_tf,
    read=_read_with_words(read_bilm_tf),
    write=write_bilm_tf,
    file_names=("options.json", "weights.hdf5", "vocab.txt", TOKEN_EMBEDDINGS_NAME),
    dtypes=DTYPES,
    wanted=BILM_TF_WANTED,
    required=("*options.json", "|".join(f"*{suffix}" for suffix in HDF5_SUFFIXES)),
    refuses=lambda bilm: "; ".join(find_foreign_parts(bilm.config)) or None,
)
MANYLANGS = Format(
    name="manylangs",
    detect=detect_manylangs,
    read=_read_manylangs,
    write=None,
    file_names=(),
    dtypes=(),
    wanted=MANYLANGS_WANTED,
    required=("config.json", "token_embedder.pkl", "encoder.pkl"),
)
ALLENNLP = Format(
    name="allennlp",
    detect=detect_allennlp,
    read=_read_allennlp,
    write=write_allennlp,
    file_names=(ARCHIVE_NAME,),
    dtypes=("float32",),
    wanted=ALLENNLP_WANTED,
    required=("|".join(ALLENNLP_WEIGHTS),),
    refuses=lambda bilm: "; ".join(find_unknown_parts(bilm)) or None,
)
TF_HUB = Format(
    name="tf-hub",
    detect=detect_tf_hub,
    read=_read_with_words(read_tf_hub),
    write=None,
    file_names=(),
    dtypes=(),
    wanted=HUB_WANTED,
    required=("saved_model.pb|tfhub_module.pb",),
)
TF_CHECKPOINT = Format(
    name="tf-checkpoint",
    detect=detect_tf_checkpoint,
    read=_read_with_words(read_tf_checkpoint),
    write=None,
    file_names=(),
    dtypes=(),
    wanted=CHECKPOINT_WANTED,
    required=("*.index", "*.data-*", "*options.json"),
)
# In the order of detection: a dump in HDF5 may lie beside the checkpoint that it was made from.
FORMATS: Tuple[Format, ...] = (NATIVE, MANYLANGS, ALLENNLP, BILM_TF, TF_HUB, TF_CHECKPOINT)
PACKAGED = f"one of the packaged names ({', '.join(PACKAGED_NAMES)})"


def detect_format(path: Path) -> Tuple[Format, Any]:
    """Detect a format by the files at a path; a folder whose only file is an archive is read as this archive.

    path (Path): A folder or file, or the prefix of the files of a TensorFlow checkpoint.
    RETURNS (Tuple[Format, Any]): The format, and the files for its `read`.
    RAISES (ValueError): EL020 if no format is detected, with the files that are missing for each of them, and errors
        of `detect` for damaged files.
    """
    if not path.exists():
        path = find_checkpoint(path) or path
    if not path.exists():
        wanted = f"a folder, file or zip with a biLM in any known format; {PACKAGED}"
        template = f"{Errors.EL020} `python -m spacy elmo download --list` lists published biLMs and how to get them."
        raise ValueError(template.format(path=path, reason="there is no such file or folder", wanted=wanted))
    for format in FORMATS:
        files = format.detect(path)
        if files is not None:
            return format, files
    state = detect_state_dict(path)
    if state is not None:
        return ALLENNLP, state
    archive = only_archive(path)
    if archive is not None:
        return detect_format(archive)
    raise ValueError(_not_found(path))


def _not_found(path: Path) -> str:
    """The message of EL020, with one line per format."""
    files = list_files(path)
    lines = [*(f"{format.name}: {_missing_of(format, path, files)}" for format in FORMATS), PACKAGED]
    packed = [format.name for format in FORMATS if path.is_file() and has_all(files, format.required)]
    reason = "it is in no known format"
    if packed:
        names = " or ".join(packed)
        reason = f"it is an archive with the files of {names}, which is not read in place. {unpacking(path)}"
    return Errors.EL020.format(path=path, reason=reason, wanted="".join(f"\n- {line}" for line in lines))


def _missing_of(format: Format, path: Path, files: Optional[Listing]) -> str:
    return f"{find_missing(path, format.required, files)}; it is {format.wanted}" if format.required else format.wanted


# `load_bilm`, `load_mixes`: load a `BiLM` and its scalar mixes from files in any known format.


@isolated
def load_bilm(
    path: Optional[PathLike] = None,
    *,
    options: Optional[PathLike] = None,
    weights: Optional[PathLike] = None,
    vocab: Optional[PathLike] = None,
    token_embeddings: Optional[PathLike] = None,
    softmax: Optional[PathLike] = None,
    precision: str = "float32",
) -> BiLM:
    """Load a biLM from one path, or from the two files of bilm-tf and AllenNLP.

    path (Optional[PathLike]): A folder in native format or with options.json and one HDF5 file, an HDF5 file next to
        its options, a zip of either (read without unpacking), a folder or zip of ELMoForManyLangs, an AllenNLP archive,
        folder of a training or state dict (with "#" and a name for one of several biLMs in it), a TensorFlow checkpoint
        of bilm-tf, the folder of a TF-Hub module, or a packaged name such as "en_elmo_sm". Files may have any suffix.
    options (Optional[PathLike]): options.json of bilm-tf, with `weights` instead of `path`.
    weights (Optional[PathLike]): HDF5 file or TensorFlow checkpoint of bilm-tf, or an AllenNLP archive or state dict.
    vocab (Optional[PathLike]): One word per line, in the order of the rows of softmax, word table or token embeddings.
    token_embeddings (Optional[PathLike]): HDF5 file with precomputed vectors of the vocabulary's words, which are read
        instead of characters. A file of them beside the weights is not used unless the options name it.
    softmax (Optional[PathLike]): HDF5 file with softmax/W and softmax/b, if they are not in `weights`.
    precision (str): Precision of the computation, "float32", "bfloat16" or "int8", see `BiLM.set_precision`.
    RETURNS (BiLM): The model, in evaluation mode, on the CPU.
    RAISES (ValueError): EL015 for a precision that is not supported; with all problems of the files
        in one message for others.
    """
    check_precision(precision, torch.device("cpu"))
    files = {"vocab": vocab, "token_embeddings": token_embeddings, "softmax": softmax}
    return load_model(path, options=options, weights=weights, **files).bilm.set_precision(precision)


def load_mixes(
    path: Optional[PathLike] = None, *, options: Optional[PathLike] = None, weights: Optional[PathLike] = None
) -> List[LoadedMix]:
    """Load the scalar mixes that were trained with a biLM, from an AllenNLP archive or from what was saved of it.

    path (Optional[PathLike]), options (Optional[PathLike]), weights (Optional[PathLike]): See `load_bilm`.
    RETURNS (List[LoadedMix]): In the order of AllenNLP's `num_output_representations`: raw weights, gamma and norm, for
        `initial_weights`, `initial_gamma` and `layer_norm` of a listener or a `ScalarMix`. Empty for other formats.
    RAISES (ValueError): See `load_bilm`; for mixes in meta data that are not valid.
    """
    return list(load_model(path, options=options, weights=weights).mixes)


@isolated
def load_model(
    path: Optional[PathLike] = None,
    *,
    options: Optional[PathLike] = None,
    weights: Optional[PathLike] = None,
    **files: Optional[PathLike],
) -> LoadedModel:
    """Load all that the files of a model have.

    path (Optional[PathLike]), options (Optional[PathLike]), weights (Optional[PathLike]): See `load_bilm`.
    **files (Optional[PathLike]): `vocab`, `token_embeddings` and `softmax`, see `load_bilm`.
    RETURNS (LoadedModel): The biLM, float32, and its mixes.
    RAISES (ValueError): See `load_bilm`.
    """
    if (path is None) != (options is not None and weights is not None) or (options is None) != (weights is None):
        given = {"path": path, "options": options, "weights": weights}
        names = ", ".join(name for name, value in given.items() if value is not None)
        shown = names or "none of them"
        raise ValueError(
            f"`load_bilm` takes either a path, or options and weights; found: {shown}. Pass one or the other."
        )
    place, part = split_part(path or weights or "")
    extras = Extras(
        **{name: None if value is None else Source(to_path(value)) for name, value in files.items()}, part=part
    )
    if path is None:
        return _load_pair(to_path(place), Source(to_path(options or "")), extras)
    format, found = detect_format(locate(place))
    _check_part(format, place, part)
    return format.read(found, extras)


def _check_part(format: Format, path: PathLike, part: Optional[str]) -> None:
    """RAISES (ValueError): For the name of a biLM where the format has one only."""
    if part is not None and format is not ALLENNLP:
        raise no_such_part(path, part)


def format_with_options(weights: Path, options: Path) -> Format:
    """RETURNS (Format): The format of weights whose options the user names apart."""
    if with_options(weights, Source(options)) is not None:
        return TF_CHECKPOINT
    return ALLENNLP if weights.exists() and detect_allennlp(weights) is not None else BILM_TF


def _load_pair(weights: Path, options: Source, extras: Extras) -> LoadedModel:
    """Weights and options that the user names apart: a checkpoint, a state dict of AllenNLP, or HDF5."""
    _check_part(format_with_options(weights, options.path), weights, extras.part)
    checkpoint = with_options(weights, options)
    if checkpoint is not None:
        return TF_CHECKPOINT.read(checkpoint, extras)
    found = detect_allennlp(weights) if weights.exists() else None
    if found is not None:
        return ALLENNLP.read(found, replace(extras, options=options))
    if weights.is_dir():
        format, _ = detect_format(weights)
        raise ValueError(NOTHING_TO_ADD.format(path=weights, format=format.name, given="options"))
    return BILM_TF.read(TFFiles(options, Source(weights)), extras)


# Which files of a folder may be replaced or deleted when a biLM is written into it.

FILE_PATTERNS = [part for known in FORMATS for pattern in known.required for part in pattern.split("|")]
FILE_NAMES = {name for known in FORMATS for name in known.file_names}


def find_replaceable(folder: Path, chosen: Optional[Format] = None, known: Collection[str] = ()) -> Set[str]:
    """Find the files of the biLM in a folder. If they stayed beside those of another one, the folder would have two.

    Only a whole biLM is replaced, as this package writes it: config.json alone may belong to something else, a
    model.tar.gz may be a trained model of AllenNLP, and weights with names of their own were not written here.

    folder (Path): An existing folder.
    chosen (Optional[Format]): The format that is written: an archive replaces an archive.
    known (Collection[str]): Names of further files that may be replaced.
    RETURNS (Set[str]): Names in the folder, empty if it has no biLM. Other files stay.
    RAISES (ValueError): EL372 for files of a biLM that may not be replaced.
    """
    found = {file.name for file in folder.iterdir() if _belongs_to_a_model(file.name)} - set(known)
    writable = (NATIVE, BILM_TF, *((ALLENNLP,) if chosen is ALLENNLP else ()))
    if found and not any(_is_whole(found, format) for format in writable):
        raise ValueError(Errors.EL372.format(path=folder, names=shorten(", ".join(sorted(found)))))
    return found | {name for name in known if (folder / name).is_file()}


def check_source(source: str, target: Path) -> None:
    """source (str): Path of the biLM that is read, or the name of a packaged one.
    target (Path): Folder or file that it is converted to.
    RAISES (ValueError): If this would replace what is read.
    """
    read, written = Path(source.partition("#")[0]).resolve(), target.resolve()
    if read.exists() and (read == written or written in read.parents):
        raise ValueError(
            f"'{target}' has the biLM that is read, '{source}', and would be replaced by it. Choose another folder, "
            "and delete the old one when you have checked the new one."
        )


def _belongs_to_a_model(name: str) -> bool:
    return name in FILE_NAMES or (not is_hidden(name) and any(fnmatchcase(name, pattern) for pattern in FILE_PATTERNS))


def _is_whole(found: Set[str], format: Format) -> bool:
    if not found <= set(format.file_names):
        return False
    return format is ALLENNLP or all(_match(pattern, sorted(found)) for pattern in format.required)


# `save_bilm`: save a `BiLM` to a folder in native, bilm-tf or allennlp format.


@isolated
def save_bilm(
    bilm: BiLM, path: PathLike, *, format: str = "native", dtype: str = "float32", force: bool = False
) -> None:
    """Save a biLM atomically.

    bilm (BiLM): The model.
    path (PathLike): A folder.
    format (str): "native"; "bilm-tf" for a folder that bilm-tf and AllenNLP can read; "allennlp" for a folder with a
        model.tar.gz that AllenNLP's `load_archive` can read.
    dtype (str): Dtype on disk, "float32" or "float16"; "int8" (native) rounds the matrices of LSTMs, highways and
        softmax to 255 levels, in a quarter of the space.
    force (bool): Replace the files of an existing biLM that was written by this function. Other files stay.
    RAISES (ValueError): EL025 if the folder is not empty, if values are too large for the dtype, for an
        unknown format or dtype, EL036 for meta data above the limit of the reader, for a biLM that the
        other program cannot have, EL372 if `force` would replace files of a biLM from elsewhere.
    RAISES (OSError): If it cannot be written, for example on a full disk.
    """
    by_name = {known.name: (known, known.write) for known in FORMATS if known.write is not None}
    _check("format", format, list(by_name))
    chosen, write = by_name[format]
    _check("dtype", dtype, chosen.dtypes)
    target = to_path(path)
    replaced = find_replaceable(target, chosen) if force and target.is_dir() else set()
    try:
        with atomic_folder(target, force=force, own_names=[*replaced]) as folder:
            write(bilm, folder, dtype)
    except (OSError, SafetensorError) as error:
        raise not_saved(path, error) from error


def not_saved(path: object, reason: object) -> OSError:
    """RETURNS (OSError): A biLM cannot be written, and why."""
    return OSError(
        f"The biLM could not be saved to '{path}': {reason}. Free disk space or choose another folder. Existing "
        "files are unchanged."
    )


def _check(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        listing = ", ".join(known)
        raise ValueError(f"The setting {name} is '{value}', but should be one of: {listing}. Choose one of these.")


# What can be done with a biLM, what cannot, and why.


@dataclass(frozen=True)
class Capability:
    """A use of a biLM.

    name (str): What it is.
    is_possible (bool): Whether this biLM can be used for it.
    reason (str): Why not, or how; empty if there is nothing to say.
    """

    name: str
    is_possible: bool
    reason: str = ""


def find_capabilities(bilm: BiLM) -> List[Capability]:
    """bilm (BiLM): A loaded model.
    RETURNS (List[Capability]): Vectors, perplexity, training, export to each format, each reduced precision.
    """
    exports = [_export(format, bilm) for format in FORMATS if format.write is not None]
    precisions = [_precision(name, bilm) for name in PRECISIONS if name != "float32"]
    return [_vectors(bilm), _unknown_words(bilm), _perplexity(bilm), _training(bilm), *exports, *precisions]


def _vectors(bilm: BiLM) -> Capability:
    sizes = f"{bilm.config.n_layers + 1} layers of {bilm.config.output_width} dimensions"
    is_forward = bilm.config.directions == "forward"
    return Capability("contextual vectors", True, sizes + (", forward direction only" if is_forward else ""))


def _unknown_words(bilm: BiLM) -> Capability:
    embedder = bilm.config.token_embedder
    has_characters = bilm.config.char_cnn is not None or (embedder is not None and embedder.n_characters > 0)
    if not has_characters or bilm.token_embeddings is not None:
        reason = "words outside the vocabulary share the vector of <UNK> in the token layer"
        return Capability("vectors of unknown words", False, reason)
    return Capability("vectors of unknown words", True, "from characters")


def _perplexity(bilm: BiLM) -> Capability:
    parts = {"softmax": bilm.head, "vocabulary": bilm.vocabulary}
    lacking = [name for name, part in parts.items() if part is None]
    return Capability("perplexity", not lacking, f"it lacks: {', '.join(lacking)}" if lacking else "")


def _training(bilm: BiLM) -> Capability:
    if bilm.config.token_embedder is not None:
        return Capability("further training", False, "ELMoForManyLangs: pretraining has no word input of this kind")
    if bilm.config.encoder == "bilstm":
        return Capability("further training", False, "a plain bidirectional LSTM can be fine-tuned with a task only")
    is_new = bilm.head is None or bilm.vocabulary is None
    return Capability("further training", True, "with a new vocabulary and a new softmax" if is_new else "")


def _export(format: Format, bilm: BiLM) -> Capability:
    """Export to one format."""
    reason = None if format.refuses is None else format.refuses(bilm)
    dtypes = [dtype for dtype in format.dtypes if dtype != INT8 or quantizable_names(bilm.network)]
    return Capability(f"export to {format.name}", reason is None, ", ".join(dtypes) if reason is None else reason)


def _precision(precision: str, bilm: BiLM) -> Capability:
    name = f"computation in {precision}"
    if not quantizable_names(bilm.network):
        return Capability(name, False, "it has no matrices that are computed in reduced precision")
    if bilm.config.encoder == "bilstm":
        return Capability(name, False, "the encoder 'bilstm' is computed in float32 only")
    try:
        check_precision(precision, bilm.device)
    except ValueError as error:
        return Capability(name, False, str(error).partition(": ")[2].partition(". ")[0])  # without the remedy
    return Capability(name, True, "matrices of the layers above the words")
