def update(
    acts: int,
    added: int,
    c2: int,
    half: int,
    n_rows: int,
    width: int,
    clip2: float,
    is_bfloat16: bool,
) -> None:
    """Update LSTM cells. Arrays are contiguous and passed by address.

    acts (int): (n_rows, 4, width), pre-activations of i, j, f, o.
    added (int): (n_rows, 4, width), added to `acts`; 0 for none.
    c2 (int): float32 (n_rows, width), twice the memory cell; updated in place.
    half (int): (n_rows, width), output: half of o * tanh(c).
    n_rows (int): Rows.
    width (int): Columns of a gate.
    clip2 (float): Bound of `c2`.
    is_bfloat16 (bool): Whether `acts`, `added` and `half` are bfloat16 instead of float32.
    """
