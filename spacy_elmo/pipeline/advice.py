"""Warnings about a pipeline in which the component would be of no use."""

import warnings
from typing import Any, List

from spacy.language import Language
from thinc.api import Model

from ..errors import Warnings

# spaCy's code for a pipeline of several languages.
ANY_LANGUAGE = "xx"


def warn_of_other_language(name: str, trained_on: Any, used_on: str) -> None:
    """Warn if a biLM reads another language than the one it was trained on.

    name (str): The component's name.
    trained_on (Any): What the biLM's meta.json says, a code such as "en"; None if it says nothing.
    used_on (str): The pipeline's language.
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
    """Warn if components after an ELMo component are trained on something else, and ELMo is computed for nothing.

    nlp (Language): The pipeline.
    name (str): The ELMo component, which no component listens to.
    RETURNS (bool): Whether there was a reason to warn.
    """
    found = [] if _is_for_vectors(nlp, name) else _components_to_train(nlp, name)
    if found:
        blocks = "".join(LISTENER_BLOCK.format(component=component, name=name) for component in found)
        text = Warnings.WL065.format(name=name, components=", ".join(f"'{other}'" for other in found), blocks=blocks)
        warnings.warn(text, stacklevel=4)
    return bool(found)


def _is_for_vectors(nlp: Language, name: str) -> bool:
    """RETURNS (bool): Whether the training settings say that the component's own vectors are wanted."""
    training = nlp.config.get("training", {})
    return any(name in (training.get(key) or ()) for key in ("annotating_components", "frozen_components"))


def _components_to_train(nlp: Language, name: str) -> List[str]:
    """RETURNS (List[str]): Active components after the ELMo component that have a tok2vec and are not frozen."""
    frozen = nlp.config.get("training", {}).get("frozen_components") or ()
    names = list(nlp.pipe_names)
    later = names[names.index(name) + 1 :] if name in names else []
    models = {other: getattr(nlp.get_pipe(other), "model", None) for other in later if other not in frozen}
    return [other for other, model in models.items() if isinstance(model, Model) and model.has_ref("tok2vec")]
