"""A plain implementation of biLM training: the char-CNN for every token, a loop over time, gradients by autograd.

Equations, weights, text, sample and optimizer are those of the package, but no other code. The baseline "plain
autograd" of `pretraining.py`, and a check of the package's losses.
"""

from typing import List, Sequence, Tuple

import torch
from plain_loop import PlainCell
from torch import Tensor, nn
from torch.nn import functional as F

from spacy_elmo.bilm.lm_head import SoftmaxHead
from spacy_elmo.bilm.model import BiLMNetwork

State = List[List[Tuple[Tensor, Tensor]]]  # for each direction and layer h (B, P) and c (B, H)


class PlainLanguageModel(nn.Module):
    """A copy of a biLM with character input and of its softmax, written like the equations.

    network (BiLMNetwork), head (SoftmaxHead): Source of the weights.
    dropout (float): Dropout probability of each LSTM input and of the last output.
    """

    def __init__(self, network: BiLMNetwork, head: SoftmaxHead, dropout: float) -> None:
        super().__init__()
        config, cnn = network.config, network.char_cnn
        if cnn is None or cnn.projection is None or not (config.has_projection and config.has_skip):
            raise ValueError("The plain loop needs character input, projections and skips")
        self.dropout = dropout
        self.characters = _copy(cnn.embedding)
        self.filters = nn.ParameterList(_copy(part.weight) for part in cnn.filters)
        self.filter_biases = nn.ParameterList(_copy(part.bias) for part in cnn.filters)
        self.highways = nn.ParameterList(_copy(part.weight) for part in cnn.highways)
        self.highway_biases = nn.ParameterList(_copy(part.bias) for part in cnn.highways)
        self.projection, self.projection_bias = _copy(cnn.projection.weight), _copy(cnn.projection.bias)
        self.words, self.word_biases = _copy(head.weight), _copy(head.bias)
        self.cells = nn.ModuleList(
            nn.ModuleList(_cell(network, layer, direction) for layer in range(config.n_layers))
            for direction in range(config.n_directions)
        )

    def zero_state(self, n_lanes: int) -> State:
        """RETURNS (State): Where a text begins."""
        like = self.characters
        return [
            [tuple(like.new_zeros(n_lanes, n) for n in cell.projection.shape[::-1]) for cell in cells]
            for cells in self.cells
        ]

    def forward(
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
        for k, cells in enumerate(self.cells):
            outputs, states = self._read(ids[k], cells, state[k])
            outputs = F.dropout(outputs, self.dropout).flatten(0, 1)  # (S * B, P)
            losses.append(self._sampled_loss(outputs, targets[k].flatten(), negatives, log_counts))
            new_state.append(states)
        return torch.stack(losses).mean(), new_state

    def _read(
        self, ids: Tensor, cells: Sequence[PlainCell], state: List[Tuple[Tensor, Tensor]]
    ) -> Tuple[Tensor, List[Tuple[Tensor, Tensor]]]:
        x = self._spell(ids.flatten(0, 1)).view(*ids.shape[:2], -1)  # (S, B, P)
        states = []
        for number, (cell, (h, c)) in enumerate(zip(cells, state)):
            outputs = []
            for step in F.dropout(x, self.dropout):
                h, c = cell(step, h, c)
                outputs.append(h)
            x = torch.stack(outputs) if number == 0 else torch.stack(outputs) + x
            states.append((h.detach(), c.detach()))
        return x, states

    def _spell(self, ids: Tensor) -> Tensor:
        characters = F.embedding(ids, self.characters).transpose(1, 2)  # (N, E, C)
        pooled = [F.conv1d(characters, *pair).amax(dim=2) for pair in zip(self.filters, self.filter_biases)]
        features = torch.relu(torch.cat(pooled, dim=1))  # (N, F)
        for weight, bias in zip(self.highways, self.highway_biases):
            transformed, gate = F.linear(features, weight, bias).chunk(2, dim=1)
            gate = torch.sigmoid(gate)
            features = gate * torch.relu(transformed) + (1.0 - gate) * features
        return F.linear(features, self.projection, self.projection_bias)

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


def _cell(network: BiLMNetwork, layer: int, direction: int) -> PlainCell:
    part, config = network.encoder.layers[layer], network.config
    weights = {
        "W_0": nn.Parameter(torch.cat([part.input_weight[direction], part.recurrent_weight[direction]]).detach()),
        "B": _copy(part.bias[direction]),
        "W_P_0": _copy(part.projection_weight[direction]),
    }
    return PlainCell(weights, config.cell_clip, config.projection_clip)


def _copy(parameter: Tensor) -> nn.Parameter:
    return nn.Parameter(parameter.detach().clone())
