"""How well a biLM predicts a text, direction by direction (Peters et al. 2018, sec. 3.1)."""

import math
from dataclasses import dataclass
from typing import Iterable, Iterator, List, Sequence, Tuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..bilm.lm_head import SoftmaxHead
from ..bilm.model import BiLMNetwork
from ..errors import Errors
from ..text.sentence_lanes import Chunk, SentenceLanes
from ..text.vocabulary import Vocabulary
from ..text.word_table import WordTable

STATES = ("carry", "reset")
STEPS = 64
SENTENCES_PER_LANE = 8


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


def perplexity(
    network: BiLMNetwork,
    head: SoftmaxHead,
    vocabulary: Vocabulary,
    sentences: Iterable[Sequence[str]],
    *,
    state: str = "carry",
    batch_size: int = 32,
) -> Perplexity:
    """Score a text.

    sentences (Iterable[Sequence[str]]): Tokenized, without marks.
    state (str): "carry" reads as bilm-tf does: sentences run on in `batch_size` lanes in step, until the first lane
        runs dry. Short texts are read in fewer lanes. "reset" starts every sentence from zero and drops nothing.
    batch_size (int): Lanes.
    RETURNS (Perplexity): Both directions.
    RAISES (ValueError): EL004 for an unknown state or a text without sentences.
    """
    if state not in STATES:
        raise ValueError(
            Errors.EL004.format(name="state of a perplexity", value=repr(state), wanted=f"one of {STATES}")
        )
    text = list(sentences)
    if not text:
        raise ValueError(Errors.EL004.format(name="text", value="empty", wanted="at least one sentence"))
    losses: List[NDArray[np.float64]] = []
    n_unknown = n_dropped = 0
    for part, targets, dropped in token_losses(network, head, vocabulary, text, state=state, batch_size=batch_size):
        losses.append(part.astype("float64"))
        n_unknown += int((targets[0] == vocabulary.unk_id).sum())
        n_dropped += dropped
    nll = np.concatenate(losses, axis=1)  # (d, tokens)
    n_tokens = nll.shape[1]
    both = nll.mean(axis=0)
    forward, forward_error = _exp_mean(nll[0])
    backward, backward_error = _exp_mean(nll[1]) if len(nll) > 1 else (math.nan, math.nan)
    mean, mean_error = _exp_mean(both)
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
def token_losses(
    network: BiLMNetwork,
    head: SoftmaxHead,
    vocabulary: Vocabulary,
    sentences: Sequence[Sequence[str]],
    *,
    state: str = "carry",
    batch_size: int = 32,
) -> Iterator[Tuple[NDArray[np.float32], NDArray[np.int64], int]]:
    """The loss of every single prediction, in chunks of steps.

    sentences (Sequence[Sequence[str]]): Tokenized, without marks.
    YIELDS (Tuple): Losses (d, tokens) in nats, ordered by step, then lane; targets (d, tokens) as vocabulary ids;
        predictions dropped at the end.
    """
    max_characters = network.config.char_cnn.max_characters if network.config.char_cnn is not None else 50
    table = WordTable(vocabulary, max_characters=max_characters)
    numbered = (table.numbers_of(list(words)) for words in sentences)
    is_reset = state == "reset"
    n_lanes = min(batch_size, max(1, len(sentences) // SENTENCES_PER_LANE))
    if is_reset:
        lanes = SentenceLanes(numbered, 1)
    else:
        lanes = SentenceLanes(numbered, n_lanes)
    lstm_state = network.zero_state(lanes.n_lanes)
    d = network.config.n_directions
    was_training = network.training
    network.eval()
    try:
        while (chunk := lanes.next_chunk(STEPS)) is not None:
            layers, lstm_state = run_chunk(network, table, chunk, lstm_state, with_resets=is_reset)
            targets = table.targets(chunk.targets[:d]).reshape(d, -1)
            outputs = layers[-1].flatten(1, 2)  # (d, S * B, P)
            wanted = torch.from_numpy(targets).to(outputs.device)
            rows = [head.token_losses(outputs[k], wanted[k]).cpu().numpy() for k in range(d)]
            yield np.stack(rows), targets, 0
        yield np.zeros((d, 0), dtype="float32"), np.zeros((d, 0), dtype="int64"), lanes.n_dropped
    finally:
        network.train(was_training)


def run_chunk(
    network: BiLMNetwork,
    table: WordTable,
    chunk: Chunk,
    state: List[Tuple[Tensor, Tensor]],
    *,
    with_resets: bool,
    input_dropout: float = 0.0,
) -> Tuple[List[Tensor], List[Tuple[Tensor, Tensor]]]:
    """Read one chunk of lanes: distinct words once, then the LSTM stack.

    RETURNS (Tuple[List[Tensor], State]): Layers (d, S, B, P) and the new state.
    """
    device = next(network.parameters()).device
    d = network.config.n_directions
    numbers, index = np.unique(chunk.inputs[:d], return_inverse=True)
    lengths = table.lengths(numbers)
    order = np.argsort(lengths, kind="stable")  # words of like length side by side
    index = np.argsort(order, kind="stable")[index]
    numbers = numbers[order]
    if network.char_cnn is not None:
        ids = torch.from_numpy(table.characters(numbers)).to(device)
        vectors = network.word_vectors(ids, lengths[order].tolist())
    else:
        vectors = network.word_vectors(torch.from_numpy(table.targets(numbers)).to(device))
    places = torch.from_numpy(index.reshape(chunk.inputs[:d].shape)).to(device)  # (d, S, B)
    resets = torch.from_numpy(chunk.begins).to(device) if with_resets else None
    return network(vectors, places, state, resets=resets, input_dropout=input_dropout)  # type: ignore[no-any-return]


def _exp_mean(nll: NDArray[np.float64]) -> Tuple[float, float]:
    mean = float(np.exp(nll.mean()))
    error = float(nll.std(ddof=1) / math.sqrt(len(nll))) if len(nll) > 1 else math.nan
    return mean, mean * error
