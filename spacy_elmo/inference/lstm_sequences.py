"""A bidirectional LSTM layer over sequences of different lengths whose rows follow one another in one tensor: by the
native kernel (`kernel_lstm.py`) or by torch.

torch computes packed sequences in one call, also by cuDNN. On CPUs their backward pass takes time in proportion to
steps times rows, since torch allocates a gradient of all rows at each step. In training on a CPU, buckets of sequences
of similar length are therefore padded and computed one by one.
"""

from typing import List, Optional, Sequence, Tuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..bilm.layers import no_tf32, no_tf32_in_backward
from .kernel_lstm import PackedLSTM
from .packed_weights import takes_kernel
from .products import has_bfloat16_units

SequenceRows = NDArray[np.int64]
N_MATRICES = 4  # of one direction: weights of input and state, two biases


def run_lstm(rows: Tensor, lengths: Sequence[int], weights: Sequence[Tensor], packed: PackedLSTM) -> Tensor:
    """Compute both directions over each sequence, from a zero state.

    rows (Tensor): Shape (T, nI), T above 0.
    lengths (Sequence[int]): Rows of each sequence; they sum to T, and may be 0.
    weights (Sequence[Tensor]): For the forward, then for the backward direction: weights of the input (4H, nI) and of
        the state (4H, H), a bias (4H,) for each.
    packed (PackedLSTM): Holds the weights for the kernel; the caller keeps it beside them.
    RETURNS (Tensor): Shape (T, 2H), in the order of the rows. Under autocast it has that type on every processor, also
        where float32 is computed, since oneDNN has no LSTM in this type, or emulates it.
    """
    if takes_kernel(rows, weights):
        return packed.run(rows, lengths, weights)
    is_cpu, dtype = rows.device.type == "cpu", weights[0].dtype
    run = run_buckets if is_cpu and torch.is_grad_enabled() else run_packed
    if is_cpu and dtype == torch.float32 and torch.is_autocast_enabled("cpu"):
        half = torch.get_autocast_dtype("cpu")
        if half != torch.bfloat16 or not has_bfloat16_units():
            with torch.autocast("cpu", enabled=False):
                return run(rows.float(), lengths, weights).to(half)
        return run(rows, lengths, weights).to(half)  # without a gradient, torch 2.6 returns float32
    return run(rows, lengths, weights)


def run_buckets(rows: Tensor, lengths: Sequence[int], weights: Sequence[Tensor]) -> Tensor:
    """`run_lstm` in one call of torch per direction and bucket of sequences of similar length."""
    padded = torch.cat([rows, rows.new_zeros(1, rows.shape[1])])  # (T + 1, nI); the last row is the padding
    directions: List[Tensor] = []
    for is_backward in (False, True):
        matrices = list(weights[N_MATRICES:] if is_backward else weights[:N_MATRICES])
        outputs: List[Tensor] = []
        places: List[SequenceRows] = []
        for starts, sizes in bucket_lengths(lengths):
            read = lay_out(starts, sizes, is_backward=is_backward)
            read[read < 0] = len(rows)
            inputs = torch.nn.functional.embedding(torch.from_numpy(read), padded)  # (S, B, nI)
            outputs.append(_call(inputs, None, len(sizes), matrices).flatten(0, 1))  # (S * B, H)
            places.append(read.ravel())
        directions.append(torch.cat(outputs)[torch.from_numpy(_invert(np.concatenate(places), len(rows)))])
    return torch.cat(directions, dim=1)  # (T, 2H)


def run_packed(rows: Tensor, lengths: Sequence[int], weights: Sequence[Tensor]) -> Tensor:
    """`run_lstm` in one call of torch for all sequences."""
    places, batch_sizes = order_rows(lengths)
    order = torch.from_numpy(places).to(rows.device)
    packed = _call(rows[order], torch.from_numpy(batch_sizes), int(batch_sizes[0]), list(weights))  # (T, 2H)
    return packed[torch.from_numpy(_invert(places, len(places))).to(rows.device)]


def bucket_lengths(lengths: Sequence[int]) -> List[Tuple[SequenceRows, SequenceRows]]:
    """Divide sequences into buckets in which none is shorter than half of the longest: at most half is padding.

    RETURNS (List[Tuple[NDArray, NDArray]]): For each bucket the first row and the number of rows of each sequence, the
        longest first; empty sequences are in no bucket.
    """
    sizes = np.asarray(lengths, dtype="int64")
    starts = np.cumsum(sizes) - sizes
    order = np.argsort(-sizes, kind="stable")
    buckets: List[Tuple[SequenceRows, SequenceRows]] = []
    while len(order) and sizes[order[0]]:
        n_alike = int(np.count_nonzero(2 * sizes[order] >= sizes[order[0]]))
        buckets.append((starts[order[:n_alike]], sizes[order[:n_alike]]))
        order = order[n_alike:]
    return buckets


def lay_out(starts: SequenceRows, sizes: SequenceRows, *, is_backward: bool) -> SequenceRows:
    """Row at each step of each sequence, (S, B), -1 after its end; of `starts` and `sizes` (B,) the longest first."""
    steps = np.arange(sizes[0])[:, None]
    rows = starts + (sizes - 1 - steps if is_backward else steps)
    return np.where(steps < sizes, rows, -1)


def order_rows(lengths: Sequence[int]) -> Tuple[SequenceRows, SequenceRows]:
    """Order the rows of sequences as in a packed sequence of torch: all first rows, then all second rows, longer
    sequences first.

    RETURNS (Tuple[NDArray, NDArray]): The row at each place, (T,), and the number of sequences that have a row at each
        step, (longest,).
    """
    sizes = np.asarray(lengths, dtype="int64")
    owners = np.repeat(np.arange(len(sizes)), sizes)
    steps = np.arange(len(owners)) - (np.cumsum(sizes) - sizes)[owners]
    ranks = np.argsort(np.argsort(-sizes, kind="stable"))
    return np.lexsort((ranks[owners], steps)), np.bincount(steps)


def _call(inputs: Tensor, batch_sizes: Optional[Tensor], n_sequences: int, matrices: List[Tensor]) -> Tensor:
    """One layer of torch, in both directions if there are matrices for them; packed if there are batch sizes."""
    is_bidirectional, is_training = len(matrices) > N_MATRICES, torch.is_grad_enabled()
    zeros = inputs.new_zeros(len(matrices) // N_MATRICES, n_sequences, matrices[1].shape[1])
    state = (zeros, zeros)
    outputs: Tensor
    with no_tf32(inputs.device):
        if batch_sizes is None:
            outputs = torch.lstm(inputs, state, matrices, True, 1, 0.0, is_training, is_bidirectional, False)[0]
        else:
            outputs = torch.lstm(inputs, batch_sizes, state, matrices, True, 1, 0.0, is_training, is_bidirectional)[0]
    return no_tf32_in_backward(outputs)


def _invert(places: SequenceRows, n_rows: int) -> SequenceRows:
    """The place of each row, shape (n_rows,); rows from `n_rows` on are padding."""
    inverse = np.empty(max(n_rows, int(places.max()) + 1), dtype="int64")
    inverse[places] = np.arange(len(places))
    return inverse[:n_rows]
