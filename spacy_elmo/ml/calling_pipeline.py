"""The pipeline on whose behalf spaCy calls a component or a layer of its model.

spaCy passes the pipeline to `initialize` of a component, but not to the layers of its model, and never to a component
with a `source`. These functions find it on the call stack, for errors that name components and settings.
"""

import inspect
from typing import Any, Callable, Optional

from spacy.language import Language
from spacy.training.initialize import init_nlp


def initialized_pipeline() -> Optional[Language]:
    """RETURNS (Optional[Language]): The pipeline that `nlp.initialize` is called of; None outside of it."""
    return _find_local(Language.initialize, "self")


def trained_pipeline() -> Optional[Language]:
    """RETURNS (Optional[Language]): The pipeline that `spacy train` makes; None outside of it, and until it is made."""
    return _find_local(init_nlp, "nlp")


def _find_local(function: Callable[..., Any], name: str) -> Optional[Language]:
    """RETURNS (Optional[Language]): A local variable of the innermost call of a function that is running."""
    frame, code = inspect.currentframe(), getattr(function, "__code__", None)  # None of compiled code
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    found = None if frame is None else frame.f_locals.get(name)
    return found if isinstance(found, Language) else None
