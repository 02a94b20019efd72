"""`load_bilm`: load a `BiLM` from files in any known format."""

from pathlib import Path
from typing import Optional

import torch

from ..encoding.facade import BiLM
from ..engine.quantization import check_precision
from ..errors import Errors
from .bilm_tf.files import TFFiles
from .formats import BILM_TF, TF_CHECKPOINT, Extras, detect_format
from .locate import locate
from .sources import PathLike, Source
from .tensorflow.files import with_options


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

    path (Optional[PathLike]): A folder in native format or with options.json and one .hdf5 file, an .hdf5 file next to
        its options, a .zip with both (read without unpacking), a TensorFlow checkpoint of bilm-tf, the folder of a
        TF-Hub module, or a packaged name such as "en_elmo_sm".
    options (Optional[PathLike]): options.json of bilm-tf, with `weights` instead of `path`.
    weights (Optional[PathLike]): HDF5 file or TensorFlow checkpoint of bilm-tf.
    vocab (Optional[PathLike]): One word per line, in the order of the rows of softmax, word table or token embeddings.
    token_embeddings (Optional[PathLike]): HDF5 file with precomputed vectors of the vocabulary's words.
    softmax (Optional[PathLike]): HDF5 file with softmax/W and softmax/b, if they are not in `weights`.
    precision (str): Precision of the computation, "float32", "bfloat16" or "int8", see `BiLM.set_precision`.
    RETURNS (BiLM): The model, in evaluation mode, on the CPU.
    RAISES (ValueError): EL014 and EL015 for a precision that is not supported; EL020 to EL034 with all problems of the
        files in one message.
    """
    check_precision(precision, torch.device("cpu"))
    if (path is None) != (options is not None and weights is not None) or (options is None) != (weights is None):
        given = {"path": path, "options": options, "weights": weights}
        names = ", ".join(name for name, value in given.items() if value is not None)
        raise ValueError(Errors.EL031.format(given=names or "none of them"))
    extras = Extras(vocab=_source(vocab), token_embeddings=_source(token_embeddings), softmax=_source(softmax))
    if path is None:
        return _load_pair(Path(options or ""), Path(weights or ""), extras).set_precision(precision)
    format, files = detect_format(locate(path))
    return format.read(files, extras).bilm.set_precision(precision)


def _load_pair(options: Path, weights: Path, extras: Extras) -> BiLM:
    """Weights of bilm-tf, an HDF5 file or a checkpoint, with options from anywhere."""
    checkpoint = with_options(weights, Source(options))
    if checkpoint is not None:
        return TF_CHECKPOINT.read(checkpoint, extras).bilm
    return BILM_TF.read(TFFiles(Source(options), Source(weights)), extras).bilm


def _source(path: Optional[PathLike]) -> Optional[Source]:
    return None if path is None else Source(Path(path))
