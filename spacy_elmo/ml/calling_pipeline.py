"""The pipeline on whose behalf spaCy calls a component or a layer of its model.

spaCy passes the pipeline to `initialize` of a component, but not to the layers of its model, and never to a component
with a `source`. These functions find it on the call stack, for errors that name components and settings.
"""

import inspect
from typing import Any, Callable, Dict, Optional, Tuple

from spacy.language import Language
from spacy.training.initialize import init_nlp


def initialized_pipeline() -> Optional[Language]:
    """RETURNS (Optional[Language]): The pipeline that `nlp.initialize` is called of; None outside of it."""
    return _find_local("self", Language.initialize)


def initialized_component() -> str:
    """RETURNS (str): Name of the component that `nlp.initialize` initializes; empty outside of it."""
    name = _find_value("name", Language.initialize)
    return name if isinstance(name, str) else ""


def is_rehearsed() -> bool:
    """RETURNS (bool): Whether `nlp.rehearse` is running."""
    return _find_local("self", Language.rehearse) is not None


def left_out_components() -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Components that the running `nlp.update` leaves out, by name: those that are disabled,
    or in its `exclude`. Empty outside of it.
    """
    nlp, excluded = _find_local("self", Language.update), _find_value("exclude", Language.update) or ()
    taking_part = [] if nlp is None else [name for name in nlp.pipe_names if name not in excluded]
    return {} if nlp is None else {name: pipe for name, pipe in nlp.components if name not in taking_part}


def running_components() -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Components that the running `nlp(...)`, `nlp.pipe` or `nlp.update` calls, by name,
    without those that are disabled or excluded. Empty outside of them.
    """
    calls = (Language.__call__, Language.pipe, Language.update)
    left_out = [*(_find_value("disable", *calls) or ()), *(_find_value("exclude", *calls) or ())]
    nlp = _find_local("self", *calls)
    return {} if nlp is None else {name: pipe for name, pipe in nlp.pipeline if name not in left_out}


def is_linked() -> bool:
    """RETURNS (bool): Whether spaCy is linking components, for which Python up to 3.11 reads their properties."""
    return _find_local("self", Language._link_components) is not None


def trained_pipeline() -> Optional[Language]:
    """RETURNS (Optional[Language]): The pipeline that `spacy train` makes; None outside of it, and until it is made."""
    return _find_local("nlp", init_nlp)


def using_pipeline() -> Optional[Language]:
    """RETURNS (Optional[Language]): The pipeline that processes Docs or is updated; None outside of it."""
    return _find_local("self", Language.__call__, Language.pipe, Language.update)


def config_of_training() -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): The config that `spacy train` read, with each `source`; empty outside of it."""
    return _find_value("raw_config", init_nlp) or {}


def corpus_of_training() -> Optional[Callable[[Language], Any]]:
    """RETURNS (Optional[Callable[[Language], Any]]): Gives the training examples of `spacy train`; None outside."""
    corpus: Optional[Callable[[Language], Any]] = _find_value("train_corpus", init_nlp)
    return corpus


def replaced_listener() -> Tuple[str, str]:
    """RETURNS (Tuple[str, str]): Component and path of what `nlp.replace_listeners` replaces; empty outside of it."""
    names = ("pipe_name", "listener_path")
    component, path = (_find_value(name, Language.replace_listeners) or "" for name in names)
    return component, path


def of_component() -> str:
    """RETURNS (str): " of 'ner'" while spaCy makes that component from its config; empty outside of it."""
    name = _find_value("name", Language.create_pipe)
    return f" of '{name}'" if isinstance(name, str) else ""


def _find_local(name: str, *functions: Callable[..., Any]) -> Optional[Language]:
    found = _find_value(name, *functions)
    return found if isinstance(found, Language) else None


def _find_value(name: str, *functions: Callable[..., Any]) -> Any:
    """RETURNS (Any): A local variable of the innermost call of one of the functions; None if none is running."""
    codes = [getattr(function, "__code__", None) for function in functions]  # None of compiled code
    frame = inspect.currentframe()
    while frame is not None and frame.f_code not in codes:
        frame = frame.f_back
    return None if frame is None else frame.f_locals.get(name)
