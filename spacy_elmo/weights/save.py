"""`save_bilm`: a `BiLM` to a folder, in our own format or in that of bilm-tf."""

from pathlib import Path
from typing import Callable, Dict, Sequence, Tuple

from safetensors import SafetensorError

from .._choices import DTYPES
from ..encoding.facade import BiLM
from ..errors import Errors
from .atomic import atomic_folder
from .bilm_tf.model import write_bilm_tf
from .locate import TOKEN_EMBEDDINGS_NAME
from .native.model import write_native
from .sources import PathLike

INT8 = "int8"  # our own format alone

Writer = Callable[[BiLM, Path, str], None]

# Per format the writer and the names of the files that it may write.
FORMATS: Dict[str, Tuple[Writer, Sequence[str]]] = {
    "native": (write_native, ("config.json", "weights.safetensors", "meta.json", "vocab.txt")),
    "bilm-tf": (write_bilm_tf, ("options.json", "weights.hdf5", "vocab.txt", TOKEN_EMBEDDINGS_NAME)),
}


def save_bilm(
    bilm: BiLM, path: PathLike, *, format: str = "native", dtype: str = "float32", force: bool = False
) -> None:
    """Save a biLM; the folder is complete or not there.

    bilm (BiLM): The model.
    path (PathLike): A folder.
    format (str): "native", or "bilm-tf" for a folder that bilm-tf and AllenNLP open.
    dtype (str): Type of the numbers on disk, "float32" or "float16"; "int8" (native) rounds the matrices of LSTMs,
        highways and softmax to 255 levels, a quarter of the size.
    force (bool): Replace the files of an existing model.
    RAISES (ValueError): EL025 if the folder holds something, EL030 if values do not fit the type, EL033 for settings
        that are not known.
    RAISES (OSError): EL180 if the system refuses it: the disk is full, for instance.
    """
    dtypes = (*DTYPES, INT8) if format == "native" else DTYPES
    for name, value, known in (("format", format, tuple(FORMATS)), ("dtype", dtype, dtypes)):
        if value not in known:
            raise ValueError(Errors.EL033.format(name=name, value=value, known=", ".join(known)))
    try:
        _save(bilm, Path(path), format, dtype, force)
    except (OSError, SafetensorError) as error:
        raise OSError(Errors.EL180.format(path=path, reason=error)) from error


def _save(bilm: BiLM, path: Path, format: str, dtype: str, force: bool) -> None:
    write, _ = FORMATS[format]
    own_names = [name for _, names in FORMATS.values() for name in names]
    with atomic_folder(path, force=force, own_names=own_names) as folder:
        write(bilm, folder, dtype)
