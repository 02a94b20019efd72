"""What training has changed: the parameters of a model."""

from typing import Any, Dict, List

import numpy as np
from spacy.training.initialize import init_nlp
from spacy.util import load_config
from thinc.api import Model, to_numpy

MIX = "scalar_mix"  # in the names of its parameters


def read_parameters(model: Model[Any, Any]) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Copies of all arrays, by the position and the name of the layer and their own name."""
    nodes = [(f"{i} {node.name}", node) for i, node in enumerate(model.walk(order="dfs_pre"))]
    return {
        f"{place} {name}": np.array(to_numpy(node.get_param(name)))
        for place, node in nodes
        for name in node.param_names
        if node.has_param(name)
    }


def find_changed(config_path: Any, overrides: Dict[str, Any], name: str, trained: Model[Any, Any]) -> List[str]:
    """RETURNS (List[str]): Parameters of a component that differ from those of a new pipeline of the same config."""
    untrained: Any = init_nlp(load_config(config_path, overrides=overrides, interpolate=False)).get_pipe(name)
    before, after = read_parameters(untrained.model), read_parameters(trained)
    assert before and before.keys() == after.keys()
    return [key for key, array in before.items() if not np.array_equal(array, after[key])]
