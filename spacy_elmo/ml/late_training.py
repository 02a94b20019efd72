"""Warnings of training that ends before its schedules do."""

import warnings
from typing import Callable, List, Optional

from spacy.language import Language

from ..errors import Warnings
from .fine_tuning import FineTuning

SLANTED_TRIANGULAR = "spacy-elmo.slanted_triangular.v1"
STACKLEVEL = 5


def warn_of_early_end(
    nlp: Optional[Language], name: str, tuning: Optional[FineTuning], find_left_frozen: Callable[[int], List[int]]
) -> None:
    """Warn if training ends before gradual unfreezing reaches all layers (WL069), or before the end of a slanted
    triangular schedule (WL076).

    nlp (Optional[Language]): The pipeline; None if only a component is initialized.
    name (str): Of the component with the biLM.
    tuning (Optional[FineTuning]): How the biLM is trained; None for all layers alike, or if it is frozen.
    find_left_frozen (Callable[[int], List[int]]): From a number of updates to the layers that are then still frozen.
    """
    training = {} if nlp is None else nlp.config.interpolate().get("training", {})
    max_steps = training.get("max_steps") or 0
    frozen = find_left_frozen(max_steps) if tuning is not None and max_steps else []
    if tuning is not None and frozen:
        layers = f"Layer {frozen[0]}" if len(frozen) == 1 else f"Layers {', '.join(map(str, frozen))}"
        text = Warnings.WL069.format(name=name, layers=layers, every=tuning.unfreeze_every, max_steps=max_steps)
        warnings.warn(text, stacklevel=STACKLEVEL)
    rate = training.get("optimizer", {}).get("learn_rate")
    if isinstance(rate, dict) and rate.get("@schedules") == SLANTED_TRIANGULAR:
        num_steps, done = rate.get("num_steps"), rate.get("t", 0)
        are_whole = isinstance(num_steps, int) and isinstance(done, int)  # of others the schedule itself complains
        if are_whole and 0 < max_steps < num_steps - done:
            text = Warnings.WL076.format(num_steps=num_steps, max_steps=max_steps)
            warnings.warn(text, stacklevel=STACKLEVEL)
