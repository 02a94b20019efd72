"""The parameters of a biLM and its softmax, grouped by layer from the top.

Howard & Ruder (2018) train each layer at its own rate and unfreeze the layers one by one, the top one first.
"""

import re
from dataclasses import dataclass
from typing import Dict, List, Set

from torch import nn

from ..bilm.model import BiLMNetwork


@dataclass(frozen=True)
class LayerGroup:
    """Parameters that are unfrozen together and share a learning rate.

    name (str): "head", "layers.1", "layers.0", "words".
    parameters (Dict[str, nn.Parameter]): By a name that is the same in every run, e.g. "network.encoder.layers.0.bias".
    """

    name: str
    parameters: Dict[str, nn.Parameter]


def layer_groups(network: BiLMNetwork, head: nn.Module) -> List[LayerGroup]:
    """Group parameters by layer. A shared parameter (`tie_weights`) is listed once, with the network.

    network (BiLMNetwork): Its word encoder is the lowest layer.
    head (nn.Module): The softmax, the highest layer.
    RETURNS (List[LayerGroup]): The softmax, the LSTM layers from the top, the character CNN or word embedding.
    """
    names = ["head", *(f"layers.{layer}" for layer in reversed(range(network.config.n_layers))), "words"]
    groups: Dict[str, Dict[str, nn.Parameter]] = {name: {} for name in names}
    seen: Set[int] = set()
    for name, parameter in network.named_parameters():
        groups[_layer_of(name)][f"network.{name}"] = parameter
        seen.add(id(parameter))
    for name, parameter in head.named_parameters():
        if id(parameter) not in seen:
            groups["head"][f"head.{name}"] = parameter
    return [LayerGroup(name, parameters) for name, parameters in groups.items()]


def _layer_of(name: str) -> str:
    """RETURNS (str): Group of a parameter of the network."""
    found = re.match(r"encoder\.(layers|highways)\.(\d+)\.", name)
    if found is None:
        return "words"
    number = int(found.group(2)) + (found.group(1) == "highways")  # the first highway is around the second layer
    return f"layers.{number}"
