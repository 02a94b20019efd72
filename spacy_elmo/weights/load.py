"""From a path to a `BiLM`: `load_bilm`, which format the files at a path have, or what they are instead."""

import os
from fnmatch import fnmatch, fnmatchcase
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Dict, List, Optional, Sequence, Tuple

import torch

from ..errors import Errors
from ..files import AnyPath, aside_of, to_path
from ..inference.bilm import BiLM
from ..inference.kernel import check_precision
from ..inference.runtime import isolated
from .archive import (
    TAR_SUFFIXES,
    VECTORS,
    WEIGHTS_WANTED,
    File,
    Listing,
    ModelFiles,
    PathLike,
    cannot_add,
    no_such_bilm,
)
from .formats import ALLENNLP, BILM_TF, FORMATS, TF_CHECKPOINT, Format
from .formats.allennlp import detect_allennlp, detect_state_dict
from .formats.bilm_tf import detect_bilm_tf
from .formats.native import PACKAGED_NAMES, find_packaged_files
from .formats.pipelines import PIPELINE_CONFIG, component_names
from .formats.tensorflow import find_checkpoint, with_options
from .meta import META_NAME, RECORD_NAME, LoadedMix, mixes_from_meta, read_record_meta

PACKAGED = f"one of the packaged names ({', '.join(PACKAGED_NAMES)})"
NAME_MARK = "#"  # between a path and the name of one of several biLMs
# Names of files that other packages of ours write: a pretraining run, an index, the vectors of a corpus.
CHECKPOINT_FILES = ("state.safetensors", "checksums.json")
LOG, CHECKPOINTS, MODELS = "log.jsonl", "checkpoints", ("model-best", "model-last")
INDEX = "tokens.sqlite"
MANIFESTS = ("embed.json", "_embed.json")
MAX_NAMES = 2000  # files considered


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
        of bilm-tf, the folder of a TF-Hub module, of a saved spaCy pipeline or of one of its components (with "#"
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
        return Path(find_packaged_files(path).where)
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
    if listing.kind != "folder" and (content := _content_of_file(listing)) is not None:
        raise _no_bilm(path, content)
    for format in FORMATS:
        if _is_possible(format, listing) and (files := format.detect(listing)) is not None:
            return format, files
    if listing.kind == "folder":
        if (content := _content_of_folder(path)) is not None:
            raise _no_bilm(path, content)
        if (files := detect_state_dict(listing)) is not None:
            return ALLENNLP, files
        archive_suffixes = (".zip", *TAR_SUFFIXES)
        archives = [file for name, file in listing.files.items() if name.lower().endswith(archive_suffixes)]
        if len(archives) == 1:
            return detect_format(archives[0].path)
    raise _no_format(listing)


def _is_possible(format: Format, listing: Listing) -> bool:
    """Whether a path has a name of a format, or is a file of its kind."""
    names = {name.rpartition("/")[2] for name in listing.files}
    return listing.kind in format.kinds or any(
        fnmatchcase(name, pattern) for name in names for pattern in format.name_patterns
    )


def detect_pair(weights: Path, options: File) -> Tuple[Format, ModelFiles]:
    """The format of a checkpoint, a state dict of AllenNLP or an HDF5 file whose options the user names separately."""
    if (checkpoint := find_checkpoint(weights)) is not None:
        return TF_CHECKPOINT, with_options(checkpoint, options)
    listing = Listing(weights) if weights.exists() else None
    if listing is not None and listing.kind == "folder":
        if (files := detect_allennlp(listing)) is not None:
            return ALLENNLP, files
        if (files := detect_bilm_tf(listing)) is None:
            raise cannot_add(weights, detect_format(weights)[0].name, "options")
        raise _no_bilm(weights, "it is a folder, and options are given apart", f"the file '{files.weights}'")
    file = File(weights)
    if listing is not None:
        file = listing.file or file
        is_json = file.head.lstrip().startswith(b"{")
        wrong_order = "it is a file of JSON, as options are: options and weights may be in the wrong order"
        if (content := wrong_order if is_json else _content_of_file(listing)) is not None:
            raise _no_bilm(weights, content)
        if (files := detect_allennlp(listing)) is not None:
            return ALLENNLP, files
    meta = weights.parent / META_NAME
    return BILM_TF, ModelFiles(str(weights), file, {}, options, meta=File(meta) if meta.is_file() else None)


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


def _no_bilm(path: Path, reason: str, expected: str = WEIGHTS_WANTED) -> ValueError:
    return ValueError(Errors.EL020.format(path=path, reason=reason, expected=expected))


def _content_of_folder(path: Path) -> Optional[str]:
    """The content of a folder without weights, such as a pretraining run; None if it is not known."""
    if all((path / name).is_file() for name in CHECKPOINT_FILES) or any(path.glob(f"step-*/{CHECKPOINT_FILES[0]}")):
        run = next((folder.parent for folder in (path, path.parent) if folder.name == CHECKPOINTS), None)
        where = "Give the biLM of the run, in its folder model-best or model-last" if run is None else _bilm_of(run)
        return f"it has checkpoints of a pretraining run, which only `elmo pretrain` reads. {where}"
    if (path / LOG).is_file() and (path / CHECKPOINTS).is_dir():
        return f"it is the folder of a pretraining run. {_bilm_of(path)}"
    if (path / INDEX).is_file():
        return "it is an index of tokens. Give the biLM that it was built with"
    if any((path / name).is_file() for name in MANIFESTS):
        return "it is a folder of vectors, as `elmo embed` writes it. Give the biLM that computes them"
    if (path / PIPELINE_CONFIG).is_file():
        return (
            f"it is a spaCy pipeline, and no component of it has a biLM (components: "
            f"{', '.join(component_names(path)) or 'none'}). Give one with a component 'elmo' or 'elmo_surprisal', or "
            "with a listener that was replaced"
        )
    return None


def _bilm_of(run: Path) -> str:
    """How to get the biLM of a pretraining run."""
    models = [f"'{run / name}'" for name in MODELS if (run / name).is_dir()]
    if models:
        return f"Give its biLM: {' or '.join(models)}"
    return (
        f"It has no biLM yet: '{run / MODELS[-1]}' is written at each validation and when the run is stopped. Continue "
        f"it: `python -m spacy elmo pretrain CONFIG {quote(str(run))} --resume`, with the options of the first time"
    )


def _content_of_file(listing: Listing) -> Optional[str]:
    """The content of a file or an archive without weights; None if it is not known."""
    path, head = listing.path, b"" if listing.file is None else listing.file.head
    if path.name in CHECKPOINT_FILES:
        return _content_of_folder(path.parent)
    suffix = path.suffix.lower()
    if suffix == ".onnx" or (head.startswith(b"\x08") and b"spacy-elmo" in head[:32]):
        return "it is an ONNX graph, which is written for other programs, not read. Give the weights it was made from"
    if suffix == ".spacy":
        return "it is a file of spaCy Docs. Give the biLM that computes their vectors"
    if suffix == ".whl":
        return "it is a package. Install it with pip, and pass its name to `spacy.load`"
    is_npz = listing.kind == "zip" and listing.files and all(name.endswith(".npy") for name in listing.files)
    return VECTORS if head.startswith(b"PAR1") or is_npz else None


def _no_format(listing: Listing) -> ValueError:
    """EL020 for a path in no format, with the files that are missing for each of the formats."""
    path = listing.path
    names = list(listing.deep_files)[:MAX_NAMES] if listing.file is None else None
    if names is not None and listing.kind != "folder":  # folders in an archive do not matter
        names = [PurePosixPath(name).name for name in names]
    reason = "it is in no known format" if names is not None else "it is a file in no known format"
    lines = [f"{format.name}: {_describe_files(names, format.required)}{format.description}" for format in FORMATS]
    packed = [format.name for format in FORMATS if path.is_file() and has_all(names or [], format.required)]
    if packed:
        tool, folder = "zipfile" if listing.kind == "zip" else "tarfile", f"{path}_files"
        reason = (
            f"it is an archive with the files of {' or '.join(packed)}, which is not read in place. Unpack it, and "
            f"pass the folder with these files: `python -m {tool} -e {quote(str(path))} {quote(folder)}`"
        )
    return _no_bilm(path, reason, "".join(f"\n- {line}" for line in [*lines, PACKAGED]))


def has_all(names: Sequence[str], required: Sequence[str]) -> bool:
    """Whether each of the patterns has a name."""
    return all(_match_names(pattern, names) for pattern in required)


def _describe_files(names: Optional[Sequence[str]], required: Sequence[str]) -> str:
    """For each file of a format that it is there, or that it is missing."""
    if names is None:
        return ""
    here, texts = [name for name in names if "/" not in name], []
    for pattern in required:
        matching = _match_names(pattern, here)
        texts.append(f"{matching[0]} is there" if matching else f"{pattern.replace('|', ' or ')} is missing")
    return f"{', '.join(texts)}; it is "


def _match_names(pattern: str, names: Sequence[str]) -> List[str]:
    return [name for name in names if any(fnmatch(name, each) for each in pattern.split("|"))]
