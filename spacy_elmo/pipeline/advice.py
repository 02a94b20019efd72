"""Warnings about a pipeline in which the component would have no effect."""

import warnings
from typing import Any, List

from spacy.language import Language
from thinc.api import Model

from ..errors import Warnings

# spaCy's code for a pipeline of several languages.
ANY_LANGUAGE = "xx"
ELMO_LAYERS = ("elmo-listener", "elmo_tok2vec")  # names in `ml/listener.py` and `ml/owned_tok2vec.py`


def warn_of_other_language(name: str, trained_on: Any, used_on: str) -> None:
    """Warn if the languages of a biLM and of the pipeline differ.

    name (str): The component's name.
    trained_on (Any): Language in the meta.json of the biLM, a code such as "en"; None if there is none.
    used_on (str): Language of the pipeline.
    """
    languages = {str(code).lower().replace("_", "-").split("-")[0] for code in (trained_on, used_on)}
    if trained_on and used_on and len(languages) > 1 and ANY_LANGUAGE not in languages:
        warnings.warn(Warnings.WL064.format(name=name, found=trained_on, wanted=used_on), stacklevel=4)


LISTENER_BLOCK = """
[components.{component}.model.tok2vec]
@architectures = "spacy-elmo.ElmoListener.v1"
upstream = "{name}"
"""


def warn_without_listener(nlp: Language, name: str) -> bool:
    """Warn if the components after an ELMo component train another tok2vec, so that its layers are not used.

    nlp (Language): The pipeline.
    name (str): The ELMo component, which no component listens to.
    RETURNS (bool): Whether it warned.
    """
    found = [] if _is_for_vectors(nlp, name) else _components_to_train(nlp, name)
    if found:
        blocks = "".join(LISTENER_BLOCK.format(component=component, name=name) for component in found)
        text = Warnings.WL065.format(name=name, components=", ".join(f"'{other}'" for other in found), blocks=blocks)
        warnings.warn(text, stacklevel=4)
    return bool(found)


def _is_for_vectors(nlp: Language, name: str) -> bool:
    """RETURNS (bool): Whether the training settings use the vectors of the component itself."""
    training = nlp.config.get("training", {})
    return any(name in (training.get(key) or ()) for key in ("annotating_components", "frozen_components"))


def _components_to_train(nlp: Language, name: str) -> List[str]:
    """RETURNS (List[str]): Active components after the ELMo component that have a tok2vec and are not frozen."""
    frozen = nlp.config.get("training", {}).get("frozen_components") or ()
    names = list(nlp.pipe_names)
    later = names[names.index(name) + 1 :] if name in names else []
    models = {other: getattr(nlp.get_pipe(other), "model", None) for other in later if other not in frozen}
    return [other for other, model in models.items() if isinstance(model, Model) and _has_other_tok2vec(model)]


def _has_other_tok2vec(model: Model[Any, Any]) -> bool:
    """RETURNS (bool): Whether a model has a tok2vec without ELMo, that is without a listener or its own biLM."""
    return bool(model.has_ref("tok2vec")) and not any(node.name in ELMO_LAYERS for node in model.walk())
