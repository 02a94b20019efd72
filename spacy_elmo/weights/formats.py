"""The formats of biLMs in one table; `load_bilm` and `load_mixes`, from a path to a `BiLM`; `save_bilm`."""

import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Callable, Collection, Dict, List, Optional, Sequence, Set, Tuple

import torch
from safetensors import SafetensorError

from ..about import __version__
from ..errors import Errors
from ..files import AnyPath, aside_of, atomic_folder, is_hidden, to_path
from ..inference.bilm import BiLM
from ..inference.products import check_precision
from ..inference.runtime import isolated
from ..util import DTYPES, shorten
from .allennlp import ALLENNLP_WEIGHTS, ARCHIVE_NAME, STATE_SUFFIXES, detect_allennlp, detect_state_dict, read_allennlp
from .archive import (
    CONFIG_NAME,
    HDF5_SUFFIXES,
    OPTIONS_NAME,
    TAR_SUFFIXES,
    VOCAB_NAME,
    File,
    Listing,
    ModelFiles,
    PathLike,
    cannot_add,
    no_such_bilm,
    parse_json,
)
from .bilm_tf import TOKEN_EMBEDDINGS_NAME, detect_bilm_tf, find_unsupported_settings, read_bilm_tf, write_bilm_tf
from .manylangs import EMBEDDER_NAME, ENCODER_NAME, detect_manylangs, read_manylangs
from .meta import META_NAME, RECORD_NAME, LoadedMix, mixes_from_meta, read_record_meta
from .native import LEXICON_NAME, WEIGHTS_NAME, detect_native, read_native, write_native
from .pipelines import COMPONENT_FILES, PIPELINE_CONFIG, component_names, detect_pipeline, read_pipeline
from .tensorflow import (
    GRAPHS,
    HUB_FILES,
    HUB_INDEX,
    detect_tf_checkpoint,
    detect_tf_hub,
    find_checkpoint,
    read_tf_checkpoint,
    read_tf_hub,
    with_options,
)
from .unrecognized import describe_missing, has_all, refuse_other_file, reject_other_folder

MODELS_DIR = Path(__file__).parent.parent / "models"
PACKAGED_NAMES = ("en_elmo_sm",)
PACKAGED = f"one of the packaged names ({', '.join(PACKAGED_NAMES)})"
NAME_MARK = "#"  # between a path and the name of one of several biLMs
INT8 = "int8"
WORD_FILES = ("vocab", "token_embeddings", "softmax")


@dataclass(frozen=True)
class Format:
    """A file format of biLMs.

    name (str): Name for `save_bilm` and the command line.
    name_patterns (Sequence[str]): Patterns of names, of which a path in this format has one.
    kinds (Sequence[str]): Kinds of files by their first bytes, see `kind_of`, that may be in this format.
    detect (Callable[[Listing], Optional[ModelFiles]]): Finds the files at a path, None for another format.
    read (Callable[..., BiLM]): Reads the output of `detect`, and the files of `takes` by name: float32, on the CPU.
    takes (Sequence[str]): What a user may add: "vocab" (one word per line, in the order of the rows),
        "token_embeddings" (vectors of its words), "softmax" (HDF5), "options", "name" (of one of several biLMs).
    description (str): Of the files of this format.
    required (Sequence[str]): Patterns of names of the files that it needs ("a|b" for either), to list those that are
        missing.
    write (Optional[Callable[[BiLM, Path, str], None]]): Writes a biLM to an empty folder, in a dtype; None for a format
        that is only read.
    file_names (Sequence[str]): Names of its files: all that `write` may write, or that of an archive.
    dtypes (Sequence[str]): Dtypes that `write` supports.
    find_unwritable (Callable[[BiLM], List[str]]): The reasons why `write` cannot write a biLM.
    """

    name: str
    name_patterns: Sequence[str]
    detect: Callable[[Listing], Optional[ModelFiles]]
    read: Callable[..., BiLM]
    takes: Sequence[str]
    description: str
    required: Sequence[str]
    kinds: Sequence[str] = ()
    write: Optional[Callable[[BiLM, Path, str], None]] = None
    file_names: Sequence[str] = ()
    dtypes: Sequence[str] = ()
    find_unwritable: Callable[[BiLM], List[str]] = lambda bilm: []

    def is_possible(self, listing: Listing) -> bool:
        """Whether a path has a name of this format, or is a file of its kind."""
        names = {name.rpartition("/")[2] for name in listing.files}
        return listing.kind in self.kinds or any(
            fnmatchcase(name, pattern) for name in names for pattern in self.name_patterns
        )


NATIVE = Format(
    name="native",
    name_patterns=(CONFIG_NAME,),
    detect=detect_native,
    read=read_native,
    takes=("vocab",),
    description=f"a folder or .zip with {CONFIG_NAME} and {WEIGHTS_NAME}",
    required=(CONFIG_NAME, WEIGHTS_NAME),
    write=write_native,
    file_names=(CONFIG_NAME, WEIGHTS_NAME, META_NAME, VOCAB_NAME, LEXICON_NAME),
    dtypes=(*DTYPES, INT8),
)
PIPELINE = Format(
    name="spacy",
    name_patterns=(PIPELINE_CONFIG, *COMPONENT_FILES),
    detect=detect_pipeline,
    read=lambda files, name=None: read_pipeline(files, load_referenced, name),
    takes=("name",),
    description=f"the folder of a saved spaCy pipeline with {PIPELINE_CONFIG}, {META_NAME} and a component with a biLM",
    required=(PIPELINE_CONFIG, META_NAME),
)
MANYLANGS = Format(
    name="manylangs",
    name_patterns=(EMBEDDER_NAME, ENCODER_NAME),
    detect=detect_manylangs,
    read=read_manylangs,
    takes=(),
    description=f"a folder or .zip of ELMoForManyLangs with {CONFIG_NAME}, {EMBEDDER_NAME} and {ENCODER_NAME}",
    required=(CONFIG_NAME, EMBEDDER_NAME, ENCODER_NAME),
)
ALLENNLP = Format(
    name="allennlp",
    name_patterns=(ARCHIVE_NAME, *(f"*{suffix}" for suffix in STATE_SUFFIXES)),
    kinds=("torch", "safetensors", "pickle"),
    detect=detect_allennlp,
    read=read_allennlp,
    takes=("vocab", "softmax", "options", "name"),
    description=(
        "an AllenNLP model.tar.gz or its folder, with weights.th, best.th or model_state_epoch_N.th (config.json is "
        "read if there is one), or a state dict: a file of `torch.save` or safetensors, of any name"
    ),
    required=("|".join(ALLENNLP_WEIGHTS),),
    file_names=(ARCHIVE_NAME,),
)
BILM_TF = Format(
    name="bilm-tf",
    name_patterns=(f"*{OPTIONS_NAME}", *(f"*{suffix}" for suffix in HDF5_SUFFIXES)),
    kinds=("hdf5",),
    detect=detect_bilm_tf,
    read=read_bilm_tf,
    takes=WORD_FILES,
    description=(
        "a folder with options.json and one .hdf5 file; an .hdf5 file next to its options.json; a .zip with both"
    ),
    required=(f"*{OPTIONS_NAME}", "|".join(f"*{suffix}" for suffix in HDF5_SUFFIXES)),
    write=write_bilm_tf,
    file_names=(OPTIONS_NAME, "weights.hdf5", VOCAB_NAME, TOKEN_EMBEDDINGS_NAME, META_NAME),
    dtypes=DTYPES,
    find_unwritable=lambda bilm: find_unsupported_settings(bilm.config),
)
TF_HUB = Format(
    name="tf-hub",
    name_patterns=(*GRAPHS, HUB_INDEX.name),
    detect=detect_tf_hub,
    read=read_tf_hub,
    takes=WORD_FILES,
    description=HUB_FILES,
    required=("|".join(GRAPHS),),
)
TF_CHECKPOINT = Format(
    name="tf-checkpoint",
    name_patterns=("*",),
    detect=detect_tf_checkpoint,
    read=read_tf_checkpoint,
    takes=WORD_FILES,
    description=(
        "a folder with a checkpoint of TensorFlow (checkpoint, *.index, *.data-*) and options.json; the path of such a "
        "checkpoint, with or without .index"
    ),
    required=("*.index", "*.data-*", f"*{OPTIONS_NAME}"),
)
# In the order of detection: a dump in HDF5 may lie beside the checkpoint that it was made from.
FORMATS: Tuple[Format, ...] = (NATIVE, PIPELINE, MANYLANGS, ALLENNLP, BILM_TF, TF_HUB, TF_CHECKPOINT)


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
        in one message otherwise.
    """
    if precision != "float32":
        check_precision(precision, torch.device("cpu"))
    words = {"vocab": vocab, "token_embeddings": token_embeddings, "softmax": softmax}
    bilm = _read_bilm(path, options, weights, **{key: value for key, value in words.items() if value is not None})
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
    bilm = load_bilm(path, options=options, weights=weights)
    return list(mixes_from_meta(bilm.meta, bilm.config.n_layers))


def _read_bilm(
    path: Optional[PathLike], options: Optional[PathLike], weights: Optional[PathLike], **words: PathLike
) -> BiLM:
    """Detect the format of a path, or of options and weights, and read its files, with files of its words."""
    if (path is None) != (options is not None and weights is not None) or (options is None) != (weights is None):
        both = {"path": path, "options": options, "weights": weights}
        names = ", ".join(name for name, value in both.items() if value is not None) or "none of them"
        raise ValueError(
            f"`load_bilm` takes either a path, or options and weights; found: {names}. Pass one or the other."
        )
    place, name = split_name(path or weights or "")
    target = locate_model(place)
    extras: Dict[str, object] = {key: File(to_path(value)) for key, value in words.items()}
    if options is None:
        format, files = detect_format(target)
    else:
        options_file = File(to_path(options))
        format, files = detect_pair(to_path(place), options_file)
        extras.update({"options": options_file} if format is ALLENNLP else {})
    if name is not None and "name" not in format.takes:
        raise no_such_bilm(place, name)
    extras.update({} if name is None else {"name": name})
    if refused := [key for key in extras if key not in format.takes]:
        raise cannot_add(place, format.name, ", ".join(refused))
    bilm = format.read(files, **extras)
    folder = target if target.is_dir() else target.parent
    if (folder / RECORD_NAME).is_file():  # of `elmo download`
        bilm.meta = {**read_record_meta(target), **bilm.meta}
    return bilm


def load_referenced(content: bytes) -> Tuple[str, BiLM]:
    """The packaged name and the biLM of a reference from `reference_to_bytes`, in a pipeline that was saved without the
    weights of its biLM. ValueError if this version of the package has no biLM of the name, or another biLM.
    """
    reference = parse_json(content, "the reference to a packaged biLM")
    name, digest = reference["packaged"], str(reference.get("digest"))
    bilm = load_bilm(name) if name in PACKAGED_NAMES else None
    if bilm is None or bilm.digest != digest:
        present = PACKAGED if bilm is None else f"'{name}' with digest {bilm.digest}"
        raise ValueError(
            f"The pipeline was saved with the packaged biLM '{name}' of digest {digest}, but this version of "
            f"spacy-elmo ({__version__}) has {present}. Install spacy-elmo {reference.get('version')}, or train the "
            "pipeline again."
        )
    return name, bilm


def split_name(path: PathLike) -> Tuple[PathLike, Optional[str]]:
    """The path and the name of a biLM in it, which follows a "#"; None if the "#" is a character of the path."""
    place, mark, name = str(path).rpartition(NAME_MARK)
    return (place, name) if mark and place and not to_path(path).exists() else (path, None)


def resolve(path: AnyPath) -> str:
    """The same path from the root, so that it means the same file after `os.chdir`; the name of a packaged model or a
    blank text is unchanged.
    """
    name = os.path.expanduser(os.fsdecode(path))
    is_path = name.strip() and name not in PACKAGED_NAMES and not os.path.isabs(name)
    return str(Path.cwd() / name) if is_path else name


def locate_model(path: PathLike) -> Path:
    """The path of a folder or file, which need not exist, or of a packaged model. ValueError if the model is not
    installed.
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


def detect_format(path: Path) -> Tuple[Format, ModelFiles]:
    """Detect a format by the files at a path: a folder, a file, or the prefix of the files of a TensorFlow checkpoint.
    A folder whose only file is an archive is read as this archive.

    RAISES (ValueError): EL020 if no format is detected, with the files that are missing for each of them; errors of
        `detect` for damaged files.
    """
    if not path.exists():
        path = find_checkpoint(path) or path
    if not path.exists():
        expected = f"a folder, file or zip with a biLM in any known format; {PACKAGED}"
        template = f"{Errors.EL020} `python -m spacy elmo download --list` lists published biLMs and how to get them."
        raise ValueError(template.format(path=path, reason="there is no such file or folder", expected=expected))
    listing = Listing(path)
    if listing.kind != "folder":
        refuse_other_file(listing)
    for format in FORMATS:
        if format.is_possible(listing) and (files := format.detect(listing)) is not None:
            return format, files
    if listing.kind == "folder":
        reject_other_folder(path)
        if (files := detect_state_dict(listing)) is not None:
            return ALLENNLP, files
        archive_suffixes = (".zip", *TAR_SUFFIXES)
        archives = [file for name, file in listing.files.items() if name.lower().endswith(archive_suffixes)]
        if len(archives) == 1:
            return detect_format(archives[0].path)
        if PIPELINE_CONFIG in listing.files:
            components = ", ".join(component_names(path)) or "none"
            reason = f"it is a spaCy pipeline, and no component of it has a biLM (components: {components})"
            expected = "a component 'elmo' or 'elmo_surprisal', or one whose listener was replaced"
            raise ValueError(Errors.EL020.format(path=path, reason=reason, expected=expected))
    lines = [(format.name, format.required, format.description) for format in FORMATS]
    raise ValueError(describe_missing(listing, lines, PACKAGED))


def detect_pair(weights: Path, options: File) -> Tuple[Format, ModelFiles]:
    """The format of a checkpoint, a state dict of AllenNLP or an HDF5 file whose options the user names separately."""
    if (checkpoint := find_checkpoint(weights)) is not None:
        return TF_CHECKPOINT, with_options(checkpoint, options)
    if weights.is_dir():
        listing = Listing(weights)
        if (files := detect_allennlp(listing)) is not None:
            return ALLENNLP, files
        if (files := detect_bilm_tf(listing)) is None:
            raise cannot_add(weights, detect_format(weights)[0].name, "options")
        reason, expected = "it is a folder, and options are given apart", f"the file '{files.weights}'"
        raise ValueError(Errors.EL020.format(path=weights, reason=reason, expected=expected))
    if weights.is_file():
        listing = Listing(weights)
        refuse_other_file(listing)
        if File(weights).read_head().lstrip().startswith(b"{"):
            reason = "it is a file of JSON, as options are: options and weights may be in the wrong order"
            raise ValueError(Errors.EL020.format(path=weights, reason=reason, expected="a file of weights"))
        if (files := detect_allennlp(listing)) is not None:
            return ALLENNLP, files
    meta = weights.parent / META_NAME
    return BILM_TF, ModelFiles(str(weights), File(weights), {}, options, meta=File(meta) if meta.is_file() else None)


def find_replaceable(folder: Path, known: Collection[str] = ()) -> Set[str]:
    """Names of the files of the biLM in a folder, which would stay beside those of a new biLM; empty without a biLM.

    Only a whole biLM is replaced, as this package writes it: config.json alone may belong to another program, and
    weights under other names were not written here. `known` are names of further files that may be replaced.

    RAISES (ValueError): EL372 for files of a biLM that may not be replaced.
    """
    patterns = [either for format in FORMATS for pattern in format.required for either in pattern.split("|")]
    patterns += [name for format in FORMATS for name in format.file_names]
    names = [file.name for file in folder.iterdir() if not is_hidden(file.name) and file.name not in known]
    of_bilms = {name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)}
    is_ours = any(
        of_bilms <= set(format.file_names) and has_all(sorted(of_bilms), format.required)
        for format in (NATIVE, BILM_TF)
    )
    if of_bilms and not is_ours:
        raise ValueError(Errors.EL372.format(path=folder, names=shorten(", ".join(sorted(of_bilms)))))
    return of_bilms | {name for name in known if (folder / name).is_file()}


def list_sources(path: PathLike, *files: Optional[PathLike]) -> List[Path]:
    """The files that `load_bilm` may read for a biLM, for `check_not_read`; a folder with all that is in it.

    files (Optional[PathLike]): Further arguments of `load_bilm`.
    """
    named = [to_path(file) for file in files if file is not None]
    try:
        target = locate_model(split_name(path)[0])
        return [target, *named, *detect_format(target)[1].paths]
    except ValueError:  # `load_bilm` has the reason; files without their options are in no format
        return [to_path(split_name(path)[0]), *named]


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
    RAISES (ValueError): EL025 if the folder is not empty, if values are too large for the dtype, for an unknown format
        or dtype, for a biLM that the other program cannot have, EL372 if `force` would replace files of a biLM from
        elsewhere.
    RAISES (OSError): If it cannot be written, for example on a full disk.
    """
    by_name = {known.name: (known, known.write) for known in FORMATS if known.write is not None}
    _check_choice("format", format, list(by_name))
    chosen, write = by_name[format]
    _check_choice("dtype", dtype, chosen.dtypes)
    target = to_path(path)
    replaced = find_replaceable(target) if force and target.is_dir() else set()
    try:
        with atomic_folder(target, force=force, own_names=[*replaced]) as folder:
            write(bilm, folder, dtype)
    except (OSError, SafetensorError) as error:
        raise not_saved(path, error) from error


def not_saved(path: object, reason: object) -> OSError:
    return OSError(
        f"The biLM could not be saved to '{path}': {reason}. Free disk space or choose another folder. Existing "
        "files are unchanged."
    )


def _check_choice(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        listing = ", ".join(known)
        raise ValueError(f"The setting {name} is '{value}', but should be one of: {listing}. Choose one of these.")
