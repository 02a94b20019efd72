"""Stream the vectors of `elmo embed` to an .npz, one DocBin, a folder of DocBins, or an HDF5 file."""

import os
import shutil
import sys
import tempfile
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Dict, Iterator, List, Mapping, Optional, Protocol, Tuple, cast

import numpy as np
from spacy.tokens import Doc, DocBin

from ..errors import Errors
from ..export.vectors_hdf5 import Hdf5Writer, read_vectors
from ._common import check_output_file

STDOUT = "-"
DOCS_PER_FILE = 1000
POOLED = {"mixed": "elmo_pooled", "layers": "elmo_pooled_layers"}  # keys in `doc.user_data`
# Formats of vectors, with the suffixes of their files; "" is a folder.
SUFFIXES: Dict[str, Tuple[str, ...]] = {"npz": (".npz",), "docbin": (".spacy", ""), "hdf5": (".hdf5", ".h5")}


class Writer(Protocol):
    """Writes Docs one by one."""

    def begin(self, doc: Doc) -> None:
        """doc (Doc): A processed Doc without tokens, for the widths and dtypes of the vectors."""

    def add(self, doc: Doc, user_data: Optional[Mapping[Any, Any]] = None) -> None:
        """doc (Doc): A Doc with vectors. The writer stores no reference to it.
        user_data (Optional[Mapping[Any, Any]]): What the Doc had before it was processed.
        """


class NpzWriter:
    """Writes the concatenated rows of all Docs. They are stored in temporary files, one per layer, in bounded memory.

    folder (Path): A temporary folder.
    arrays (Tuple[str, ...]): "mixed" (T, D) and/or "layers" (L+1, T, D); "lengths" is always written.
    pool (Optional[str]): One row per text instead of one per token, see `read_vectors`.
    """

    def __init__(self, folder: Path, arrays: Tuple[str, ...], pool: Optional[str] = None) -> None:
        self.folder, self.pool = folder, pool
        self.lengths: List[int] = []
        self._files: Dict[str, List[IO[bytes]]] = {name: [] for name in arrays}
        self._headers: Dict[str, Tuple[Any, Tuple[int, ...]]] = {}

    def begin(self, doc: Doc) -> None:
        """doc (Doc): A Doc without tokens. Without further Docs, the arrays have no rows."""
        for name, files in self._files.items():
            values = read_vectors(doc, name)
            self._headers[name] = (values.dtype, values.shape)
            n_files = 1 if values.ndim == 2 else len(values)
            files += [(self.folder / f"{name}.{i}").open("wb") for i in range(n_files)]

    def add(self, doc: Doc, user_data: Optional[Mapping[Any, Any]] = None) -> None:
        """doc (Doc): A Doc with vectors.
        user_data (Optional[Mapping[Any, Any]]): Not used.
        """
        self.lengths.append(len(doc))
        for name, files in self._files.items():
            values = read_vectors(doc, name, self.pool)
            for file, rows in zip(files, values.reshape(len(files), -1, values.shape[-1]), strict=True):
                file.write(np.ascontiguousarray(rows).data)

    def close(self) -> None:
        """Close the temporary files, after the last Doc."""
        for files in self._files.values():
            for file in files:
                file.close()

    def finish(self, target: IO[bytes]) -> None:
        """target (IO[bytes]): Stream to write the .npz to, after `close`; it need not be seekable."""
        with zipfile.ZipFile(target, "w", allowZip64=True) as archive:
            with archive.open("lengths.npy", "w") as member:
                np.lib.format.write_array(member, np.asarray(self.lengths, dtype="int64"))
            for name in self._headers:
                self._copy(name, archive)

    def _copy(self, name: str, archive: zipfile.ZipFile) -> None:
        dtype, (*n_layers, _, width) = self._headers[name]
        header = {
            "descr": np.lib.format.dtype_to_descr(dtype),
            "fortran_order": False,
            "shape": (*n_layers, sum(self.lengths) if self.pool is None else len(self.lengths), width),
        }
        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(cast(Any, member), header)
            for file in self._files[name]:
                with Path(file.name).open("rb") as rows:
                    shutil.copyfileobj(rows, member)


class DocBinWriter:
    """Writes DocBins with the vectors as user data.

    folder (Path): Output folder.
    docs_per_file (int): Docs per DocBin, 0 for one DocBin with all Docs.
    arrays (Tuple[str, ...]): "mixed" and/or "layers", of which a pooled vector is stored.
    pool (Optional[str]): Store one vector per text under `POOLED` instead of those of the tokens, see `read_vectors`.
    """

    def __init__(
        self, folder: Path, docs_per_file: int, arrays: Tuple[str, ...] = (), pool: Optional[str] = None
    ) -> None:
        self.folder, self.docs_per_file = folder, docs_per_file
        self.arrays, self.pool = arrays, pool
        self.n_files = 0
        self._docs = DocBin(store_user_data=True)

    def begin(self, doc: Doc) -> None:
        """doc (Doc): Not used."""

    def add(self, doc: Doc, user_data: Optional[Mapping[Any, Any]] = None) -> None:
        """doc (Doc): A Doc with vectors; with `pool` they are replaced.
        user_data (Optional[Mapping[Any, Any]]): What the Doc had before it was processed.
        """
        if self.pool is not None:
            pooled = {POOLED[name]: read_vectors(doc, name, self.pool) for name in self.arrays}
            doc.user_data = {**(user_data or {}), **pooled}
        self._docs.add(doc)
        if len(self._docs) == self.docs_per_file:
            self.flush()

    def flush(self) -> None:
        """Write the Docs added since the last call to a file."""
        self._docs.to_disk(self.folder / f"part-{self.n_files:06}.spacy")
        self._docs = DocBin(store_user_data=True)
        self.n_files += 1

    def finish(self) -> None:
        """Write the remaining Docs."""
        if len(self._docs) or not self.n_files:
            self.flush()


def format_of(path: str, to: str = "auto") -> str:
    """path (str): An output path.
    to (str): "npz", "docbin", "hdf5", or "auto", which infers it from the suffix.
    RETURNS (str): "npz", "docbin" or "hdf5".
    RAISES (ValueError): EL135 for an unknown suffix, or for one of another format.
    """
    suffix = ".npz" if path == STDOUT else Path(path).suffix
    by_suffix = {suffix: name for name, suffixes in SUFFIXES.items() for suffix in suffixes}
    name = by_suffix.get(suffix) if to == "auto" else to
    if name is None or suffix not in SUFFIXES[name]:
        raise ValueError(Errors.EL135.format(path=path, suffix=suffix, to=to))
    return name


@contextmanager
def open_writer(
    path: str,
    arrays: Tuple[str, ...],
    *,
    to: str = "auto",
    vectors: str = "all",
    has_sentences: bool = True,
    pool: Optional[str] = None,
    docs_per_file: int = DOCS_PER_FILE,
    force: bool = False,
) -> Iterator[Writer]:
    """Open a writer for an output path. It writes to a temporary folder next to the output and renames at the end.

    path (str): A file that ends in .npz, .spacy or .hdf5, a folder for DocBins, or "-" for an .npz on stdout.
    arrays (Tuple[str, ...]): Arrays in an .npz.
    to (str): See `format_of`.
    vectors (str): Vectors in an HDF5 file, see `Hdf5Writer`.
    has_sentences (bool): Whether an HDF5 file has the texts.
    pool (Optional[str]): One vector per text, see `read_vectors`.
    docs_per_file (int): Docs per DocBin in a folder.
    force (bool): Replace an existing output.
    YIELDS (Writer): The writer.
    RAISES (ValueError): EL134 if the output exists, EL135 for an unknown suffix.
    """
    format, target = format_of(path, to), None if path == STDOUT else Path(path)
    if target is not None:
        _check_target(target, force)
        target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".embed.", dir=None if target is None else target.parent) as name:
        if target is None or format == "npz":
            with _open_npz(Path(name), arrays, target, pool) as npz:
                yield npz
        elif format == "hdf5":
            with _open_hdf5(Path(name) / "result", target, vectors, has_sentences, pool) as hdf5:
                yield hdf5
        else:
            parts = DocBinWriter(Path(name), 0 if target.suffix == ".spacy" else docs_per_file, arrays, pool)
            yield parts
            parts.finish()
            _put_parts(Path(name), target)


@contextmanager
def _open_npz(
    folder: Path, arrays: Tuple[str, ...], target: Optional[Path], pool: Optional[str]
) -> Iterator[NpzWriter]:
    npz = NpzWriter(folder, arrays, pool)
    try:
        yield npz
    finally:
        npz.close()
    if target is None:
        npz.finish(sys.stdout.buffer)
        return
    with (folder / "result").open("wb") as file:
        npz.finish(file)
    os.replace(folder / "result", target)


@contextmanager
def _open_hdf5(
    part: Path, target: Path, vectors: str, has_sentences: bool, pool: Optional[str]
) -> Iterator[Hdf5Writer]:
    hdf5 = Hdf5Writer(part, vectors, has_sentences=has_sentences, pool=pool)
    try:
        yield hdf5
        hdf5.finish()
    finally:
        hdf5.close()
    os.replace(part, target)


def _check_target(target: Path, force: bool) -> None:
    if target.is_dir() != (target.suffix == "") and target.exists():
        raise ValueError(Errors.EL134.format(path=target, remedy="Choose another path."))
    if not target.is_dir():
        check_output_file(target, force=force)
    elif any(target.iterdir()) and not force:
        raise ValueError(Errors.EL134.format(path=target, remedy="Choose another path, or replace it with --force."))


def _put_parts(folder: Path, target: Path) -> None:
    if target.suffix == ".spacy":
        os.replace(folder / "part-000000.spacy", target)
        return
    if target.is_dir():
        for old in target.glob("part-*.spacy"):
            old.unlink()
    target.mkdir(exist_ok=True)
    for part in sorted(folder.iterdir()):
        os.replace(part, target / part.name)
