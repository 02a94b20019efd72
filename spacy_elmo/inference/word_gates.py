"""Input side of the gates of layer 1. It depends only on the word: computed per distinct word, looked up per token."""

from typing import Any, List, NamedTuple, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from ..text.lanes import Ids
from .cell import GateRows
from .dispatch import WORD_GATE_BYTES, WORD_GATE_STEP
from .workspace import Workspace


class RowPlan(NamedTuple):
    """Rows of a table of gates. The most frequent words of a plan have fixed rows; each block adds its other words.

    shared (Ids): Shape (n,), words of the first rows.
    indices (Ids): Shape (d, S, B), the row of each slot.
    others (List[Ids]): For each block the words of the rows after the shared ones.
    """

    shared: Ids
    indices: Ids
    others: List[Ids]


class WordGates:
    """A table of the gates of words, filled block by block.

    layer (Union[PackedLayer, UnpackedLayer]): Layer 1 of a stack.
    vectors (Tensor): Shape (U, P), vectors of the distinct words.
    words (Sequence[Ids]): For each direction of the stack shape (N,), the word of each token.
    slots (Sequence[Ids]): For each direction shape (N,), the slot of each token.
    shape (Tuple[int, int]): Steps and lanes.
    block_steps (int): Steps of a block.
    gates_width (int): 4H.
    workspace (Workspace): Memory of the table.
    """

    def __init__(
        self,
        layer: Any,
        vectors: Tensor,
        words: Sequence[Ids],
        slots: Sequence[Ids],
        shape: Tuple[int, int],
        block_steps: int,
        gates_width: int,
        workspace: Workspace,
    ) -> None:
        d, device = len(words), vectors.device
        max_shared = max(1, WORD_GATE_BYTES // (4 * d * gates_width))
        rows = assign_rows(words, slots, shape, block_steps, max_shared)
        self._layer, self._vectors, self._width = layer, vectors, gates_width
        self._indices = torch.from_numpy(rows.indices).to(device)  # (d, S, B)
        others = torch.from_numpy(np.concatenate([rows.shared[:0], *rows.others])).to(device)
        self._others = others.split([len(part) for part in rows.others])
        self._n_shared = len(rows.shared)
        n_rows = self._n_shared + max(map(len, rows.others), default=0)
        self._table = workspace.take("word gates", d, n_rows, gates_width)
        self._step = workspace.take("gates", d * shape[1] * gates_width)
        is_all = self._n_shared == len(vectors)
        self._fill(0, vectors if is_all else vectors[torch.from_numpy(rows.shared).to(device)])

    def begin_block(self, number: int) -> None:
        """number (int): The block to compute next."""
        self._fill(self._n_shared, self._vectors[self._others[number]])

    def look_up(self, step: int, n_lanes: int) -> GateRows:
        """RETURNS (GateRows): The gates of `n_lanes` lanes at a step."""
        indices = self._indices[:, step, :n_lanes]
        buffer = self._step[: indices.numel() * self._width].view(*indices.shape, self._width)
        return GateRows(self._table, indices, buffer)

    def _fill(self, first: int, vectors: Tensor) -> None:
        """vectors (Tensor): Shape (n, P), vectors of words; their gates are written to the rows from `first`."""
        rows = self._table[:, first : first + len(vectors)]
        for part, some in zip(rows.split(WORD_GATE_STEP, dim=1), vectors.split(WORD_GATE_STEP)):
            if len(some):
                part.copy_(self._layer.input_gates(some.unsqueeze(0)))


def assign_rows(
    words: Sequence[Ids], slots: Sequence[Ids], shape: Tuple[int, int], block_steps: int, max_shared: int
) -> RowPlan:
    """words (Sequence[Ids]): For each direction shape (N,), the word of each token.
    slots (Sequence[Ids]): For each direction shape (N,), the slot of each token.
    shape (Tuple[int, int]): Steps and lanes.
    block_steps (int): Steps of a block.
    max_shared (int): Maximum number of words with fixed rows.
    RETURNS (RowPlan): Slots without a token have an arbitrary row.
    """
    counts = np.bincount(np.concatenate(words))
    shared = np.arange(len(counts), dtype="int64")
    if len(counts) > max_shared:
        shared = np.sort(np.argsort(-counts, kind="stable")[:max_shared])
    row_of = np.full(len(counts), -1, dtype="int64")
    row_of[shared] = np.arange(len(shared))
    indices = np.zeros((len(words), *shape), dtype="int64")
    tokens = np.zeros_like(indices)
    for k, (part, own) in enumerate(zip(words, slots)):
        indices[k].reshape(-1)[own] = row_of[part]
        tokens[k].reshape(-1)[own] = part
    others = []
    for first in range(0, shape[0], block_steps):
        block = indices[:, first : first + block_steps]
        lacks_row = block < 0
        some, numbers = np.unique(tokens[:, first : first + block_steps][lacks_row], return_inverse=True)
        block[lacks_row] = len(shared) + numbers
        others.append(some)
    return RowPlan(shared, indices, others)
