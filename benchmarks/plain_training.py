"""A plain implementation of biLM training: the char-CNN for every token, a loop over time, gradients by autograd.

Equations, weights, text, sample and optimizer are those of the package, but no other code: the biLM is that of
`plain_loop.py`. The baseline "plain autograd" of `pretraining.py`, and a check of the package's losses.
"""

import tempfile
from pathlib import Path
from typing import List, Tuple

import torch
from plain_loop import PlainBiLM
from torch import Tensor
from torch.nn import functional as F

from spacy_elmo import BiLM, save_bilm
from spacy_elmo.bilm.network import BiLMNetwork, SoftmaxHead

State = List[List[Tuple[Tensor, Tensor]]]  # for each direction and layer h (B, P) and c (B, H)


class PlainLanguageModel:
    """A copy of a biLM with character input and of its softmax, written like the equations.

    network (BiLMNetwork), head (SoftmaxHead): Source of the weights.
    """

    def __init__(self, network: BiLMNetwork, head: SoftmaxHead) -> None:
        with tempfile.TemporaryDirectory() as folder:
            save_bilm(BiLM(network), Path(folder) / "bilm", format="bilm-tf")
            self.bilm = PlainBiLM(Path(folder) / "bilm")
        self.words, self.word_biases = head.weight.detach().clone(), head.bias.detach().clone()
        self.weights = [*self.bilm.arrays.values(), self.words, self.word_biases]
        for weight in self.weights:
            weight.requires_grad_()

    def zero_state(self, n_lanes: int) -> State:
        """RETURNS (State): Where a text begins."""
        return [
            [tuple(self.words.new_zeros(n_lanes, n) for n in cell.projection.shape[::-1]) for cell in cells]
            for cells in self.bilm.cells
        ]

    def __call__(
        self, ids: Tensor, targets: Tensor, state: State, negatives: Tensor, log_counts: Tensor
    ) -> Tuple[Tensor, State]:
        """ids (Tensor): Shape (d, S, B, C), characters.
        targets (Tensor): Shape (d, S, B).
        state (State): Recurrent state of the lanes.
        negatives (Tensor): Shape (K,), distinct words.
        log_counts (Tensor): Shape (V,), log of the expected count of each word in the sample.
        RETURNS (Tuple[Tensor, State]): The mean loss in nats, and the new state.
        """
        losses, new_state = [], []
        for k, cells in enumerate(self.bilm.cells):
            x = self.bilm.spell(ids[k].flatten(0, 1)).view(*ids[k].shape[:2], -1)  # (S, B, P)
            new_state.append([])
            for number, (cell, (h, c)) in enumerate(zip(cells, state[k])):
                outputs = []
                for step in x:
                    h, c = cell(step, h, c)
                    outputs.append(h)
                x = torch.stack(outputs) if number == 0 else torch.stack(outputs) + x
                new_state[k].append((h.detach(), c.detach()))
            losses.append(self._sampled_loss(x.flatten(0, 1), targets[k].flatten(), negatives, log_counts))
        return torch.stack(losses).mean(), new_state

    def _sampled_loss(self, outputs: Tensor, targets: Tensor, negatives: Tensor, log_counts: Tensor) -> Tensor:
        own = (outputs * F.embedding(targets, self.words)).sum(dim=1) + self.word_biases[targets] - log_counts[targets]
        others = F.linear(outputs, F.embedding(negatives, self.words), self.word_biases[negatives])
        others = (others - log_counts[negatives]).masked_fill(targets.unsqueeze(1) == negatives, -1e30)
        scores = torch.cat([own.unsqueeze(1), others], dim=1)  # (N, 1 + K), the target first
        return F.cross_entropy(scores, torch.zeros_like(targets))


class PlainSampler:
    """Log-uniform words without repetition, from a number of draws with repetition.

    n_words (int): V.
    n_tries (int): Number of draws.
    seed (int): Random seed.
    """

    def __init__(self, n_words: int, n_tries: int, seed: int) -> None:
        self.n_words, self.n_tries = n_words, n_tries
        self.generator = torch.Generator().manual_seed(seed)
        ranks = torch.arange(n_words, dtype=torch.float64)
        self.log_range = torch.log(torch.tensor(n_words + 1.0, dtype=torch.float64))
        probs = torch.log((ranks + 2) / (ranks + 1)) / self.log_range
        self.log_counts = torch.log(1.0 - (1.0 - probs) ** n_tries).float()  # (V,)

    def __call__(self) -> Tensor:
        """RETURNS (Tensor): Shape (K,)."""
        draws = torch.rand(self.n_tries, generator=self.generator, dtype=torch.float64)
        return (torch.exp(draws * self.log_range).long() - 1).clamp(0, self.n_words - 1).unique()
