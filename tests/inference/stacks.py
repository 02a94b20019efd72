"""LSTM stacks of every kind with random weights, and sentences of many lengths."""

from typing import Any

import torch
from nn.tiny import make_network

from spacy_elmo.inference.bilm import BiLM

VARIANTS = {
    "plain": {},
    "forward": {"directions": "forward"},
    "no projection": {"cell_width": 8},
    "no skip": {"has_skip": False},
    "highway between layers": {"has_skip": False, "highway_between": True},
    "highway, no projection": {"has_skip": False, "highway_between": True, "cell_width": 13, "projection_width": 13},
    "no clips": {"cell_clip": None, "projection_clip": None},
    "small clips": {"cell_clip": 0.05, "projection_clip": 0.02},
    "four layers": {"n_layers": 4},
    "odd widths": {"cell_width": 33, "projection_width": 7},
    "several panels": {"cell_width": 100, "projection_width": 70},
    "more than a group of panels": {"cell_width": 300, "projection_width": 161},
}
SENTENCE = "the river runs past the old mill and the bank of the river".split()
SENTENCES = [SENTENCE[n % 5 : n % 5 + 1 + n % 7] for n in range(40)] + [[], SENTENCE, SENTENCE * 3]


def make_stack(**changes: Any) -> BiLM:
    """changes: Settings of a `BiLMConfig`."""
    network = make_network(3, **{"cell_width": 24, **changes})
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2.0)  # so that gates move and clips clip
    return BiLM(network)
