"""Scan a pickled state dict of PyTorch symbolically, before `torch.load` reads it: nothing is run or allocated.

`torch.load(weights_only=True)` runs no code either, but it trusts declared sizes: a small file may ask for any memory,
or for numbers beyond its end. Here each tensor must lie within the numbers that the file has.
"""

import pickletools
from dataclasses import dataclass
from math import prod
from typing import Any, Dict, Iterable, List, Tuple

from .limits import shorten

ITEM_BYTES: Dict[str, int] = {
    **{"FloatStorage": 4, "DoubleStorage": 8, "HalfStorage": 2, "BFloat16Storage": 2, "LongStorage": 8},
    **{"IntStorage": 4, "ShortStorage": 2, "CharStorage": 1, "ByteStorage": 1, "BoolStorage": 1},
}
STORAGES = {f"{module} {name}": name for module in ("torch", "torch.cuda") for name in ITEM_BYTES}
ORDERED_DICT = "collections OrderedDict"
# Functions of a state dict, and where their arguments for a storage view begin.
REBUILD = ("torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor")
PARAMETER = "torch._utils _rebuild_parameter"

MAX_OPERATIONS = 1_000_000
MAX_DIMENSIONS = 8
MAX_TENSORS = 20_000

CONSTANTS: Dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
LITERALS = (
    *("BINUNICODE", "SHORT_BINUNICODE", "BINSTRING", "SHORT_BINSTRING"),
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
)
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class Refused(Exception):
    """Why a file is not a plain state dict."""


@dataclass(frozen=True)
class Storage:
    """Numbers in a file.

    key (str): Its name in the file.
    n (int): How many numbers it declares.
    item_bytes (int): Bytes of a number.
    """

    key: str
    n: int
    item_bytes: int

    @property
    def n_bytes(self) -> int:
        """RETURNS (int): Its size."""
        return self.n * self.item_bytes


@dataclass(frozen=True)
class TensorSpec:
    """A tensor as declared: a view of a storage."""

    storage: Storage
    shape: Tuple[int, ...]

    @property
    def n_bytes(self) -> int:
        """RETURNS (int): Its size."""
        return prod(self.shape) * self.storage.item_bytes


@dataclass(frozen=True)
class _Global:
    name: str


class PickleScan:
    """Runs the operations of pickles on descriptions of their values.

    storages (Dict[str, Storage]): All storages so far, by key.
    """

    def __init__(self) -> None:
        self.storages: Dict[str, Storage] = {}
        self._n_operations = 0

    def value(self, file: Any) -> Any:
        """file (Any): A binary file at the start of a pickle, or bytes; it is left at its end.
        RETURNS (Any): Its value: plain types, `TensorSpec`, `Storage`.
        RAISES (Refused): For any operation that a state dict does not have.
        """
        stack: List[Any] = []
        marks: List[int] = []
        memo: Dict[int, Any] = {}
        argument: Any
        for operation, argument, _ in pickletools.genops(file):
            self._n_operations += 1
            if self._n_operations > MAX_OPERATIONS:
                raise Refused(f"it has more than {MAX_OPERATIONS:,} operations")
            name = operation.name
            if name == "STOP":
                return _pop(stack)
            if name in LITERALS:
                stack.append(argument)
            elif name in CONSTANTS:
                stack.append(CONSTANTS[name])
            elif name in ("EMPTY_DICT", "EMPTY_LIST"):
                stack.append({} if name == "EMPTY_DICT" else [])
            elif name == "MARK":
                marks.append(len(stack))
            elif name in ("BINPUT", "LONG_BINPUT"):
                memo[argument] = _top(stack)
            elif name in ("BINGET", "LONG_BINGET"):
                if argument not in memo:
                    raise Refused("it refers to a value that it does not have")
                stack.append(memo[argument])
            elif name == "GLOBAL":
                stack.append(_known(argument))
            elif name != "PROTO":
                self._combine(name, stack, marks)
        raise Refused("it ends early")

    def _combine(self, name: str, stack: List[Any], marks: List[int]) -> None:
        """Run an operation that takes values from the stack."""
        if name in TUPLES:
            stack.append(tuple(_take(stack, len(stack) - TUPLES[name])))
        elif name == "TUPLE":
            stack.append(tuple(_take(stack, _mark(marks))))
        elif name in ("APPEND", "APPENDS"):
            items = _take(stack, len(stack) - 1 if name == "APPEND" else _mark(marks))
            _typed(_top(stack), list, "a list").extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = _take(stack, len(stack) - 2 if name == "SETITEM" else _mark(marks))
            _set_items(_typed(_top(stack), dict, "a dictionary"), items)
        elif name == "BINPERSID":
            stack.append(self._storage(_pop(stack)))
        elif name == "REDUCE":
            arguments = _typed(_pop(stack), tuple, "a tuple")
            stack.append(_call(_pop(stack), arguments))
        elif name == "BUILD":  # `_metadata` of a state dict
            _typed(_pop(stack), dict, "a dictionary")
            _typed(_top(stack), dict, "a dictionary")
        else:
            raise Refused(f"it has the operation {name}, which no state dict has")

    def _storage(self, identity: Any) -> Storage:
        parts = _typed(identity, tuple, "a tuple")
        is_storage = len(parts) in (5, 6) and parts[0] in ("storage", b"storage") and isinstance(parts[1], _Global)
        if not is_storage or parts[1].name not in STORAGES or not isinstance(parts[2], str) or any(parts[5:]):
            raise Refused("it refers to something other than a plain storage of numbers")
        n = _sizes((parts[4],))[0]
        storage = Storage(parts[2], n, ITEM_BYTES[STORAGES[parts[1].name]])
        if self.storages.setdefault(storage.key, storage) != storage:
            raise Refused(f"it declares the storage {shorten(storage.key, 40)} twice, in different sizes")
        return storage


def inner_state(found: Any) -> Any:
    """RETURNS (Any): The state dict; in a checkpoint of a training it is under "model"."""
    if isinstance(found, dict) and isinstance(found.get("model"), dict):
        return found["model"]
    return found


def find_problems(found: Any, n_bytes: int) -> List[str]:
    """found (Any): From `PickleScan.value`.
    n_bytes (int): Size of the file.
    RETURNS (List[str]): Why it is not a state dict that the file can hold.
    """
    state = inner_state(found)
    if not isinstance(state, dict) or not state:
        return [f"it contains {'nothing' if state == {} else _kind(state)} instead of tensors by name"]
    if len(state) > MAX_TENSORS:
        return [f"it has {len(state):,} entries, should have at most {MAX_TENSORS:,}"]
    others = [name for name, value in state.items() if not isinstance(value, TensorSpec)]
    problems = [f"{shorten(str(name), 80)} is {_kind(state[name])}, should be a tensor" for name in others]
    declared = sum(value.n_bytes for value in state.values() if isinstance(value, TensorSpec))
    if declared > 2 * n_bytes:
        problems.append(f"its tensors declare {declared:,} bytes, but the file has {n_bytes:,}")
    return problems


def _known(argument: Any) -> _Global:
    name = str(argument)
    if name not in (ORDERED_DICT, PARAMETER, *REBUILD, *STORAGES):
        raise Refused(f"it names {shorten(name, 80)}, which is not part of a state dict")
    return _Global(name)


def _call(function: Any, arguments: Tuple[Any, ...]) -> Any:
    name = function.name if isinstance(function, _Global) else ""
    if name == ORDERED_DICT and not arguments:
        return {}
    if name in REBUILD and len(arguments) >= 4:
        return _tensor(*arguments[:4])
    if name == PARAMETER and arguments and isinstance(arguments[0], TensorSpec):
        return arguments[0]
    raise Refused("it calls something that is not part of a state dict")


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any) -> TensorSpec:
    numbers = _typed(storage, Storage, "a storage")
    sizes, steps = (_sizes(_typed(part, tuple, "a tuple")) for part in (shape, strides))
    (first,) = _sizes((offset,))
    if len(sizes) != len(steps) or len(sizes) > MAX_DIMENSIONS:
        raise Refused(f"a tensor has {len(sizes)} sizes and {len(steps)} strides")
    last = first + sum((size - 1) * step for size, step in zip(sizes, steps)) if prod(sizes) else 0
    if last >= max(numbers.n, 1) or prod(sizes) > numbers.n:
        raise Refused(f"a tensor of {shorten(str(list(sizes)), 80)} does not lie within its {numbers.n:,} numbers")
    return TensorSpec(numbers, sizes)


def _sizes(values: Iterable[Any]) -> Tuple[int, ...]:
    found = tuple(values)
    if not all(type(value) is int and 0 <= value < 2**62 for value in found):
        raise Refused("it has sizes that are not whole numbers of 0 or more")
    return found


def _set_items(target: Dict[Any, Any], items: List[Any]) -> None:
    if len(items) % 2 or not all(isinstance(key, (str, bytes)) for key in items[::2]):
        raise Refused("it has a dictionary whose keys are not strings")
    target.update(zip(items[::2], items[1::2]))


def _typed(value: Any, wanted: type, kind: str) -> Any:
    if not isinstance(value, wanted):
        raise Refused(f"it has {_kind(value)} where {kind} should be")
    return value


def _kind(value: Any) -> str:
    return f"a {type(value).__name__.lstrip('_')}"


def _mark(marks: List[int]) -> int:
    if not marks:
        raise Refused("it closes a group that it does not open")
    return marks.pop()


def _take(stack: List[Any], start: int) -> List[Any]:
    if not 0 <= start <= len(stack):
        raise Refused("it takes a value that it does not have")
    taken = stack[start:]
    del stack[start:]
    return taken


def _top(stack: List[Any]) -> Any:
    return _take(stack[-1:], 0)[0] if stack else _take(stack, -1)


def _pop(stack: List[Any]) -> Any:
    return _take(stack, len(stack) - 1)[0]
