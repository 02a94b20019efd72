"""Scripts of the repository as modules: they import each other by bare name."""

import sys
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest


@contextmanager
def scripts_of(*folders: Path) -> Iterator[Callable[[str], Any]]:
    """YIELDS (Callable): Imports a script of the folders by its name, which ends with the context."""
    names = {path.stem for folder in folders for path in folder.glob("*.py")}
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    with pytest.MonkeyPatch.context() as patch:
        for folder in folders:
            patch.syspath_prepend(str(folder))
        yield import_module
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(before)
