"""A `BiLM` as a part of a larger module: it moves, trains, and is saved and loaded with it."""

import warnings
import weakref
import zlib
from typing import Any, Callable, Dict, List, Tuple

import torch
from torch import Tensor, nn

from ..errors import Errors, Warnings
from ..inference.bilm import BiLM
from ..inference.quantization import full_state

NETWORK, FINGERPRINT = "network.", "fingerprint"
# Attributes of a network, shared by the modules that use it and copied with it.
AS_READ = "precision_and_checksums_as_read"
REPLACED = "weights_were_replaced"
PROBE = "The quick brown fox jumps over the lazy dog .".split()
MIN_COSINE = 0.98  # of a layer of the same biLM in float32 and in int8


class Users(weakref.WeakSet["BiLMModule"]):
    """The modules that share a network. A copy of the network has none, and they are not saved with it."""

    def __reduce__(self) -> Tuple[Any, ...]:
        return Users, ()


class BiLMModule(nn.Module):
    """Registers the network of a biLM, so that `.to`, `.parameters` and `.state_dict` of a model reach it.

    A state dict without the weights has a fingerprint in their place, the layers of one sentence: loading it beside
    another biLM is an error. Weights that were changed after the first module was made of them, in whatever way, are
    nowhere else: they are always stored, also when they are frozen later.

    bilm (BiLM): Shared, not copied.
    is_stored (bool): Whether weights that are as they were read are part of the state dict.
    """

    def __init__(self, bilm: BiLM, *, is_stored: bool) -> None:
        super().__init__()
        self.bilm, self.is_stored = bilm, is_stored
        self.network = bilm.network
        self._users.add(self)
        vars(self.network).setdefault(AS_READ, self._describe_weights())

    def __setstate__(self, state: Dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]  # torch gives it no types
        self._users.add(self)  # a copy of modules that share a network shares the copy of it

    @property
    def is_trained(self) -> bool:
        """RETURNS (bool): Whether a parameter requires a gradient."""
        return any(parameter.requires_grad for parameter in self.network.parameters())

    @property
    def has_changed(self) -> bool:
        """RETURNS (bool): Whether the weights are others than when the first module was made of them."""
        attributes = vars(self.network)
        return bool(attributes.get(REPLACED)) or bool(attributes[AS_READ] != self._describe_weights())

    def _describe_weights(self) -> Tuple[str, List[int]]:
        """RETURNS (Tuple[str, List[int]]): The precision, and checksums in float32. In another precision weights cannot
        be trained, and in another precision than at first they count as changed.
        """
        is_exact = self.bilm.precision == "float32"
        return self.bilm.precision, _checksums(self.network) if is_exact else []

    def train_weights(self, trainable: bool) -> None:
        """Train or freeze the weights, in all modules that share them; WL141 if that changes what another one does.

        trainable (bool): Whether the parameters require a gradient.
        """
        others = [user for user in self._users if user is not self]
        if others and any(parameter.requires_grad is not trainable for parameter in self.network.parameters()):
            change, before = ("unfrozen", "froze") if trainable else ("frozen", "trained")
            text = Warnings.WL141.format(n_others=len(others), change=change, before=before, trainable=trainable)
            warnings.warn(text, stacklevel=4)
        self.requires_grad_(trainable)

    @property
    def _users(self) -> Users:
        users: Users = vars(self.network).setdefault("users", Users())
        return users

    def state_dict(self, *args: Any, prefix: str = "", **rest: Any) -> Dict[str, Any]:  # type: ignore[override]  # torch has overloads for old calls
        """RETURNS (Dict[str, Any]): The weights in float32, or a fingerprint of them."""
        state: Dict[str, Any] = super().state_dict(*args, prefix=prefix, **rest)
        if self.is_stored or self.is_trained or self.has_changed:
            if self.bilm.precision != "float32":
                state.update((f"{prefix}{NETWORK}{name}", value) for name, value in full_state(self.network).items())
            return state
        for name in [name for name in state if name.startswith(prefix + NETWORK)]:
            del state[name]
        state[prefix + FINGERPRINT] = self._fingerprint()
        return state

    def _load_from_state_dict(self, state_dict: Dict[str, Any], prefix: str, *rest: Any) -> None:
        fingerprint = state_dict.pop(prefix + FINGERPRINT, None)
        if not any(name.startswith(prefix + NETWORK) for name in state_dict):
            if fingerprint is not None:
                self._compare(fingerprint, prefix + FINGERPRINT)
                own = self.network.state_dict()
                state_dict.update((prefix + NETWORK + name, value) for name, value in own.items())
        elif self.bilm.precision != "float32":
            self._load_rounded(state_dict, prefix + NETWORK)
            vars(self.network)[REPLACED] = True
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _load_rounded(self, state_dict: Dict[str, Any], prefix: str) -> None:
        """Load weights into a network in reduced precision, and leave in the state dict what the network now has."""
        precision = self.bilm.precision
        weights = {name[len(prefix) :]: state_dict.pop(name) for name in list(state_dict) if name.startswith(prefix)}
        self.bilm.set_precision("float32")
        try:
            self.network.load_state_dict(weights)
        finally:
            self.bilm.set_precision(precision)
        state_dict.update((prefix + name, value) for name, value in self.network.state_dict().items())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "BiLMModule":
        """What `.to`, `.cuda`, `.half` and others call: the device changes, the type does not."""
        probe = fn(torch.empty(0, dtype=torch.float32, device=self.bilm.device))
        if probe.dtype != torch.float32:
            warnings.warn(Warnings.WL140.format(dtype=str(probe.dtype).removeprefix("torch.")), stacklevel=2)
        if probe.device != self.bilm.device:
            self.bilm.to(probe.device)
        elif probe.dtype == torch.float32:
            super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # torch gives it no types
        return self

    def _fingerprint(self) -> Tensor:
        """RETURNS (Tensor): Shape (L+1, D)."""
        return self.bilm.encode([PROBE]).mean(dim=1)

    def _compare(self, found: Tensor, key: str) -> None:
        own = self._fingerprint()
        problem = ""
        if found.shape != own.shape:
            problem = f"one with {_sizes(found)}, this one has {_sizes(own)}"
        else:
            cosine = float(nn.functional.cosine_similarity(found.to(own), own, dim=1).min())
            if not cosine >= MIN_COSINE:
                problem = f"the layers of a test sentence have a cosine of {cosine:.2f}, should be above {MIN_COSINE}"
        if problem:
            raise ValueError(Errors.EL254.format(problem=problem, key=key))


def _checksums(network: nn.Module) -> List[int]:
    """RETURNS (List[int]): CRC-32 of each tensor; equal on every device."""
    arrays = (tensor.detach().cpu().contiguous().numpy() for tensor in network.state_dict().values())
    return [zlib.crc32(array.data) for array in arrays]


def _sizes(layers: Tensor) -> str:
    return f"{len(layers)} layers of width {layers.shape[-1]}"
