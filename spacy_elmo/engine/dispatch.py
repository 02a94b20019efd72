"""Which path computes a plan: the one place that decides, and all limits of the engine with what they give.

Measurements are of UD EWT on two threads, with the sizes of en_elmo_sm (cells of 640, projections of 128), small
(1024/128), medium (2048/256) and original (4096/512); docs/ablations.md has the tables and the processors.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
import torch

from ..text.lanes import LanePlan

# Lanes of a batch. At most 128 read 0.96 (en_elmo_sm) and 0.94 (small) as many tokens/s, 64 and 32 still fewer.
MAX_LANES = 256

# Recurrent weights of a direction, up to which a single sequence has both directions in one product. Directions one
# after the other read 1.24 (original) and 1.13 (medium) as many tokens/s, but 0.77 at small and 0.70 with en_elmo_sm.
SINGLE_TOGETHER_WEIGHTS = 2**20
# Rows of the input products of a single sequence are padded to multiples of this: oneDNN prepares a product for each
# number of rows that it has not seen lately, in 404 microseconds instead of 154.
SINGLE_ROW_STEP = 8
# Bytes of gates that a single sequence holds at once.
SINGLE_GATE_BYTES = 32 * 2**20

# Multiply-adds of a step, lanes by recurrent weights of a direction. Below the first limit both directions are best
# computed in each operation: prepacked products of one direction after the other read 0.74 to 0.91 as many tokens/s
# with en_elmo_sm. From the second on each has a thread of its own: both in each operation 0.88 to 0.94 as many.
FEW_LANES_PRODUCTS = 4 * 2**20
PARALLEL_PRODUCTS = 10 * 2**20

# Weights of one side of a layer, up to which input and recurrent side are one product in each step: separate ones read
# 0.93 (en_elmo_sm) and 0.91 (small) as many tokens/s. Larger ones do not fit the caches; there it is 0.99.
JOINT_WEIGHTS = 2**20

# Bytes of gates that a stack holds for a block of steps: 32 MB is 6 % slower with en_elmo_sm, 2 MB 2 % (AVX2: 0 %).
GATE_BYTES = 8 * 2**20
MIN_BLOCK_STEPS = 4
# Bytes of gates of layer 1 that are kept for the most frequent words of a plan; other words have theirs computed in
# each block. Without sharing, original reads 0.87 as many tokens/s; 128 MB: 0.94, all words: 0.98 (cache misses).
WORD_GATE_BYTES = 64 * 2**20
# Words whose gates are computed at a time: one size of temporary array, which the C library can reuse.
WORD_GATE_STEP = 128
# Active lanes are rounded up to multiples of this, at the end of a plan, for the same reason as SINGLE_ROW_STEP.
LANE_STEP = 8

# Numbers of gates and torch's threads for a direction, either of which lets one thread update the cells in one pass
# (`_cell.c`): it takes half of the time that torch's operations take on one thread (13 % for a single row).
ONE_PASS_NUMBERS = 2**15
ONE_PASS_THREADS = 2

# Columns from which oneDNN sums a single row in another order than several: such a row is computed twice, so that a
# row is the same to the last bit in every batch. Up to here the order is the same.
SINGLE_ROW_COLUMNS = 1024

# Weights of a matrix of the character CNN, up to which it is prepacked: the sums of a word then have the same order in
# every batch. With en_elmo_sm (2 * 2**20) 1 to 3 new words take 0.8 ms instead of 0.7, 1,000 take 143 instead of 167;
# original (8 * 2**20) would take 23 ms instead of 12 for one.
PREPACKED_WORD_WEIGHTS = 4 * 2**20

# Floats by which arrays of the working memory grow, and above which an array is given up after use.
WORKSPACE_STEP = 2**18
WORKSPACE_MAX_KEPT = 2**26
# Tokens after which free memory of the heap goes back to the system, and the largest share of the time for it.
TRIM_TOKENS = 2**16
TRIM_TIME = 0.02


class Path(Enum):
    """How a plan is computed.

    SINGLE_TOGETHER: one sequence, unpacked weights, both directions in each product.
    SINGLE_IN_TURN: one sequence, unpacked weights, one direction after the other.
    FEW_LANES: lanes, unpacked weights, both directions in each operation.
    IN_TURN: lanes, prepacked or quantized weights, one direction after the other.
    PARALLEL: the same, each direction in a thread of its own.
    BATCHED: lanes, torch's batched products, both directions in each operation.
    """

    SINGLE_TOGETHER = "single sequence, directions together"
    SINGLE_IN_TURN = "single sequence, directions in turn"
    FEW_LANES = "few lanes, directions together"
    IN_TURN = "lanes, directions in turn"
    PARALLEL = "lanes, directions in parallel"
    BATCHED = "lanes, batched products"


@dataclass(frozen=True)
class Sizes:
    """What decides about an LSTM stack.

    n_directions (int): d.
    cell_width (int): H.
    projection_width (int): P.
    """

    n_directions: int
    cell_width: int
    projection_width: int

    @property
    def recurrent_weights(self) -> int:
        """RETURNS (int): Of one direction of a layer."""
        return self.projection_width * 4 * self.cell_width

    @property
    def can_join(self) -> bool:
        """RETURNS (bool): Whether upper layers compute both sides of their gates in one product."""
        return self.recurrent_weights <= JOINT_WEIGHTS  # of either side: both read P values


def choose_path(plan: LanePlan, device: torch.device, precision: str, sizes: Sizes, *, has_packing: bool) -> Path:
    """plan (LanePlan): The sequences, at least one of them with tokens.
    device (torch.device): Of the weights.
    precision (str): What the weights are in.
    sizes (Sizes): Of the stack.
    has_packing (bool): Whether this build of torch has prepacked products on the CPU.
    RETURNS (Path): The fastest one.
    """
    if device.type != "cpu":
        return Path.BATCHED
    is_exact = precision == "float32"  # quantized weights have fewer bytes to read, and no other form
    if is_exact and np.count_nonzero(plan.lengths) == 1:
        is_small = sizes.recurrent_weights <= SINGLE_TOGETHER_WEIGHTS
        return Path.SINGLE_TOGETHER if is_small else Path.SINGLE_IN_TURN
    if is_exact and not has_packing:
        return Path.BATCHED
    n_products = plan.n_lanes * sizes.recurrent_weights
    if n_products >= PARALLEL_PRODUCTS:
        return Path.PARALLEL
    return Path.FEW_LANES if is_exact and n_products < FEW_LANES_PRODUCTS else Path.IN_TURN


def block_steps(n_directions: int, n_lanes: int, cell_width: int, n_bytes: int = GATE_BYTES) -> int:
    """RETURNS (int): Steps of a block, whose gates take about `n_bytes`."""
    step_bytes = 4 * n_directions * n_lanes * 4 * cell_width
    return max(MIN_BLOCK_STEPS, n_bytes // max(1, step_bytes))
