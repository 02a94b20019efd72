"""Learning rates by update, for `[training.optimizer.learn_rate]`.

Thinc's own `slanted_triangular.v1` goes on below zero after the last step; this one stays at the lowest rate.
"""

import math
import warnings
from itertools import count, islice
from typing import Iterator

from .._settings import find_texts
from ..errors import Errors, Warnings

NAME = "schedule spacy-elmo.slanted_triangular.v1"
N_SPARE = 2  # `spacy train` makes max_steps + 1 updates, and asks for a rate after the last one


def slanted_triangular(
    max_rate: float, num_steps: int, *, cut_frac: float = 0.1, ratio: float = 32.0, t: int = 0
) -> Iterator[float]:
    """Rise linearly for a short time, then fall linearly: Howard & Ruder (2018), eq. 3.

    cut = floor(T cut_frac); p = t / cut up to the cut, then 1 - (t - cut) / (T - cut);
    rate = max_rate (1 + p (ratio - 1)) / ratio. The paper has cut (1 / cut_frac - 1) for T - cut, which is the same
    number where T cut_frac is whole, and falls below the lowest rate where it is not.

    max_rate (float): The highest rate.
    num_steps (int): T, the updates of the training. Later rates are the lowest one, with warning WL071.
    cut_frac (float): Share of the updates in which the rate rises, 0 to below 1.
    ratio (float): The highest rate by the lowest one.
    t (int): Updates done before, for a training that is resumed; if there are none left.
    RETURNS (Iterator[float]): The rate of each update, without end.
    RAISES (ValueError): EL060 for settings that make no sense.
    """
    problems = find_texts(max_rate=max_rate, num_steps=num_steps, cut_frac=cut_frac, ratio=ratio, t=t)
    if not problems:
        checks = [
            (0 < max_rate < math.inf, f"max_rate is {max_rate}, should be above 0"),
            (num_steps >= 1, f"num_steps is {num_steps}, should be 1 or more (max_steps = 0 trains without end)"),
            (0 <= cut_frac < 1, f"cut_frac is {cut_frac}, should be from 0 to below 1"),
            (1 <= ratio < math.inf, f"ratio is {ratio}, should be 1 or more"),
            (t >= 0, f"t is {t}, should be 0 or more"),
        ]
        problems = [text for is_fine, text in checks if not is_fine]
    if problems:
        raise ValueError(Errors.EL060.format(block=NAME, problems="; ".join(problems)))
    cut = int(num_steps * cut_frac)
    heights = (step / cut if step < cut else 1.0 - (step - cut) / (num_steps - cut) for step in count(t))
    rates = (max_rate * (1.0 + max(0.0, height) * (ratio - 1.0)) / ratio for height in heights)
    if ratio == 1:  # a constant rate has no end
        return rates
    lowest = f"{max_rate / ratio:g}"
    if t >= num_steps:
        warnings.warn(
            f"The {NAME} starts after its end: t is {t}, num_steps is {num_steps}, so that all updates have the lowest "
            f"rate, {lowest}. Set num_steps to the updates of the whole training, those done before included, and t to "
            "the updates done before.",
            stacklevel=2,
        )
        return rates
    text = Warnings.WL071.format(name=NAME, num_steps=num_steps, rate=lowest)
    return _warn_after(rates, num_steps - t + N_SPARE, text)


def _warn_after(rates: Iterator[float], n_rates: int, text: str) -> Iterator[float]:
    """YIELDS (float): The same rates; a warning comes with the first one after `n_rates`."""
    yield from islice(rates, n_rates)
    warnings.warn(text, stacklevel=2)
    yield from rates
