"""The view Senses: the uses of a word on a map, in groups of similar contexts."""

import math
from typing import Any, Dict

from ..analysis.neighbors import NeighborIndex
from ..analysis.sense_map import MAX_SENSES, MIN_USES, cluster_uses
from ..errors import Errors
from .fields import Fields
from .limits import MAX_USES, MAX_WORD
from .uses import describe_use


def map_senses(index: NeighborIndex, fields: Fields) -> Dict[str, Any]:
    """index (NeighborIndex): Uses of words.
    fields (Fields): "word", and "n_senses", null to choose their number by the silhouette.
    RETURNS (Dict[str, Any]): The number of uses; these uses, or a sample of them, with their points and groups; sizes
        and exemplars of the groups.
    RAISES (ValueError): EL413 for invalid fields, EL419 for a word with too few uses, EL404 if too
        few of them differ.
    """
    word = fields.text("word", MAX_WORD).strip()
    n_senses = fields.maybe_number("n_senses", 2, MAX_SENSES)
    uses, vectors = index.uses(word, limit=MAX_USES)
    if len(uses) < max(MIN_USES, n_senses or 0):
        raise ValueError(Errors.EL419.format(n=len(uses), word=word, wanted=max(MIN_USES, n_senses or 0)))
    found = cluster_uses(uses, vectors, n_senses)
    return {
        "n_uses": index.count_uses(word),
        "uses": [describe_use(use) for use in uses],
        "labels": [int(label) for label in found.labels],
        "points": [[float(x), float(y)] for x, y in found.points],
        "exemplars": [int(place) for place in found.exemplars],
        "sizes": [int(size) for size in found.sizes],
        "silhouette": None if math.isnan(found.silhouette) else found.silhouette,
    }
