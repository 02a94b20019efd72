"""The parameters of a biLM by the layer they belong to, numbered like the layers of a Doc: 0 for the words."""

import re
from typing import Dict, List

from torch import nn

from .model import BiLMNetwork


def layer_parameters(network: BiLMNetwork) -> List[Dict[str, nn.Parameter]]:
    """network (BiLMNetwork): The weights.
    RETURNS (List[Dict[str, nn.Parameter]]): Parameters by name, for each layer from 0 (the character CNN or word
        embedding) to L (the top layer of the encoder).
    """
    layers: List[Dict[str, nn.Parameter]] = [{} for _ in range(network.config.n_layers + 1)]
    for name, parameter in network.named_parameters():
        layers[_layer_of(name, network.config.n_layers)][name] = parameter
    return layers


def _layer_of(name: str, n_layers: int) -> int:
    if name.startswith(("encoder.lstm.", "encoder.projection.")):  # a `BiLSTM` is one layer
        return 1
    if name.startswith("encoder.norm."):  # the norm of a transformer's output
        return n_layers
    found = re.match(r"encoder\.(layers|highways|blocks)\.(\d+)\.", name)
    if found is None:
        return 0
    return int(found.group(2)) + 1 + (found.group(1) == "highways")  # the first highway is around the second layer
