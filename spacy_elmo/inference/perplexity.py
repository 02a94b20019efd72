"""Perplexity of a biLM on a text, per direction (Peters et al. 2018, sec. 3.1)."""

import math
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..bilm.network import BiLMNetwork, LMHead
from ..errors import Errors
from ..text.lanes import NumberedText, SentenceLanes
from ..text.words import SENTENCE_BEGIN, SENTENCE_END, Vocabulary, WordTable
from .encoder import Encoder, SequenceBatch, resolve_state
from .products import require_float32
from .word_encoder import WordEncoder, check_has_targets

LossArrays = List[NDArray[np.float32]]

LANE_STEPS = 64
SENTENCES_PER_LANE = 8


class LanguageModel(NamedTuple):
    """A biLM that predicts words: the layers, the softmax over the top one, and its words."""

    encoder: Encoder
    head: LMHead
    vocabulary: Vocabulary


class Losses(NamedTuple):
    """Losses of some predictions of a text.

    losses (NDArray[np.float32]): Shape (d, predictions), in nats.
    targets (NDArray[np.int64]): Shape (d, predictions), vocabulary ids of the predicted words.
    n_dropped (int): Predictions of the text that were not computed.
    """

    losses: NDArray[np.float32]
    targets: NDArray[np.int64]
    n_dropped: int = 0


@dataclass(frozen=True)
class Perplexity:
    """Perplexities over the full softmax: exp of the mean negative log likelihood per token.

    forward (float): Perplexity of the forward direction.
    backward (float): Perplexity of the backward direction, NaN for a forward model.
    mean (float): Exp of the mean negative log likelihood of both directions.
    forward_error (float): Standard error of `forward`, assuming independent tokens.
    backward_error (float): Standard error of `backward`.
    mean_error (float): Standard error of `mean`.
    n_tokens (int): Predictions counted per direction, including one per sentence for its boundary.
    n_dropped (int): Predictions not counted, since another lane had no text left (`state="carry"` only).
    unk_rate (float): Share of the targets that are not in the vocabulary.
    """

    forward: float
    backward: float
    mean: float
    forward_error: float
    backward_error: float
    mean_error: float
    n_tokens: int
    n_dropped: int
    unk_rate: float


def require_language_model(
    head: Optional[LMHead], vocabulary: Optional[Vocabulary], purpose: str
) -> Tuple[LMHead, Vocabulary]:
    """RAISES (ValueError): EL007 if one is missing. `purpose` is what needs both, in the plural."""
    if head is None or vocabulary is None:
        raise ValueError(Errors.EL007.format(missing="softmax" if head is None else "vocabulary", what=purpose))
    return head, vocabulary


def summarize_losses(
    all_losses: Iterable[Losses], vocabulary: Vocabulary, on_progress: Optional[Callable[[int], Any]] = None
) -> Perplexity:
    """Perplexities of a text. `on_progress` is called with the number of predictions per direction, as they come."""
    collected: List[NDArray[np.float64]] = []
    n_unknown = n_dropped = 0
    for losses, targets, dropped in all_losses:
        collected.append(losses.astype("float64"))
        n_unknown += int((targets[0] == vocabulary.unk_id).sum())
        n_dropped += dropped
        if on_progress is not None:
            on_progress(losses.shape[1])
    nll = np.concatenate(collected, axis=1)  # (d, tokens)
    n_tokens = nll.shape[1]
    backward = _exp_mean(nll[1]) if len(nll) > 1 else (math.nan, math.nan)
    means, errors = zip(_exp_mean(nll[0]), backward, _exp_mean(nll.mean(axis=0)))
    return Perplexity(*means, *errors, n_tokens, n_dropped, n_unknown / n_tokens)


def check_finite(result: Perplexity, network: BiLMNetwork, head: LMHead) -> Perplexity:
    """The same perplexities, which a network and its softmax have computed.

    RAISES (ValueError): If one is infinite or not a number: the weights are not finite (a damaged file), or the largest
        one is huge (a training that diverged).
    """
    scores = {"forward": result.forward, "backward": result.backward}
    if network.config.n_directions == 1:
        del scores["backward"]
    if all(map(math.isfinite, scores.values())):
        return result
    described = ", ".join(f"{name} {score:.4g}" for name, score in scores.items())
    named = [*network.named_parameters("network"), *head.named_parameters("softmax")]
    broken = [name for name, weight in named if not bool(weight.isfinite().all())]
    if broken:
        reason = f"{len(broken)} of its weights contain values that are not finite ({', '.join(broken[:3])})"
    else:
        largest, name = max((float(weight.detach().abs().max()), name) for name, weight in named)
        reason = f"its weights are finite, the largest is {largest:.4g} in {name}"
    raise ValueError(
        f"The perplexity is not finite ({described}): {reason}. This biLM cannot be used. Compare its file with the "
        "original, or return to an earlier checkpoint of its training."
    )


def text_losses(
    model: LanguageModel, sentences: Sequence[Sequence[str]], state: str, batch_size: int
) -> Iterator[Losses]:
    """Compute the loss of every prediction under a policy for the state, see `carried_losses` and `sentence_losses`.

    sentences (Sequence[Sequence[str]]): Tokenized, without boundaries; `batch_size` of them are computed at once.
    RAISES (ValueError): For "carry" in reduced precision, EL340 for "carry" without state.
    """
    network = model.encoder.network
    if resolve_state(network.config, state) == "carry":
        what, remedy = "The state 'carry' of perplexities", "Choose state 'reset' or 'steady'."
        require_float32(network.precision, what, remedy)
        return carried_losses(model, sentences, batch_size)
    return sentence_losses(model, sentences, state, batch_size)


@torch.no_grad()
def carried_losses(model: LanguageModel, sentences: Sequence[Sequence[str]], batch_size: int) -> Iterator[Losses]:
    """Compute the loss of every prediction with carried state, as in bilm-tf: sentences are concatenated in
    `batch_size` lanes that start from a zero state, until the first lane has no text left. Short texts are read in
    fewer lanes.

    YIELDS (Losses): In chunks of steps; predictions ordered by step, then lane.
    """
    encoder, head, vocabulary = model
    check_has_targets(encoder.config)
    table = WordTable()
    blocks = ((i, i + 1) for i in range(len(sentences)))
    n_lanes = min(batch_size, max(1, len(sentences) // SENTENCES_PER_LANE))
    lanes = SentenceLanes(NumberedText.from_sentences(sentences, table), blocks, n_lanes)
    d, ids = encoder.config.n_directions, vocabulary.ids(table.words)
    for chunk, rows in encoder.encode_lanes(lanes, table, LANE_STEPS):
        targets = ids[chunk.targets[:d]].reshape(d, -1)
        yield Losses(_compute_losses(head, rows[-1].chunk(d, dim=1), targets), targets)
    yield Losses(np.zeros((d, 0), dtype="float32"), np.zeros((d, 0), dtype="int64"), lanes.n_dropped)


@torch.no_grad()
def sentence_losses(
    model: LanguageModel, sentences: Sequence[Sequence[str]], state: str, batch_size: int
) -> Iterator[Losses]:
    """Compute the loss of every prediction, indexed by the predicted word. Each sentence starts from the same state.

    A sentence of n words has n + 1 predictions in each direction: its words, then its boundary, `</S>` for the forward
    and `<S>` for the backward direction.

    YIELDS (Losses): One per slice; the predictions of its sentences are concatenated.
    """
    encoder, head, vocabulary = model
    d = encoder.config.n_directions
    batch = SequenceBatch.make(sentences)
    for computed in encoder.slices(batch, state, LANE_STEPS * batch_size, with_boundaries=True):
        words_of_slice, lengths = sentences[computed.start : computed.stop], np.array(computed.lengths, dtype="int64")
        firsts = np.cumsum(lengths + 2) - lengths - 2  # rows of <S>
        places = [np.arange(n + 1) for n in lengths.tolist()]
        # Word i is predicted from the row before it (forward) or after it (backward); the boundary comes last.
        forward = np.concatenate([first + place for first, place in zip(firsts, places)])
        backward = np.concatenate([first + (place + 1) % len(place) + 1 for first, place in zip(firsts, places)])
        ids = vocabulary.ids([word for words in words_of_slice for word in (SENTENCE_BEGIN, *words, SENTENCE_END)])
        targets = np.stack([ids[forward + 1], ids[backward - 1]][:d])
        halves = computed.rows[-1].chunk(d, dim=1)
        outputs = [half[torch.from_numpy(read).to(half.device)] for half, read in zip(halves, (forward, backward))]
        yield Losses(_compute_losses(head, outputs, targets), targets)


def held_out_losses(
    network: BiLMNetwork, head: LMHead, vocabulary: Vocabulary, sentences: Sequence[Sequence[str]], batch_size: int
) -> Iterator[Losses]:
    """Compute the loss of every prediction during training: with carried state, or sentence by sentence if the encoder
    has no state.
    """
    model = LanguageModel(Encoder(WordEncoder(network, vocabulary, None)), head, vocabulary)
    return text_losses(model, sentences, "carry" if network.config.has_state else "reset", batch_size)


def split_losses(all_losses: Iterable[Losses], sentences: Sequence[Sequence[str]], state: str) -> LossArrays:
    """Losses (d, n + 1) of each sentence, by the predicted word; with "carry", all are from a single lane."""
    losses = np.concatenate([chunk.losses for chunk in all_losses], axis=1)
    by_sentence = np.split(losses, np.cumsum([len(words) + 1 for words in sentences])[:-1], axis=1)
    if state != "carry":
        return [rows.copy() for rows in by_sentence]
    # In reading order, the backward direction predicts its words from the last to the first, then its boundary.
    return [np.concatenate([rows[:1], np.roll(rows[1:, ::-1], -1, axis=1)]) for rows in by_sentence]


def _compute_losses(head: LMHead, outputs: Sequence[Tensor], targets: NDArray[np.int64]) -> NDArray[np.float32]:
    """outputs d x (N, P), targets (d, N): losses (d, N)."""
    ids = torch.from_numpy(targets).to(outputs[0].device)
    return np.stack([head.token_losses(rows, words).cpu().numpy() for rows, words in zip(outputs, ids)])


def _exp_mean(nll: NDArray[np.float64]) -> Tuple[float, float]:
    """Exp of the mean and its standard error: infinity on overflow, NaN if a loss is NaN. The caller handles both."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(np.exp(nll.mean()))
        error = float(nll.std(ddof=1) / math.sqrt(len(nll))) if len(nll) > 1 else math.nan
    return mean, mean * error
