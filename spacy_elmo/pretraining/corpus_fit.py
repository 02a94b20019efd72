"""Settings that depend on the corpus (length of a run, kind of softmax), and warnings about unsuitable settings."""

from dataclasses import replace
from typing import List, Optional, Sequence

from ..corpora.shards import Counts, Shard, read_shards
from ..errors import Warnings
from ..text.vocabulary import UNKNOWN, Vocabulary
from .config import PretrainConfig

# Up to this size the full softmax of a small biLM costs little more than 2,048 negatives, and its losses are exact.
FULL_SOFTMAX_WORDS = 10_000
MANY_PASSES = 20


def count_predictions(shards: Sequence[Shard], counts: Optional[Counts] = None) -> int:
    """shards (Sequence[Shard]): The corpus, read once if `counts` is None.
    counts (Optional[Counts]): Counts of one pass.
    RETURNS (int): Predictions per direction of one pass: its tokens, and one boundary per sentence.
    """
    if counts is None:
        counts = Counts()
        for _ in read_shards(shards, counts):
            pass
    return counts.n_tokens + counts.n_sentences


def has_unknown(shards: Sequence[Shard], vocabulary: Vocabulary) -> bool:
    """shards (Sequence[Shard]): The corpus, read up to the first token that is `<UNK>`.
    vocabulary (Vocabulary): The words.
    RETURNS (bool): Whether there is such a token.
    """
    return any(word == UNKNOWN or word not in vocabulary for tokens in read_shards(shards) for word in tokens)


def fit_to_corpus(config: PretrainConfig, *, n_words: int, n_predictions: Optional[int]) -> PretrainConfig:
    """Set the settings that depend on the corpus: `max_tokens` from `max_passes`, and "full" or "sampled" for the
    softmax "auto".

    config (PretrainConfig): The settings.
    n_words (int): V, words of the softmax.
    n_predictions (Optional[int]): Predictions per direction of one pass; needed with `max_passes`.
    RETURNS (PretrainConfig): The settings; `max_tokens` is the lower one of both limits.
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
    RETURNS (str): A description of the length of the run.
    """
    n_passes = config.max_tokens / n_predictions
    return (
        f"Training on {config.max_tokens:,} predictions per direction: {n_passes:.2f} passes through the text, "
        f"{config.n_updates:,} updates, {config.softmax.kind} softmax"
    )


def corpus_warnings(
    config: PretrainConfig, *, n_predictions: Optional[int] = None, n_unknown: Optional[int] = None
) -> List[str]:
    """Find settings that are unsuitable for the corpus.

    config (PretrainConfig): From `fit_to_corpus`.
    n_predictions (Optional[int]): Predictions per direction of one pass, if counted.
    n_unknown (Optional[int]): Tokens of the corpus that are `<UNK>`, or 1 if there are any; None if unknown.
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
