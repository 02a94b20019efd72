"""All formats in one table: find, detect, load and save biLMs."""

import os
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatch, fnmatchcase
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Any, Callable, Collection, Dict, List, Optional, Sequence, Set, Tuple

import torch
from safetensors import SafetensorError

from ..errors import Errors
from ..inference.bilm import BiLM
from ..inference.products import check_precision
from ..inference.runtime import isolated
from ..util import DTYPES, AnyPath, aside_of, atomic_folder, is_hidden, shorten, to_path
from .allennlp import no_such_part, read_allennlp
from .bilm_tf import find_foreign_parts, read_bilm_tf, write_bilm_tf
from .detect import (
    ALLENNLP_WEIGHTS,
    ARCHIVE_NAME,
    CONFIG_NAME,
    EMBEDDER_NAME,
    ENCODER_NAME,
    GRAPHS,
    HDF5_SUFFIXES,
    HUB_WANTED,
    LEXICON_NAME,
    OPTIONS_NAME,
    TOKEN_EMBEDDINGS_NAME,
    VOCAB_NAME,
    WEIGHTS_NAME,
    Listing,
    ModelFiles,
    detect_allennlp,
    detect_bilm_tf,
    detect_manylangs,
    detect_native,
    detect_state_dict,
    detect_tf_checkpoint,
    detect_tf_hub,
    find_checkpoint,
    with_options,
)
from .manylangs import read_manylangs
from .meta import META_NAME, read_record_meta
from .native import read_native, write_native
from .other_files import refuse_other_file, refuse_other_folder
from .parts import LoadedMix, cannot_add, mixes_from_meta
from .pipelines import PIPELINE_CONFIG, component_names, detect_pipeline, read_pipeline
from .sources import TAR_SUFFIXES, PathLike, Source, is_tar, is_zip, list_sources, scan_tar
from .tensorflow import read_tf_checkpoint, read_tf_hub

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
        folder = MODELS_DIR / path
        if not folder.is_dir() or detect_native(Listing(folder)) is None:
            raise ValueError(
                f"The packaged biLM '{path}' is not installed (looked in '{folder}'). Install a release of spacy-elmo "
                "that includes it, or pass the path of other weights."
            )
        return folder
    path = to_path(path)
    # Another process is replacing the folder, or was killed while it did.
    return aside_of(path) if not path.exists() and aside_of(path).is_dir() else path


# The table of formats: functions to detect, read and write each of them, and the names of its files.
#
# A new format needs a module next to native.py and bilm_tf.py, and a row here.

INT8 = "int8"
WORDS = ("vocab", "token_embeddings", "softmax")


@dataclass(frozen=True)
class LoadedModel:
    """The contents of the files of a model.

    bilm (BiLM): The biLM, float32, on the CPU.
    mixes (Sequence[LoadedMix]): The scalar mixes, empty for formats with a biLM only.
    """

    bilm: BiLM
    mixes: Sequence[LoadedMix] = ()


@dataclass(frozen=True)
class Format:
    """A file format of biLMs.

    name (str): Name for `save_bilm` and the command line.
    detect (Callable[[Listing], Optional[ModelFiles]]): Finds the files at a path, None for another format.
    read (Callable[..., Any]): Reads the output of `detect`, and the sources of `takes` by name, into a biLM, or a biLM
        and its mixes.
    takes (Sequence[str]): What a user may add: "vocab" (one word per line, in the order of the rows),
        "token_embeddings" (vectors of its words), "softmax" (HDF5), "options", "part" (name of one of several biLMs).
    write (Optional[Callable[[BiLM, Path, str], None]]): Writes a biLM to an empty folder, in a dtype; None for a format
        that is only read.
    file_names (Sequence[str]): Names of its files: all that `write` may write, or that of an archive.
    dtypes (Sequence[str]): Dtypes that `write` supports.
    wanted (str): Description of the files that `detect` looks for.
    required (Sequence[str]): Patterns of names of the files that it needs ("a|b" for either), to say which of them are
        missing.
    refuses (Callable[[BiLM], List[str]]): The reasons why `write` cannot write a biLM.
    """

    name: str
    detect: Callable[[Listing], Optional[ModelFiles]]
    read: Callable[..., Any]
    takes: Sequence[str]
    wanted: str
    required: Sequence[str]
    write: Optional[Callable[[BiLM, Path, str], None]] = None
    file_names: Sequence[str] = ()
    dtypes: Sequence[str] = ()
    refuses: Callable[[BiLM], List[str]] = lambda bilm: []


NATIVE = Format(
    name="native",
    detect=detect_native,
    read=read_native,
    takes=("vocab",),
    wanted=f"a folder or .zip with {CONFIG_NAME} and {WEIGHTS_NAME}",
    required=(CONFIG_NAME, WEIGHTS_NAME),
    write=write_native,
    file_names=(CONFIG_NAME, WEIGHTS_NAME, META_NAME, VOCAB_NAME, LEXICON_NAME),
    dtypes=(*DTYPES, INT8),
)
BILM_TF = Format(
    name="bilm-tf",
    detect=detect_bilm_tf,
    read=read_bilm_tf,
    takes=WORDS,
    wanted=("a folder with options.json and one .hdf5 file; an .hdf5 file next to its options.json; a .zip with both"),
    required=(f"*{OPTIONS_NAME}", "|".join(f"*{suffix}" for suffix in HDF5_SUFFIXES)),
    write=write_bilm_tf,
    file_names=(OPTIONS_NAME, "weights.hdf5", VOCAB_NAME, TOKEN_EMBEDDINGS_NAME, META_NAME),
    dtypes=DTYPES,
    refuses=lambda bilm: find_foreign_parts(bilm.config),
)
MANYLANGS = Format(
    name="manylangs",
    detect=detect_manylangs,
    read=read_manylangs,
    takes=(),
    wanted=f"a folder or .zip of ELMoForManyLangs with {CONFIG_NAME}, {EMBEDDER_NAME} and {ENCODER_NAME}",
    required=(CONFIG_NAME, EMBEDDER_NAME, ENCODER_NAME),
)
ALLENNLP = Format(
    name="allennlp",
    detect=detect_allennlp,
    read=read_allennlp,
    takes=("vocab", "softmax", "options", "part"),
    wanted=(
        "an AllenNLP model.tar.gz or its folder, with weights.th, best.th or model_state_epoch_N.th (config.json is "
        "read if there is one), or a state dict: a file of `torch.save` or safetensors, of any name"
    ),
    required=("|".join(ALLENNLP_WEIGHTS),),
    file_names=(ARCHIVE_NAME,),
)
TF_HUB = Format(
    name="tf-hub",
    detect=detect_tf_hub,
    read=read_tf_hub,
    takes=WORDS,
    wanted=HUB_WANTED,
    required=("|".join(GRAPHS),),
)
TF_CHECKPOINT = Format(
    name="tf-checkpoint",
    detect=detect_tf_checkpoint,
    read=read_tf_checkpoint,
    takes=WORDS,
    wanted=(
        "a folder with a checkpoint of TensorFlow (checkpoint, *.index, *.data-*) and options.json; the path of such a "
        "checkpoint, with or without .index"
    ),
    required=("*.index", "*.data-*", f"*{OPTIONS_NAME}"),
)
PIPELINE = Format(
    name="spacy",
    detect=detect_pipeline,
    read=read_pipeline,
    takes=("part",),
    wanted=f"the folder of a saved spaCy pipeline with {PIPELINE_CONFIG}, {META_NAME} and a component with a biLM",
    required=(PIPELINE_CONFIG, META_NAME),
)
# In the order of detection: a dump in HDF5 may lie beside the checkpoint that it was made from.
FORMATS: Tuple[Format, ...] = (NATIVE, PIPELINE, MANYLANGS, ALLENNLP, BILM_TF, TF_HUB, TF_CHECKPOINT)
PACKAGED = f"one of the packaged names ({', '.join(PACKAGED_NAMES)})"


def detect_format(path: Path) -> Tuple[Format, ModelFiles]:
    """Detect a format by the files at a path; a folder whose only file is an archive is read as this archive.

    path (Path): A folder or file, or the prefix of the files of a TensorFlow checkpoint.
    RETURNS (Tuple[Format, ModelFiles]): The format, and the files for its `read`.
    RAISES (ValueError): EL020 if no format is detected, with the files that are missing for each of them, and errors
        of `detect` for damaged files.
    """
    if not path.exists():
        path = find_checkpoint(path) or path
    if not path.exists():
        wanted = f"a folder, file or zip with a biLM in any known format; {PACKAGED}"
        template = f"{Errors.EL020} `python -m spacy elmo download --list` lists published biLMs and how to get them."
        raise ValueError(template.format(path=path, reason="there is no such file or folder", wanted=wanted))
    refuse_other_file(path)
    listing = Listing(path)
    for format in FORMATS:
        files = format.detect(listing)
        if files is not None:
            return format, files
    if path.is_dir():
        refuse_other_folder(path)
        state = detect_state_dict(path)
        if state is not None:
            return ALLENNLP, state
        names = [file for file in sorted(path.iterdir()) if not is_hidden(file.name) and file.is_file()]
        archives = [file for file in names if file.name.endswith((".zip", *TAR_SUFFIXES))]
        if len(archives) == 1:
            return detect_format(archives[0])
        if (path / PIPELINE_CONFIG).is_file():
            components = ", ".join(component_names(path)) or "none"
            reason = f"it is a spaCy pipeline, and no component of it has a biLM (components: {components})"
            wanted = "a component 'elmo' or 'elmo_surprisal', or one whose listener was replaced"
            raise ValueError(Errors.EL020.format(path=path, reason=reason, wanted=wanted))
    raise ValueError(_not_found(path))


def detect_pair(weights: Path, options: Source) -> Tuple[Format, ModelFiles]:
    """weights (Path): A checkpoint, a state dict of AllenNLP or an HDF5 file.
    options (Source): Its options, which the user names apart.
    RETURNS (Tuple[Format, ModelFiles]): The format, and the files for its `read`.
    """
    refuse_other_file(weights)
    if weights.is_file() and Source(weights).read_head().lstrip().startswith(b"{"):
        reason = "it is a file of JSON, as options are: options and weights may be in the wrong order"
        raise ValueError(Errors.EL020.format(path=weights, reason=reason, wanted="a file of weights"))
    checkpoint = find_checkpoint(weights)
    if checkpoint is not None:
        return TF_CHECKPOINT, with_options(checkpoint, options)
    state = detect_allennlp(Listing(weights)) if weights.exists() else None
    if state is not None:
        return ALLENNLP, state
    if weights.is_dir() and (files := detect_bilm_tf(Listing(weights))) is not None:
        reason, wanted = "it is a folder, and options are given apart", f"the file '{files.weights}'"
        raise ValueError(Errors.EL020.format(path=weights, reason=reason, wanted=wanted))
    if weights.is_dir():
        raise cannot_add(weights, detect_format(weights)[0].name, "options")
    meta = weights.parent / META_NAME
    return BILM_TF, ModelFiles(
        str(weights), Source(weights), {}, options, meta=Source(meta) if meta.is_file() else None
    )


# Say which files of each format are missing at a path.

MAX_NAMES = 2000  # files considered
MAX_NAMED = 3  # names in a message
SIMILAR = 0.75  # ratio of difflib


def _not_found(path: Path) -> str:
    """The message of EL020, with one line per format."""
    names = _list_names(path)
    reason = "it is in no known format" if names is not None else "it is a file in no known format"
    lines = [f"{format.name}: {_describe_missing(path, format, names)}{format.wanted}" for format in FORMATS]
    packed = [format.name for format in FORMATS if path.is_file() and _has_all(names or [], format.required)]
    if packed:
        tool, folder = "zipfile" if is_zip(path) else "tarfile", f"{path}_files"
        reason = (
            f"it is an archive with the files of {' or '.join(packed)}, which is not read in place. Unpack it, and "
            f"pass the folder with these files: `python -m {tool} -e {quote(str(path))} {quote(folder)}`"
        )
    return Errors.EL020.format(path=path, reason=reason, wanted="".join(f"\n- {line}" for line in [*lines, PACKAGED]))


def _list_names(path: Path) -> Optional[List[str]]:
    """Names of the files in a folder and in the folders in it, or in an archive, whose folders do not matter; None for
    another file."""
    try:
        if path.is_dir():
            inner = sorted(place.name for place in path.iterdir() if place.is_dir())
            return list(list_sources(path, inner))[:MAX_NAMES]
        if not is_zip(path) and not is_tar(path):
            return None
        members = list(list_sources(path)) if is_zip(path) else scan_tar(path, lambda name: False)[0]
        return [PurePosixPath(name).name for name in members[:MAX_NAMES]]
    except (OSError, ValueError):  # a damaged file, which the readers report
        return []


def _describe_missing(path: Path, format: Format, names: Optional[List[str]]) -> str:
    """For each file of a format that it is there, or that it is missing, with files of similar names."""
    if names is None:
        return ""
    here, texts = [name for name in names if "/" not in name], []
    for pattern in format.required:
        found = _match(pattern, here)
        if found:
            texts.append(f"{found[0]} is there")
            continue
        close = list(dict.fromkeys(name for each in pattern.split("|") for name in _close_to(each, here)))[:MAX_NAMED]
        hint = f" (there is {', '.join(close)}: a wrong name?)" if close else ""
        texts.append(f"{pattern.replace('|', ' or ')} is missing{hint}")
    for folder in dict.fromkeys(name.partition("/")[0] for name in names if "/" in name):
        if _has_all([name.partition("/")[2] for name in names if name.startswith(f"{folder}/")], format.required):
            texts.append(f"all of them are in '{folder}/': pass '{path / folder}' instead")
            break
    return f"{', '.join(texts)}; it is "


def _match(pattern: str, names: Sequence[str]) -> List[str]:
    return [name for name in names if any(fnmatch(name, each) for each in pattern.split("|"))]


def _has_all(names: Sequence[str], required: Sequence[str]) -> bool:
    return all(_match(pattern, names) for pattern in required)


def _close_to(pattern: str, names: Sequence[str]) -> List[str]:
    """Similar names; also those with the same suffix, unless there are many kinds of such files."""
    exact = pattern.replace("*", "")
    suffix = PurePosixPath(exact).suffix
    same_suffix = [] if suffix in (".json", ".txt") else [name for name in names if name.endswith(suffix or exact)]
    return [*get_close_matches(exact, names, n=MAX_NAMED, cutoff=SIMILAR), *same_suffix]


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
        of bilm-tf, the folder of a TF-Hub module, that of a saved spaCy pipeline or of one of its components (with "#"
        and a name for one of several), or a packaged name such as "en_elmo_sm". Files may have any suffix.
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
    if precision != "float32":
        check_precision(precision, torch.device("cpu"))
    files = {"vocab": vocab, "token_embeddings": token_embeddings, "softmax": softmax}
    bilm = load_model(path, options=options, weights=weights, **files).bilm
    return bilm if precision == "float32" else bilm.set_precision(precision)


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
    extras: Dict[str, Any] = {name: Source(to_path(value)) for name, value in files.items() if value is not None}
    if path is None:
        format, found = detect_pair(to_path(place), Source(to_path(options or "")))
        extras.update({"options": Source(to_path(options or ""))} if format is ALLENNLP else {})
    else:
        format, found = detect_format(locate(place))
    if part is not None:
        if "part" not in format.takes:
            raise no_such_part(place, part)
        extras["part"] = part
    refused = [name for name in extras if name not in format.takes]
    if refused:
        raise cannot_add(place, format.name, ", ".join(refused))
    read = format.read(found, **extras)
    bilm, mixes = read if isinstance(read, tuple) else (read, mixes_from_meta(read.meta, read.config.n_layers))
    bilm.meta = {**read_record_meta(locate(place)), **bilm.meta}
    return LoadedModel(bilm, mixes)


# Which files of a folder may be replaced or deleted when a biLM is written into it.


def find_replaceable(folder: Path, known: Collection[str] = ()) -> Set[str]:
    """Find the files of the biLM in a folder. If they stayed beside those of another one, the folder would have two.

    Only a whole biLM is replaced, as this package writes it: config.json alone may belong to something else,
    and weights with names of their own were not written here.

    folder (Path): An existing folder.
    known (Collection[str]): Names of further files that may be replaced.
    RETURNS (Set[str]): Names in the folder, empty if it has no biLM. Other files stay.
    RAISES (ValueError): EL372 for files of a biLM that may not be replaced.
    """
    patterns = [part for format in FORMATS for pattern in format.required for part in pattern.split("|")]
    patterns += [name for format in FORMATS for name in format.file_names]
    names = [file.name for file in folder.iterdir() if not is_hidden(file.name) and file.name not in known]
    found = {name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)}
    is_ours = any(
        found <= set(format.file_names) and _has_all(sorted(found), format.required) for format in (NATIVE, BILM_TF)
    )
    if found and not is_ours:
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


# `save_bilm`: save a `BiLM` to a folder in native or bilm-tf format.


@isolated
def save_bilm(
    bilm: BiLM, path: PathLike, *, format: str = "native", dtype: str = "float32", force: bool = False
) -> None:
    """Save a biLM atomically.

    bilm (BiLM): The model.
    path (PathLike): A folder.
    format (str): "native"; or "bilm-tf" for a folder that bilm-tf and AllenNLP can read.
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
    replaced = find_replaceable(target) if force and target.is_dir() else set()
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
