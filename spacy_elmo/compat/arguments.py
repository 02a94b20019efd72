"""Checks of arguments that all replacements share."""

import os
import re
from pathlib import Path
from typing import Any, Iterable, List, Sequence

from .._settings import to_path
from ..errors import Errors
from ..inference.checks import check_sentences
from ..weights.sources import PathLike as PathLike


class ConfigurationError(ValueError):
    """The exception of AllenNLP for invalid settings, here with the code of a message. It is a `ValueError`, too."""


def check_file(name: str, path: Any) -> Path:
    """name (str): Name of the argument.
    path (Any): Its value.
    RETURNS (Path): The path, which exists.
    RAISES (ConfigurationError): EL330 for a URL, EL332 for a value that is not a path, EL333 if nothing is there.
    """
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise ConfigurationError(Errors.EL332.format(name=name, value=repr(path), wanted="the path of a file"))
    check_no_url(name, path)
    found = to_path(path)
    if not found.exists():
        raise ConfigurationError(Errors.EL333.format(name=name, path=found))
    return found


def check_no_url(name: str, path: Any) -> None:
    """RAISES (ConfigurationError): EL330 for a URL."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", str(path)) and not re.match(r"[A-Za-z]:/", str(path)):
        raise ConfigurationError(Errors.EL330.format(name=name, url=path))


def read_sentences(batch: Iterable[Sequence[str]]) -> List[List[str]]:
    """A string is a sentence of characters, as in the original programs. Scripts for Chinese and for proteins pass it.

    batch (Iterable[Sequence[str]]): Tokens of each sentence.
    RETURNS (List[List[str]]): The same in lists.
    RAISES (ValueError): EL011 for other input that is not tokenized, also for a string in place of the batch; for
        what has no sentences at all.
    """
    is_batch = isinstance(batch, Iterable) and not isinstance(batch, str)
    return check_sentences([list(part) if isinstance(part, str) else part for part in batch] if is_batch else batch)


def check_count(name: str, value: Any, least: int = 1) -> int:
    """RETURNS (int): The value.
    RAISES (ConfigurationError): EL332 if it is not a whole number of at least `least`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        wanted = f"a whole number of {least} or more"
        raise ConfigurationError(Errors.EL332.format(name=name, value=repr(value), wanted=wanted))
    return value
