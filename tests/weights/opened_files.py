"""Counts how often files are opened, by Python and by HDF5."""

import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Optional, Tuple

import h5py
import pytest

_opened: Optional[Counter[str]] = None


def _count(event: str, arguments: Tuple[Any, ...]) -> None:
    if event == "open" and _opened is not None and isinstance(arguments[0], str):
        _opened[Path(arguments[0]).name] += 1


sys.addaudithook(_count)


@contextmanager
def count_opened() -> Iterator[Counter[str]]:
    """YIELDS (Counter[str]): Times that a file was opened, by its name."""
    global _opened
    open_hdf5 = h5py.File.__init__

    def opened_by_hdf5(file: h5py.File, name: Any, *args: Any, **settings: Any) -> None:
        if not hasattr(name, "read"):
            _count("open", (str(name),))
        open_hdf5(file, name, *args, **settings)

    _opened = counter = Counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(h5py.File, "__init__", opened_by_hdf5)
        yield counter
    _opened = None
