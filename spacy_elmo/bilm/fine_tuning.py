"""Training a biLM layer by layer (Howard & Ruder 2018): one implementation for pretraining and for the component."""


def n_unfrozen(n_layers: int, *, done: int, every: int, at_start: int) -> int:
    """Gradual unfreezing, sec. 3.3: layers to train now. One more is trained, from the top, at regular intervals.

    done (int), every (int): Updates or tokens so far, and those between two layers; 0 trains all from the start.
    """
    return min(n_layers, at_start + done // every) if every else n_layers


def slanted_triangle(t: float, *, total: float, cut: float, ratio: float) -> float:
    """Slanted triangular learning rates, sec. 3.2, eq. 3: a linear rise for a short time, then a linear fall.

    The paper has cut (1 / cut_frac - 1) for total - cut, which is the same number unless `cut` was rounded.

    t (float), total (float), cut (float): Updates or tokens so far, of the training, and at the peak; t <= total.
    ratio (float): The highest rate divided by the lowest one.
    RETURNS (float): The rate as a factor of the highest one.
    """
    height = t / cut if t < cut else (total - t) / (total - cut)
    return (1.0 + height * (ratio - 1.0)) / ratio
