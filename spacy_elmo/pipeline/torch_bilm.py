"""The Thinc shim of a biLM, which saves, copies, moves and trains it.

The PyTorchShim of Thinc saves with `torch.save`, which uses pickle. This shim saves in the native format, so that
loading a pipeline cannot execute code.
"""

import contextlib
import copy
import weakref
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

import torch
from thinc.api import Optimizer
from thinc.shims import Shim
from thinc.types import FloatsXd
from thinc.util import get_torch_default_device

from ..inference.bilm import BiLM
from ..inference.isolation import isolated
from ..inference.memory import HeapTrimmer
from ..weights.identity import fingerprint_bilm
from ..weights.native import bilm_from_bytes, bilm_to_bytes
from .fine_tuning import FineTuner, FineTuning
from .layer_cache import LayerCache

BYTES_PER_MB = 1024 * 1024
# Updates of the biLM after which free memory goes back to the system; more where that takes long. Without it a process
# that fine-tunes `en_elmo_sm` grows by 8 MB an update.
TRIM_UPDATES = 1
MAX_NAME = 40  # characters of the name of a biLM in its label


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
        self.n_updates = 0  # how often the weights were changed
        self._label: Tuple[Any, str] = (None, "")

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

    @property
    def label(self) -> str:
        """RETURNS (str): Fingerprint of the biLM, a space, and its name if it has one; empty if there is no biLM."""
        if self.bilm is None:
            return ""
        cache = self.bilm.word_cache  # a new object whenever the weights change
        if self._label[0] is None or self._label[0]() is not cache:
            name = str(self.bilm.meta.get("name", ""))[:MAX_NAME]
            self._label = (weakref.ref(cache), f"{fingerprint_bilm(self.bilm)} {name}".rstrip())
        return self._label[1]

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
            self.bilm.refresh()
            self.n_updates += 1
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
        self.bilm.refresh()
        return replaced

    @isolated
    def copy(self) -> "TorchBiLM":
        """RETURNS (TorchBiLM): A shim with a copy of the weights."""
        copied = TorchBiLM(self.word_cache_mb, copy.copy(self.layer_cache), self.precision, self._fine_tuning)
        if self.bilm is not None:
            copied.set_bilm(copy_bilm(self.bilm))
        return copied

    def to_device(self, device_type: str, device_id: int) -> None:
        if self.bilm is not None:
            self.bilm.to(torch.device("cuda", device_id) if device_type == "gpu" else torch.device("cpu"))

    def to_bytes(self) -> bytes:
        """RETURNS (bytes): The biLM in native format, empty if there is none."""
        if self.bilm is None:
            return b""
        return bilm_to_bytes(self.bilm, "int8" if self.bilm.precision == "int8" else "float32")

    def from_bytes(self, data: bytes) -> "TorchBiLM":
        """Read what `to_bytes` gave."""
        if data:
            self.set_bilm(bilm_from_bytes(data))
        else:
            self._model = None
        return self

    def __reduce__(self) -> Tuple[Callable[..., "TorchBiLM"], Tuple[Any, ...]]:
        settings = (self.word_cache_mb, self.layer_cache, self.precision, self._fine_tuning)
        return _restore, (self.id, settings, self.to_bytes())

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
    )


def _restore(shim_id: int, settings: Tuple[Any, ...], data: bytes) -> TorchBiLM:
    shim = TorchBiLM(*settings)
    shim.id = shim_id
    return shim.from_bytes(data)
