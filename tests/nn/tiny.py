"""A tiny biLM with random weights and a few sentences."""

from typing import Any, Sequence

import torch

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.model import BiLMNetwork, SoftmaxHead
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.text.words import Vocabulary

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


def make_language_model(words: Sequence[str], **meta: Any) -> BiLM:
    """RETURNS (BiLM): With a vocabulary, a softmax and meta data."""
    torch.manual_seed(0)
    head = SoftmaxHead(len(words), 8).eval()
    return BiLM(BiLMNetwork(CONFIG).eval(), vocabulary=Vocabulary(list(words)), head=head, meta=meta)
