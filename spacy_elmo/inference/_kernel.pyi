PANEL_WIDTH: int
"""Columns of a panel of weights; cells are padded to a multiple of it."""
INSTRUCTION_SET: str
"""The kernel that is used: "avx512", "avx2" or "generic"; `SPACY_ELMO_CPU_ISA` selects another one."""

def run(
    weights: int,
    bias: int,
    projection: int,
    highway: int,
    highway_bias: int,
    inputs: int,
    table: int,
    start_h: int,
    start_c: int,
    n_active: int,
    tokens: int,
    table_rows: int,
    begins: int,
    ends: int,
    outputs: int,
    h: int,
    c: int,
    end_h: int,
    end_c: int,
    first_step: int,
    end_step: int,
    first_lane: int,
    n_lanes: int,
    n_plan_lanes: int,
    input_width: int,
    width: int,
    cell_width: int,
    stride: int,
    has_skip: int,
    cell_clip: float,
    projection_clip: float,
) -> None:
    """Compute some steps of one layer and direction for some lanes of a plan. Arrays are contiguous and passed by
    address, floats are float32 and indices int32, 0 is no array. Sizes are not checked.

    K is `input_width`, P is `width`, H is `cell_width`; P* and H* are padded to whole panels; S steps and B lanes are
    those of the plan, n those of this run.

    weights (int): Panels of (K + P, 4H*), the input side first.
    bias (int): (4H*,).
    projection (int): Panels of (H, P*), or 0: then P is H.
    highway (int): Panels of (K, P*), or 0. K is P.
    highway_bias (int): (P*,).
    inputs (int): Rows of K numbers, `stride` numbers apart, one for each token; 0 if only the table is needed.
    table (int): (any, 4H*), bias and input side of the gates, or 0: then they are computed at each step.
    start_h (int): (any, P), start_c (int): (any, H), initial states.
    n_active (int): (S,), the lanes of the plan that have a token at each step.
    tokens (int): (S, B), the token in each slot.
    table_rows (int): (tokens,), the row of the table for each token.
    begins (int): (S, B), the row of the initial state of the sequence that begins in a slot, or -1.
    ends (int): (S, B), the row of the state after the sequence that ends in a slot, or -1; 0 if no states are needed.
    outputs (int): Rows of P numbers, `stride` numbers apart, one for each token.
    h (int): (n, P* + 16), outputs of the step before, without skip connection or highway; updated.
    c (int): (n, H* + 16), memory cells, zero beyond H; updated.
    end_h (int): (any, P), end_c (int): (any, H), states after sequences.
    first_step (int), end_step (int): Steps to compute, from the first to before the end.
    first_lane (int), n_lanes (int): Lanes of the plan.
    has_skip (int): Whether inputs are added to the outputs.
    cell_clip (float), projection_clip (float): Bounds; infinity for none.
    RAISES (MemoryError): If there is no memory for n lanes.
    """

def multiply(
    rows: int,
    rows_stride: int,
    n_in: int,
    weights: int,
    bias: int,
    outputs: int,
    n_rows: int,
    n_panels: int,
    panel_size: int,
    outputs_stride: int,
) -> None:
    """Multiply rows with panels of weights, and add a bias.

    rows (int): (n_rows, n_in), `rows_stride` numbers apart.
    weights (int): `n_panels` panels, each `panel_size` numbers after the one before; its first n_in rows are used.
    bias (int): (n_panels * PANEL_WIDTH,).
    outputs (int): (n_rows, n_panels * PANEL_WIDTH), `outputs_stride` numbers apart.
    """
