"""Tell that a component was trained with another biLM than the one it now reads.

Mixes, and all layers above them, fit the vectors of the biLM they were trained with. Vectors of another biLM of the
same sizes have the same shape and another meaning.
"""

import warnings
from itertools import chain
from typing import Dict, List, Mapping, Optional, Protocol, Sequence

from spacy.language import Language

from ..errors import Errors, Warnings
from ..ml.listener import ElmoListener

Listeners = Mapping[str, Sequence[ElmoListener]]
Found = Dict[str, List[ElmoListener]]


class HasBiLM(Protocol):
    """An ELMo component."""

    name: str

    @property
    def bilm_label(self) -> str:
        """RETURNS (str): Which biLM it has, empty without weights."""


def warn_of_other_bilm(elmo: HasBiLM, listeners: Listeners) -> None:
    """Warn, once for each biLM, of components that were trained with another one: WL066.

    elmo (HasBiLM): The ELMo component.
    listeners (Mapping[str, Sequence[ElmoListener]]): Its listeners, by component.
    """
    found = _not_told(elmo, _find_other(elmo, listeners))
    if found:
        warnings.warn(Warnings.WL066.format(**_describe(elmo, found)), stacklevel=3)


def check_kept_components(nlp: Optional[Language], elmo: HasBiLM, listeners: Listeners) -> None:
    """Check the components that an initialization of the pipeline leaves as they are, since they are sourced or frozen.

    nlp (Optional[Language]): The pipeline, of which only the components to initialize are enabled; None if only the
        ELMo component is initialized, which is like loading weights (WL066).
    elmo (HasBiLM): The ELMo component.
    listeners (Mapping[str, Sequence[ElmoListener]]): Its listeners, by component.
    RAISES (ValueError): EL083 if components in `frozen_components` were trained with another biLM. Others are trained
        further, with warning WL067.
    """
    if nlp is None:
        warn_of_other_bilm(elmo, listeners)
        return
    kept = {name: own for name, own in listeners.items() if name not in nlp.pipe_names}
    refuse_frozen_components(nlp, elmo, kept)
    resumed = _not_told(elmo, _find_other(elmo, kept))
    if resumed:
        warnings.warn(Warnings.WL067.format(**_describe(elmo, resumed)), stacklevel=3)


def refuse_frozen_components(
    nlp: Optional[Language], elmo: HasBiLM, listeners: Listeners, disabled: Optional[Listeners] = None
) -> None:
    """Check the components that a training does not change.

    nlp (Optional[Language]): The pipeline that is trained; None if there is no training.
    elmo (HasBiLM): The ELMo component.
    listeners (Mapping[str, Sequence[ElmoListener]]): Its listeners, by component.
    disabled (Optional[Mapping[str, Sequence[ElmoListener]]]): Those of disabled components.
    RAISES (ValueError): EL083 if components that are frozen or disabled were trained with another biLM.
    """
    settings = {} if nlp is None else nlp.config.get("training", {})
    frozen = settings.get("frozen_components") or ()
    refused = _find_other(elmo, {name: own for name, own in listeners.items() if name in frozen} | dict(disabled or {}))
    if refused:
        raise ValueError(Errors.EL083.format(**_describe(elmo, refused)))


def _find_other(elmo: HasBiLM, listeners: Listeners) -> Found:
    """RETURNS (Dict[str, List[ElmoListener]]): Listeners trained with another biLM, of components that have some."""
    label = elmo.bilm_label
    others = {name: [listener for listener in own if listener.has_other_bilm(label)] for name, own in listeners.items()}
    return {name: own for name, own in others.items() if own}


def _not_told(elmo: HasBiLM, found: Found) -> Found:
    """RETURNS (Dict[str, List[ElmoListener]]): Those that no warning about the present biLM named before."""
    label = elmo.bilm_label
    new = {name: own for name, own in found.items() if any(listener.warned_of != label for listener in own)}
    for listener in chain.from_iterable(new.values()):
        listener.warned_of = label
    return new


def _describe(elmo: HasBiLM, found: Found) -> Dict[str, str]:
    labels = {listener.trained_with for listener in chain.from_iterable(found.values())}
    components, trained = ", ".join(f"'{name}'" for name in found), ", ".join(sorted(labels))
    return {"name": elmo.name, "components": components, "trained": trained, "found": elmo.bilm_label}
