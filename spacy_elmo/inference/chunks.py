"""Forward pass of a network over one chunk of text lanes, for pretraining."""

from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..bilm.config import BiLMConfig
from ..bilm.model import BiLMNetwork
from ..bilm.state import State
from ..text.lanes import Chunk
from ..text.words import Ids, Utf8Codec, Vocabulary, WordTable
from .runtime import to_device


def make_word_table(config: BiLMConfig, vocabulary: Optional[Vocabulary]) -> WordTable:
    """A table with `<S>` and `</S>` only, for the codec of a config.

    RAISES (ValueError): For a biLM with a token embedder.
    """
    if config.token_embedder is not None:
        raise ValueError(
            "A biLM with words and characters (token_embedder, ELMoForManyLangs) cannot be pretrained further and has "
            "no perplexity: its files have no softmax, and text is read by the tables of symbols of the model. "
            "Fine-tune it in a pipeline or with `spacy_elmo.nn.Elmo` instead."
        )
    characters = config.char_cnn
    return WordTable(vocabulary, None if characters is None else Utf8Codec(characters.max_characters))


@dataclass(frozen=True)
class PreparedChunk:
    """The arrays of a chunk that a network needs. Each distinct word is there once, sorted by length and then by first
    occurrence, so that results do not depend on the numbers of words.

    words (NDArray): Shape (U, C) character ids, or (U,) vocabulary ids.
    lengths (List[int]): Number of character ids of each word without padding.
    places (Ids): Shape (d, S, B), the word of each input.
    targets (Ids): Shape (d * predictions,), vocabulary ids, without padding.
    begins (NDArray), positions (Optional[Ids]), counted (Optional[NDArray]), n_predictions (int): See `Chunk`; of d
        directions.
    """

    words: NDArray[Any]
    lengths: List[int]
    places: Ids
    targets: Ids
    begins: NDArray[np.bool_]
    positions: Optional[Ids]
    counted: Optional[NDArray[np.bool_]]
    n_predictions: int


def prepare_chunk(table: WordTable, chunk: Chunk, n_directions: int, *, with_characters: bool) -> PreparedChunk:
    """The arrays of a chunk whose words are in the table."""
    inputs = chunk.inputs[:n_directions].reshape(-1)
    # Scatters over the table are several times as fast as `unique`, which sorts.
    first = np.full(len(table), -1, dtype="int64")
    first[inputs[::-1]] = np.arange(len(inputs) - 1, -1, -1)
    numbers = np.flatnonzero(first >= 0)
    lengths = table.lengths(numbers)
    order = np.argsort(lengths * len(inputs) + first[numbers])  # no two are equal
    numbers = numbers[order]
    first[numbers] = np.arange(len(numbers))
    return PreparedChunk(
        words=table.characters(numbers) if with_characters else table.targets(numbers),
        lengths=lengths[order].tolist(),
        places=first[inputs].reshape(chunk.inputs[:n_directions].shape),
        targets=table.targets(chunk.counted_targets(n_directions)).reshape(-1),
        begins=chunk.begins,
        positions=None if chunk.positions is None else chunk.positions[:n_directions],
        counted=chunk.counted,
        n_predictions=chunk.n_predictions,
    )


def run_chunk(
    network: BiLMNetwork,
    chunk: PreparedChunk,
    state: State,
    *,
    with_resets: bool,
    input_dropout: float = 0.0,
    recurrent_dropout: float = 0.0,
) -> Tuple[List[Tensor], State]:
    """Compute the layers of one chunk: encode each distinct word once, then run the encoder. Gradients are recorded if
    they are enabled.

    with_resets (bool): Start each block of sentences from a zero state; always true without state.
    RETURNS (Tuple[List[Tensor], State]): Layers (d, S, B, P) and the new state.
    """
    device = network.device
    vectors = network.word_vectors(to_device(chunk.words, device).long(), chunk.lengths)
    resets = to_device(chunk.begins, device) if with_resets or not network.config.has_state else None
    layers, after = network(
        vectors,
        to_device(chunk.places, device),
        state,
        resets=resets,
        positions=None if chunk.positions is None else to_device(chunk.positions, device),
        input_dropout=input_dropout,
        recurrent_dropout=recurrent_dropout,
    )
    return layers, after
