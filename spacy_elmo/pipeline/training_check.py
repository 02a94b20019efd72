"""What a training would do other than its config says, told before it starts."""

import warnings
from itertools import islice
from typing import Any, Callable, Iterable, Mapping, Optional, Protocol

import srsly
from spacy.language import Language
from spacy.training import Example
from thinc.api import Model

from ..errors import Errors, Warnings
from ..ml.calling_pipeline import config_of_training, corpus_of_training, trained_pipeline
from ..ml.contexts import read_docs
from ..ml.elmo_model import check_schedules, get_settings
from ..ml.listener import find_listeners
from ..ml.missing_upstream import is_before, no_upstream
from ..ml.owned_tok2vec import find_paths
from .advice import has_loader as config_has_loader
from .training_part import check_training_part

BOUNDARIES = {"doc.sents", "token.is_sent_start"}  # what a component that sets them assigns
N_EXAMPLES = 100  # whose sentence boundaries are looked for
STREAM = -1  # max_epochs of data that can be read once
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
    has_loader (bool): Whether it was given a loader.
    RAISES (ValueError): EL061 for sentence contexts without sentence boundaries, EL082 if there is nothing to train on,
        EL089 for two biLMs, EL099 for a loader of a component that is not in the pipeline. WL074 if a path is given
        that nothing reads.
    """
    check_training_part(get_examples, nlp, elmo.name)
    if elmo.weights is not None and config_has_loader(nlp, elmo.name):
        raise ValueError(Errors.EL089.format(name=elmo.name, weights=elmo.weights))
    if not has_loader and elmo.weights is None and not elmo.model.has_dim("nL"):
        _check_that_nothing_is_lost(nlp, elmo.name)
    _check_boundaries(nlp, elmo, get_examples)


def check_order(nlp: Language) -> None:
    """nlp (Language): A pipeline that spaCy has linked.
    RAISES (ValueError): EL071 if a listener has no ELMo component before its own component. The listener of a sourced
        component may be linked to a later one, or to that of its source: after saving and loading it would not be.
    """
    for name, pipe in nlp.pipeline:
        for listener in find_listeners(pipe):
            if not is_before(nlp, listener.upstream, name):
                raise no_upstream(listener, listener.upstream_name, nlp)


def check_frozen_listeners(nlp: Language, elmo: HasModel, listeners: Iterable[str], disabled: Iterable[str]) -> None:
    """nlp (Language): The pipeline that is trained.
    listeners (Iterable[str]): Names of the components that listen.
    disabled (Iterable[str]): Names of trained components that would listen, but are in `disabled`.
    RAISES (ValueError): EL088 if the biLM is trained, and one of them is frozen or disabled.
    """
    frozen, listeners = nlp.config["training"].get("frozen_components") or [], list(listeners)
    is_trained = elmo.name not in frozen and not get_settings(elmo.model).frozen
    found = [*(name for name in listeners if name in frozen), *disabled]
    if found and is_trained and not all(name in frozen for name in listeners):
        names = ", ".join(f"'{name}'" for name in found)
        paths = srsly.json_dumps(find_paths(nlp.get_pipe_config(found[0]).get("model", {}), "model", found[0]))
        raise ValueError(Errors.EL088.format(name=elmo.name, components=names, first=found[0], paths=paths))


def check_resumed_training(nlp: Language, elmo: HasModel) -> None:
    """Check, in `spacy train`, a component with a `source`, which is not initialized.

    nlp (Language): The pipeline that is trained.
    elmo (HasModel): The ELMo component.
    RAISES (ValueError): EL082 and EL435 if there is nothing to train on. WL073 for settings that are ignored, WL069 and
        WL076 if the training ends before its schedules.
    """
    config = config_of_training()
    block = config.get("components", {}).get(elmo.name, {})
    if "source" not in block:
        return
    ignored = [f"{setting} in [components.{elmo.name}]" for setting in block if setting not in OF_SOURCE]
    if config.get("initialize", {}).get("components", {}).get(elmo.name, {}).get("loader"):
        ignored.append(f"[initialize.components.{elmo.name}.loader]")
    if ignored:
        warnings.warn(Warnings.WL073.format(name=elmo.name, ignored=" and ".join(ignored)), stacklevel=3)
    corpus = corpus_of_training()
    if corpus is not None and nlp.config["training"].get("max_epochs") != STREAM:
        check_training_part(lambda: corpus(nlp), nlp, elmo.name)
    check_schedules(elmo.model, nlp, elmo.name)


def _check_that_nothing_is_lost(nlp: Language, name: str) -> None:
    """The packaged biLM will be loaded: see that the config does not give another one that is not read."""
    blocks: Mapping[str, Any] = nlp.config["initialize"]["components"]
    lost = [block for block in blocks if block not in nlp.component_names and _has_own_loader(blocks[block])]
    if lost:
        pipeline = ", ".join(nlp.component_names)
        raise ValueError(Errors.EL099.format(block=lost[0], name=name, pipeline=pipeline))
    config = nlp.config.interpolate()
    path = config.get("paths", {}).get("bilm")
    if path and not any(_occurs(path, config[section]) for section in ("components", "initialize")):
        warnings.warn(Warnings.WL074.format(path=path, name=name), stacklevel=5)


def _has_own_loader(block: Mapping[str, Any]) -> bool:
    loader = block.get("loader")
    return isinstance(loader, dict) and str(loader.get("@misc")).startswith("spacy-elmo.")


def _occurs(value: Any, block: Any) -> bool:
    """RETURNS (bool): Whether a setting of a block, or of one below it, has this value."""
    return any(_occurs(value, part) for part in block.values()) if isinstance(block, dict) else bool(block == value)


def _check_boundaries(nlp: Language, elmo: HasModel, get_examples: Callable[[], Iterable[Example]]) -> None:
    """In `spacy train`, unless a component sets them before: they are then not known here."""
    settings, annotating = get_settings(elmo.model), nlp.config["training"].get("annotating_components") or ()
    if settings.contexts != "sentences" or trained_pipeline() is not nlp:
        return
    if not any(_sets_boundaries(nlp, name) for name in annotating):
        read_docs([eg.predicted for eg in islice(get_examples(), N_EXAMPLES)], settings)


def _sets_boundaries(nlp: Language, name: str) -> bool:
    """RETURNS (bool): Whether a component says so, or does not say what it sets."""
    assigned = nlp.get_pipe_meta(name).assigns
    return not assigned or not BOUNDARIES.isdisjoint(assigned)
