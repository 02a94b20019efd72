"""Held-out text, the best validation so far, and early stopping."""

import itertools
import math
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence

from ..corpora.shards import BlockStream, Counts, Shard
from ..inference.perplexity import Perplexity

Sentences = List[List[str]]


def read_held_out(
    shards: Sequence[Shard],
    n_sentences: int,
    *,
    max_sentence_tokens: int = 1000,
    counts: Optional[Counts] = None,
) -> Sentences:
    """Select evenly spaced sentences of the held-out text.

    shards (Sequence[Shard]): The text, small enough to fit in memory.
    n_sentences (int): Number of sentences, evenly spaced from the first sentence to the end.
    max_sentence_tokens (int): Longer sentences are split at this length, as in training.
    counts (Optional[Counts]): Counts of the whole text are added to it.
    RETURNS (Sentences): The sentences, all if there are fewer.
    RAISES (ValueError): EL101 for a text without sentences.
    """
    stream = BlockStream(shards, block_sentences=1, seed=0, repeat=False, max_sentence_tokens=max_sentence_tokens)
    sentences = list(itertools.chain.from_iterable(stream))
    if counts is not None:
        counts.add(stream.counts)
    n_found = len(sentences)
    return [sentences[i * n_found // n_sentences] for i in range(n_sentences)] if n_sentences < n_found else sentences


@dataclass
class BestSoFar:
    """The best validation of a run.

    mean (float): Its perplexity, the mean of both directions.
    step (int): Its step.
    n_worse (int): Validations since then.
    """

    mean: float = math.inf
    step: int = 0
    n_worse: int = 0

    def add(self, step: int, validation: Perplexity) -> bool:
        """RETURNS (bool): Whether this validation is better than all before."""
        is_better = validation.mean < self.mean
        if is_better:
            self.mean, self.step, self.n_worse = validation.mean, step, 0
        else:
            self.n_worse += 1
        return is_better

    def should_stop(self, patience: int) -> bool:
        """patience (int): Validations without improvement before stopping, 0 for no limit.
        RETURNS (bool): Whether the run should stop.
        """
        return bool(patience) and self.n_worse >= patience

    def to_dict(self) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): Plain JSON types; infinity becomes None."""
        return {"mean": self.mean if math.isfinite(self.mean) else None, "step": self.step, "n_worse": self.n_worse}

    @classmethod
    def from_dict(cls, record: Dict[str, Any]) -> "BestSoFar":
        """record (Dict[str, Any]): From `to_dict`."""
        return cls(**{**record, "mean": math.inf if record["mean"] is None else record["mean"]})
