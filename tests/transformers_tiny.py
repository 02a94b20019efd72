"""Tiny transformer biLMs with random weights."""

from typing import Any, Dict

import torch

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.network import BiLMNetwork, SoftmaxHead
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.text.words import Vocabulary

TRANSFORMER: Dict[str, Any] = {
    "char_cnn": {"embedding_width": 4, "filters": [[1, 8], [2, 8]], "n_highway": 1, "has_layer_norm": True},
    "n_layers": 2,
    "projection_width": 8,
    "encoder": "transformer",
    "transformer": {"feedforward_width": 24, "n_heads": 2, "max_positions": 200},
}
SENTENCES = [
    ["She", "sat", "on", "the", "bank", "."],
    [],
    ["\N{WATER WAVE}"],
    ["the", "bank", "the", "a" * 60],
    [f"w{i % 11}" for i in range(90)],
]
WORDS = ["<S>", "</S>", "<UNK>", "the", "bank", "."]


def make_transformer(seed: int = 0, *, head: bool = False, **settings: Any) -> BiLM:
    """A biLM whose biases and norms are not their initial values."""
    torch.manual_seed(seed)
    network = BiLMNetwork(BiLMConfig.from_dict({**TRANSFORMER, **settings}))
    with torch.no_grad():
        for parameter in network.encoder.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    width = network.config.projection_width
    vocabulary = Vocabulary(WORDS) if head else None
    return BiLM(network, vocabulary=vocabulary, head=SoftmaxHead(len(WORDS), width) if head else None)
