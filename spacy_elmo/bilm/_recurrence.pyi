def forward(
    pre: int,
    added: int,
    before: int,
    acts: int,
    raw: int,
    cells: int,
    tanhs: int,
    cell_outputs: int,
    gate_stride: int,
    n_rows: int,
    width: int,
    clip: float,
) -> None:
    """Compute a step of LSTM cells. Arrays are contiguous float32 and passed by address.

    pre (int), added (int): Shape (n_rows, 4, width); their sum are the pre-activations of i, j (candidate), f, o.
    before (int): Shape (n_rows, width), cells of the previous step.
    acts (int): Output, (n_rows, width) for each gate, activations.
    raw (int), cells (int): Outputs, shape (n_rows, width), cells before and after the clip; may be one array.
    tanhs (int), cell_outputs (int): Outputs, shape (n_rows, width), tanh of the cells, and o * tanh.
    gate_stride (int): Numbers from gate to gate in `acts`.
    clip (float): Bound of the cells.
    """

def backward(
    d_pre: int,
    acts: int,
    raw: int,
    tanhs: int,
    before: int,
    d_cell_outputs: int,
    d_c: int,
    gate_stride: int,
    n_rows: int,
    width: int,
    clip: float,
) -> None:
    """Compute the gradients of `pre` and `before`, see `forward`.

    d_pre (int): Output, shape (n_rows, 4, width).
    d_cell_outputs (int): Shape (n_rows, width), gradient of `cell_outputs`.
    d_c (int): Shape (n_rows, width), gradient of `cells`; overwritten with that of `before`.
    """
