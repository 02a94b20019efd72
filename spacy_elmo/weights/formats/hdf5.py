"""HDF5 files as arrays by their path in it: the dumps of bilm-tf, with softmax and token embeddings."""

from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Tuple, Union

import h5py
import numpy as np

from ...errors import Errors
from ...files import check_space
from ...util import listed
from ..archive import Array, File, check_expansion, decoding, max_expanded, pickled

NUMBERS = "fiu"  # kinds of dtypes to read: floating point, and integers, for which `find_misfits` reports an error
# Names in files of vectors, of `elmo embed`, AllenNLP and bilm-tf.
FIRST_VECTORS = ("0", "sentence_to_index")
VECTORS = "it is a file of vectors, as `elmo embed` writes it. Give the biLM that computes them"
WEIGHTS_WANTED = "weights of a biLM in any known format"


def read_hdf5(file: File) -> Dict[str, Array]:
    """All datasets of a file by their path in it; links are not followed.

    RAISES (ValueError): EL020 without a file and for a file of vectors; EL022 if it is truncated or not HDF5, EL036 for
        shapes far larger than the file; for datasets with external or virtual storage, or of other types than numbers.
    RAISES (OSError): EL037 if the operating system cannot read it.
    """
    if file.kind == "pickle":
        raise pickled(file, "HDF5")
    place, n_bytes = file.place()
    with decoding(file, "HDF5"), h5py.File(place, "r") as opened:
        datasets, problems = _list_datasets(opened)
        n_expanded = sum(dataset.nbytes for dataset in datasets.values())
        has_vectors = any(name in opened for name in FIRST_VECTORS)
        is_read = not problems and not has_vectors and n_expanded <= max_expanded(n_bytes)
        arrays = {name: np.asarray(dataset[()]) for name, dataset in datasets.items()} if is_read else {}
    if has_vectors:
        raise ValueError(Errors.EL020.format(path=file, reason=VECTORS, expected=WEIGHTS_WANTED))
    check_expansion(file, n_expanded, n_bytes)
    if problems:
        raise ValueError(
            f"The HDF5 file '{file}' is refused, it has {len(problems)} problem(s):{listed(problems)}\nCopy the arrays "
            "into a new file (h5py: `create_dataset(name, data=...)`), or download the original file."
        )
    return arrays


def write_hdf5(path: Path, arrays: Mapping[str, Array], dtype: str) -> None:
    """Write float32 arrays by their path to a file that does not exist yet, as "float32" or "float16". OSError if the
    disk is full.
    """
    check_space(path, sum(array.size for array in arrays.values()) * np.dtype(dtype).itemsize)
    with h5py.File(path, "w") as file:
        for name in sorted(arrays):
            file.create_dataset(name, data=np.ascontiguousarray(arrays[name], dtype=dtype))


def _list_datasets(file: h5py.File) -> Tuple[Dict[str, h5py.Dataset], List[str]]:
    """The datasets by path, without their values, and all problems. Each object is visited once, links are not."""
    datasets: Dict[str, h5py.Dataset] = {}
    problems: List[str] = []

    def visit(name: Union[str, bytes], node: Any) -> None:  # bytes for a name that is not UTF-8
        if not isinstance(node, h5py.Dataset):
            return
        path = name if isinstance(name, str) else name.decode("utf8", "backslashreplace")
        problems_of_dataset = list(_problems_of(path, node))
        problems.extend(problems_of_dataset)
        if not problems_of_dataset:
            datasets[path] = node

    file.visititems(visit)
    return datasets, problems


def _problems_of(path: str, dataset: h5py.Dataset) -> Iterator[str]:
    """Reasons why a dataset cannot be read."""
    layout = dataset.id.get_create_plist()
    if layout.get_layout() == h5py.h5d.VIRTUAL:
        yield f"{path} is a virtual dataset, whose values are in other datasets"
    elif layout.get_external_count():
        yield f"{path} has its values in another file"
    elif dataset.dtype.kind not in NUMBERS:
        yield f"{path} is {dataset.dtype}, should be floating point"
    elif dataset.shape is None:
        yield f"{path} is empty, it has no shape"
