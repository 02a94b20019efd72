"""Listeners without an ELMo component: a late link, or an error that says what the pipeline has instead."""

from typing import Any, Dict, List, Optional, Tuple

from spacy.language import Language
from thinc.api import Model

from ..errors import Errors
from .calling_pipeline import initialized_pipeline, using_pipeline

ANY_UPSTREAM = "*"  # the nearest ELMo component upstream
FACTORY = "elmo"


def no_upstream(listener: Model[Any, Any], upstream: str, nlp: Optional[Language] = None) -> ValueError:
    """listener (Model): A listener without an ELMo component before its own component.
    upstream (str): Name of the component it should listen to, or "*".
    nlp (Optional[Language]): The pipeline; None for the one that is being initialized.
    RETURNS (ValueError): EL071, with the names in the pipeline, if it is known.
    """
    return ValueError(Errors.EL071.format(**describe_missing(listener, upstream, nlp or initialized_pipeline())))


def not_initialized(layer: Model[Any, Any], owner: str = "") -> ValueError:
    """layer (Model): A layer with a mix that has no weights.
    owner (str): Name of its component, if it is known.
    RETURNS (ValueError): EL098, as spaCy's E109.
    """
    return ValueError(Errors.EL098.format(name=owner or find_owner(using_pipeline(), layer) or layer.name))


def describe_missing(listener: Model[Any, Any], upstream: str, nlp: Optional[Language]) -> Dict[str, str]:
    """RETURNS (Dict[str, str]): Fields of a message: `owner`, `upstream`, `problem` and `remedy`."""
    owner = find_owner(nlp, listener)
    is_linked = getattr(listener, "upstream", None) is not None
    found = _compare(nlp, owner, upstream, is_linked=is_linked) if nlp is not None and owner else None
    problem, remedy = found or (
        "no component of a pipeline is linked to it",
        f"Add a component of the factory '{FACTORY}' before the component with the listener, under the name given in "
        "`upstream`",
    )
    told = f" of '{owner}'" if owner else ""
    return {"owner": told, "upstream": upstream, "problem": problem, "remedy": remedy}


def find_owner(nlp: Optional[Language], listener: Model[Any, Any]) -> str:
    """RETURNS (str): Name of the component with the listener; empty if it is not in the pipeline."""
    components = [] if nlp is None else nlp.components
    return next((name for name, pipe in components if _has_layer(pipe, listener)), "")


def link_late(listener: Any) -> None:
    """Link the listener of a component that is enabled now, and was disabled when spaCy linked the others.

    listener (ElmoListener): The listener.
    """
    if listener.upstream is not None and listener in listener.upstream.listener_map.get(listener.owner, ()):
        return
    nlp = using_pipeline()
    owner = find_owner(nlp, listener)
    upstream = _find_upstream(nlp, owner, listener.upstream_name) if nlp is not None and owner else None
    if upstream is not None:
        upstream.add_listener(listener, owner)
        upstream.is_checked = False
        upstream.fill()


def _find_upstream(nlp: Language, owner: str, upstream: str) -> Any:
    """RETURNS (Any): The nearest enabled ELMo component before a component; None if there is none."""
    names = list(nlp.pipe_names)
    for name in reversed(names[: names.index(owner)] if owner in names else []):
        if nlp.get_pipe_meta(name).factory == FACTORY and upstream in (ANY_UPSTREAM, name):
            return nlp.get_pipe(name)
    return None


def is_before(nlp: Language, upstream: Any, owner: str) -> bool:
    """upstream (Any): An ELMo component.
    owner (str): A component of the pipeline.
    RETURNS (bool): Whether the pipeline has the ELMo component, before the other one.
    """
    names = [name for name, pipe in nlp.components if pipe is upstream or name == owner]
    return len(names) == 2 and names[1] == owner


def _compare(nlp: Language, owner: str, upstream: str, *, is_linked: bool) -> Optional[Tuple[str, str]]:
    """is_linked (bool): Whether the listener has a component, which is another one than it should have.
    RETURNS (Optional[Tuple[str, str]]): What is wrong with the pipeline, and what to do; None if nothing is."""
    names: List[str] = list(nlp.component_names)
    pipeline = f"the pipeline ({', '.join(names)})"
    found = [name for name in names if nlp.get_pipe_meta(name).factory == FACTORY]
    if not found:
        under = "" if upstream == ANY_UPSTREAM else f", under the name '{upstream}'"
        return f"{pipeline} has no component of the factory '{FACTORY}'", f"Add one before '{owner}'{under}"
    named = [name for name in found if upstream in (ANY_UPSTREAM, name)]
    if not named:
        block = f"the listener's block below [components.{owner}.model]"
        remedy = f'Set upstream = "{found[0]}" in {block}, or "*" for the nearest ELMo component before it'
        return f"{pipeline} has {_quote(found)} of the factory '{FACTORY}'", remedy
    earlier = [name for name in named if names.index(name) < names.index(owner)]
    if not earlier:
        remedy = f"In `pipeline` of [nlp], move {_quote(named)} before '{owner}'"
        return f"{_quote(named)} comes after it in {pipeline}", remedy
    if is_linked:
        remedy = "Load the pipeline once more for each use (`spacy.load`), instead of sharing its components"
        return f"'{owner}' was added to that pipeline, too", remedy
    disabled = [name for name in earlier if name in nlp.disabled]
    remedy = "".join(f'Call `nlp.enable_pipe("{name}")` before `nlp.add_pipe`' for name in disabled[-1:])
    return (f"{_quote(disabled[-1:])} was disabled when '{owner}' was added", remedy) if disabled else None


def _has_layer(pipe: Any, layer: Model[Any, Any]) -> bool:
    model = getattr(pipe, "model", None)
    return isinstance(model, Model) and any(node is layer for node in model.walk())


def _quote(names: List[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
