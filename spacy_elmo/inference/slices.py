"""What slices have computed, put together: one tensor of all rows, or an array for each sequence."""

from typing import Callable, Iterable, List, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .encoder import Slice, inner_places
from .memory import to_host


def fill_rows(layers: Tensor, found: Iterable[Slice], lengths: Sequence[int], *, with_boundaries: bool) -> Tensor:
    """layers (Tensor): Shape (L+1, N, D), filled in place.
    found (Iterable[Slice]): Of all sequences.
    lengths (Sequence[int]): Words of each sequence.
    with_boundaries (bool): Whether N counts the rows of the boundaries.
    RETURNS (Tensor): `layers`.
    """
    row = 0
    for start, stop, rows, has_boundaries in found:
        is_cut = has_boundaries and not with_boundaries
        kept = without_boundaries(rows, lengths[start:stop]) if is_cut else rows
        layers[:, row : row + kept.shape[1]] = kept
        row += kept.shape[1]
    return layers


def to_arrays(
    found: Iterable[Slice], lengths: Sequence[int], choose: Callable[[Tensor], Tensor], *, with_boundaries: bool
) -> List[NDArray[np.float32]]:
    """found (Iterable[Slice]): Of all sequences.
    lengths (Sequence[int]): Words of each sequence.
    choose (Callable[[Tensor], Tensor]): See `layer_choice`.
    with_boundaries (bool): Keep the rows of the boundaries.
    RETURNS (List[NDArray[np.float32]]): Arrays (n, D) or (L+1, n, D) that own their memory, one for each sequence.
    """
    arrays: List[NDArray[np.float32]] = []
    for start, stop, rows, has_boundaries in found:
        sizes = [n + 2 * has_boundaries for n in lengths[start:stop]]
        chosen = to_host(choose(rows))  # (N, D) or (L+1, N, D), at once: one wait for a GPU
        for part in chosen.split(sizes, dim=-2):
            kept = part[..., 1:-1, :] if has_boundaries and not with_boundaries else part
            arrays.append(kept.numpy().astype("float32", copy=True))
    return arrays


def without_boundaries(rows: Tensor, lengths: Sequence[int]) -> Tensor:
    """rows (Tensor): Shape (L+1, n, D), with boundaries.
    lengths (Sequence[int]): Words of each sequence.
    RETURNS (Tensor): Shape (L+1, sum of lengths, D), a copy.
    """
    return rows[:, torch.from_numpy(inner_places(lengths)).to(rows.device)]
