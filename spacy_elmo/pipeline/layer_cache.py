"""Cache of the layers of training Docs for a frozen biLM: every epoch needs the layers of the same Docs."""

import hashlib
import os
import shutil
import tempfile
import warnings
import weakref
from io import FileIO
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy
from numpy.typing import NDArray
from thinc.types import Floats3d
from thinc.util import get_array_module, to_numpy

from .contexts import DocRuns

KEY_BYTES = 16
LARGEST_SHARE = 0.5  # of the free disk space
Key = bytes
Layers = NDArray[Any]


class LayerCache:
    """A temporary file of layers. The key is a hash of the input of the biLM.

    The file has no name (on Windows it is deleted when it is closed), so it is removed however the process ends. A
    forked process starts its own file. When the file is full, nothing is evicted: in epochs over the same Docs this has
    more hits than evicting the least recently used entry. The file is read, not mapped: the layers of a Doc are needed
    once per epoch in a writable array, and mapped pages would count as memory of the process.

    max_mb (float): Maximum size of the file in megabytes; at most half of the free disk space is used.
    dtype (str): "float32" (exact) or "float16" (half the size).
    """

    def __init__(self, max_mb: float, dtype: str) -> None:
        self.max_mb, self.dtype = max_mb, numpy.dtype(dtype)
        self.n_hits = self.n_misses = 0
        self._owner: Any = None
        self._file: Optional[FileIO] = None
        self._places: Dict[Key, int] = {}
        self._is_closed = False
        self._forget()

    def belong_to(self, owner: Any) -> None:
        """owner (Any): An object that identifies the weights. If it is a new object, the cache is cleared."""
        if owner is not self._owner or self._pid != os.getpid():
            self._forget()
            self._owner = owner

    def fetch(
        self, runs: DocRuns, state: str, parts: Sequence[Floats3d], compute: Callable[[Sequence[int]], None]
    ) -> None:
        """Fill in the layers of Docs: read cached ones from the file, compute and store the others.

        parts (Sequence[Floats3d]): For each Doc an array of zeros to fill, shape (L+1, n, D).
        compute (Callable[[Sequence[int]], None]): Fills the arrays of the Docs with these numbers.
        """
        if not self.max_mb:
            return compute(range(len(parts)))
        keys = keys_of(runs, state)
        missing = [i for i, (key, part) in enumerate(zip(keys, parts)) if not self._read_into(key, part)]
        compute(missing)
        for i in missing:
            self.write(keys[i], to_numpy(parts[i]))

    def _read_into(self, key: Key, part: Floats3d) -> bool:
        """RETURNS (bool): Whether the layers were cached."""
        found = self.read(key, part.shape)
        if found is not None:
            part[:] = get_array_module(part).asarray(found)
        return found is not None

    @property
    def n_bytes(self) -> int:
        """RETURNS (int): Size of the file."""
        return self._n_bytes

    def read(self, key: Key, shape: Tuple[int, ...]) -> Optional[Layers]:
        """The layers of a key of `keys_of`, shape (L+1, n, D), None if they are not cached."""
        place = self._places.get(key)
        if place is not None and self._file is not None:
            found = numpy.empty(shape, dtype=self.dtype)
            self._file.seek(place)
            if _read_all(self._file, found.data.cast("B")):
                self.n_hits += 1
                return found
        self.n_misses += 1
        return None

    def write(self, key: Key, layers: Layers) -> None:
        """Store layers, shape (L+1, n, D), if there is space."""
        if self._is_closed or key in self._places or not layers.size:
            return
        kept = numpy.ascontiguousarray(layers, dtype=self.dtype)
        try:
            if self._file is None:
                self._open()
            if self._n_bytes + kept.nbytes > self._max_bytes or self._file is None:
                return
            self._file.seek(self._n_bytes)
            _write_all(self._file, kept.data.cast("B"))
        except OSError as error:
            self._is_closed = True  # entries written before stay valid
            warnings.warn(
                f"Layers of training Docs could not be cached in '{tempfile.gettempdir()}' ({error}); later "
                "epochs compute them again. Free disk space there, choose another folder with the environment "
                "variable TMPDIR, or set layer_cache_mb to 0.",
                stacklevel=2,
            )
            return
        self._places[key] = self._n_bytes
        self._n_bytes += kept.nbytes

    def _open(self) -> None:
        free = shutil.disk_usage(tempfile.gettempdir()).free
        self._max_bytes = int(min(self.max_mb * 2**20, LARGEST_SHARE * free))
        self._file = tempfile.TemporaryFile(prefix="spacy_elmo_", buffering=0)
        weakref.finalize(self, self._file.close)

    def _forget(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._places = None, {}
        self._n_bytes = self._max_bytes = 0
        self._is_closed = self.max_mb <= 0
        self._pid = os.getpid()

    def __reduce__(self) -> Tuple[Any, ...]:
        return LayerCache, (self.max_mb, str(self.dtype))


def keys_of(found: DocRuns, state: str) -> List[Key]:
    """Hash everything that the layers of each Doc depend on, except the weights: one key per Doc."""
    keys, first_run, first_row = [], 0, 0
    for n_runs, n_rows in zip(found.doc_runs, found.lengths):
        digest = hashlib.blake2b(f"{state} {n_rows}".encode(), digest_size=KEY_BYTES)
        for i in range(first_run, first_run + n_runs):
            digest.update(_packed(found.runs[i]))
            digest.update(numpy.asarray(found.kept[i], dtype="int64").tobytes())
            digest.update((found.rows[i] - first_row).tobytes())
        keys.append(digest.digest())
        first_run += n_runs
        first_row += n_rows
    return keys


def _read_all(file: FileIO, target: memoryview) -> bool:
    """Fill the target; False if the file ends before. On Linux one call reads at most 2 GB."""
    while target:
        n_read = file.readinto(target)
        if not n_read:
            return False
        target = target[n_read:]
    return True


def _write_all(file: FileIO, content: memoryview) -> None:
    """Write everything. One call writes only a part if there are more than 2 GB or the disk is full."""
    while content:
        n_written = file.write(content)
        if not n_written:
            raise OSError("the disk is full")
        content = content[n_written:]


def _packed(words: Sequence[str]) -> bytes:
    """Encode words with their lengths, so that different lists have different bytes."""
    parts = [word.encode("utf8", "surrogatepass") for word in words]
    return b"".join([numpy.asarray([len(parts), *map(len, parts)], dtype="int64").tobytes(), *parts])
