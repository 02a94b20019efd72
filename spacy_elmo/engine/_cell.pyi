def update(
    acts: int,
    table: int,
    places: int,
    c2: int,
    half: int,
    n_rows: int,
    width: int,
    candidate_scale: float,
    clip2: float,
) -> None:
    """Update LSTM cells: arrays are given by their addresses, rows follow each other without a gap.

    acts (int): float32 (n_rows, 4, width), pre-activations of i, j, f, o.
    table (int): float32 (any, 4, width), rows to add to `acts`; 0 for none.
    places (int): int64 (n_rows,), which row of `table`.
    c2 (int): float32 (n_rows, width), twice the memory cell; updated in place.
    half (int): float32 (n_rows, width), half of o * tanh(c); written.
    n_rows (int): Rows.
    width (int): Columns of a gate.
    candidate_scale (float): Factor of j, 1 or 2.
    clip2 (float): Bound of `c2`.
    """
