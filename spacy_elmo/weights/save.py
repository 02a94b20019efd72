"""Save a biLM to a folder, in any of the formats that are written."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Collection, Sequence, Set

from safetensors import SafetensorError

from ..errors import Errors
from ..files import atomic_folder, is_hidden, to_path
from ..inference.bilm import BiLM
from ..inference.runtime import isolated
from ..util import shorten
from .archive import PathLike
from .formats import BILM_TF, FORMATS, NATIVE
from .load import has_all


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


def find_replaceable(folder: Path, known: Collection[str] = ()) -> Set[str]:
    """Name the files of the biLM in a folder, which would stay beside the files of a new biLM; none without a biLM.

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


def not_saved(path: object, reason: object) -> OSError:
    return OSError(
        f"The biLM could not be saved to '{path}': {reason}. Free disk space or choose another folder. Existing "
        "files are unchanged."
    )


def _check_choice(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        listing = ", ".join(known)
        raise ValueError(f"The setting {name} is '{value}', but should be one of: {listing}. Choose one of these.")
