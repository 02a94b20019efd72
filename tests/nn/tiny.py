"""A tiny biLM with random weights and a few sentences."""

import torch

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.model import BiLMNetwork
from spacy_elmo.inference.bilm import BiLM

CONFIG = BiLMConfig.from_dict(
    {
        "char_cnn": {"embedding_width": 4, "filters": [[1, 8], [2, 8]], "n_highway": 1},
        "n_layers": 2,
        "cell_width": 16,
        "projection_width": 8,
    }
)
N_LAYERS, WIDTH = 3, 16
SENTENCES = [["She", "sat", "on", "the", "bank", "."], [], ["\N{WATER WAVE}"], ["the", "bank", "the", "a" * 60]]


def make_bilm(seed: int = 0, config: BiLMConfig = CONFIG) -> BiLM:
    torch.manual_seed(seed)
    return BiLM(BiLMNetwork(config))
