"""The table of formats: functions to detect, read and write each of them, and the names of its files.

A new format needs a folder next to native/ and bilm_tf/, and a row here.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

from .._choices import DTYPES
from ..encoding.facade import BiLM
from ..errors import Errors
from .allennlp.files import ARCHIVE_NAME, AllenNLPFiles, detect_allennlp, detect_state_dict
from .allennlp.files import WANTED as ALLENNLP_WANTED
from .allennlp.files import WEIGHTS_NAMES as ALLENNLP_WEIGHTS
from .allennlp.model import read_allennlp
from .allennlp.write import find_unknown_parts, write_allennlp
from .bilm_tf.files import HDF5_SUFFIXES, TOKEN_EMBEDDINGS_NAME, TFFiles, detect_bilm_tf
from .bilm_tf.files import WANTED as BILM_TF_WANTED
from .bilm_tf.model import find_foreign_parts, read_bilm_tf, write_bilm_tf
from .locate import PACKAGED_NAMES
from .manylangs.files import WANTED as MANYLANGS_WANTED
from .manylangs.files import ManyLangsFiles, detect_manylangs
from .manylangs.model import read_manylangs
from .missing import Listing, find_missing, has_all, list_files, only_archive, unpacking
from .mixes import LoadedMix, mixes_from_meta
from .native.files import CONFIG_NAME, LEXICON_NAME, WEIGHTS_NAME, NativeFiles, detect_native
from .native.files import WANTED as NATIVE_WANTED
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
    missing (Optional[Callable[[Path], str]]): Says what is missing at a path, for formats not defined by names.
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
    missing: Optional[Callable[[Path], str]] = None
    refuses: Optional[Callable[[BiLM], Optional[str]]] = None


def _refuse_extras(path: Path, format: str, extras: Extras, *names: str) -> None:
    given = [name for name in names if getattr(extras, name) is not None]
    if given:
        raise ValueError(Errors.EL032.format(path=path, format=format, given=", ".join(given)))


def _read_native(files: NativeFiles, extras: Extras) -> LoadedModel:
    _refuse_extras(files.folder, "native", extras, "token_embeddings", "softmax")
    vocabulary = None if extras.vocab is None else read_vocabulary(extras.vocab, True)
    bilm = read_native(files, vocabulary)
    return LoadedModel(bilm, mixes_from_meta(bilm.meta, bilm.config.n_layers))


def _read_allennlp(files: AllenNLPFiles, extras: Extras) -> LoadedModel:
    place = files.place(files.weights)
    if extras.token_embeddings is not None:
        raise ValueError(Errors.EL319.format(path=place, given="token_embeddings", format="allennlp"))
    settings = {name: getattr(extras, name) for name in ("part", "options", "vocab", "softmax")}
    return LoadedModel(*read_allennlp(files, **settings))


def _words_of(extras: Extras) -> Dict[str, Any]:
    """The files of words that a user adds to a model of bilm-tf."""
    return {name: getattr(extras, name) for name in ("vocab", "token_embeddings", "softmax")}


def _read_bilm_tf(files: TFFiles, extras: Extras) -> LoadedModel:
    return LoadedModel(read_bilm_tf(files, **_words_of(extras)))


def _refuse_bilm_tf(bilm: BiLM) -> Optional[str]:
    return "; ".join(find_foreign_parts(bilm.config)) or None


def _read_manylangs(files: ManyLangsFiles, extras: Extras) -> LoadedModel:
    _refuse_extras(files.path, "manylangs", extras, "vocab", "token_embeddings", "softmax")
    return LoadedModel(read_manylangs(files))


def _read_tf_checkpoint(files: CheckpointFiles, extras: Extras) -> LoadedModel:
    return LoadedModel(read_tf_checkpoint(files, **_words_of(extras)))


def _read_tf_hub(files: HubFiles, extras: Extras) -> LoadedModel:
    hub = read_tf_hub(files, **_words_of(extras))
    return LoadedModel(hub.bilm, (LoadedMix(hub.mix_weights, hub.mix_scale),) if hub.mix_weights else ())


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
    read=_read_bilm_tf,
    write=write_bilm_tf,
    file_names=("options.json", "weights.hdf5", "vocab.txt", TOKEN_EMBEDDINGS_NAME),
    dtypes=DTYPES,
    wanted=BILM_TF_WANTED,
    required=("*options.json", "|".join(f"*{suffix}" for suffix in HDF5_SUFFIXES)),
    refuses=_refuse_bilm_tf,
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
    read=_read_tf_hub,
    write=None,
    file_names=(),
    dtypes=(),
    wanted=HUB_WANTED,
    required=("saved_model.pb|tfhub_module.pb",),
)
TF_CHECKPOINT = Format(
    name="tf-checkpoint",
    detect=detect_tf_checkpoint,
    read=_read_tf_checkpoint,
    write=None,
    file_names=(),
    dtypes=(),
    wanted=CHECKPOINT_WANTED,
    required=("*.index", "*.data-*", "*options.json"),
)
FORMATS: Tuple[Format, ...] = (  # in the order of detection
    *(NATIVE, MANYLANGS, ALLENNLP, TF_HUB, TF_CHECKPOINT, BILM_TF),
)
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
        wanted = [*(format.wanted for format in FORMATS), PACKAGED]
        raise ValueError(
            Errors.EL020.format(path=path, reason="there is no such file or folder", wanted="; ".join(wanted))
        )
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
    if format.missing is not None:
        return format.missing(path)
    return f"{find_missing(path, format.required, files)}; it is {format.wanted}" if format.required else format.wanted
