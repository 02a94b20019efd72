"""HDF5 files to dictionaries of arrays and back.

A file can refer to external storage, or to itself, and can declare any shape. Only plain datasets are read, after their
declared sizes are compared with the size of their storage."""

import io
from math import prod
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Tuple, TypeVar

import h5py
import numpy as np

from ..util import check_space, listed
from .sources import Source, decoding, expanded_limit, pickled, require_file
from .tensor_map import Array, Shape

MAX_NODES = 20_000  # groups and datasets
MAX_DEPTH = 16  # groups within groups
NUMBERS = "fiu"  # kinds of dtypes to read: floating point, and integers, for which `find_misfits` reports an error

T = TypeVar("T")


def read_hdf5(source: Source) -> Dict[str, Array]:
    """Read every dataset of a file.

    source (Source): A file, or a member of a zip.
    RETURNS (Dict[str, Array]): Arrays by their path in the file.
    RAISES (ValueError): EL020 if there is no file, EL022 if it is truncated or not HDF5, for anything but plain
        datasets: links, external and virtual storage, shapes larger than the file.
    """
    return _read_each(source, lambda dataset: np.asarray(dataset[()]))


def read_shapes(source: Source) -> Dict[str, Shape]:
    """RETURNS (Dict[str, Shape]): The same as `read_hdf5`, but shapes; no values are read."""
    return _read_each(source, lambda dataset: tuple(dataset.shape))


def _read_each(source: Source, read: Callable[[h5py.Dataset], T]) -> Dict[str, T]:
    if source.kind() == "pickle":
        raise pickled(source, "HDF5")
    place: Any = source.path
    if source.member is None and not source.is_compressed():
        require_file(source.path)
        n_bytes = source.path.stat().st_size
    else:
        content = source.read_bytes()
        place, n_bytes = io.BytesIO(content), len(content)
    with decoding(source, "HDF5"), h5py.File(place, "r") as file:
        datasets, problems = _scan(file, expanded_limit(n_bytes))
        found = {} if problems else {name: read(dataset) for name, dataset in datasets.items()}
    if problems:
        raise ValueError(
            f"The HDF5 file '{source}' is refused, it has {len(problems)} problem(s):{listed(problems)}\nCopy the "
            "arrays into a new file (h5py: `create_dataset(name, data=...)`), or download the original file."
        )
    return found


def write_hdf5(path: Path, arrays: Mapping[str, Array], dtype: str) -> None:
    """path (Path): A file that does not exist yet.
    arrays (Mapping[str, Array]): float32 arrays by their path in the file.
    dtype (str): "float32" or "float16", on disk.
    RAISES (OSError): If the disk is full.
    """
    check_space(path, sum(array.size for array in arrays.values()) * np.dtype(dtype).itemsize)
    with h5py.File(path, "w") as file:
        for name in sorted(arrays):
            file.create_dataset(name, data=np.ascontiguousarray(arrays[name], dtype=dtype))


def _scan(file: h5py.File, max_bytes: int) -> Tuple[Dict[str, h5py.Dataset], List[str]]:
    """The datasets by path, without their values, and all problems."""
    datasets: Dict[str, h5py.Dataset] = {}
    problems: List[str] = []
    groups: List[Tuple[str, h5py.Group]] = [("", file)]
    n_nodes = n_bytes = 0
    while groups:
        prefix, group = groups.pop()
        names = _names(group)
        n_nodes += len(names)
        if n_nodes > MAX_NODES:
            return {}, [*problems, f"it has more than {MAX_NODES:,} groups and datasets"]
        for stored in names:
            name = stored.decode("utf8", errors="backslashreplace")
            path = prefix + name
            if name.encode("utf8") != stored:
                problems.append(f"{path} has a name that is not valid UTF-8 (invalid bytes are escaped here)")
                continue
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                problems.append(f"{path} is a link to another place")
                continue
            node = group[name]
            if isinstance(node, h5py.Group):
                groups.append((f"{path}/", node))
                if path.count("/") >= MAX_DEPTH:
                    return {}, [*problems, f"its groups are nested deeper than {MAX_DEPTH} levels"]
            elif isinstance(node, h5py.Dataset):
                found = list(_problems(path, node))
                problems += found
                if not found:
                    datasets[path] = node
                    n_bytes += node.nbytes
                if n_bytes > max_bytes:
                    return {}, [*problems, f"its datasets declare more than {max_bytes:,} bytes in all"]
    return datasets, problems


def _names(group: h5py.Group) -> List[bytes]:
    """Names in a group, at most one more than the limit, since a damaged index may be infinite."""
    names: List[bytes] = []

    def take(name: bytes) -> Any:
        names.append(name)
        return True if len(names) > MAX_NODES else None

    group.id.links.iterate(take)
    return names


def _problems(path: str, dataset: h5py.Dataset) -> Iterator[str]:
    """Reasons why a dataset cannot be read; storage is checked before shape."""
    layout = dataset.id.get_create_plist()
    if layout.get_layout() == h5py.h5d.VIRTUAL:
        yield f"{path} is a virtual dataset, whose values are in other datasets"
    elif layout.get_external_count():
        yield f"{path} has its values in another file"
    elif dataset.dtype.kind not in NUMBERS:
        yield f"{path} is {dataset.dtype}, should be floating point"
    elif dataset.shape is None:
        yield f"{path} is empty, it has no shape"
    else:
        n_stored = dataset.id.get_storage_size()
        for kind, shape in (("shape", dataset.shape), ("chunks", dataset.chunks or ())):
            if prod(shape, start=dataset.dtype.itemsize) > expanded_limit(n_stored):
                yield f"{path} has {kind} {list(shape)}, but only {n_stored:,} bytes are stored for it"
