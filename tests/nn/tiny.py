"""Tiny biLMs with random weights and a few sentences."""

from typing import Any, Sequence

import torch

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.network import BiLMNetwork, SoftmaxHead
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.text.words import Vocabulary

SIZES = {
    "char_cnn": {"embedding_width": 4, "filters": [[1, 8], [2, 8]], "n_highway": 1},
    "n_layers": 2,
    "cell_width": 16,
    "projection_width": 8,
}
CONFIG = BiLMConfig.from_dict(SIZES)
TRANSFORMER = {
    **{name: SIZES[name] for name in ("char_cnn", "n_layers", "projection_width")},
    **{"encoder": "transformer", "transformer": {"n_heads": 2, "feedforward_width": 32}},
}
N_LAYERS, WIDTH = 3, 16
SENTENCES = [["She", "sat", "on", "the", "bank", "."], [], ["\N{WATER WAVE}"], ["the", "bank", "the", "a" * 60]]


def make_network(seed: int = 0, **changes: Any) -> BiLMNetwork:
    """changes: Of SIZES."""
    torch.manual_seed(seed)
    return BiLMNetwork(BiLMConfig.from_dict({**SIZES, **changes}))


def make_bilm(seed: int = 0, config: BiLMConfig = CONFIG) -> BiLM:
    torch.manual_seed(seed)
    return BiLM(BiLMNetwork(config))


def make_language_model(words: Sequence[str], std: float = 0.0, seed: int = 0, **meta: Any) -> BiLM:
    """std (float): Of the weights of the softmax; 0 for its initial ones.
    RETURNS (BiLM): With a vocabulary, a softmax and meta data.
    """
    torch.manual_seed(seed)
    head = SoftmaxHead(len(words), 8).eval()
    if std:
        torch.nn.init.normal_(head.weight, std=std)
    return BiLM(BiLMNetwork(CONFIG).eval(), vocabulary=Vocabulary(list(words)), head=head, meta=meta)
