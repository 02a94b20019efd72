"""The pipeline on whose behalf spaCy calls a component or a layer of its model.

spaCy passes the pipeline to `initialize` of a component, but not to the layers of its model, and never to a component
with a `source`. These functions find it on the call stack, for errors that name components and settings.
"""

import inspect
from typing import Any, Callable, Dict, Optional

from spacy.language import Language
from spacy.training.initialize import init_nlp


def initialized_pipeline() -> Optional[Language]:
    """RETURNS (Optional[Language]): The pipeline that `nlp.initialize` is called of; None outside of it."""
    return _find_local(Language.initialize, "self")


def trained_pipeline() -> Optional[Language]:
    """RETURNS (Optional[Language]): The pipeline that `spacy train` makes; None outside of it, and until it is made."""
    return _find_local(init_nlp, "nlp")


def using_pipeline() -> Optional[Language]:
    """RETURNS (Optional[Language]): The pipeline that processes Docs or is updated; None outside of it."""
    found = (_find_local(function, "self") for function in (Language.__call__, Language.pipe, Language.update))
    return next((nlp for nlp in found if nlp is not None), None)


def config_of_training() -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): The config that `spacy train` read, with each `source`; empty outside of it."""
    return _find_value(init_nlp, "raw_config") or {}


def replaced_path() -> str:
    """RETURNS (str): Path, below [components.NAME], of the listener that `nlp.replace_listeners` replaces; else ""."""
    return _find_value(Language.replace_listeners, "listener_path") or ""


def _find_local(function: Callable[..., Any], name: str) -> Optional[Language]:
    found = _find_value(function, name)
    return found if isinstance(found, Language) else None


def _find_value(function: Callable[..., Any], name: str) -> Any:
    """RETURNS (Any): A local variable of the innermost call of a function that is running; None if there is none."""
    frame, code = inspect.currentframe(), getattr(function, "__code__", None)  # None of compiled code
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return None if frame is None else frame.f_locals.get(name)
