"""Warnings about a pipeline in which the component would have no effect."""

import warnings
from typing import Any, Dict, List, Optional

import srsly
from spacy.language import Language
from thinc.api import Model

from ..errors import Warnings
from ..ml.elmo_layers import has_elmo

# spaCy's code for a pipeline of several languages.
ANY_LANGUAGE = "xx"


def warn_of_other_language(name: str, trained_on: Any, used_on: str) -> None:
    """Warn if the languages of a biLM and of the pipeline differ.

    name (str): The component's name.
    trained_on (Any): Language in the meta.json of the biLM, a code such as "en"; None if there is none.
    used_on (str): Language of the pipeline.
    """
    languages = {str(code).lower().replace("_", "-").split("-")[0] for code in (trained_on, used_on)}
    if trained_on and used_on and len(languages) > 1 and ANY_LANGUAGE not in languages:
        warnings.warn(Warnings.WL064.format(name=name, found=trained_on, wanted=used_on), stacklevel=4)


def has_loader(nlp: Optional[Language], name: str) -> bool:
    """nlp (Optional[Language]): The pipeline.
    name (str): Of the ELMo component.
    RETURNS (bool): Whether the config of the pipeline has a loader for the component.
    """
    blocks: Dict[str, Any] = {} if nlp is None else nlp.config["initialize"]["components"]
    return bool(blocks.get(name, {}).get("loader"))


LISTENER_BLOCK = """
[components.{component}.model.tok2vec]
@architectures = "spacy-elmo.ElmoListener.v1"
upstream = "{name}"
"""
BAG_OF_WORDS = "spacy.TextCatBOW."


def reduce_classifier(exclusive_classes: bool, *kinds: str) -> Dict[str, Any]:
    """exclusive_classes (bool): As in the classifier that it replaces.
    *kinds (str): What it reads: "first", "last", "max" or "mean" of the vectors.
    RETURNS (Dict[str, Any]): The settings of a text classifier, without its tok2vec.
    """
    reductions = {f"use_reduce_{kind}": kind in kinds for kind in ("first", "last", "max", "mean")}
    name = "spacy.TextCatReduce.v1" if kinds == ("mean",) else "spacy-elmo.TextCatReduce.v1"
    return {"@architectures": name, "exclusive_classes": exclusive_classes, **reductions, "nO": None}


def warn_without_listener(nlp: Language, name: str) -> bool:
    """Warn if the pipeline trains components, but not on ELMo, so that its layers are not used.

    nlp (Language): The pipeline.
    name (str): The ELMo component, which no component listens to.
    RETURNS (bool): Whether it warned.
    """
    found = [] if _is_for_vectors(nlp, name) else _components_to_train(nlp, name)
    if found:
        blocks = "".join(_block_of(nlp, component, name) for component in found)
        components = ", ".join(f"'{other}'" for other in found)
        text = Warnings.WL065.format(name=name, components=components, order=_order_of(nlp, found, name), blocks=blocks)
        warnings.warn(text, stacklevel=4)
    return bool(found)


def _is_for_vectors(nlp: Language, name: str) -> bool:
    """RETURNS (bool): Whether the training settings use the vectors of the component itself."""
    training = nlp.config.get("training", {})
    return any(name in (training.get(key) or ()) for key in ("annotating_components", "frozen_components"))


def _components_to_train(nlp: Language, name: str) -> List[str]:
    """RETURNS (List[str]): Active components with a model without ELMo that are not frozen, except shared layers."""
    frozen = nlp.config.get("training", {}).get("frozen_components") or ()
    pipes = [(other, pipe) for other, pipe in nlp.pipeline if other != name and other not in frozen]
    models = {other: getattr(pipe, "model", None) for other, pipe in pipes if not hasattr(pipe, "add_listener")}
    return [other for other, model in models.items() if isinstance(model, Model) and not has_elmo(model)]


def _order_of(nlp: Language, found: List[str], name: str) -> str:
    """RETURNS (str): The components to move, since a listener must come after its ELMo component; empty if none."""
    names = list(nlp.pipe_names)
    earlier = [f"'{other}'" for other in found if names.index(other) < names.index(name)] if name in names else []
    return f" In `pipeline` of [nlp], move {', '.join(earlier)} after '{name}'." if earlier else ""


def _block_of(nlp: Language, component: str, name: str) -> str:
    """RETURNS (str): Lines for the config that make a component listen."""
    model = nlp.get_pipe_config(component).get("model", {})
    listener = LISTENER_BLOCK.format(component=component, name=name)
    if str(model.get("@architectures")).startswith(BAG_OF_WORDS):
        settings = reduce_classifier(model["exclusive_classes"], "mean")
        lines = [f"{key} = {srsly.json_dumps(value)}" for key, value in settings.items()]
        return "\n".join(["", f"[components.{component}.model]", *lines, listener])
    if nlp.get_pipe(component).model.has_ref("tok2vec") or "tok2vec" in model:  # type: ignore[attr-defined]  # a Pipe with a model
        return listener
    return f"\n# The model of '{component}' has no tok2vec: choose an architecture that has one.\n"
