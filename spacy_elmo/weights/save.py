"""`save_bilm`: save a `BiLM` to a folder in native, bilm-tf or allennlp format."""

from typing import Sequence

from safetensors import SafetensorError

from .._settings import to_path
from ..encoding.facade import BiLM
from ..engine.isolation import isolated
from ..errors import Errors
from .atomic import atomic_folder
from .formats import FORMATS
from .replacing import find_replaceable
from .sources import PathLike


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
    RAISES (ValueError): EL025 if the folder is not empty, EL030 if values are too large for the dtype, EL033 for an
        unknown format or dtype, EL036 for meta data above the limit of the reader, EL308 and EL311 for a biLM that the
        other program cannot have, EL372 if `force` would replace files of a biLM from elsewhere.
    RAISES (OSError): EL180 if it cannot be written, for example on a full disk.
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
        raise OSError(Errors.EL180.format(path=path, reason=error)) from error


def _check(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise ValueError(Errors.EL033.format(name=name, value=value, known=", ".join(known)))
