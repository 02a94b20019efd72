"""The exception of the readers in this folder, and its conversion to an error of this package."""

from contextlib import contextmanager
from typing import Iterator

from ...errors import Errors
from ..limits import shorten


class Damaged(Exception):
    """A file is not what its format says. The message is the reason."""


@contextmanager
def reading(path: object) -> Iterator[None]:
    """path (object): The file that is read.
    RAISES (ValueError): EL320 for `Damaged` inside.
    RAISES (OSError): EL037 if the operating system cannot read it.
    """
    try:
        yield
    except Damaged as error:
        raise ValueError(Errors.EL320.format(path=path, reason=shorten(str(error)))) from error
    except OSError as error:
        raise OSError(Errors.EL037.format(path=path, reason=error.strerror or error)) from error
