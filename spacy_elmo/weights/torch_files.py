"""Read state dicts of PyTorch: files of `torch.save`, of any pickle protocol, and safetensors. No code is run.

Whatever a pickle names becomes a description: tensors are views of the bytes of the file, within which each must lie,
and all else is only its name. So a checkpoint may have settings, an optimizer and other objects beside the state dict.
`torch.load(weights_only=True)` raises for these and for protocols 4 and 5. In the old format, in which AllenNLP and
ELMoForManyLangs published, it allocates what a file declares: 349 bytes may declare 40 GB (torch 2.13).
"""

import io
import pickle
import warnings
import zipfile
import zlib
from dataclasses import dataclass
from math import prod
from typing import Any, Callable, ClassVar, Dict, Iterable, List, NamedTuple, Optional, Tuple, Union

import numpy as np
import torch
from safetensors.torch import load as load_safetensors

from ..util import listed, shorten
from .files import HEAD_BYTES, MIB, TORCH_MAGIC, ZIP_MAGIC, Array, File, decoding, kind_of, pickled

STATE_KEYS = ("state_dict", "model_state_dict", "model")  # of checkpoints, one in another at most
MAX_NESTED = 2
LEGACY_MAGIC, LEGACY_VERSION = 0x1950A86A20F9469CFC6C, 1001
MAX_PICKLE_BYTES = 4 * MIB  # in memory up to 64 times as much
MAX_DIMENSIONS = 8

# NumPy's types of the numbers of a storage. It has no bfloat16: the upper half of a float32.
DTYPES: Dict[str, str] = {
    **{"FloatStorage": "f4", "DoubleStorage": "f8", "HalfStorage": "f2", "BFloat16Storage": "u2"},
    **{"LongStorage": "i8", "IntStorage": "i4", "ShortStorage": "i2", "CharStorage": "i1"},
    **{"ByteStorage": "u1", "BoolStorage": "?"},
}


class Refused(Exception):
    """Why a file is not a state dict; the arguments are the problems."""


class Storage(NamedTuple):
    """Numbers in a file: their name in it, how many it declares, and their kind in `DTYPES`."""

    key: str
    n: int
    kind: str

    @property
    def n_bytes(self) -> int:
        return self.n * np.dtype(DTYPES[self.kind]).itemsize


@dataclass(frozen=True)
class TensorView:
    """A tensor as declared: a view of a storage. Sizes are in numbers, not bytes."""

    storage: Storage
    offset: int
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]

    def to_array(self, content: memoryview, order: str) -> Array:
        """An array of the same shape from the numbers of the storage, in their byte order, "<" or ">"; not copied,
        bfloat16 as float32.
        """
        kind = np.dtype(order + DTYPES[self.storage.kind])
        numbers = np.frombuffer(content, dtype=kind)[self.offset :]
        if self.storage.kind == "BFloat16Storage":
            numbers = (numbers.astype("u4") << 16).view("f4")
        elif not kind.isnative:
            numbers = numbers.astype(kind.newbyteorder("="))
        steps = [stride * numbers.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(numbers, self.shape, steps, writeable=False)


class Named:
    """What a pickle names, or what a call of it would give."""

    def __init__(self, name: str, build: Optional[Callable[..., Any]] = None) -> None:
        self.name, self._build = name, build

    def __call__(self, *args: Any) -> Any:
        return Named(self.name) if self._build is None else self._build(*args)

    def append(self, item: Any) -> None:
        """What is added to a container is not kept."""


def read_state_dict(source: File) -> Dict[str, Array]:
    """Arrays by name in a file of `torch.save`, or safetensors; bfloat16 as float32.

    RAISES (ValueError): If it is missing, damaged or no state dict, or declares more than it has.
    RAISES (OSError): EL037 if the operating system cannot read it.
    """
    content = source.read_bytes()
    kind = kind_of(content[:HEAD_BYTES])
    if kind == "pickle":
        raise pickled(source, "a state dict of PyTorch")
    if kind != "safetensors":
        return read_tensors(content, source)
    with decoding(source, "safetensors"):
        tensors = load_safetensors(content)
        return {
            name: (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
            for name, tensor in tensors.items()
        }


def read_tensors(content: bytes, where: object) -> Dict[str, Array]:
    """The same as `read_state_dict`, from the content of a file of `torch.save`, whose memory the arrays use."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of escapes in a damaged string
            if content.startswith(ZIP_MAGIC):
                return _read_zip(content)
            if content.startswith(b"\x80") and TORCH_MAGIC in content[:32]:
                return _read_legacy(content)
        problems: Iterable[str] = ["it is not a file of `torch.save`"]
    except Refused as error:
        problems = error.args
    except Exception as error:  # of zipfile and pickle, which raise many kinds
        problems = [f"it is damaged: {shorten(str(error)) or type(error).__name__}"]
    reasons = list(problems)
    raise ValueError(
        f"'{where}' cannot be read as a state dict of PyTorch, it has {len(reasons)} problem(s):{listed(reasons)}\n"
        "Only tensors by name are read, at the top or under the key state_dict, model_state_dict or model, and "
        "no code is run. Save `model.state_dict()`, or compare the file with the original."
    )


def _read_zip(content: bytes) -> Dict[str, Array]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {member.filename: member for member in archive.infolist()}
        if sum(member.file_size for member in archive.infolist()) > len(content):
            raise Refused("its members declare more bytes than it has")
        pickles = [name for name in members if name.endswith("/data.pkl")]
        if len(pickles) != 1 or any(name.endswith("/constants.pkl") for name in members):
            raise Refused("it does not have one data.pkl, or has code of TorchScript")
        if members[pickles[0]].file_size > MAX_PICKLE_BYTES:
            n_bytes = members[pickles[0]].file_size
            raise Refused(f"its data.pkl has {n_bytes:,} bytes, should have at most {MAX_PICKLE_BYTES:,}")
        root = pickles[0].removesuffix("data.pkl")
        state = _find_state(_Unpickler(archive.read(pickles[0])).load(), len(content))
        storages = {f"{root}data/{view.storage.key}": view.storage for view in state.values()}
        sizes = {name: members[name].file_size if name in members else None for name in storages}
        problems = [
            f"storage {storage.key[:40]} has {sizes[name] or 0:,} bytes, should have {storage.n_bytes:,}"
            for name, storage in storages.items()
            if sizes[name] != storage.n_bytes
        ]
        if problems:
            raise Refused(*problems)
        is_big = f"{root}byteorder" in members and archive.read(f"{root}byteorder") == b"big"
    numbers = {storage.key: _stored(content, members[name]) for name, storage in storages.items()}
    return {name: view.to_array(numbers[view.storage.key], "<>"[is_big]) for name, view in state.items()}


def _stored(content: bytes, member: zipfile.ZipInfo) -> memoryview:
    """The bytes of a member, not copied as `zipfile` would. `torch.save` does not compress."""
    lengths = content[member.header_offset + 26 : member.header_offset + 30]  # of the name, and of what follows it
    start = member.header_offset + 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
    numbers = memoryview(content)[start : start + member.file_size]
    if member.compress_type != zipfile.ZIP_STORED or zlib.crc32(numbers) != member.CRC:
        raise Refused(f"{shorten(member.filename, 80)} is compressed, truncated or has another checksum")
    return numbers


def _read_legacy(content: bytes) -> Dict[str, Array]:
    """A file of five pickles, then of each storage its length in 8 bytes and its numbers."""
    reader = _Unpickler(content[:MAX_PICKLE_BYTES])
    magic, version, _, value, keys = (reader.load() for _ in range(5))
    if magic != LEGACY_MAGIC or version != LEGACY_VERSION or not isinstance(keys, list):
        raise Refused("it is not a file of `torch.save`")
    if sorted(map(str, keys)) != sorted(reader.storages):
        raise Refused("it lists other storages than its tensors have")
    numbers: Dict[str, memoryview] = {}
    start = reader.file.tell()
    for storage in (reader.storages[key] for key in keys):
        n, start = int.from_bytes(content[start : start + 8], "little"), start + 8
        if n != storage.n or start + storage.n_bytes > len(content):
            problem = f"has {n:,} numbers, should have {storage.n:,} within the file"
            raise Refused(f"storage {storage.key[:40]} {problem}")
        numbers[storage.key] = memoryview(content)[start : start + storage.n_bytes]
        start += storage.n_bytes
    state = _find_state(value, len(content))
    return {name: view.to_array(numbers[view.storage.key], "<") for name, view in state.items()}


def _find_state(value: Any, n_bytes: int) -> Dict[str, TensorView]:
    """The state dict in the value of a pickle; checkpoints of a training have it under a key. Refused with all reasons
    why this is not a state dict that a file of `n_bytes` can hold.
    """
    for _ in range(MAX_NESTED):
        inner = [value[key] for key in STATE_KEYS if isinstance(value, dict) and isinstance(value.get(key), dict)]
        value = inner[0] if inner else value
    if not isinstance(value, dict) or not value:
        raise Refused(f"it contains {'nothing' if value == {} else _kind(value)} instead of tensors by name")
    state = {name: view for name, view in value.items() if isinstance(name, str) and isinstance(view, TensorView)}
    misfits = [name for name in value if name not in state]
    problems = [f"{shorten(str(name), 80)} is {_kind(value[name])}, should be a tensor with a name" for name in misfits]
    declared = sum(prod(view.shape) * view.storage.n_bytes // max(view.storage.n, 1) for view in state.values())
    if declared > 2 * n_bytes:
        problems.append(f"its tensors declare {declared:,} bytes, but the file has {n_bytes:,}")
    if problems:
        raise Refused(*problems)
    return state


class _Unpickler(pickle._Unpickler):
    """Reads pickles into plain types, `Storage`, `TensorView` and `Named`: nothing that they name is imported. Each
    call of `load` reads the next pickle in `content`.

    The Unpickler in Python, since that in C takes memory for what a file declares.
    """

    stack: List[Any]
    memo: Dict[int, Any]
    pop_mark: Callable[[], List[Any]]
    dispatch: ClassVar[Dict[int, Any]] = dict(pickle._Unpickler.dispatch)
    for changed, same_as in {
        pickle.NEWOBJ: pickle.REDUCE,
        pickle.BUILD: pickle.POP,  # attributes, such as `_metadata` of a state dict
        pickle.BYTEARRAY8: pickle.BINBYTES8,  # not allocated before it is read
        # Sets become lists, since their values are not compared, see `_set`.
        pickle.EMPTY_SET: pickle.EMPTY_LIST,
        pickle.ADDITEMS: pickle.APPENDS,
        pickle.FROZENSET: pickle.LIST,
    }.items():
        dispatch[changed[0]] = dispatch[same_as[0]]
    for refused in (pickle.INST, pickle.OBJ, pickle.DICT, pickle.NEWOBJ_EX, pickle.EXT1, pickle.EXT2, pickle.EXT4):
        del dispatch[refused[0]]  # not in checkpoints, and could give other objects

    def __init__(self, content: bytes) -> None:
        self.file = io.BytesIO(content)
        super().__init__(self.file, encoding="latin1")
        self.storages: Dict[str, Storage] = {}

    def load(self) -> Any:
        """The value of the next pickle, which does not refer to earlier pickles."""
        self.memo = {}
        return super().load()

    def find_class(self, module: str, name: str) -> Named:
        full = shorten(f"{module} {name}", 200)
        return Named(full, BUILDERS.get(full))

    def persistent_load(self, pid: Any) -> Union[Storage, Named]:
        fields = pid if isinstance(pid, tuple) else ()
        kind = fields[1] if len(fields) in (5, 6) and fields[0] in ("storage", b"storage") else None
        if (
            not isinstance(kind, Named)
            or not isinstance(fields[2], str)
            or any(field is not None for field in fields[5:])
        ):
            raise Refused("it refers to something other than a plain storage of numbers")
        module, _, name = kind.name.partition(" ")
        if module not in ("torch", "torch.cuda") or name not in DTYPES:
            return kind
        (n,) = _sizes((fields[4],))
        storage = Storage(fields[2], n, name)
        if self.storages.setdefault(storage.key, storage) != storage:
            raise Refused(f"it declares the storage {shorten(storage.key, 40)} twice, in different sizes")
        return storage

    def _set(self, items: List[Any]) -> None:
        """Other keys than plain values are not compared: a nested tuple may take all of the stack to hash."""
        target = self.stack[-1]
        if isinstance(target, dict):
            keys = (key if isinstance(key, (str, bytes, int, float)) else _kind(key) for key in items[::2])
            target.update(zip(keys, items[1::2]))

    def _set_one(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set([key, value])

    def _set_all(self) -> None:
        items = self.pop_mark()
        self._set(items)

    dispatch.update({pickle.SETITEM[0]: _set_one, pickle.SETITEMS[0]: _set_all})


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> Union[TensorView, Named]:
    if isinstance(storage, Named):
        return storage
    if not isinstance(storage, Storage) or not isinstance(shape, tuple) or not isinstance(strides, tuple):
        raise Refused("it has a tensor without a storage, a shape or strides")
    sizes, steps, (first,) = _sizes(shape), _sizes(strides), _sizes((offset,))
    if len(sizes) != len(steps) or len(sizes) > MAX_DIMENSIONS:
        raise Refused(f"a tensor has {len(sizes)} sizes and {len(steps)} strides")
    last = first + sum((size - 1) * step for size, step in zip(sizes, steps)) if prod(sizes) else 0
    if last >= max(storage.n, 1) or prod(sizes) > storage.n:
        raise Refused(f"a tensor of {shorten(str(list(sizes)), 80)} does not lie within its {storage.n:,} numbers")
    return TensorView(storage, first, sizes, steps)


# What the pickle of a state dict calls.
BUILDERS: Dict[str, Callable[..., Any]] = {
    "collections OrderedDict": lambda *items: {} if not items else Named("collections OrderedDict"),
    **dict.fromkeys(("torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor"), _tensor),
    **dict.fromkeys(
        ("torch._utils _rebuild_parameter", "torch._utils _rebuild_parameter_with_state"), lambda tensor, *_: tensor
    ),
    "torch._tensor _rebuild_from_type_v2": lambda build, kind, arguments, *_: build(*arguments),
}


def _sizes(values: Iterable[Any]) -> Tuple[int, ...]:
    sizes = tuple(values)
    if not all(type(value) is int and 0 <= value < 2**62 for value in sizes):
        raise Refused("it has sizes that are not whole numbers of 0 or more")
    return sizes


def _kind(value: Any) -> str:
    if isinstance(value, Named):
        return f"an object (it names {shorten(value.name, 80) or 'nothing'})"
    return f"a {'tensor' if isinstance(value, TensorView) else type(value).__name__}"
