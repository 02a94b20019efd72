"""State dicts of PyTorch as arrays by name: files of `torch.save`, old and new, and safetensors. No code is run.

A pickle is read by `torch.load(weights_only=True)`, which knows tensors and plain Python values and nothing else.
"""

import warnings
import zipfile
from pathlib import Path
from typing import IO, Any, Dict, Mapping

import torch
from safetensors.torch import load as load_safetensors
from torch import Tensor

from ...util import listed, shorten
from ..archive import Array, File, check_expansion, decoding, max_expanded, pickled

STATE_KEYS = ("state_dict", "model_state_dict", "model")  # of checkpoints, one in another at most
MAX_NESTED = 2
TORCH_ERROR = "WeightsUnpickler error: "  # precedes the reason in messages of `torch.load`
STATE_DICT = "a state dict of PyTorch"
SAVE = (
    "Only tensors by name are read, at the top or under the key state_dict, model_state_dict or model, and no code is "
    "run. Save `model.state_dict()` with `torch.save`, without other objects, or compare the file with the original"
)


def read_state_dict(source: File) -> Dict[str, Array]:
    """Arrays by name in a file of `torch.save`, or safetensors; bfloat16 as float32.

    RAISES (ValueError): EL022 if it is damaged or not a state dict of tensors, EL036 if a compressed member expands
        too far; for a plain pickle.
    RAISES (OSError): EL037 if the operating system cannot read it.
    """
    kind = source.kind
    if kind == "pickle":
        raise pickled(source, STATE_DICT)
    if kind == "safetensors":
        content = source.read_bytes()
        with decoding(source, "safetensors"):
            return _to_arrays(load_safetensors(content))
    stored, n_bytes = source.path_or_buffer()
    with decoding(source, STATE_DICT, SAVE), stored.open("rb") if isinstance(stored, Path) else stored as file:
        n_expanded = _check_zip(file) if zipfile.is_zipfile(file) else 0
        arrays = _to_arrays(_find_state(_load_pickle(file))) if n_expanded <= max_expanded(n_bytes) else {}
    check_expansion(source, n_expanded, n_bytes)
    return arrays


def _check_zip(file: IO[bytes]) -> int:
    """The bytes to which the members expand. ValueError if a checksum differs, which torch does not compare."""
    with zipfile.ZipFile(file) as archive:
        if (name := archive.testzip()) is not None:
            raise ValueError(f"the checksum of {name} differs")
        return sum(member.file_size for member in archive.infolist())


def _load_pickle(file: IO[bytes]) -> Any:
    file.seek(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, on pickle protocols, before it raises
            return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # many kinds: of pickle, zip and torch
        reason = str(error).partition(TORCH_ERROR)[2] or str(error) or type(error).__name__
        raise ValueError(shorten(reason.strip().partition("\n")[0].partition(" Please use ")[0], 200)) from error


def _find_state(value: Any) -> Mapping[str, Tensor]:
    """The state dict in the value of a pickle; checkpoints of a training have it under a key. ValueError for others."""
    for _ in range(MAX_NESTED):
        inner = [value[key] for key in STATE_KEYS if isinstance(value, Mapping) and isinstance(value.get(key), Mapping)]
        value = inner[0] if inner else value
    if not isinstance(value, Mapping) or not value:
        problems = [f"it contains {type(value).__name__ if value != {} else 'nothing'} instead of tensors by name"]
    else:
        problems = [
            f"{shorten(str(name), 80)} is a {type(item).__name__}, should be a tensor with a name"
            for name, item in value.items()
            if not (isinstance(name, str) and _is_plain(item))
        ]
    if problems:
        raise ValueError(f"it has {len(problems)} problem(s):{listed(problems)}")
    state: Mapping[str, Tensor] = value
    return state


def _is_plain(item: Any) -> bool:
    return isinstance(item, Tensor) and item.layout == torch.strided and not item.is_quantized and not item.is_meta


def _to_arrays(tensors: Mapping[str, Tensor]) -> Dict[str, Array]:
    """NumPy has no bfloat16."""
    return {
        name: (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).detach().numpy()
        for name, tensor in tensors.items()
    }
