PANEL_WIDTH: int
"""Columns of a panel of weights; cells are padded to a multiple of it."""
N_TYPES: int
"""Types of weights; their order is that of `kernel.TYPES`."""
INSTRUCTION_SET: str
"""The kernel that is used: "avx512_bf16", "avx512", "avx2" or "generic"; `SPACY_ELMO_CPU_ISA` selects another one."""

def run(
    layers: int,
    vectors: int,
    words: int,
    tokens: int,
    n_active: int,
    begins: int,
    ends: int,
    rows: int,
    gates: int,
    n_layers: int,
    width: int,
    cell_width: int,
    has_skip: int,
    n_words: int,
    rows_stride: int,
    layer_stride: int,
    n_steps: int,
    n_plan_lanes: int,
    first_lane: int,
    n_lanes: int,
    max_gates: int,
    max_slots: int,
    few_lanes: int,
    type: int,
    cell_clip: float,
    projection_clip: float,
) -> None:
    """Compute all steps of a stack in one direction for some lanes of a plan. Arrays are passed by address, floats are
    float32 and indices int32, 0 is no array. Sizes are not checked. Panels of bfloat16 and int8 have a half and a
    quarter of the rows, rounded up; see `PackedMatrix`.

    P is `width`, H is `cell_width`; P* and H* are padded to whole panels; S steps and B lanes are those of the plan.

    layers (int): For each layer ten addresses: panels of the weights of inputs and of previous outputs (P, 4H*); bias
        (4H*,); projection, panels of (H, P*), or 0: then P is H; highway, panels of (P, P*), or 0; its bias (P*,);
        initial states (any, P) and (any, H); states after sequences (any, P) and (any, H), or 0.
    vectors (int): (n_words, P), of the distinct words.
    words (int): The word of each token.
    tokens (int): (S, B), the token in each slot.
    n_active (int): (S,), the lanes of the plan that have a token at each step.
    begins (int): (S, B), the row of the initial state of the sequence that begins in a slot, or -1.
    ends (int): (S, B), the row of the state after the sequence that ends in a slot, or -1; 0 if no states are needed.
    rows (int): Output: a row of P numbers for each token, `rows_stride` numbers apart; those of the next layer are
        `layer_stride` numbers further. Layer 0 has the word vectors.
    gates (int): Room for `max_gates` numbers.
    has_skip (int): Whether inputs are added to the outputs of the layers above the first.
    first_lane (int), n_lanes (int): The lanes to compute.
    max_slots (int): Slots to compute between two checks for signals.
    few_lanes (int): Lanes up to which the input side of an upper layer is one product of many steps.
    type (int): Of the weights, in `kernel.TYPES`.
    cell_clip (float), projection_clip (float): Bounds; infinity for none.
    RAISES (MemoryError): If there is no memory for the lanes.
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
    type: int,
) -> None:
    """Multiply rows with panels of weights, and add a bias.

    rows (int): (n_rows, n_in), `rows_stride` numbers apart.
    weights (int): `n_panels` panels, each `panel_size` times 4 bytes after the one before.
    bias (int): (n_panels * PANEL_WIDTH,).
    outputs (int): (n_rows, n_panels * PANEL_WIDTH), `outputs_stride` numbers apart.
    type (int): Of the weights, as in `run`.
    RAISES (MemoryError): If there is no memory for copies of some rows.
    """
