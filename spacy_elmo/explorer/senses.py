"""The view Senses: the uses of a word on a map, in groups of similar contexts."""

from importlib import import_module
from typing import Any, Dict

from ..errors import Errors
from .fields import Fields
from .index import Index, describe_use
from .limits import MAX_USES, MAX_WORD, MIN_USES

MAX_SENSES = 7  # colours of `analysis.plots`


def map_senses(index: Index, fields: Fields) -> Dict[str, Any]:
    """index (Index): Uses of words.
    fields (Fields): "word", and "n_senses", null to choose their number by the silhouette.
    RETURNS (Dict[str, Any]): The uses with their points and groups, sizes and exemplars of the groups.
    RAISES (ValueError): EL413 for invalid fields, EL419 for a word with too few uses.
    """
    word = fields.text("word", MAX_WORD).strip()
    n_senses = fields.maybe_number("n_senses", 2, MAX_SENSES)
    uses, vectors = index.uses(word.lower(), limit=MAX_USES)
    if len(uses) < max(MIN_USES, n_senses or 0):
        raise ValueError(Errors.EL419.format(n=len(uses), word=word, wanted=max(MIN_USES, n_senses or 0)))
    sense_map: Any = import_module("spacy_elmo.analysis.sense_map")
    found = sense_map.cluster_uses(uses, vectors, n_senses)
    return {
        "uses": [describe_use(use) for use in uses],
        "labels": [int(label) for label in found.labels],
        "points": [[float(x), float(y)] for x, y in found.points],
        "exemplars": [int(place) for place in found.exemplars],
        "sizes": [int(size) for size in found.sizes],
        "silhouette": float(found.silhouette),
    }
