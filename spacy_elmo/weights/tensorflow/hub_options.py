"""Options of a TF-Hub module of ELMo. Sizes follow from the shapes of its arrays; the rest is fixed."""

import json
import re
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional

from ...errors import Errors
from ..bilm_tf.layout import CHAR_TABLE
from ..sources import Source
from ..tensor_map import Array

# Of the model of 5.5 GB of text and of the one of 1 Billion Word Benchmark, which google/elmo is.
CLIP = 3.0
ACTIVATION = "relu"
MAX_CHARACTERS = 50
FIRST_CELL = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/"


@dataclass(frozen=True)
class DerivedOptions(Source):
    """Options that are not in a file.

    content (str): JSON.
    """

    content: str = ""

    def read_bytes(self, max_bytes: Optional[int] = None) -> bytes:
        """RETURNS (bytes): The JSON."""
        return self.content.encode("utf8")


def derive_options(arrays: Mapping[str, Array], source: Source) -> DerivedOptions:
    """arrays (Mapping[str, Array]): By the names of their datasets.
    source (Source): The module.
    RETURNS (DerivedOptions): Options for these shapes.
    RAISES (ValueError): EL325 if sizes cannot be derived.
    """
    ranks = {CHAR_TABLE: 2, FIRST_CELL + "W_0": 2, "CNN/W_cnn_0": 4}
    problems = [f"{name} is missing" for name in ranks if name not in arrays]
    filters = [arrays[f"CNN/W_cnn_{i}"] for i in range(_count(arrays, r"CNN/W_cnn_(\d+)"))]
    named = {name: arrays[name] for name in ranks if name in arrays}
    named.update({f"CNN/W_cnn_{i}": weight for i, weight in enumerate(filters)})
    problems += [
        f"{name} is {list(array.shape)}, should have {ranks.get(name, 4)} dimensions"
        for name, array in named.items()
        if len(array.shape) != ranks.get(name, 4)
    ]
    if problems:
        raise ValueError(Errors.EL325.format(path=source, problems="; ".join(problems)))
    options = {"char_cnn": _char_cnn(arrays, filters), "lstm": _lstm(arrays)}
    return DerivedOptions(source.path, content=json.dumps({"bidirectional": True, **options}))


def _char_cnn(arrays: Mapping[str, Array], filters: "list[Array]") -> Dict[str, Any]:
    return {
        "activation": ACTIVATION,
        "embedding": {"dim": arrays[CHAR_TABLE].shape[1]},
        "filters": [[array.shape[1], array.shape[3]] for array in filters],
        "max_characters_per_token": MAX_CHARACTERS,
        "n_characters": 262,
        "n_highway": _count(arrays, r"CNN_high_(\d+)/W_carry"),
    }


def _lstm(arrays: Mapping[str, Array]) -> Dict[str, Any]:
    width = arrays[FIRST_CELL + "W_0"].shape[1] // 4
    projection = arrays.get(FIRST_CELL + "W_P_0")
    return {
        "cell_clip": CLIP,
        "proj_clip": CLIP,
        "dim": width,
        "projection_dim": width if projection is None or len(projection.shape) != 2 else projection.shape[1],
        "n_layers": _count(arrays, r"RNN_0/RNN/MultiRNNCell/Cell(\d+)/LSTMCell/W_0"),
        "use_skip_connections": True,
    }


def _count(arrays: Mapping[str, Array], pattern: str) -> int:
    """How many numbers from 0 on occur in names."""
    numbers = {int(match[1]) for name in arrays if (match := re.fullmatch(pattern, name))}
    return next(n for n in range(len(numbers) + 1) if n not in numbers)
