"""What a training would do other than its config says, told before it starts."""

import warnings
from itertools import chain, islice
from typing import Any, Callable, Iterable, List, Mapping, Optional, Protocol

from spacy.language import Language
from spacy.training import Example
from thinc.api import Model

from ..errors import Errors, Warnings
from ..ml.calling_pipeline import config_of_training, trained_pipeline
from ..ml.contexts import read_docs
from ..ml.elmo_model import get_settings
from ..ml.listener import ElmoListener, get_listeners
from ..ml.missing_upstream import is_before, no_upstream
from .training_part import check_training_part

N_EXAMPLES = 100  # whose sentence boundaries are looked for
OF_SOURCE = ("source", "component", "replace_listeners")  # settings that spaCy reads beside `source`


class HasModel(Protocol):
    """An ELMo component."""

    name: str
    weights: Optional[str]
    model: Model[Any, Any]


def check_training(
    nlp: Language, elmo: HasModel, get_examples: Callable[[], Iterable[Example]], *, has_loader: bool
) -> None:
    """Check the config of a pipeline that is initialized.

    elmo (HasModel): The ELMo component, before it loads weights.
    get_examples (Callable[[], Iterable[Example]]): Gives the training examples.
    has_loader (bool): Whether the config has a loader for it.
    RAISES (ValueError): EL061 for sentence contexts without sentence boundaries, EL071 for a listener in the wrong
        place, EL082 if there is nothing to train on, EL089 for two biLMs, EL099 for a loader of a component that is not
        in the pipeline. WL074 if a path is given that nothing reads.
    """
    check_training_part(get_examples, nlp, elmo.name)
    check_order(nlp)
    _check_loaders(nlp, elmo, has_loader)
    _check_boundaries(nlp, elmo, get_examples)


def check_order(nlp: Language) -> None:
    """RAISES (ValueError): EL071 if a listener has no ELMo component before its own component. The listener of a
    sourced component may be linked to a later one, or to that of its source: after saving and loading it would not be.
    """
    linked: List[ElmoListener] = []  # of enabled components
    for name, pipe in nlp.components:
        model = getattr(pipe, "model", None)
        for listener in get_listeners(model) if isinstance(model, Model) else ():
            if not any(listener is other for other in linked) and not is_before(nlp, listener.upstream, name):
                raise no_upstream(listener, listener.upstream_name, nlp)
        linked += chain.from_iterable(getattr(pipe, "listener_map", {}).values())


def check_frozen_listeners(nlp: Language, elmo: HasModel, listeners: Iterable[str]) -> None:
    """nlp (Language): The pipeline that is trained.
    listeners (Iterable[str]): Names of the components that listen.
    RAISES (ValueError): EL088 if the biLM is trained, and one of them is frozen.
    """
    frozen = nlp.config["training"].get("frozen_components") or []
    found = [name for name in listeners if name in frozen]
    if found and elmo.name not in frozen and not get_settings(elmo.model).frozen:
        names = ", ".join(f"'{name}'" for name in found)
        raise ValueError(Errors.EL088.format(name=elmo.name, components=names, first=found[0]))


def warn_of_ignored_settings(name: str) -> None:
    """Warn, in `spacy train`, of settings of a component with a `source`: WL073."""
    config = config_of_training()
    block = config.get("components", {}).get(name, {})
    if "source" not in block:
        return
    ignored = [f"{setting} in [components.{name}]" for setting in block if setting not in OF_SOURCE]
    if config.get("initialize", {}).get("components", {}).get(name, {}).get("loader"):
        ignored.append(f"[initialize.components.{name}.loader]")
    if ignored:
        warnings.warn(Warnings.WL073.format(name=name, ignored=" and ".join(ignored)), stacklevel=3)


def _check_loaders(nlp: Language, elmo: HasModel, has_loader: bool) -> None:
    blocks: Mapping[str, Any] = nlp.config["initialize"]["components"]
    lost: List[str] = [name for name in blocks if name not in nlp.component_names and "loader" in blocks[name]]
    if lost:
        found = {"block": lost[0], "name": elmo.name, "pipeline": ", ".join(nlp.component_names)}
        raise ValueError(Errors.EL099.format(**found))
    if has_loader and elmo.weights is not None:
        raise ValueError(Errors.EL089.format(name=elmo.name, weights=elmo.weights))
    path = nlp.config.get("paths", {}).get("bilm")
    if path and not has_loader and elmo.weights is None and not elmo.model.has_dim("nL"):
        warnings.warn(Warnings.WL074.format(path=path, name=elmo.name), stacklevel=4)


def _check_boundaries(nlp: Language, elmo: HasModel, get_examples: Callable[[], Iterable[Example]]) -> None:
    """In `spacy train`, unless a component annotates the Docs before: they are then not known here."""
    settings, annotating = get_settings(elmo.model), nlp.config["training"].get("annotating_components")
    if settings.contexts == "sentences" and trained_pipeline() is nlp and not annotating:
        read_docs([eg.predicted for eg in islice(get_examples(), N_EXAMPLES)], settings)
