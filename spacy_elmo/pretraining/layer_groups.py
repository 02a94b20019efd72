"""The parameters of a biLM and its softmax, grouped by layer from the top.

Howard & Ruder (2018) train each layer at its own rate and unfreeze the layers one by one, the top one first.
"""

from dataclasses import dataclass
from typing import Dict, List

from torch import nn

from ..bilm.model import BiLMNetwork, layer_parameters


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
    seen = {id(parameter) for parameter in network.parameters()}
    own = {f"head.{name}": parameter for name, parameter in head.named_parameters() if id(parameter) not in seen}
    groups = [LayerGroup("head", own)]
    for number, parameters in reversed(list(enumerate(layer_parameters(network)))):
        name = f"layers.{number - 1}" if number else "words"
        groups.append(LayerGroup(name, {f"network.{key}": parameter for key, parameter in parameters.items()}))
    return groups
