"""The native kernel of this installation: which one computes on a CPU, or why there is none."""

import json
import os
import warnings
from functools import cache
from importlib.metadata import distributions
from importlib.util import find_spec
from typing import Any, Optional, Tuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ..errors import Warnings

MODULE = "spacy_elmo.inference._kernel"
VARIABLE = "SPACY_ELMO_CPU_ISA"
WITHOUT_KERNEL = "none"  # as the value of the variable
SOURCES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def import_kernel() -> Any:
    """RETURNS (Any): The compiled module, None if there is none, or if `SPACY_ELMO_CPU_ISA` is "none".
    RAISES (ValueError): If `SPACY_ELMO_CPU_ISA` is an instruction set that this processor does not support.
    """
    if os.environ.get(VARIABLE) == WITHOUT_KERNEL:
        return None
    try:
        from . import _kernel
    except ImportError:  # `explain_missing_kernel` finds out why
        return None
    return _kernel


def describe_kernel() -> str:
    """RETURNS (str): The instruction set of the kernel and its file, or why there is no kernel."""
    kernel = import_kernel()
    if kernel is None:
        return f"none: {explain_missing_kernel()[0]}"
    return f"{kernel.INSTRUCTION_SET}, {kernel.__file__}"


def explain_missing_kernel() -> Tuple[str, str]:
    """RETURNS (Tuple[str, str]): Why there is no kernel, and what to do."""
    if os.environ.get(VARIABLE) == WITHOUT_KERNEL:
        return f"{VARIABLE} is '{WITHOUT_KERNEL}'", f"Unset {VARIABLE}"
    spec = find_spec(MODULE)
    if spec is not None:
        return f"'{spec.origin}' cannot be imported here ({_import_error()})", f"Compile it again: {how_to_install()}"
    if is_checkout() and not is_editable_installation(SOURCES):
        return f"the sources in '{SOURCES}' are imported, where nothing was compiled", f"Run {how_to_install()}"
    reason = "it was not compiled at installation, where no C++ compiler was found, or it failed"
    return reason, f"Install a C++ compiler, such as g++ 8 or newer, then run {how_to_install()}"


def how_to_install() -> str:
    """RETURNS (str): The command that compiles this installation again."""
    if is_checkout():
        return f"`pip install -e .` in '{SOURCES}'"
    return "`pip install --force-reinstall --no-deps --no-cache-dir spacy-elmo`"


def is_checkout() -> bool:
    """RETURNS (bool): Whether the package is imported from its sources."""
    return os.path.isfile(os.path.join(SOURCES, "setup.py"))


def is_editable_installation(folder: str) -> bool:
    """RETURNS (bool): Whether `pip install -e` was run on this folder."""
    for distribution in distributions(name="spacy-elmo"):
        record = json.loads(distribution.read_text("direct_url.json") or "{}")
        if record.get("dir_info", {}).get("editable"):
            path = url2pathname(urlsplit(record["url"]).path)
            if os.path.realpath(path) == os.path.realpath(folder):
                return True
    return False


@cache  # once in a process
def warn_missing_kernel() -> None:
    """Warn with WL022 that torch's operations compute instead of the kernel."""
    reason, remedy = explain_missing_kernel()
    warnings.warn(Warnings.WL022.format(reason=reason, remedy=remedy), stacklevel=2)


def _import_error() -> Optional[ImportError]:
    try:
        from . import _kernel  # noqa: F401
    except ImportError as error:
        return error
    return None
