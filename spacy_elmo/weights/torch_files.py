"""Read state dicts of PyTorch: files of `torch.save`, of any pickle protocol, and safetensors. No code is run.

The operations of a pickle are interpreted on descriptions of their values. Nothing that it names is imported or called,
so a checkpoint may have settings, an optimizer and other objects beside the state dict. Tensors are views of the bytes
of the file, and each must lie within them. `torch.load(weights_only=True)` is not used: it refuses protocols 4 and 5
and all other objects, and in older versions trusts the sizes that a file declares.
"""

import io
import pickletools
import warnings
import zipfile
import zlib
from dataclasses import dataclass
from math import prod
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple, Union

import numpy as np
import torch
from safetensors.torch import load as load_safetensors

from ..util import listed, shorten
from .sources import HEAD_BYTES, MIB, TORCH_MAGIC, ZIP_MAGIC, Source, decoding, kind_of, pickled
from .tensor_map import Array

STATE_KEYS = ("state_dict", "model_state_dict", "model")  # of checkpoints, one in another at most
MAX_NESTED = 2
LEGACY_MAGIC, LEGACY_VERSION = 0x1950A86A20F9469CFC6C, 1001
MAX_PICKLE_BYTES = 16 * MIB
MAX_MEMBERS = 100_000
MAX_OPERATIONS = 1_000_000
MAX_DIMENSIONS = 8
MAX_TENSORS = 20_000

# NumPy's types of the numbers of a storage. It has no bfloat16: the upper half of a float32.
DTYPES: Dict[str, str] = {
    **{"FloatStorage": "f4", "DoubleStorage": "f8", "HalfStorage": "f2", "BFloat16Storage": "u2"},
    **{"LongStorage": "i8", "IntStorage": "i4", "ShortStorage": "i2", "CharStorage": "i1"},
    **{"ByteStorage": "u1", "BoolStorage": "?"},
}
BFLOAT16 = "BFloat16Storage"
STORAGES = {f"{module} {name}": name for module in ("torch", "torch.cuda") for name in DTYPES}
ORDERED_DICT = "collections OrderedDict"
REBUILD_TENSOR = ("torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor")
REBUILD_PARAMETER = ("torch._utils _rebuild_parameter", "torch._utils _rebuild_parameter_with_state")
REBUILD_SUBCLASS = "torch._tensor _rebuild_from_type_v2"

CONSTANTS: Dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
LITERALS = frozenset(
    "BINUNICODE SHORT_BINUNICODE BINUNICODE8 UNICODE BINSTRING SHORT_BINSTRING STRING BINBYTES SHORT_BINBYTES "
    "BINBYTES8 BYTEARRAY8 BININT BININT1 BININT2 INT LONG LONG1 LONG4 BINFLOAT FLOAT".split()
)
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class Refused(Exception):
    """Why a file is not a state dict; the arguments are the problems."""


class Storage(NamedTuple):
    """Numbers in a file: their name in it, how many it declares, and their kind in `DTYPES`."""

    key: str
    n: int
    kind: str

    @property
    def n_bytes(self) -> int:
        """RETURNS (int): Its size."""
        return self.n * np.dtype(DTYPES[self.kind]).itemsize


@dataclass(frozen=True)
class TensorView:
    """A tensor as declared: a view of a storage. Sizes are in numbers, not bytes."""

    storage: Storage
    offset: int
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]

    def to_array(self, content: memoryview, order: str) -> Array:
        """content (memoryview): The numbers of its storage.
        order (str): Their byte order, "<" or ">".
        RETURNS (Array): Of the same shape, not copied; bfloat16 as float32.
        """
        kind = np.dtype(order + DTYPES[self.storage.kind])
        numbers = np.frombuffer(content, dtype=kind)[self.offset :]
        if self.storage.kind == BFLOAT16:
            numbers = (numbers.astype("u4") << 16).view("f4")
        elif not kind.isnative:
            numbers = numbers.astype(kind.newbyteorder("="))
        steps = [stride * numbers.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(numbers, self.shape, steps, writeable=False)


@dataclass(frozen=True)
class Named:
    """What a pickle names, or what a call of it would give."""

    name: str


def read_state_dict(source: Source) -> Dict[str, Array]:
    """Read the tensors of a file.

    source (Source): A file of `torch.save`, or safetensors.
    RETURNS (Dict[str, Array]): Arrays by name; bfloat16 as float32.
    RAISES (ValueError): EL020 and EL022 if it is missing or damaged, if it is no state dict, or declares more
        than it has.
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
    """content (bytes): A file of `torch.save`.
    where (object): Its source, for messages.
    RETURNS (Dict[str, Array]): Arrays by name; bfloat16 as float32. They use the memory of the content.
    RAISES (ValueError): See `read_state_dict`.
    """
    try:
        if content.startswith(ZIP_MAGIC):
            return _read_zip(content)
        if content.startswith(b"\x80") and TORCH_MAGIC in content[:32]:
            return _read_legacy(content)
        problems: Iterable[str] = ["it is not a file of `torch.save`"]
    except Refused as error:
        problems = error.args
    except Exception as error:  # of zipfile and pickletools, which raise many kinds
        problems = [f"it is damaged: {error or type(error).__name__}"]
    found = list(problems)
    raise ValueError(
        f"'{where}' cannot be read as a state dict of PyTorch, it has {len(found)} problem(s):{listed(found)}\n"
        "Only tensors by name are read, at the top or under the key state_dict, model_state_dict or model, and "
        "no code is run. Save `model.state_dict()`, or compare the file with the original."
    )


def _read_zip(content: bytes) -> Dict[str, Array]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
    named = {member.filename: member for member in members}
    pickles = [name for name in named if name.endswith("/data.pkl")]
    problems = _member_problems(members, len(content))
    if len(pickles) != 1 or any(name.endswith("/constants.pkl") for name in named):
        problems.append("it does not have one data.pkl, or has code of TorchScript")
    elif named[pickles[0]].file_size > MAX_PICKLE_BYTES:
        n_bytes = named[pickles[0]].file_size
        problems.append(f"its data.pkl has {n_bytes:,} bytes, should have at most {MAX_PICKLE_BYTES:,}")
    if problems:
        raise Refused(*problems)
    root = pickles[0].removesuffix("data.pkl")
    state = _find_state(_Pickle().value(io.BytesIO(_stored(content, named[pickles[0]]))), len(content))
    storages = {f"{root}data/{view.storage.key}": view.storage for view in state.values()}
    for name, storage in storages.items():
        found = named[name].file_size if name in named else None
        if found != storage.n_bytes:
            held = "is missing" if found is None else f"has {found:,} bytes"
            problems.append(f"storage {storage.key[:40]} {held}, should have {storage.n_bytes:,} bytes")
    if problems:
        raise Refused(*problems)
    is_big = any(_stored(content, named[name]).tobytes() == b"big" for name in named if name == f"{root}byteorder")
    numbers = {storage.key: _stored(content, named[name]) for name, storage in storages.items()}
    return {name: view.to_array(numbers[view.storage.key], "<>"[is_big]) for name, view in state.items()}


def _stored(content: bytes, member: zipfile.ZipInfo) -> memoryview:
    """RETURNS (memoryview): The bytes of a member that is not compressed, not copied."""
    lengths = content[member.header_offset + 26 : member.header_offset + 30]  # of the name, and of what follows it
    start = member.header_offset + 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
    found = memoryview(content)[start : start + member.file_size]
    if len(found) != member.file_size or zlib.crc32(found) != member.CRC:
        raise Refused(f"{shorten(member.filename, 80)} is truncated, or has another checksum than it declares")
    return found


def _member_problems(members: List[zipfile.ZipInfo], n_bytes: int) -> List[str]:
    if len(members) > MAX_MEMBERS or len({member.filename for member in members}) != len(members):
        return ["it has too many members, or several of one name"]
    is_plain = all(member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & 1 for member in members)
    problems = [] if is_plain else ["it has compressed or encrypted members"]
    if sum(member.file_size for member in members) > n_bytes:
        problems.append("its members declare more bytes than it has")
    return problems


def _read_legacy(content: bytes) -> Dict[str, Array]:
    """A file of five pickles, then of each storage its length in 8 bytes and its numbers."""
    pickle, file = _Pickle(), io.BytesIO(content)
    magic, version, _, found, keys = (pickle.value(file) for _ in range(5))
    if magic != LEGACY_MAGIC or version != LEGACY_VERSION or not isinstance(keys, list):
        raise Refused("it is not a file of `torch.save`")
    if sorted(map(str, keys)) != sorted(pickle.storages):
        raise Refused("it lists other storages than its tensors have")
    numbers: Dict[str, memoryview] = {}
    for storage in (pickle.storages[key] for key in keys):
        n, start = int.from_bytes(file.read(8), "little"), file.tell()
        if n != storage.n or start + storage.n_bytes > len(content):
            problem = f"has {n:,} numbers, should have {storage.n:,} within the file"
            raise Refused(f"storage {storage.key[:40]} {problem}")
        numbers[storage.key] = memoryview(content)[start : start + storage.n_bytes]
        file.seek(storage.n_bytes, io.SEEK_CUR)
    state = _find_state(found, len(content))
    return {name: view.to_array(numbers[view.storage.key], "<") for name, view in state.items()}


def _find_state(found: Any, n_bytes: int) -> Dict[str, TensorView]:
    """found (Any): The value of a pickle.
    n_bytes (int): Size of the file.
    RETURNS (Dict[str, TensorView]): The state dict itself; checkpoints of a training have it under a key.
    RAISES (Refused): With all reasons why this is not a state dict that the file can hold.
    """
    for _ in range(MAX_NESTED):
        inner = [found[key] for key in STATE_KEYS if isinstance(found, dict) and isinstance(found.get(key), dict)]
        found = inner[0] if inner else found
    if not isinstance(found, dict) or not found:
        raise Refused(f"it contains {'nothing' if found == {} else _kind(found)} instead of tensors by name")
    if len(found) > MAX_TENSORS:
        raise Refused(f"it has {len(found):,} entries, should have at most {MAX_TENSORS:,}")
    state = {name: view for name, view in found.items() if isinstance(name, str) and isinstance(view, TensorView)}
    others = [name for name in found if name not in state]
    problems = [f"{shorten(str(name), 80)} is {_kind(found[name])}, should be a tensor with a name" for name in others]
    declared = sum(prod(view.shape) * view.storage.n_bytes // max(view.storage.n, 1) for view in state.values())
    if declared > 2 * n_bytes:
        problems.append(f"its tensors declare {declared:,} bytes, but the file has {n_bytes:,}")
    if problems:
        raise Refused(*problems)
    return state


class _Pickle:
    """Interprets pickles on descriptions of their values: plain types, `Storage`, `TensorView` and `Named`.

    storages (Dict[str, Storage]): All storages so far, by key.
    """

    def __init__(self) -> None:
        self.storages: Dict[str, Storage] = {}
        self._n_operations = 0
        self._stack: List[Any] = []
        self._marks: List[int] = []

    def value(self, file: io.BytesIO) -> Any:
        """file (BytesIO): At the start of a pickle; it is left at its end.
        RETURNS (Any): Its value.
        RAISES (Refused): For a pickle that is damaged or too long.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of escapes in a damaged string
            return self._run(file)

    def _run(self, file: io.BytesIO) -> Any:
        stack = self._stack = []
        self._marks = []
        memo: Dict[Any, Any] = {}
        for operation, argument, _ in pickletools.genops(file):
            name = operation.name
            self._n_operations += 1
            if self._n_operations > MAX_OPERATIONS:
                raise Refused(f"it has more than {MAX_OPERATIONS:,} operations")
            if name == "STOP":
                return self._pop()
            if name in LITERALS:
                stack.append(argument)
            elif name in CONSTANTS:
                stack.append(CONSTANTS[name])
            elif name == "MARK":
                self._marks.append(len(stack))
            elif name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
                memo[len(memo) if name == "MEMOIZE" else argument] = self._top()
            elif name in ("GET", "BINGET", "LONG_BINGET"):
                if argument not in memo:
                    raise Refused("it refers to a value that it does not have")
                stack.append(memo[argument])
            elif name not in ("PROTO", "FRAME"):
                self._combine(name, argument)
        raise Refused("it ends early")

    def _combine(self, name: str, argument: Any) -> None:
        """Run an operation that makes a container, or takes values from the stack."""
        stack = self._stack
        if name in ("EMPTY_DICT", "EMPTY_LIST"):
            stack.append({} if name == "EMPTY_DICT" else [])
        elif name == "EMPTY_SET":
            stack.append(Named("builtins set"))
        elif name in TUPLES:
            stack.append(tuple(self._take(TUPLES[name])))
        elif name in ("TUPLE", "LIST", "FROZENSET"):
            items = self._take_marked()
            stack.append(tuple(items) if name == "TUPLE" else items if name == "LIST" else Named("builtins frozenset"))
        elif name == "DICT":
            items = self._take_marked()
            stack.append({})
            self._set_items(items)
        elif name in ("APPEND", "APPENDS", "ADDITEMS"):
            items = self._take(1) if name == "APPEND" else self._take_marked()
            if isinstance(self._top(), list):
                self._top().extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            self._set_items(self._take(2) if name == "SETITEM" else self._take_marked())
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            named = argument if name == "GLOBAL" else " ".join(map(str, self._take(2)))
            stack.append(Named(shorten(str(named), 200)))
        elif name == "BINPERSID":
            stack.append(self._storage(self._pop()))
        elif name in ("REDUCE", "NEWOBJ"):
            arguments = self._pop()
            stack.append(_call(self._pop(), arguments if isinstance(arguments, tuple) else ()))
        elif name == "BUILD":  # attributes of an object, such as `_metadata` of a state dict
            self._take(1)
            self._top()
        elif name == "POP":
            self._pop()
        else:
            raise Refused(f"it has the operation {name}, which checkpoints do not have")

    def _storage(self, identity: Any) -> Union[Storage, Named]:
        parts = identity if isinstance(identity, tuple) else ()
        kind = parts[1] if len(parts) in (5, 6) and parts[0] in ("storage", b"storage") else None
        if not isinstance(kind, Named) or not isinstance(parts[2], str) or any(part is not None for part in parts[5:]):
            raise Refused("it refers to something other than a plain storage of numbers")
        if kind.name not in STORAGES:
            return kind
        (n,) = _sizes((parts[4],))
        storage = Storage(parts[2], n, STORAGES[kind.name])
        if self.storages.setdefault(storage.key, storage) != storage:
            raise Refused(f"it declares the storage {shorten(storage.key, 40)} twice, in different sizes")
        return storage

    def _set_items(self, items: List[Any]) -> None:
        target = self._top()
        if len(items) % 2:
            raise Refused("it has a dictionary with a key without a value")
        if isinstance(target, dict):
            # Other keys than plain values are not compared: a nested tuple may take all of the stack to hash.
            keys = (key if isinstance(key, (str, int, float)) else Named(_kind(key)) for key in items[::2])
            target.update(zip(keys, items[1::2]))

    def _take_marked(self) -> List[Any]:
        if not self._marks:
            raise Refused("it closes a group that it does not open")
        return self._take(len(self._stack) - self._marks.pop())

    def _take(self, n: int) -> List[Any]:
        if not 0 <= n <= len(self._stack):
            raise Refused("it takes a value that it does not have")
        start = len(self._stack) - n
        taken = self._stack[start:]
        del self._stack[start:]
        return taken

    def _top(self) -> Any:
        if not self._stack:
            raise Refused("it takes a value that it does not have")
        return self._stack[-1]

    def _pop(self) -> Any:
        return self._take(1)[0]


def _call(function: Any, arguments: Tuple[Any, ...]) -> Any:
    """RETURNS (Any): What a call gives: a dictionary, a tensor, or an object of which only the name is known."""
    name = function.name if isinstance(function, Named) else ""
    if name == ORDERED_DICT and not arguments:
        return {}
    if name in REBUILD_TENSOR and len(arguments) >= 4:
        return _tensor(*arguments[:4])
    if name in REBUILD_PARAMETER and arguments:
        return arguments[0]
    if name == REBUILD_SUBCLASS and len(arguments) >= 3 and isinstance(arguments[2], tuple):
        return _call(arguments[0], arguments[2])
    return Named(name)


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any) -> Union[TensorView, Named]:
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


def _sizes(values: Iterable[Any]) -> Tuple[int, ...]:
    found = tuple(values)
    if not all(type(value) is int and 0 <= value < 2**62 for value in found):
        raise Refused("it has sizes that are not whole numbers of 0 or more")
    return found


def _kind(value: Any) -> str:
    if isinstance(value, Named):
        return f"an object (it names {shorten(value.name, 80) or 'nothing'})"
    return f"a {'tensor' if isinstance(value, TensorView) else type(value).__name__}"
