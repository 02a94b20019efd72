"""Settings that depend on the corpus: the length of a run and the softmax; and warnings where they do not fit it."""

from dataclasses import replace
from typing import List, Optional, Sequence

from ..corpora.shards import Counts, Shard, read_shards
from ..errors import Warnings
from .config import PretrainConfig

# Up to here the full softmax of a small biLM costs little more than 2,048 negatives, and its losses have no noise.
FULL_SOFTMAX_WORDS = 10_000
MANY_PASSES = 20


def count_predictions(shards: Sequence[Shard], counts: Optional[Counts] = None) -> int:
    """shards (Sequence[Shard]): The corpus, read once if it has not been counted.
    counts (Optional[Counts]): What reading it once has counted.
    RETURNS (int): Predictions per direction of one pass: its tokens and the ends of its sentences.
    """
    if counts is None:
        counts = Counts()
        for _ in read_shards(shards, counts):
            pass
    return counts.n_tokens + counts.n_sentences


def fit_to_corpus(config: PretrainConfig, *, n_words: int, n_predictions: Optional[int]) -> PretrainConfig:
    """Replace what depends on the corpus by numbers and names: `max_passes` by `max_tokens`, the softmax "auto" by
    "full" or "sampled".

    config (PretrainConfig): How to train.
    n_words (int): V, words of the softmax.
    n_predictions (Optional[int]): Predictions per direction of one pass; needed with `max_passes`.
    RETURNS (PretrainConfig): The same, its `max_tokens` the lower one of both limits.
    """
    softmax = config.softmax
    if softmax.kind == "auto":
        is_full = n_words <= FULL_SOFTMAX_WORDS and not config.optimizer.sparse
        softmax = replace(softmax, kind="full" if is_full else "sampled")
    limits = [config.max_tokens] if config.max_tokens else []
    if config.max_passes and n_predictions is not None:
        limits.append(max(1, round(config.max_passes * n_predictions)))
    return replace(config, softmax=softmax, max_tokens=min(limits))


def describe_length(config: PretrainConfig, n_predictions: int) -> str:
    """config (PretrainConfig): From `fit_to_corpus`.
    n_predictions (int): Predictions per direction of one pass.
    RETURNS (str): A statement about how long the run is.
    """
    n_passes = config.max_tokens / n_predictions
    return (
        f"Training on {config.max_tokens:,} predictions per direction: {n_passes:.2f} passes through the text, "
        f"{config.n_updates:,} updates, {config.softmax.kind} softmax"
    )


def corpus_warnings(
    config: PretrainConfig, *, n_predictions: Optional[int] = None, n_unknown: Optional[int] = None
) -> List[str]:
    """Settings that make a poor biLM of this corpus.

    config (PretrainConfig): From `fit_to_corpus`.
    n_predictions (Optional[int]): Predictions per direction of one pass, if they were counted.
    n_unknown (Optional[int]): Tokens of the corpus that become `<UNK>`, if they were counted.
    RETURNS (List[str]): WL101 for a warm-up of more than half of the run, WL102 for a corpus without `<UNK>`, WL104 for
        many passes.
    """
    found = []
    is_slanted = config.schedule.name == "slanted_triangular"
    if 2 * config.warmup_updates > config.n_updates and not is_slanted:
        found.append(Warnings.WL101.format(n_warmup=config.warmup_updates, n_updates=config.n_updates))
    if n_unknown == 0:
        found.append(Warnings.WL102)
    if n_predictions and config.max_tokens > MANY_PASSES * n_predictions and not config.patience:
        found.append(Warnings.WL104.format(n_passes=round(config.max_tokens / n_predictions)))
    return found
