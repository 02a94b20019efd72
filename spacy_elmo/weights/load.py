"""`load_bilm`, `load_mixes`: load a `BiLM` and its scalar mixes from files in any known format."""

from dataclasses import replace
from pathlib import Path
from typing import List, Optional

import torch

from .._settings import to_path
from ..encoding.facade import BiLM
from ..engine.isolation import isolated
from ..engine.quantization import check_precision
from ..errors import Errors
from .allennlp.files import detect_allennlp
from .bilm_tf.files import TFFiles
from .formats import ALLENNLP, BILM_TF, TF_CHECKPOINT, Extras, Format, LoadedModel, detect_format
from .locate import locate, split_part
from .mixes import LoadedMix
from .sources import PathLike, Source
from .tensorflow.files import with_options


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
        its options, a zip with both (read without unpacking), a folder or zip of ELMoForManyLangs, an AllenNLP archive,
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
    RAISES (ValueError): EL014 and EL015 for a precision that is not supported; EL020 to EL038, EL300 to EL326
        and EL344 with all problems of the files in one message.
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
    RAISES (ValueError): See `load_bilm`; EL318 for mixes in meta data that are not valid.
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
        raise ValueError(Errors.EL031.format(given=names or "none of them"))
    place, part = split_part(path or weights or "")
    extras = Extras(**{name: _source(value) for name, value in files.items()}, part=part)
    if path is None:
        return _load_pair(to_path(place), Source(to_path(options or "")), extras)
    format, found = detect_format(locate(place))
    _check_part(format, place, part)
    return format.read(found, extras)


def _check_part(format: Format, path: PathLike, part: Optional[str]) -> None:
    """RAISES (ValueError): EL313 for the name of a biLM where the format has one only."""
    if part is not None and format is not ALLENNLP:
        raise ValueError(Errors.EL313.format(path=path, part=part, names="one biLM without a name"))


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
        raise ValueError(Errors.EL032.format(path=weights, format=format.name, given="options"))
    return BILM_TF.read(TFFiles(options, Source(weights)), extras)


def _source(path: Optional[PathLike]) -> Optional[Source]:
    return None if path is None else Source(to_path(path))
