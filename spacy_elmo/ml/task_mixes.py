"""The layer mixes of a pipeline: what each task has learned (Peters et al. 2018, eq. 1 and fig. 2)."""

from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Tuple

from spacy.language import Language
from thinc.api import Model, to_numpy

from .mixing import softmax
from .scalar_mix import get_weights

MIX = "scalar_mix"
PLACES = ("input", "output")  # of the encoder of a task, as `ElmoTaskEncoder` refers to them: "elmo_input", ...


@dataclass(frozen=True)
class TaskMix:
    """The mix of one listener.

    component (str): Name of the component that mixes.
    number (int): Position of the mix among those of the component, from 1.
    shares (Tuple[float, ...]): softmax(w), one per layer, the token layer first; they sum to one.
    weights (Tuple[float, ...]): Raw weights w.
    gamma (float): Scale of the mix.
    place (Optional[str]): "input" or "output" of `spacy-elmo.ElmoTaskEncoder.v1`; None in other networks.
    """

    component: str
    number: int
    shares: Tuple[float, ...]
    weights: Tuple[float, ...]
    gamma: float
    place: Optional[str] = None


def find_task_mixes(nlp: Language) -> List[TaskMix]:
    """Read the mixes of all components, disabled ones included, as they are at this moment.

    nlp (Language): A pipeline.
    RETURNS (List[TaskMix]): In the order of the pipeline; empty if no component mixes layers.
    """
    found = []
    for name, pipe in nlp.components:
        model = getattr(pipe, "model", None)
        places = _places_of(model)
        for number, mix in enumerate(_mixes_of(model), start=1):
            weights = to_numpy(get_weights(mix)).astype("float64")
            gamma = float(to_numpy(mix.get_param("gamma"))[0])
            shares = tuple(softmax(weights).tolist())
            found.append(TaskMix(name, number, shares, tuple(weights.tolist()), gamma, places.get(mix.id)))
    return found


def find_untrained(nlp: Language) -> List[str]:
    """RETURNS (List[str]): Names of the components with a mix that is not initialized."""
    models = [(name, getattr(pipe, "model", None)) for name, pipe in nlp.components]
    return [name for name, model in models if isinstance(model, Model) and any(map(_is_untrained, model.walk()))]


def _is_untrained(node: Model[Any, Any]) -> bool:
    return node.name == MIX and not node.has_param("w")


def _mixes_of(model: Any) -> Iterator[Model[Any, Any]]:
    """The initialized mixes inside a model, in the order of its layers."""
    if isinstance(model, Model):
        yield from (node for node in model.walk(order="dfs_pre") if node.name == MIX and node.has_param("w"))


def _places_of(model: Any) -> Dict[int, str]:
    """The place of each mix inside a task encoder, by the id of its layer."""
    nodes = list(model.walk()) if isinstance(model, Model) else []
    found = [(place, node.maybe_get_ref(f"elmo_{place}")) for node in nodes for place in PLACES]
    return {mix.id: place for place, listener in found for mix in _mixes_of(listener)}
