"""State dicts saved by `torch.save`, to arrays.

`torch.load(weights_only=True)` runs no code, but it allocates what a file declares, and knows types that a state dict
does not need. So the opcodes of the pickle are read first, and only names of tensors and storages are accepted.
"""

import io
import pickletools
import warnings
import zipfile
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from ...errors import Errors
from ..limits import expanded_limit, listed, shorten
from ..sources import decoding
from ..tensor_map import Array

ZIP_MAGIC = b"PK\x03\x04"
KIND = "a state dict of PyTorch"
MAX_NAMES = 100_000  # tensors, and members of a zip
LEGACY_PICKLES = 5  # magic number, protocol, system, the state dict, keys of its storages
MAGIC_NUMBER = 0x1950A86A20F9469CFC6C  # of the older form
MIN_BYTES = 2**16  # integers up to here need no check: sizes of types, numbers of versions
REFUSED = ("STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4", "BYTEARRAY8", "NEXT_BUFFER")
ALLOWED = {
    ("collections", "OrderedDict"),
    ("torch._utils", "_rebuild_tensor"),
    ("torch._utils", "_rebuild_tensor_v2"),
    ("torch._utils", "_rebuild_parameter"),
    ("torch.nn.parameter", "Parameter"),
    ("torch", "Size"),
}
STORAGES = "Double Float Half BFloat16 Long Int Short Char Byte Bool".split()
ALLOWED |= {(module, f"{kind}Storage") for module in ("torch", "torch.cuda") for kind in STORAGES}


def read_state_dict(content: bytes, where: str) -> Dict[str, Tensor]:
    """Read the tensors of a state dict, in a zip (since PyTorch 1.6) or in the older form.

    content (bytes): A file of `torch.save`.
    where (str): Its source, for messages.
    RETURNS (Dict[str, Tensor]): On the CPU, by name.
    RAISES (ValueError): EL022 if it cannot be decoded, EL315 for anything but a dictionary of tensors, or declared
        sizes that the file cannot have.
    """
    with decoding(where, KIND):
        problems = list(_pickle_problems(content))
    _refuse(problems, where)
    with decoding(where, KIND), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, on old storages
        found: Any = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    found = _inner_state(found)
    _refuse(list(_tensor_problems(found, len(content))), where)
    return dict(found)


def to_float_arrays(tensors: Mapping[str, Tensor]) -> Dict[str, Array]:
    """RETURNS (Dict[str, Array]): In NumPy; bfloat16, which NumPy does not have, as float32."""
    return {
        name: (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).detach().numpy()
        for name, tensor in tensors.items()
    }


class _Pickles(NamedTuple):
    """The pickles of a file."""

    content: bytes
    n: int
    n_bytes: int  # of the tensors


def _pickle_problems(content: bytes) -> Iterator[str]:
    pickles, problem = _find_pickles(content)
    if problem or pickles is None:
        yield problem
        return
    stream = io.BytesIO(pickles.content)
    for _ in range(pickles.n):
        yield from _opcode_problems(stream, pickles.n_bytes)


def _find_pickles(content: bytes) -> Tuple[Optional[_Pickles], str]:
    """The pickles, or the reason why there are none."""
    if not content.startswith(ZIP_MAGIC):
        return _Pickles(content, LEGACY_PICKLES, len(content)), ""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        names = [member.filename for member in members]
        pickles = [name for name in names if name.endswith("/data.pkl")]
        n_bytes = sum(member.file_size for member in members)
        if len(names) > MAX_NAMES or len(set(names)) < len(names) or len(pickles) != 1:
            return None, "its zip has repeated names, too many of them, or not one data.pkl"
        if any(member.compress_type != zipfile.ZIP_STORED for member in members) or n_bytes > len(content):
            return None, "its zip is compressed, which `torch.save` does not do"
        return _Pickles(archive.read(pickles[0]), 1, n_bytes), ""


def _opcode_problems(stream: io.BytesIO, n_bytes: int) -> Iterator[str]:
    """Names that a state dict does not need, and integers that are larger than the file."""
    for opcode, argument, _ in pickletools.genops(stream):
        if opcode.name == "GLOBAL" and tuple(str(argument).split(" ", 1)) not in ALLOWED:
            yield f"it names {shorten(str(argument).replace(' ', '.'), 80)}, which is not part of a tensor"
        elif opcode.name in REFUSED:
            yield f"its pickle has the opcode {opcode.name}, which `torch.save` does not write"
        elif type(argument) is int and MAGIC_NUMBER != argument > max(n_bytes, MIN_BYTES):
            yield f"it declares a size of {shorten(str(argument), 40)} in a file of {n_bytes:,} bytes"


def _inner_state(found: Any) -> Any:
    """A checkpoint of a training has the state dict under "model"."""
    if isinstance(found, Mapping) and isinstance(found.get("model"), Mapping):
        return found["model"]
    return found


def _tensor_problems(found: Any, n_bytes: int) -> Iterator[str]:
    if not isinstance(found, Mapping):
        yield f"it contains a {type(found).__name__}, not a dictionary of tensors"
        return
    total = 0
    for name, tensor in found.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            yield f"{shorten(repr(name), 80)} is a {type(tensor).__name__}, should be a tensor"
        elif tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
            yield f"{shorten(name, 80)} is no plain tensor"
        else:
            total += tensor.numel() * tensor.element_size()
    if total > expanded_limit(n_bytes):
        yield f"its tensors declare {total:,} bytes, but it has {n_bytes:,}"


def _refuse(problems: List[str], where: str) -> None:
    if problems:
        raise ValueError(Errors.EL315.format(path=where, n_problems=len(problems), problems=listed(problems)))
