"""How well a biLM predicts a text, direction by direction (Peters et al. 2018, sec. 3.1)."""

import math
from dataclasses import dataclass
from typing import Iterable, Iterator, List, Sequence, Tuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..bilm.lm_head import LMHead
from ..bilm.model import BiLMNetwork
from ..text.characters import SENTENCE_BEGIN, SENTENCE_END
from ..text.sentence_lanes import Chunk, SentenceLanes
from ..text.vocabulary import Vocabulary
from ..text.word_table import WordTable

STATES = ("carry", "reset", "steady")
STEPS = 64
SENTENCES_PER_LANE = 8

# Losses (d, tokens) in nats, their targets (d, tokens) as vocabulary ids, predictions that were not counted.
Losses = Tuple[NDArray[np.float32], NDArray[np.int64], int]


@dataclass(frozen=True)
class Perplexity:
    """Perplexities over the full softmax: exp of the mean negative log likelihood per token.

    forward (float): Of the forward direction.
    backward (float): Of the backward direction, NaN for a forward model.
    mean (float): Exp of the mean over both directions.
    forward_error (float): Standard error of `forward` (tokens taken as independent).
    backward_error (float): Standard error of `backward`.
    mean_error (float): Standard error of `mean`.
    n_tokens (int): Predictions counted per direction; the end of a sentence is one.
    n_dropped (int): Predictions not counted, because other lanes had run dry (`state="carry"` only).
    unk_rate (float): Share of the targets that the vocabulary does not know.
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


def summarize(parts: Iterable[Losses], vocabulary: Vocabulary) -> Perplexity:
    """parts (Iterable[Losses]): From `carried_losses` or `sentence_losses`.
    vocabulary (Vocabulary): Knows which target is `<UNK>`.
    RETURNS (Perplexity): Both directions.
    """
    losses: List[NDArray[np.float64]] = []
    n_unknown = n_dropped = 0
    for part, targets, dropped in parts:
        losses.append(part.astype("float64"))
        n_unknown += int((targets[0] == vocabulary.unk_id).sum())
        n_dropped += dropped
    nll = np.concatenate(losses, axis=1)  # (d, tokens)
    n_tokens = nll.shape[1]
    forward, forward_error = _exp_mean(nll[0])
    backward, backward_error = _exp_mean(nll[1]) if len(nll) > 1 else (math.nan, math.nan)
    mean, mean_error = _exp_mean(nll.mean(axis=0))
    return Perplexity(
        forward=forward,
        backward=backward,
        mean=mean,
        forward_error=forward_error,
        backward_error=backward_error,
        mean_error=mean_error,
        n_tokens=n_tokens,
        n_dropped=n_dropped,
        unk_rate=n_unknown / n_tokens,
    )


@torch.no_grad()
def carried_losses(
    network: BiLMNetwork,
    head: LMHead,
    vocabulary: Vocabulary,
    sentences: Sequence[Sequence[str]],
    *,
    batch_size: int = 32,
) -> Iterator[Losses]:
    """The loss of every prediction as bilm-tf reads a text: sentences run on in lanes in step, from a zero state, until
    the first lane runs dry. Short texts are read in fewer lanes.

    sentences (Sequence[Sequence[str]]): Tokenized, without marks.
    batch_size (int): Lanes.
    YIELDS (Losses): In chunks of steps; predictions ordered by step, then lane.
    """
    max_characters = network.config.char_cnn.max_characters if network.config.char_cnn is not None else 50
    table = WordTable(vocabulary, max_characters=max_characters)
    blocks = ([table.numbers_of(list(words))] for words in sentences)
    lanes = SentenceLanes(blocks, min(batch_size, max(1, len(sentences) // SENTENCES_PER_LANE)))
    state = network.zero_state(lanes.n_lanes)
    d = network.config.n_directions
    was_training = network.training
    network.eval()
    try:
        while (chunk := lanes.next_chunk(STEPS)) is not None:
            layers, state = run_chunk(network, table, chunk, state, with_resets=False)
            targets = table.targets(chunk.targets[:d]).reshape(d, -1)
            yield _score(head, layers[-1].flatten(1, 2), targets), targets, 0
        yield np.zeros((d, 0), dtype="float32"), np.zeros((d, 0), dtype="int64"), lanes.n_dropped
    finally:
        network.train(was_training)


@torch.no_grad()
def sentence_losses(
    slices: Iterable[Tuple[int, int, Tensor, bool]],
    head: LMHead,
    vocabulary: Vocabulary,
    sentences: Sequence[Sequence[str]],
    n_directions: int,
) -> Iterator[Losses]:
    """The loss of every prediction where each sentence is read by itself.

    slices (Iterable[Tuple[int, int, Tensor, bool]]): start, stop and the layers (L+1, n, D) of sentences[start:stop],
        marks included.
    YIELDS (Losses): By slice; predictions in the order of the text, of both directions at the word that is read.
    """
    for start, stop, rows, _ in slices:
        part = sentences[start:stop]
        ends = np.cumsum([len(words) + 2 for words in part])
        reads = np.ones((2, int(ends[-1])), dtype=bool)  # forward reads all but </S>, backward all but <S>
        reads[0, ends - 1] = False
        reads[1, ends - [len(words) + 2 for words in part]] = False
        marked = vocabulary.ids([word for words in part for word in (SENTENCE_BEGIN, *words, SENTENCE_END)])
        wanted = (np.roll(marked, -1), np.roll(marked, 1))
        targets = np.stack([wanted[k][reads[k]] for k in range(n_directions)])
        halves = rows[-1].chunk(n_directions, dim=1)
        outputs = [half[torch.from_numpy(reads[k]).to(half.device)] for k, half in enumerate(halves)]
        yield _score(head, torch.stack(outputs), targets), targets, 0


def _score(head: LMHead, outputs: Tensor, targets: NDArray[np.int64]) -> NDArray[np.float32]:
    """outputs (d, N, P), targets (d, N): losses (d, N)."""
    wanted = torch.from_numpy(targets).to(outputs.device)
    rows = [head.token_losses(rows, words).cpu().numpy() for rows, words in zip(outputs, wanted)]
    return np.stack(rows)


def run_chunk(
    network: BiLMNetwork,
    table: WordTable,
    chunk: Chunk,
    state: List[Tuple[Tensor, Tensor]],
    *,
    with_resets: bool,
    input_dropout: float = 0.0,
    recurrent_dropout: float = 0.0,
) -> Tuple[List[Tensor], List[Tuple[Tensor, Tensor]]]:
    """Read one chunk of lanes: distinct words once, then the LSTM stack.

    RETURNS (Tuple[List[Tensor], State]): Layers (d, S, B, P) and the new state.
    """
    device = next(network.parameters()).device
    d = network.config.n_directions
    numbers, first, index = np.unique(chunk.inputs[:d], return_index=True, return_inverse=True)
    lengths = table.lengths(numbers)
    order = np.lexsort((first, lengths))  # words of like length side by side; nothing depends on their numbers
    index = np.argsort(order)[index]
    numbers = numbers[order]
    if network.char_cnn is not None:
        ids = torch.from_numpy(table.characters(numbers)).to(device)
        vectors = network.word_vectors(ids, lengths[order].tolist())
    else:
        vectors = network.word_vectors(torch.from_numpy(table.targets(numbers)).to(device))
    places = torch.from_numpy(index.reshape(chunk.inputs[:d].shape)).to(device)  # (d, S, B)
    resets = torch.from_numpy(chunk.begins).to(device) if with_resets else None
    return network(  # type: ignore[no-any-return]
        vectors, places, state, resets=resets, input_dropout=input_dropout, recurrent_dropout=recurrent_dropout
    )


def _exp_mean(nll: NDArray[np.float64]) -> Tuple[float, float]:
    """Infinity where the mean is too large for it, NaN where a loss is NaN: whoever asked decides what that means."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(np.exp(nll.mean()))
        error = float(nll.std(ddof=1) / math.sqrt(len(nll))) if len(nll) > 1 else math.nan
    return mean, mean * error
