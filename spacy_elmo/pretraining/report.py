"""The regular report of a run, also as a line of the log."""

import math
from dataclasses import dataclass
from typing import Any, Dict, Optional

from ..corpora.shards import Counts
from ..inference.perplexity import Perplexity


@dataclass(frozen=True)
class Report:
    """The progress of a run after some updates.

    step (int): Updates done.
    n_tokens (int): Predictions per direction trained on.
    loss (float): Mean training loss since the last report, in nats, both directions; NaN if all updates were skipped.
    learn_rate (float): Learning rate of the last update; NaN, like `grad_norm`, if the run resumed at its end and only
        validated.
    grad_norm (float): Global gradient norm of the last update, before clipping.
    elapsed_s (float): Seconds of training and validation, including those before a resume.
    tokens_per_s (float): Training speed since the last report.
    data_share (float): Share of that time spent on reading and preparing text.
    validation (Optional[Perplexity]): Held-out perplexity, if the report includes a validation.
    is_best (bool): Whether this is the best validation so far.
    read (Optional[Counts]): Counts of the training text read so far, over all passes.
    """

    step: int
    n_tokens: int
    loss: float
    learn_rate: float
    grad_norm: float
    elapsed_s: float
    tokens_per_s: float
    data_share: float
    validation: Optional[Perplexity] = None
    is_best: bool = False
    read: Optional[Counts] = None

    def to_row(self) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): A line of the log, plain JSON types."""
        row: Dict[str, Any] = {
            "step": self.step,
            "n_tokens": self.n_tokens,
            "loss": _known(self.loss),
            "learn_rate": _known(self.learn_rate),
            "grad_norm": _known(self.grad_norm),
            "elapsed_s": round(self.elapsed_s, 1),
            "tokens_per_s": round(self.tokens_per_s, 1),
            "data_share": round(self.data_share, 4),
        }
        if self.validation is not None:
            row.update(perplexities(self.validation))
            row["n_dropped"] = self.validation.n_dropped
        if self.validation is not None and self.read is not None:
            row["read"] = self.read.to_dict()
        return row


def _known(value: float) -> Optional[float]:
    return value if math.isfinite(value) else None


def perplexities(validation: Perplexity) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Scores of a validation for the log and the model's meta data, plain JSON types."""
    has_backward = not math.isnan(validation.backward)
    return {
        "forward": round(validation.forward, 4),
        "backward": round(validation.backward, 4) if has_backward else None,
        "unk_rate": round(validation.unk_rate, 5),
    }
