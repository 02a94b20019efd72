"""Learning rate schedules, as a factor of the peak rate.

Warm-up is counted in updates, decay in tokens read, so that the decay does not depend on the batch size.
"slanted_triangular" is eq. 3 of Howard & Ruder (2018), "inverse_sqrt" that of Vaswani et al. (2017), sec. 5.3.
"""

import math

from .config import ScheduleConfig


def rate_factor(settings: ScheduleConfig, *, step: int, n_tokens: int, max_tokens: int) -> float:
    """settings (ScheduleConfig): The schedule; `warmup_steps` of None means no warm-up.
    step (int): Updates done before this one.
    n_tokens (int): Predictions per direction trained on before this one.
    max_tokens (int): Predictions per direction of the whole run.
    RETURNS (float): From 0 to 1.
    """
    done = min(1.0, n_tokens / max_tokens)
    if settings.name == "slanted_triangular":
        return _slanted_triangle(done, settings.cut_frac, settings.ratio)
    n_warmup = max(1, settings.warmup_steps or 0)
    rise = min(1.0, (step + 1) / n_warmup)
    if settings.name == "linear":
        return rise * (1.0 - done)
    if settings.name == "cosine":
        return rise * 0.5 * (1.0 + math.cos(math.pi * done))
    if settings.name == "inverse_sqrt":
        return rise * min(1.0, math.sqrt(n_warmup / (step + 1)))
    return rise


def _slanted_triangle(done: float, cut_frac: float, ratio: float) -> float:
    height = done / cut_frac if done < cut_frac else (1.0 - done) / (1.0 - cut_frac)
    return (1.0 + height * (ratio - 1.0)) / ratio
