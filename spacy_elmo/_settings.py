"""Checks of settings from a file against the fields of a dataclass: names and types; paths of input and output.

The dataclass itself checks ranges.
"""

import os
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from numbers import Integral
from pathlib import Path
from typing import (
    Any,
    Dict,
    Iterator,
    List,
    Mapping,
    Sequence,
    SupportsFloat,
    Tuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from .errors import Errors

SINGULAR = {int: "an integer", float: "a number", bool: "true or false", str: "a string", type(None): "null"}
PLURAL = {int: "integers", float: "numbers", bool: "true or false", str: "strings"}
NO_FIT = object()
FLOAT32_MAX = 3.4028234663852886e38


def is_on(variable: str, *, default: bool) -> bool:
    """variable (str): An environment variable that switches something on ("1") or off ("0").
    default (bool): For other values, or if it is not set.
    RETURNS (bool): Whether it is on.
    """
    return {"0": False, "1": True}.get(os.environ.get(variable, ""), default)


def to_path(path: Union[str, bytes, "os.PathLike[str]"]) -> Path:
    """Every path of a user is read by this function.

    path (Union[str, bytes, os.PathLike[str]]): A path; `~` and `~USER` at its start are home folders, as in a shell.
    RETURNS (Path): The path; unchanged for a user that does not exist.
    """
    return Path(os.path.expanduser(os.fsdecode(path)))


def check_output_folder(path: Path) -> None:
    """path (Path): A folder that exists or can be created.
    RAISES (ValueError): EL178 if it or one of its parents is a file.
    """
    there = next((part for part in (path, *path.parents) if part.exists()), path)
    if there.exists() and not there.is_dir():
        raise ValueError(Errors.EL178.format(path=path, taken=there))


def check_output_file(path: Path, *, force: bool) -> None:
    """path (Path): A file that will be written under a temporary name, then renamed.
    force (bool): Replace an existing file.
    RAISES (ValueError): EL134 if the file exists, EL178 if its parent cannot be a folder; for anything but a regular
        file, since renaming would replace a device or a pipe.
    """
    if path.exists() and not path.is_file():
        raise ValueError(
            f"'{path}' is not a regular file but a device, a pipe or a folder, and cannot be replaced. Choose another "
            "path, or write to a file first."
        )
    if path.exists() and not force:
        raise ValueError(Errors.EL134.format(path=path, remedy="Choose another path, or replace it with --force."))
    check_output_folder(path.parent)


def refuse_unknown(cls: Any, given: Any, block: str, *, root: Any = None, path: str = "") -> None:
    """Check the names of all settings, including those of nested blocks.

    cls (Any): The dataclass.
    given (Any): Its settings; a value that is not a block is left to `fit_types`.
    block (str): Name of the block in the error.
    root (Any): Dataclass of the whole config, searched for misplaced settings; `cls` itself by default.
    path (str): Dotted name of the block in it.
    RAISES (ValueError): EL001 for the first block with unknown names; it suggests similar ones.
    """
    if not isinstance(given, Mapping):
        return
    known = [item.name for item in fields(cls)]
    unknown = sorted(set(given) - set(known))
    if unknown:
        named = [f"{name}{_did_you_mean(name, known, cls if root is None else root)}" for name in unknown]
        raise ValueError(Errors.EL001.format(block=block, unknown=", ".join(named), known=", ".join(known)))
    for name, inner in _blocks(cls):
        below = f"{path}.{name}" if path else name
        refuse_unknown(inner, given.get(name), f"[{below}]", root=cls if root is None else root, path=below)


def fit_types(cls: Any, given: Mapping[str, Any], *, path: str = "") -> Tuple[Dict[str, Any], List[str]]:
    """Convert values to the types of the fields: lists to tuples, 1e3 to an integer; nothing else is changed.

    cls (Any): The dataclass.
    given (Mapping[str, Any]): Its settings, with known names.
    path (str): Dotted name of the block, prefixed to each name.
    RETURNS (Tuple[Dict[str, Any], List[str]]): The settings, with nested blocks as dictionaries, and all type errors.
    """
    hints, settings, problems = get_type_hints(cls), dict(given), []
    inner = dict(_blocks(cls))
    for name, value in given.items():
        below = f"{path}.{name}" if path else name
        if isinstance(value, Mapping) and name in inner:
            settings[name], found = fit_types(inner[name], value, path=below)
            problems += found
        elif name in hints:
            settings[name] = _fit(value, hints[name])
            if settings[name] is NO_FIT:
                problems.append(f"{below} is {value!r}, should be {_describe(hints[name])}")
    return settings, problems


def is_finite(value: Any) -> bool:
    """RETURNS (bool): Whether a value is a number that float32 can hold, neither NaN nor infinite."""
    return isinstance(value, SupportsFloat) and abs(float(value)) <= FLOAT32_MAX


def is_whole(value: Any) -> bool:
    """RETURNS (bool): Whether a value is a whole number, of Python or NumPy; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    """RETURNS (bool): Whether a value is a whole number of 1 or more."""
    return is_whole(value) and value >= 1


def find_no_booleans(**settings: Any) -> List[str]:
    """**settings (Any): Settings that should be True or False, in Python code.
    RETURNS (List[str]): A problem for each that is not.
    """
    found = [(name, value) for name, value in settings.items() if not isinstance(value, bool)]
    return [f"{name} is {value!r}, should be True or False" for name, value in found]


def find_texts(**settings: Any) -> List[str]:
    """**settings (Any): Settings that should be numbers, or null.
    RETURNS (List[str]): A problem for each that is a text: Thinc's type check lets numbers in quotes pass.
    """
    found = [(name, value) for name, value in settings.items() if isinstance(value, str)]
    return [f"{name} is {value!r}, should be a number, without quotes" for name, value in found]


def _blocks(cls: Any) -> Iterator[Tuple[str, Any]]:
    """Fields that are dataclasses themselves."""
    for name, hint in get_type_hints(cls).items():
        found = [part for part in (hint, *get_args(hint)) if isinstance(part, type) and is_dataclass(part)]
        if found:
            yield name, found[0]


def _did_you_mean(name: str, known: Sequence[str], root: Any) -> str:
    close = get_close_matches(name, known, n=1)
    elsewhere = [f"{path}.{name}" if path else name for path, cls in _all_blocks(root) if _has(cls, name)]
    meant = close or elsewhere[:1]
    return f" (did you mean {meant[0]}?)" if meant else ""


def _all_blocks(cls: Any, path: str = "") -> Iterator[Tuple[str, Any]]:
    yield path, cls
    for name, inner in _blocks(cls):
        yield from _all_blocks(inner, f"{path}.{name}" if path else name)


def _has(cls: Any, name: str) -> bool:
    return any(item.name == name for item in fields(cls))


def _fit(value: Any, hint: Any) -> Any:
    """The value converted to the type of the hint, or `NO_FIT`."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin is Union:
        return next((found for part in parts if (found := _fit(value, part)) is not NO_FIT), NO_FIT)
    if origin in (tuple, list):
        return _fit_items(value, origin, parts)
    if hint is int and isinstance(value, float) and value.is_integer():
        return int(value)
    wanted = (int, float) if hint is float else (origin or hint)
    is_fine = isinstance(value, wanted) and (hint is bool or not isinstance(value, bool)) and value == value
    return value if is_fine else NO_FIT


def _fit_items(value: Any, origin: Any, parts: Sequence[Any]) -> Any:
    if not isinstance(value, (list, tuple)):
        return NO_FIT
    hints = [parts[0]] * len(value) if origin is list or parts[-1] is Ellipsis else parts
    items = [_fit(item, hint) for item, hint in zip(value, hints)]
    return origin(items) if len(hints) == len(value) and NO_FIT not in items else NO_FIT


def _describe(hint: Any) -> str:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Union:
        return " or ".join(map(_describe, parts))
    if origin in (tuple, list):
        return f"a list of {_describe_items(parts[0])}"
    return SINGULAR.get(hint, "a block of settings")


def _describe_items(hint: Any) -> str:
    inner = get_args(hint)
    return f"pairs of {PLURAL[inner[0]]}" if inner else PLURAL[hint]
