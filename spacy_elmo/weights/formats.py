"""The table of formats: functions to detect, read and write each of them, and the names of its files.

A new format needs a folder next to native/ and bilm_tf/, and a row here.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Optional, Sequence, Tuple

from .._choices import DTYPES
from ..encoding.facade import BiLM
from ..errors import Errors
from .bilm_tf.files import TOKEN_EMBEDDINGS_NAME, TFFiles, detect_bilm_tf
from .bilm_tf.files import WANTED as BILM_TF_WANTED
from .bilm_tf.model import read_bilm_tf, write_bilm_tf
from .locate import PACKAGED_NAMES
from .native.files import WANTED as NATIVE_WANTED
from .native.files import NativeFiles, detect_native
from .native.model import read_native, write_native
from .parts import read_vocabulary
from .sources import Source
from .tensorflow.files import (
    CHECKPOINT_WANTED,
    HUB_WANTED,
    CheckpointFiles,
    HubFiles,
    detect_tf_checkpoint,
    detect_tf_hub,
    find_checkpoint,
)
from .tensorflow.model import read_tf_checkpoint, read_tf_hub
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
    write (Optional[Callable[[BiLM, Path, str], None]]): Writes a biLM to an empty folder, in a dtype; None for formats
        that are only read.
    file_names (Sequence[str]): Names of all files that `write` may write.
    dtypes (Sequence[str]): Dtypes that `write` supports.
    wanted (str): Description of the files that `detect` looks for.
    """

    name: str
    detect: Callable[[Path], Optional[Any]]
    read: Callable[[Any, Extras], LoadedModel]
    write: Optional[Callable[[BiLM, Path, str], None]]
    file_names: Sequence[str]
    dtypes: Sequence[str]
    wanted: str


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


def _read_tf_checkpoint(files: CheckpointFiles, extras: Extras) -> LoadedModel:
    files = replace(
        files,
        vocab=extras.vocab or files.vocab,
        token_embeddings=extras.token_embeddings or files.token_embeddings,
    )
    return LoadedModel(read_tf_checkpoint(files, softmax=extras.softmax, is_vocab_given=extras.vocab is not None))


def _read_tf_hub(files: HubFiles, extras: Extras) -> LoadedModel:
    files = replace(files, vocab=extras.vocab, token_embeddings=extras.token_embeddings)
    hub = read_tf_hub(files, softmax=extras.softmax, is_vocab_given=extras.vocab is not None)
    return LoadedModel(hub.bilm, (LoadedMix(hub.mix_weights, hub.mix_scale),) if hub.mix_weights else ())


NATIVE = Format(
    name="native",
    detect=detect_native,
    read=_read_native,
    write=write_native,
    file_names=("config.json", "weights.safetensors", "meta.json", "vocab.txt"),
    dtypes=(*DTYPES, INT8),
    wanted=NATIVE_WANTED,
)
BILM_TF = Format(
    name="bilm-tf",
    detect=detect_bilm_tf,
    read=_read_bilm_tf,
    write=write_bilm_tf,
    file_names=("options.json", "weights.hdf5", "vocab.txt", TOKEN_EMBEDDINGS_NAME),
    dtypes=DTYPES,
    wanted=BILM_TF_WANTED,
)
TF_HUB = Format(
    name="tf-hub",
    detect=detect_tf_hub,
    read=_read_tf_hub,
    write=None,
    file_names=(),
    dtypes=(),
    wanted=HUB_WANTED,
)
TF_CHECKPOINT = Format(
    name="tf-checkpoint",
    detect=detect_tf_checkpoint,
    read=_read_tf_checkpoint,
    write=None,
    file_names=(),
    dtypes=(),
    wanted=CHECKPOINT_WANTED,
)
FORMATS: Tuple[Format, ...] = (NATIVE, TF_HUB, TF_CHECKPOINT, BILM_TF)  # in the order of detection


def detect_format(path: Path) -> Tuple[Format, Any]:
    """path (Path): A folder or file, or the prefix of the files of a TensorFlow checkpoint.
    RETURNS (Tuple[Format, Any]): The format, and the files for its `read`.
    RAISES (ValueError): EL020 if no format is detected, EL040 for a known format that cannot be read yet, and errors of
        `detect` for damaged files.
    """
    if not path.exists():
        path = find_checkpoint(path) or path
    if not path.exists():
        raise ValueError(_not_found(path, "there is no such file or folder"))
    found = recognize(path) if path.is_dir() or path.is_file() else None
    if found is not None:
        raise ValueError(Errors.EL040.format(path=path, kind=found[0], remedy=found[1]))
    for format in FORMATS:
        files = format.detect(path)
        if files is not None:
            return format, files
    raise ValueError(_not_found(path, "it is in no known format"))


def _not_found(path: Path, reason: str) -> str:
    wanted = [*(format.wanted for format in FORMATS), f"one of the packaged names ({', '.join(PACKAGED_NAMES)})"]
    return Errors.EL020.format(path=path, reason=reason, wanted="; ".join(wanted))
