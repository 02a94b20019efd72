"""The Thinc shim of a biLM, which saves, copies, moves and trains it, and its cache of the layers of training Docs.

The PyTorchShim of Thinc saves with `torch.save`, which uses pickle. This shim saves in the native format, so that
loading a pipeline cannot execute code.
"""

import contextlib
import copy
import os
import shutil
import tempfile
import warnings
import weakref
from io import FileIO
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import numpy
import torch
from numpy.typing import NDArray
from thinc.api import Optimizer
from thinc.shims import Shim
from thinc.types import Floats3d, FloatsXd
from thinc.util import get_array_module, get_torch_default_device, to_numpy

from ..inference.bilm import BiLM
from ..inference.runtime import HeapTrimmer, isolated
from ..weights.formats.native import bilm_from_bytes, bilm_to_bytes
from ..weights.formats.pipelines import REFERENCE_MARK, load_referenced, reference_to_bytes
from .fine_tuning import FineTuner, FineTuning
from .vector_record import cast_values

BYTES_PER_MB = 1024 * 1024
# Updates of the biLM after which free memory goes back to the system; more where that takes long. Without it a process
# that fine-tunes `en_elmo_sm` grows by 8 MB an update.
TRIM_UPDATES = 1
LARGEST_SHARE = 0.5  # of the free disk space, for the cache of layers
Key = bytes
LayerArray = NDArray[Any]


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
        self._version: Optional[int] = None
        self._file: Optional[FileIO] = None
        self._places: Dict[Key, int] = {}
        self._is_closed = False
        self._clear()

    def clear_if_changed(self, version: Optional[int]) -> None:
        """version (Optional[int]): `BiLM.version` of the weights. The cache is cleared if it has changed."""
        if version != self._version or self._pid != os.getpid():
            self._clear()
            self._version = version

    def fill(self, keys: Sequence[Key], doc_layers: Sequence[Floats3d]) -> List[int]:
        """Read the layers of Docs from the file.

        keys (Sequence[Key]): For each Doc a hash of everything that its layers depend on, except the weights.
        doc_layers (Sequence[Floats3d]): For each Doc an array to fill, shape (L+1, n, D).
        RETURNS (List[int]): The numbers of the Docs that are not cached, whose arrays are unchanged.
        """
        missing: List[int] = []
        for i, (key, layers) in enumerate(zip(keys, doc_layers)):
            cached = self.read(key, layers.shape)
            if cached is None:
                missing.append(i)
            else:
                layers[:] = get_array_module(layers).asarray(cached)
        return missing

    def store(self, docs: Iterable[int], keys: Sequence[Key], doc_layers: Sequence[Floats3d]) -> None:
        """Write the layers of the Docs with these numbers; `keys` and `doc_layers`: see `fill`."""
        for i in docs:
            self.write(keys[i], to_numpy(doc_layers[i]))

    @property
    def n_bytes(self) -> int:
        """RETURNS (int): Size of the file."""
        return self._n_bytes

    def read(self, key: Key, shape: Tuple[int, ...]) -> Optional[LayerArray]:
        """The layers of a key, shape (L+1, n, D), None if they are not cached."""
        place = self._places.get(key)
        if place is not None and self._file is not None:
            layers = numpy.empty(shape, dtype=self.dtype)
            try:
                is_whole = _read_all(self._file, place, layers.data.cast("B"))
            except OSError:  # the disk of the file is gone
                is_whole = False
            if is_whole:
                self.n_hits += 1
                return layers
        self.n_misses += 1
        return None

    def write(self, key: Key, layers: LayerArray) -> None:
        """Store layers, shape (L+1, n, D), if there is space."""
        if self._is_closed or key in self._places or not layers.size:
            return
        stored = numpy.ascontiguousarray(cast_values(layers, self.dtype, setting="layer_cache_dtype"))
        try:
            if self._file is None:
                self._open()
            if self._n_bytes + stored.nbytes > self._max_bytes or self._file is None:
                return
            self._file.seek(self._n_bytes)
            _write_all(self._file, stored.data.cast("B"))
        except OSError as error:
            self._is_closed = True  # entries written before stay valid
            folder = f"'{tempfile.tempdir}'" if tempfile.tempdir else "a temporary folder"  # None if none is found
            warnings.warn(
                f"Layers of training Docs could not be cached in {folder} ({error}); later epochs compute them again. "
                "Free disk space there, choose another folder with the environment variable TMPDIR, or set "
                "layer_cache_mb to 0.",
                stacklevel=2,
            )
            return
        self._places[key] = self._n_bytes
        self._n_bytes += stored.nbytes

    def _open(self) -> None:
        free = shutil.disk_usage(tempfile.gettempdir()).free
        self._max_bytes = int(min(self.max_mb * BYTES_PER_MB, LARGEST_SHARE * free))
        self._file = tempfile.TemporaryFile(prefix="spacy_elmo_", buffering=0)
        weakref.finalize(self, self._file.close)

    def _clear(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._places = None, {}
        self._n_bytes = self._max_bytes = 0
        self._is_closed = self.max_mb <= 0
        self._pid = os.getpid()

    def __reduce__(self) -> Tuple[Any, ...]:
        return LayerCache, (self.max_mb, str(self.dtype))


def _read_all(file: FileIO, place: int, target: memoryview) -> bool:
    """Fill the target from a place in the file; False if the file ends before. On Linux one call reads at most 2 GB."""
    file.seek(place)
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


class TorchBiLM(Shim):
    """Shim of a `BiLM`; empty until weights are loaded. A copy starts with an empty `layer_cache`.

    fine_tuning (Optional[FineTuning]): None if the biLM is frozen.
    """

    def __init__(
        self,
        word_cache_mb: float,
        layer_cache: LayerCache,
        precision: str = "float32",
        fine_tuning: Optional[FineTuning] = None,
    ) -> None:
        super().__init__(None)
        self.word_cache_mb, self.layer_cache, self.precision = word_cache_mb, layer_cache, precision
        self.tuner = None if fine_tuning is None else FineTuner(fine_tuning)
        self._trimmer = HeapTrimmer(TRIM_UPDATES)
        self._packaged: Tuple[str, int] = ("", -1)  # name of a packaged biLM, and its version

    @property
    def bilm(self) -> Optional[BiLM]:
        """RETURNS (Optional[BiLM]): The biLM, None before weights are loaded."""
        bilm: Optional[BiLM] = self._model
        return bilm

    def set_bilm(self, bilm: BiLM) -> None:
        """Set the biLM, changed in place: it moves to the device of Thinc, and its softmax is removed.

        RAISES (ValueError): If the settings of fine-tuning name layers that it does not have.
        """
        if self.tuner is not None:
            self.tuner.begin(bilm)
        bilm.head = None
        if bilm.device != get_torch_default_device():
            bilm.set_precision("float32").to(get_torch_default_device())
        bilm.set_precision(self.precision)
        bilm.word_cache.max_bytes = int(self.word_cache_mb * BYTES_PER_MB)
        self._model = bilm

    def set_packaged(self, name: str) -> None:
        """name (str): Packaged name of the biLM, which is saved in place of the weights while these are constant."""
        if self.bilm is not None:
            self._packaged = name, self.bilm.version

    @property
    def packaged(self) -> str:
        """RETURNS (str): Packaged name of the biLM; empty if it has none, is fine-tuned, or has changed since."""
        name, version = self._packaged
        return name if self.bilm is not None and self.tuner is None and self.bilm.version == version else ""

    @property
    def is_trained(self) -> bool:
        """RETURNS (bool): Whether the next update changes the biLM: it is not frozen, and a layer is unfrozen."""
        return self.tuner is not None and self.tuner.n_trained > 0

    def begin_training(self) -> None:
        """Fine-tune from the weights that are there: schedules start again."""
        if self.tuner is not None and self.bilm is not None:
            self.tuner.begin(self.bilm)

    @isolated
    def finish_update(self, optimizer: Optimizer) -> None:
        """Update each parameter that has a gradient; keys are (id of the shim, name). Fine-tuning counts the calls."""
        if self.bilm is None or self.tuner is None:
            return
        if self.tuner.update(self.bilm.network, optimizer, self.id):
            self.bilm.clear_caches()
            self._trimmer.count(1)

    @contextlib.contextmanager
    def use_params(self, params: Dict[Tuple[int, str], FloatsXd]) -> Iterator[None]:
        """Use other weights temporarily, such as averages of the optimizer, by (id of the shim, name)."""
        backup = self._swap({name: array for (owner, name), array in params.items() if owner == self.id})
        try:
            yield
        finally:
            self._swap(backup)

    @isolated
    def _swap(self, arrays: Dict[str, Any]) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): The weights that were replaced."""
        replaced: Dict[str, Any] = {}
        if self.bilm is None or not arrays:
            return replaced
        for name, parameter in self.bilm.network.named_parameters():
            if name in arrays:
                replaced[name] = parameter.data
                parameter.data = torch.as_tensor(arrays[name], device=parameter.device)
        self.bilm.clear_caches()
        return replaced

    @isolated
    def copy(self) -> "TorchBiLM":
        """RETURNS (TorchBiLM): A shim with a copy of the weights."""
        copied = TorchBiLM(self.word_cache_mb, copy.copy(self.layer_cache), self.precision, self._fine_tuning)
        if self.bilm is not None:
            copied.set_bilm(copy_bilm(self.bilm))
            copied.set_packaged(self.packaged)
        return copied

    def to_device(self, device_type: str, device_id: int) -> None:
        if self.bilm is not None:
            self.bilm.to(torch.device("cuda", device_id) if device_type == "gpu" else torch.device("cpu"))

    def to_bytes(self) -> bytes:
        """RETURNS (bytes): The biLM in native format, or a reference to a packaged one; empty if there is none."""
        if self.bilm is None:
            return b""
        if self.packaged:
            return reference_to_bytes(self.packaged, self.bilm)
        return bilm_to_bytes(self.bilm, "int8" if self.bilm.precision == "int8" else "float32")

    def from_bytes(self, data: bytes) -> "TorchBiLM":
        """Read what `to_bytes` gave."""
        if data.startswith(REFERENCE_MARK):
            name, bilm = load_referenced(data)
            self.set_bilm(bilm)
            self.set_packaged(name)
        elif data:
            self.set_bilm(bilm_from_bytes(data))
        else:
            self._model = None
        return self

    def __reduce__(self) -> Tuple[Callable[..., "TorchBiLM"], Tuple[Any, ...]]:
        settings = (self.word_cache_mb, self.layer_cache, self.precision, self._fine_tuning)
        return _restore_shim, (self.id, settings, self.to_bytes())

    @property
    def _fine_tuning(self) -> Optional[FineTuning]:
        return None if self.tuner is None else self.tuner.settings


def copy_bilm(bilm: BiLM) -> BiLM:
    """Copy a biLM, including the weights."""
    return BiLM(
        copy.deepcopy(bilm.network),
        vocabulary=bilm.vocabulary,
        token_embeddings=bilm.token_embeddings,
        meta=copy.deepcopy(bilm.meta),
        lexicon=bilm.lexicon,
        rounded_copy=bilm.rounded_copy,
    )


def _restore_shim(shim_id: int, settings: Tuple[Any, ...], data: bytes) -> TorchBiLM:
    shim = TorchBiLM(*settings)
    shim.id = shim_id
    return shim.from_bytes(data)
