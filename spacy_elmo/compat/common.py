"""What all replacements share: checks of arguments, values derived from weights, files of vectors."""

import os
import re
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Dict, Generic, Iterable, Iterator, List, Optional, Sequence, Tuple, TypeVar

import h5py
import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from ..bilm.state import BiLMState
from ..errors import Warnings
from ..files import AnyPath, atomic_file, check_not_read, check_space, to_path
from ..inference.bilm import check_sentences
from ..inference.limits import MAX_LANES
from ..inference.runner import Runner
from ..inference.word_encoder import WeightVersions
from ..settings import check_record, list_problems
from ..text.lanes import plan_lanes
from ..util import shorten
from ..weights.archive import PathLike as PathLike
from ..weights.published import list_published

T = TypeVar("T")


class ConfigurationError(ValueError):
    """The exception of AllenNLP for invalid settings, here a `ValueError`, too."""


def add_submodules(package: str, names: Dict[str, Any], paths: Sequence[str]) -> None:
    """Make names importable from submodules, as from the original, so that replacing a prefix is enough.

    package (str): Name of an imported module.
    names (Dict[str, Any]): The names.
    paths (Sequence[str]): Submodules below the package, parents first: "modules", "modules.elmo".
    """
    for name in (package, *(f"{package}.{path}" for path in paths)):
        module = sys.modules.setdefault(name, ModuleType(name, f"Names of `{package}`."))
        module.__dict__.setdefault("__path__", [])  # of a module that has submodules
        if name != package:
            module.__dict__.update(names)
            parent, _, last = name.rpartition(".")
            setattr(sys.modules[parent], last, module)


def invalid(name: str, value: Any, expected: str) -> ConfigurationError:
    return ConfigurationError(f"Invalid argument: {name} is {value}, but should be {expected}.")


def check_file(name: str, path: Any) -> Path:
    """The path of an argument, which exists. ConfigurationError for a URL, and for everything that is not there."""
    check_no_url(name, path)
    existing = to_path(path) if isinstance(path, (str, bytes, os.PathLike)) else None
    if existing is None or not existing.exists():
        raise ConfigurationError(
            f"There is no {name} at '{existing or path}'. Check the path, or download a published biLM: "
            f"`{_download()}`."
        )
    return existing


def check_no_url(name: str, path: Any) -> None:
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", str(path)) and not re.match(r"[A-Za-z]:/", str(path)):
        raise ConfigurationError(
            f"The {name} is '{path}', which is an address on the web, but should be the path of a file. Nothing is "
            f"downloaded at run time. Download it once, with a browser or `{_download(str(path))}`, and pass its path; "
            "`python -m spacy elmo download --list` shows the names."
        )


def _download(address: str = "") -> str:
    """The command that downloads the biLM at this address, if it is published, else AllenNLP's."""
    known = (model.name for model in list_published() for file in model.files if address.endswith(f"/{file.path}"))
    return f"python -m spacy elmo download {next(known, 'original')} --dest elmo"


def read_sentences(batch: Iterable[Sequence[str]]) -> List[List[str]]:
    """The tokens of each sentence in lists. A string is a sentence of characters, as in the original programs. Scripts
    for Chinese and for proteins pass it.

    RAISES (ValueError): EL011 for other input that is not tokenized, also for a string in place of the batch; for what
        has no sentences at all.
    """
    is_batch = isinstance(batch, Iterable) and not isinstance(batch, str)
    return check_sentences(
        [list(sentence) if isinstance(sentence, str) else sentence for sentence in batch] if is_batch else batch
    )


def check_argument(name: str, value: Any, kind: Any) -> Any:
    """The value of an argument. ConfigurationError if it is not of the type `kind`, see `check_record`."""
    checked, problems = check_record(kind, value)
    if problems:
        raise ConfigurationError(f"Invalid argument: {name} {list_problems(problems)}.")
    return checked


class DerivingModule(nn.Module):
    """A module that holds values derived from its weights, or whose parts do."""

    def clear_caches(self) -> None:
        """Discard everything derived from the weights. Needed only after writes that torch does not count, see
        `BiLM.clear_caches`.
        """
        for module in self.modules():
            derived = getattr(module, "_derived", None)
            if isinstance(derived, Derived):
                derived.clear()

    def warn_of_hooks(self) -> None:
        """WL143 if modules inside have hooks: their weights are read, but they are not called. Hooks of
        `torch.nn.utils` have their effect, see `current_weights`.
        """
        inner = [(name, module) for name, module in self.named_modules() if name]
        hooks = ((name, hook) for name, module in inner for hook in _forward_hooks(module) if not _sets_weight(hook))
        names = ", ".join(dict.fromkeys(name for name, _ in hooks))
        if names:
            warnings.warn(Warnings.WL143.format(owner=type(self).__name__, names=shorten(names)), stacklevel=3)


def _forward_hooks(module: nn.Module) -> List[Any]:
    return [*module._forward_pre_hooks.values(), *module._forward_hooks.values()]


def _sets_weight(hook: Any) -> bool:
    return type(hook).__module__.startswith("torch.nn.utils.")


class Derived(Generic[T]):
    """Holds one value. A copy and a pickle of a module have no value."""

    def __init__(self) -> None:
        self._value: Optional[T] = None
        self._versions: Optional[WeightVersions] = None

    def get(self, module: nn.Module, derive: Callable[[], T]) -> T:
        """The value for the current weights of a module, computed by `derive` if they have changed."""
        if self._value is None or self._versions is None or self._versions.have_changed(module):
            self._value, self._versions = derive(), WeightVersions(module)
        return self._value

    def clear(self) -> None:
        self._value = self._versions = None

    def __deepcopy__(self, memo: Any) -> "Derived[T]":
        return Derived()

    def __reduce__(self) -> Tuple[Any, ...]:
        return Derived, ()


def current_weights(module: nn.Module, names: Sequence[str]) -> Dict[str, Tensor]:
    """Read weights by their dotted names in a module as a forward pass would, attached to the graph. They are
    parameters, or are computed from parameters by `torch.nn.utils` (`prune`, `parametrize`, `weight_norm`), or belong
    to a replica of `nn.DataParallel`.
    """
    weights: Dict[str, Tensor] = {}
    for name in names:
        *path, last = name.split(".")
        owner: Any = module
        for attribute in path:
            owner = owner._modules[attribute]
        for hook in owner._forward_pre_hooks.values():
            if _sets_weight(hook):
                hook(owner, ())  # sets the attribute anew
        weights[name] = getattr(owner, last)
    return weights


def are_parameters(weights: Sequence[Tensor]) -> bool:
    """Whether all are parameters, so that what is derived from them can be stored until they change."""
    return all(isinstance(weight, nn.Parameter) for weight in weights)


def run_sequences(
    runner: Runner, vectors: Tensor, tokens: NDArray[np.int64], lengths: Sequence[int], start: BiLMState
) -> Tuple[Tensor, BiLMState]:
    """The layers (L+1, N, D) of sequences with these lengths, from the vectors (U, P) of distinct words and the word of
    each token (N,), and the states at their ends; `start` has a row for each sequence.
    """
    plan, state = plan_lanes(lengths, MAX_LANES), start.to_state(runner.config)
    rows, end = runner.run(vectors, (tokens, tokens), plan, state, with_end=True)
    return rows, BiLMState.from_state(end)


@contextmanager
def new_hdf5(path: PathLike, sources: Iterable[AnyPath]) -> Iterator[h5py.File]:
    """An empty HDF5 file, open for writing. A file at `path` is replaced, as in the original programs, once the new one
    is complete. ValueError for a URL, and for one of the files that are read.
    """
    check_no_url("output file", path)
    check_not_read(to_path(path), sources)
    with atomic_file(to_path(path)) as temporary:
        with h5py.File(temporary, "w") as file:
            yield file


def add_dataset(file: h5py.File, name: str, values: Any) -> None:
    """Write an array or a tensor as float32. OSError if the disk is full."""
    array = np.asarray(values, dtype="float32")
    check_space(Path(file.filename), array.nbytes)
    file.create_dataset(name, data=array)
