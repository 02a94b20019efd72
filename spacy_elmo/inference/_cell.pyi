def update(
    acts: int,
    added: int,
    c2: int,
    half: int,
    n_rows: int,
    width: int,
    clip2: float,
) -> None:
    """Update LSTM cells. Arrays are contiguous float32, passed by address.

    acts (int): (n_rows, 4, width), pre-activations of i, j, f, o.
    added (int): (n_rows, 4, width), added to `acts`; 0 for none.
    c2 (int): (n_rows, width), twice the memory cell; updated in place.
    half (int): (n_rows, width), output: half of o * tanh(c).
    n_rows (int): Rows.
    width (int): Columns of a gate.
    clip2 (float): Bound of `c2`.
    """
