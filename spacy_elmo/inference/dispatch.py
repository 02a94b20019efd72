"""Selection of the path that computes a lane plan, and all limits of the engine with their measurements.

Measured on UD EWT with two threads, for the sizes of en_elmo_sm (cell width 640, projection width 128), small
(1024/128), medium (2048/256) and original (4096/512). "0.96 times the speed" is the speed with the other value of the
limit, relative to the one chosen. docs/performance.md has the tables and the processors.
"""

from enum import Enum

import numpy as np
import torch

from ..bilm.config import BiLMConfig
from ..text.lanes import LanePlan

# Maximum number of lanes of a batch. 128 lanes: 0.96 (en_elmo_sm) and 0.94 (small) times the speed; 64 and 32 are
# slower still.
MAX_LANES = 256

# The same on a GPU, and the sizes of a block that a CUDA graph computes: at most GRAPH_STEPS steps, fewer if the gates
# of a layer take more bytes; at least GRAPH_MIN_LANES lanes. On an H100 2,048 lanes were 1.1 times as fast as 512
# without graphs; not measured with them.
GPU_MAX_LANES = 1024
GRAPH_STEPS = 16
GRAPH_GATE_BYTES = 2**29
GRAPH_MIN_LANES = 16

# Recurrent weights per direction up to which a single sequence computes both directions in one product. Directions in
# turn: 1.24 (original), 1.13 (medium), 0.77 (small) and 0.70 (en_elmo_sm) times the speed.
SINGLE_TOGETHER_WEIGHTS = 2**20
# Rows of the input products of a single sequence are padded to multiples of this. oneDNN prepares a product again for
# each number of rows that is not in its cache: 404 microseconds instead of 154.
SINGLE_ROW_STEP = 8
# Bytes of gates in memory at once for a single sequence.
SINGLE_GATE_BYTES = 32 * 2**20

# Multiply-adds of a step: lanes times recurrent weights per direction. Below FEW_LANES_PRODUCTS both directions are
# computed in each operation; prepacked products, directions in turn: 0.74 to 0.91 times the speed (en_elmo_sm). From
# PARALLEL_PRODUCTS each direction has its own thread; both in each operation: 0.88 to 0.94 times the speed.
FEW_LANES_PRODUCTS = 4 * 2**20
PARALLEL_PRODUCTS = 10 * 2**20

# Weights of one side of a layer up to which the input side and the recurrent side are one product in each step.
# Separate products: 0.93 (en_elmo_sm) and 0.91 (small) times the speed. Larger matrices exceed the caches (0.99).
JOINT_WEIGHTS = 2**20

# Bytes of gates of a stack for a block of steps. 32 MB is 6 % slower with en_elmo_sm, 2 MB is 2 % slower (AVX2: 0 %).
GATE_BYTES = 8 * 2**20
MIN_BLOCK_STEPS = 4
# Bytes of layer 1 gates that are kept for the most frequent words of a plan; those of other words are computed in each
# block. With original, not sharing has 0.87 times the speed, 128 MB 0.94, all words 0.98 (cache misses).
WORD_GATE_BYTES = 64 * 2**20
# Words whose gates are computed at once. All temporary arrays have one size, so the C library can reuse the memory.
WORD_GATE_STEP = 128
# At the end of a plan, active lanes are rounded up to multiples of this, for the same reason as SINGLE_ROW_STEP.
LANE_STEP = 8

# Gate values and torch threads per direction; up to either limit one thread updates the cells in one pass (`_cell.c`).
# This takes half of the time of torch's operations on one thread (13 % for a single row).
ONE_PASS_NUMBERS = 2**15
ONE_PASS_THREADS = 2

# Recurrent weights per direction up to which products of an LSTM in int8 are computed in bfloat16, where the processor
# has instructions for it: quantizing the rows takes longer than is gained. Integers: 0.7 times the speed (en_elmo_sm).
INT8_WEIGHTS = 2**20
# Number of columns above which AMX sums bfloat16 rows in an order that depends on their number, if it is larger than
# the second. int8 weights split them: 0.95 times the speed (en_elmo_sm).
SAME_SUMS_COLUMNS = 256
SAME_SUMS_ROWS = 32

# Number of columns above which oneDNN sums a single row in another order than several rows. Such a row is computed
# twice, so that the result is bit-identical in every batch.
SINGLE_ROW_COLUMNS = 1024

# Maximum number of weights of a prepacked matrix of the character CNN. Prepacked, the sums of a word have the same
# order in every batch. With en_elmo_sm (2 * 2**20) 1 to 3 new words take 0.8 ms instead of 0.7, 1,000 take 143 ms
# instead of 167; with original (8 * 2**20) one word would take 23 ms instead of 12.
PREPACKED_WORD_WEIGHTS = 4 * 2**20

# Sizes of arrays of the working memory are rounded up to multiples of the first (in floats). Arrays larger than the
# second are freed after use.
WORKSPACE_STEP = 2**18
WORKSPACE_MAX_KEPT = 2**26
# Tokens after which free memory of the heap is returned to the system, and the maximum share of time spent on it.
TRIM_TOKENS = 2**16
TRIM_TIME = 0.02


class Path(Enum):
    """Ways to compute a plan.

    SINGLE_TOGETHER: one sequence, unpacked weights, both directions in each product.
    SINGLE_IN_TURN: one sequence, unpacked weights, directions in turn.
    FEW_LANES: lanes, unpacked weights, both directions in each operation.
    IN_TURN: lanes, prepacked or quantized weights, directions in turn.
    PARALLEL: as IN_TURN, but each direction in its own thread.
    BATCHED: lanes, torch's batched products, both directions in each operation.
    """

    SINGLE_TOGETHER = "single sequence, directions together"
    SINGLE_IN_TURN = "single sequence, directions in turn"
    FEW_LANES = "few lanes, directions together"
    IN_TURN = "lanes, directions in turn"
    PARALLEL = "lanes, directions in parallel"
    BATCHED = "lanes, batched products"


def recurrent_weights(config: BiLMConfig) -> int:
    """RETURNS (int): Recurrent weights of one direction of an LSTM layer; the input side has as many."""
    return config.projection_width * 4 * config.cell_width


def can_join(config: BiLMConfig) -> bool:
    """RETURNS (bool): Whether upper layers compute both sides of their gates in one product."""
    return recurrent_weights(config) <= JOINT_WEIGHTS


def choose_path(plan: LanePlan, device: torch.device, precision: str, config: BiLMConfig, *, has_packing: bool) -> Path:
    """The fastest path for a plan in which at least one sequence is not empty.

    has_packing (bool): Whether this build of PyTorch has prepacked products on the CPU.
    """
    if device.type != "cpu":
        return Path.BATCHED
    is_exact = precision == "float32"  # quantized weights have one form only, and need less memory bandwidth
    if is_exact and np.count_nonzero(plan.lengths) == 1:
        is_small = recurrent_weights(config) <= SINGLE_TOGETHER_WEIGHTS
        return Path.SINGLE_TOGETHER if is_small else Path.SINGLE_IN_TURN
    if is_exact and not has_packing:
        return Path.BATCHED
    n_products = plan.n_lanes * recurrent_weights(config)
    if n_products >= PARALLEL_PRODUCTS:
        return Path.PARALLEL
    return Path.FEW_LANES if is_exact and n_products < FEW_LANES_PRODUCTS else Path.IN_TURN


def block_steps(n_directions: int, n_lanes: int, cell_width: int, n_bytes: int = GATE_BYTES) -> int:
    """RETURNS (int): Steps of a block whose gates take about `n_bytes`."""
    step_bytes = 4 * n_directions * n_lanes * 4 * cell_width
    return max(MIN_BLOCK_STEPS, n_bytes // max(1, step_bytes))
