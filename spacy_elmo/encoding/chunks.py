"""Forward pass of a network over one chunk of text lanes, for pretraining and for perplexities with carried state."""

from typing import List, Optional, Tuple

import numpy as np
import torch
from torch import Tensor

from ..bilm.config import BiLMConfig
from ..bilm.model import BiLMNetwork
from ..bilm.state import State
from ..errors import Errors
from ..text.codecs import make_codec
from ..text.sentence_lanes import Chunk
from ..text.vocabulary import Vocabulary
from ..text.word_table import WordTable


def make_word_table(config: BiLMConfig, vocabulary: Optional[Vocabulary]) -> WordTable:
    """config (BiLMConfig): Selects the character codec.
    vocabulary (Optional[Vocabulary]): Ids of the words as targets.
    RETURNS (WordTable): With `<S>` and `</S>` only.
    RAISES (ValueError): EL309 for a biLM with a token embedder.
    """
    if config.token_embedder is not None:
        raise ValueError(Errors.EL309)
    characters = config.char_cnn
    codec = make_codec() if characters is None else make_codec(characters.codec, characters.max_characters)
    return WordTable(vocabulary, codec)


def run_chunk(
    network: BiLMNetwork,
    table: WordTable,
    chunk: Chunk,
    state: State,
    *,
    with_resets: bool,
    input_dropout: float = 0.0,
    recurrent_dropout: float = 0.0,
) -> Tuple[List[Tensor], State]:
    """Compute the layers of one chunk: encode each distinct word once, then run the encoder. Gradients are recorded if
    they are enabled.

    table (WordTable): Contains the words of the chunk.
    chunk (Chunk): Inputs of the lanes.
    state (State): State of the lanes, one row each.
    with_resets (bool): Start each block of sentences from a zero state; always true without state.
    input_dropout (float), recurrent_dropout (float): See `BiLMNetwork.forward`.
    RETURNS (Tuple[List[Tensor], State]): Layers (d, S, B, P) and the new state.
    """
    device = network.device
    d = network.config.n_directions
    numbers, first, index = np.unique(chunk.inputs[:d], return_index=True, return_inverse=True)
    lengths = table.lengths(numbers)
    order = np.lexsort((first, lengths))  # by length, then first occurrence: results do not depend on word numbers
    index = np.argsort(order)[index]
    numbers = numbers[order]
    if network.char_cnn is not None:
        ids = torch.from_numpy(table.characters(numbers)).to(device)
        vectors = network.word_vectors(ids, lengths[order].tolist())
    else:
        vectors = network.word_vectors(torch.from_numpy(table.targets(numbers)).to(device))
    places = torch.from_numpy(index.reshape(chunk.inputs[:d].shape)).to(device)  # (d, S, B)
    resets = torch.from_numpy(chunk.begins).to(device) if with_resets or not network.config.has_state else None
    layers, after = network(
        vectors,
        places,
        state,
        resets=resets,
        positions=None if chunk.positions is None else torch.from_numpy(chunk.positions[:d].copy()).to(device),
        input_dropout=input_dropout,
        recurrent_dropout=recurrent_dropout,
    )
    return layers, after
