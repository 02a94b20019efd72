"""Causal self-attention over sequences of different lengths (Vaswani et al. 2017).

Rows of all sequences are in one matrix, without padding. Sequences of similar length are attended to in one group, as
a padded batch: padding follows the tokens, and the causal mask hides it from them.
"""

from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Ids = NDArray[np.int64]

MAX_PADDING = 1.25  # longest over shortest sequence of a group
GROUP_ROWS = 4096  # maximum rows of a group, padding included, unless it is one sequence


@dataclass(frozen=True)
class SequenceGroups:
    """Sequences grouped by length.

    rows (Sequence[Tensor]): For each group shape (G, T), the row of each step in reading order.
    kept (Sequence[Optional[Tensor]]): For each group the places of its rows without padding, None for all.
    order (Tensor): Shape (N,), for each row its place in the concatenation of what is kept.
    """

    rows: Sequence[Tensor]
    kept: Sequence[Optional[Tensor]]
    order: Tensor


def group_sequences(
    firsts: Ids, lengths: Ids, *, stride: int = 1, device: Optional[torch.device] = None
) -> SequenceGroups:
    """firsts (Ids): Shape (R,), first row of each sequence.
    lengths (Ids): Shape (R,), rows of each sequence; together they cover all rows once.
    stride (int): Distance of two rows of a sequence.
    device (Optional[torch.device]): Device of the result.
    RETURNS (SequenceGroups): The groups.
    """
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    rows: List[Ids] = []
    kept: List[Optional[Ids]] = []
    for start, stop in _edges(lengths[order].tolist()):
        group = order[start:stop]
        sizes = lengths[group, None]
        steps = np.arange(sizes.max())[None]
        rows.append(firsts[group, None] + stride * np.minimum(steps, sizes - 1))  # padding repeats the last row
        kept.append(None if sizes.min() == sizes.max() else np.flatnonzero(steps < sizes))
    places = [part.reshape(-1) if some is None else part.reshape(-1)[some] for part, some in zip(rows, kept)]
    inverse = np.argsort(np.concatenate([np.zeros(0, dtype="int64"), *places]))
    return SequenceGroups(
        [torch.from_numpy(part).to(device) for part in rows],
        [None if some is None else torch.from_numpy(some).to(device) for some in kept],
        torch.from_numpy(inverse).to(device),
    )


def attend(mixed: Tensor, groups: SequenceGroups, n_heads: int, dropout: float = 0.0) -> Tensor:
    """Attend to all earlier rows of the same sequence: softmax(q k / sqrt(P / heads)) v.

    mixed (Tensor): Shape (d, N, 3P), queries, keys and values.
    groups (SequenceGroups): The sequences.
    n_heads (int): Heads.
    dropout (float): Dropout of the attention weights.
    RETURNS (Tensor): Shape (d, N, P), the concatenated heads.
    """
    d, _, width = mixed.shape
    parts: List[Tensor] = []
    for rows, kept in zip(groups.rows, groups.kept):
        n_sequences, n_steps = rows.shape
        chosen = mixed.index_select(1, rows.reshape(-1))
        heads = chosen.view(d * n_sequences, n_steps, 3, n_heads, width // 3 // n_heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)  # 3 x (d * G, heads, T, P / heads)
        found = nn.functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)
        flat = found.transpose(1, 2).reshape(d, n_sequences * n_steps, width // 3)  # (d, G * T, P)
        parts.append(flat if kept is None else flat.index_select(1, kept))
    return torch.cat([mixed[:, :0, : width // 3], *parts], dim=1).index_select(1, groups.order)


def _edges(lengths: Sequence[int]) -> List[Tuple[int, int]]:
    """Consecutive groups of ascending lengths."""
    edges: List[Tuple[int, int]] = []
    start = 0
    for i, length in enumerate(lengths):
        is_long = length > MAX_PADDING * lengths[start] + 1
        if i > start and (is_long or (i + 1 - start) * length > GROUP_ROWS):
            edges.append((start, i))
            start = i
    return [*edges, (start, len(lengths))] if lengths else edges
