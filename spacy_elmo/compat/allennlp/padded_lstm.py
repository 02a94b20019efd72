"""LSTM layers over padded batches, attached to the graph, with the states at the end of each row."""

from typing import List, Sequence, Tuple

import torch
from torch import Tensor, nn

from ...bilm.config import BiLMConfig
from ...bilm.recurrence import run_recurrence
from ...bilm.state import BiLMState, LSTMState, State
from .parameters import LayerWeights

SHUT = 1e4  # pre-activation of a gate whose sigmoid is exactly 0 (negative) or 1
# Tokens of a batch with its padding, up to which padding costs less than the steps of several batches.
PADDED_TOKENS = 2**13


def run_padded(
    config: BiLMConfig, layers: Sequence[LayerWeights], table: Tensor, index: Tensor, start: BiLMState
) -> Tuple[Tensor, BiLMState]:
    """Rows of very different length are computed in groups of similar length. So there is less padding than tokens, or
    little of both.

    config (BiLMConfig): Sizes, clips and the skip connection.
    layers (Sequence[LayerWeights]): Weights from the lowest layer up.
    table (Tensor): Shape (U, P).
    index (Tensor): Shape (B, T), rows of the table, negative behind the end of a row, which has at least one.
    start (BiLMState): One row per sequence. It gets no gradient.
    RETURNS (Tuple[Tensor, BiLMState]): Outputs (L, N, 2P), one row after the other; states at the ends.
    """
    lengths = (index >= 0).sum(dim=1)
    numbers = (index >= 0).flatten().cumsum(0).view(index.shape) - 1  # (B, T), place of each token in the outputs
    outputs: List[Tensor] = []
    places: List[Tensor] = []
    h, c = torch.empty_like(start.h), torch.empty_like(start.c)
    for rows in _similar_rows(lengths.tolist()):
        group = torch.tensor(rows, device=index.device)
        n_steps = int(lengths[group].max())
        vectors = nn.functional.embedding(index[group, :n_steps].clamp_min(0), table)  # (b, t, P)
        part = BiLMState(start.h[:, group], start.c[:, group])
        found, end = _run_group(config, layers, vectors, lengths[group], part)
        outputs.append(found)
        places.append(numbers[group][index[group] >= 0])
        h[:, group], c[:, group] = end.h, end.c
    if len(outputs) == 1:
        return outputs[0], BiLMState(h, c)
    return torch.cat(outputs, dim=1)[:, torch.cat(places).argsort()], BiLMState(h, c)


def _similar_rows(lengths: Sequence[int]) -> List[List[int]]:
    """RETURNS (List[List[int]]): Numbers of rows, the shortest of each group at least half as long as the longest."""
    if max(lengths) * len(lengths) <= max(2 * sum(lengths), PADDED_TOKENS):
        return [list(range(len(lengths)))]
    groups: List[List[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if not groups or 2 * lengths[i] < lengths[groups[-1][0]]:
            groups.append([])
        groups[-1].append(i)
    return groups


def _run_group(
    config: BiLMConfig, layers: Sequence[LayerWeights], vectors: Tensor, lengths: Tensor, start: BiLMState
) -> Tuple[Tensor, BiLMState]:
    """Behind the end of a row the gates keep the memory cell as it is, so that the last one is the one at the end.

    vectors (Tensor): Shape (B, T, P).
    lengths (Tensor): Shape (B,), 1 or more.
    RETURNS (Tuple[Tensor, BiLMState]): Outputs (L, N, 2P), one row after the other; states at the ends.
    """
    n_rows, n_steps, _ = vectors.shape
    steps = torch.arange(n_steps, device=vectors.device)
    mask = steps < lengths.unsqueeze(1)  # (B, T)
    reverse = torch.where(mask, lengths.unsqueeze(1) - 1 - steps, steps)  # (B, T), its own inverse
    inputs = torch.stack([vectors, _take(vectors, reverse)]).transpose(1, 2)  # (2, T, B, P), in reading order
    outputs: List[Tensor] = []
    ends: List[LSTMState] = []
    for number, (layer, (h, c)) in enumerate(zip(layers, start.to_state(config).layers)):
        out, end = _run_layer(config, layer, inputs, mask, h, c)
        inputs = out + inputs if number and config.has_skip else out
        forward, backward = inputs.transpose(1, 2)  # 2 x (B, T, P)
        joined = torch.cat([forward, _take(backward, reverse)], dim=2)
        outputs.append(joined[mask])
        ends.append(end)
    return torch.stack(outputs), BiLMState.from_state(State(tuple(ends)))


def _run_layer(
    config: BiLMConfig, layer: LayerWeights, inputs: Tensor, mask: Tensor, h: Tensor, c: Tensor
) -> Tuple[Tensor, LSTMState]:
    d, n_steps, n_rows, _ = inputs.shape
    rows = inputs.flatten(1, 2).to(layer.input_weight.dtype)
    gates = torch.baddbmm(layer.bias.unsqueeze(1), rows, layer.input_weight)
    gates = gates.view(d, n_steps, n_rows, -1)  # (2, T, B, 4H)
    gates = torch.where(mask.t().unsqueeze(-1), gates, _keeping(gates))
    outputs, _, last_c = run_recurrence(
        gates,
        layer.recurrent_weight,
        layer.projection_weight,
        h,
        c,
        cell_clip=config.cell_clip,
        projection_clip=config.projection_clip,
    )
    last = mask.sum(dim=1) - 1  # (B,)
    last_h = outputs[:, last, torch.arange(n_rows, device=last.device)]  # (2, B, P)
    return outputs, LSTMState(last_h.detach(), last_c)


def _keeping(gates: Tensor) -> Tensor:
    """RETURNS (Tensor): Shape (4H,), gates i, j, f, o that let nothing in and keep everything."""
    row = gates.new_zeros(4, gates.shape[-1] // 4)
    row[0], row[2] = -SHUT, SHUT
    return row.view(-1)


def _take(rows: Tensor, index: Tensor) -> Tensor:
    """rows (Tensor): Shape (B, T, P).
    index (Tensor): Shape (B, T).
    RETURNS (Tensor): Shape (B, T, P), the rows in another order.
    """
    return rows.gather(1, index.unsqueeze(-1).expand(-1, -1, rows.shape[2]))
