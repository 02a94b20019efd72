"""Add the rows of `<S>` and `</S>` to a padded batch, and take them away."""

from typing import Tuple

import torch
from torch import Tensor

from ...nn.inputs import with_boundaries

BOS, EOS = 0, 1  # rows of a table of vectors
PADDING = -1


def boundary_index(numbers: Tensor, mask: Tensor) -> Tuple[Tensor, Tensor]:
    """Surround each sequence with `BOS` and `EOS`.

    numbers (Tensor): Shape (B, T), rows of a table; values outside the mask do not matter.
    mask (Tensor): Shape (B, T), True for the first tokens of each row.
    RETURNS (Tuple[Tensor, Tensor]): Rows (B, T + 2) with `PADDING` outside the sequences, and the mask (B, T + 2).
    """
    new_mask = with_boundaries(mask.cpu()).to(mask.device)  # (B, T + 2)
    index = torch.full_like(new_mask, PADDING, dtype=torch.long)
    index[:, 1:-1][mask] = numbers[mask]
    index[:, 0] = BOS
    index.scatter_(1, mask.sum(dim=1, keepdim=True) + 1, EOS)
    return index, new_mask


def remove_sentence_boundaries(tensor: Tensor, mask: Tensor) -> Tuple[Tensor, Tensor]:
    """tensor (Tensor): Shape (B, T + 2, D), with rows of `<S>` and `</S>`.
    mask (Tensor): Shape (B, T + 2), True for tokens and boundaries.
    RETURNS (Tuple[Tensor, Tensor]): Rows of the tokens (B, T, D), zeros outside the mask, and the mask (B, T).
    """
    new_mask = mask[:, 2:] != 0  # rows are shifted by one, and each sequence has two fewer
    return tensor[:, 1:-1].masked_fill(~new_mask.unsqueeze(-1), 0.0), new_mask
