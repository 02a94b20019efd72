"""The table of formats: functions to detect, read and write each of them, and the names of its files.

A new format needs a folder next to native/ and bilm_tf/, and a row here.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Optional, Sequence, Tuple

from .._choices import DTYPES
from ..encoding.facade import BiLM
from ..errors import Errors
from .bilm_tf.files import HDF5_SUFFIXES, TOKEN_EMBEDDINGS_NAME, TFFiles, detect_bilm_tf
from .bilm_tf.files import WANTED as BILM_TF_WANTED
from .bilm_tf.model import read_bilm_tf, write_bilm_tf
from .locate import PACKAGED_NAMES
from .missing import find_missing, only_archive
from .native.files import CONFIG_NAME, WEIGHTS_NAME, NativeFiles, detect_native
from .native.files import WANTED as NATIVE_WANTED
from .native.model import read_native, write_native
from .parts import read_vocabulary
from .sources import Source
from .unreadable import recognize

INT8 = "int8"


@dataclass(frozen=True)
class LoadedMix:
    """A scalar mix that was trained with a biLM, Peters et al. (2018), eq. 1.

    weights (Sequence[float]): Raw weights, one per layer, the token layer first.
    gamma (float): Scale.
    """

    weights: Sequence[float]
    gamma: float


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
    """

    vocab: Optional[Source] = None
    token_embeddings: Optional[Source] = None
    softmax: Optional[Source] = None


@dataclass(frozen=True)
class Format:
    """A file format of biLMs.

    name (str): Name for `save_bilm` and the command line.
    detect (Callable[[Path], Optional[Any]]): Finds the files at an existing path by name, None for another format.
    read (Callable[[Any, Extras], LoadedModel]): Reads the output of `detect` into a model.
    write (Callable[[BiLM, Path, str], None]): Writes a biLM to an empty folder, in a dtype.
    file_names (Sequence[str]): Names of all files that `write` may write.
    dtypes (Sequence[str]): Dtypes that `write` supports.
    wanted (str): Description of the files that `detect` looks for.
    required (Sequence[str]): Patterns of names of the files that it needs ("a|b" for either), to say which of them are
        missing. Without them, the message has `wanted`.
    missing (Optional[Callable[[Path], str]]): Says what is missing at a path, for formats not defined by names.
    refuses (Optional[Callable[[BiLM], Optional[str]]]): The reason why `write` cannot write a biLM, None if it can.
    """

    name: str
    detect: Callable[[Path], Optional[Any]]
    read: Callable[[Any, Extras], LoadedModel]
    write: Callable[[BiLM, Path, str], None]
    file_names: Sequence[str]
    dtypes: Sequence[str]
    wanted: str
    required: Sequence[str] = ()
    missing: Optional[Callable[[Path], str]] = None
    refuses: Optional[Callable[[BiLM], Optional[str]]] = None


def _read_native(files: NativeFiles, extras: Extras) -> LoadedModel:
    given = [name for name in ("token_embeddings", "softmax") if getattr(extras, name) is not None]
    if given:
        raise ValueError(Errors.EL032.format(path=files.folder, given=", ".join(given)))
    vocabulary = None if extras.vocab is None else read_vocabulary(extras.vocab, True)
    return LoadedModel(read_native(files.folder, vocabulary))


def _read_bilm_tf(files: TFFiles, extras: Extras) -> LoadedModel:
    files = replace(
        files,
        vocab=extras.vocab or files.vocab,
        token_embeddings=extras.token_embeddings or files.token_embeddings,
    )
    return LoadedModel(read_bilm_tf(files, softmax=extras.softmax, is_vocab_given=extras.vocab is not None))


def _refuses_bilm_tf(bilm: BiLM) -> Optional[str]:
    """Parts that files of bilm-tf cannot have. `token_embedder` is not a setting of every version of the config."""
    config = bilm.config
    reasons = [
        (config.encoder != "lstm", "LSTM layers only"),
        (config.highway_between, "no highways between layers"),
        (config.char_cnn is not None and config.char_cnn.codec != "utf8", "characters in UTF-8 only"),
        (getattr(config, "token_embedder", None) is not None, "words from characters or from a table, not from both"),
    ]
    found = [text for is_refused, text in reasons if is_refused]
    return f"bilm-tf has {'; '.join(found)}" if found else None


NATIVE = Format(
    name="native",
    detect=detect_native,
    read=_read_native,
    write=write_native,
    file_names=("config.json", "weights.safetensors", "meta.json", "vocab.txt"),
    dtypes=(*DTYPES, INT8),
    wanted=NATIVE_WANTED,
    required=(CONFIG_NAME, WEIGHTS_NAME),
)
BILM_TF = Format(
    name="bilm-tf",
    detect=detect_bilm_tf,
    read=_read_bilm_tf,
    write=write_bilm_tf,
    file_names=("options.json", "weights.hdf5", "vocab.txt", TOKEN_EMBEDDINGS_NAME),
    dtypes=DTYPES,
    wanted=BILM_TF_WANTED,
    required=("*options.json", "|".join(f"*{suffix}" for suffix in HDF5_SUFFIXES)),
    refuses=_refuses_bilm_tf,
)
FORMATS: Tuple[Format, ...] = (NATIVE, BILM_TF)  # in the order of detection
PACKAGED = f"one of the packaged names ({', '.join(PACKAGED_NAMES)})"


def detect_format(path: Path) -> Tuple[Format, Any]:
    """Detect a format by the files at a path; a folder whose only file is an archive is read as this archive.

    path (Path): A folder or file.
    RETURNS (Tuple[Format, Any]): The format, and the files for its `read`.
    RAISES (ValueError): EL020 if no format is detected, with the files that are missing for each of them; EL040 for a
        known format that cannot be read yet, and errors of `detect` for damaged files.
    """
    if not path.exists():
        wanted = [*(format.wanted for format in FORMATS), PACKAGED]
        raise ValueError(
            Errors.EL020.format(path=path, reason="there is no such file or folder", wanted="; ".join(wanted))
        )
    found = recognize(path) if path.is_dir() or path.is_file() else None
    if found is not None:
        raise ValueError(Errors.EL040.format(path=path, kind=found[0], remedy=found[1]))
    for format in FORMATS:
        files = format.detect(path)
        if files is not None:
            return format, files
    archive = only_archive(path)
    if archive is not None:
        return detect_format(archive)
    raise ValueError(_not_found(path))


def _not_found(path: Path) -> str:
    """The message of EL020, with one line per format."""
    lines = [*(f"{format.name}: {_missing_of(format, path)}" for format in FORMATS), PACKAGED]
    listing = "".join(f"\n- {line}" for line in lines)
    return Errors.EL020.format(path=path, reason="it is in no known format", wanted=listing)


def _missing_of(format: Format, path: Path) -> str:
    if format.missing is not None:
        return format.missing(path)
    return f"{find_missing(path, format.required)}; it is {format.wanted}" if format.required else format.wanted
