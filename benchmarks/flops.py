"""Minimum number of floating-point operations per token: matrix products only, a multiply-add counts as two.

Also the minimum number of bytes of weights that a single sentence reads.
"""

import json
from pathlib import Path
from typing import List, Sequence, Tuple

import numpy as np

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.text.sentence_lanes import Chunk
from spacy_elmo.text.word_table import WordTable

FLOAT_BYTES = 4


def count_flops(weights: Path, sentences: List[List[str]]) -> float:
    """Operations with a warm word cache; the input product of the first layer is computed once per distinct word.

    weights (Path): A folder with `options.json`.
    sentences (List[List[str]]): The text.
    RETURNS (float): Operations per token.
    """
    n_layers, gates, projection = _layer_sizes(weights)
    n_tokens = sum(len(sentence) for sentence in sentences)
    n_distinct = len({word for sentence in sentences for word in sentence})
    in_loop = n_layers * (gates + projection)
    inputs = (n_layers - 1) * gates + gates * n_distinct / n_tokens
    return 2 * (in_loop + inputs)


def count_weight_bytes(weights: Path) -> Tuple[int, int]:
    """Bytes of weights read for a single sentence, in float32, both directions.

    weights (Path): A folder with `options.json`.
    RETURNS (Tuple[int, int]): Recurrent weights and projections of all layers, per step; input weights of all
        layers, per sentence.
    """
    n_layers, gates, projection = _layer_sizes(weights)
    return n_layers * (gates + projection) * FLOAT_BYTES, n_layers * gates * FLOAT_BYTES


def _layer_sizes(weights: Path) -> Tuple[int, int, int]:
    """RETURNS (Tuple[int, int, int]): Number of layers; weights of both directions per layer: of the gates (input or
    recurrent side), and of the projection.
    """
    lstm = json.loads((weights / "options.json").read_text(encoding="utf8"))["lstm"]
    cell_width, width = lstm["dim"], lstm["projection_dim"]
    return lstm["n_layers"], 2 * width * 4 * cell_width, 2 * cell_width * width


def count_training_flops(config: BiLMConfig, chunks: Sequence[Chunk], table: WordTable, n_negatives: int) -> float:
    """Operations of an update: the forward pass, and twice that for the gradients of weights and inputs.

    Each distinct word of a chunk goes through the char-CNN and into layer 1 once. A filter computes every window with a
    character, its gradient only the window of the maximum.

    config (BiLMConfig): Sizes.
    chunks (Sequence[Chunk]): Some of the text.
    table (WordTable): Words of the chunks.
    n_negatives (int): Negatives per prediction.
    RETURNS (float): Operations per token.
    """
    cnn, d, width = config.char_cnn, config.n_directions, config.projection_width
    assert cnn is not None, "words come in as characters"
    n_tokens = sum(chunk.inputs[0].size for chunk in chunks)
    words = [np.unique(chunk.inputs[:d]) for chunk in chunks]
    words_per_token = sum(len(numbers) for numbers in words) / n_tokens
    windows_per_token = sum(int((table.lengths(numbers) + 1).sum()) for numbers in words) / n_tokens
    filters = sum(cnn.embedding_width * size * n for size, n in cnn.filters)
    spelling = cnn.n_highway * 2 * cnn.n_filters**2 + cnn.n_filters * width
    gates, projection = width * 4 * config.cell_width, config.cell_width * width
    by_word = spelling + d * gates
    by_token = d * (config.n_layers * (gates + projection) + (config.n_layers - 1) * gates + n_negatives * width)
    pooling = filters * (windows_per_token + 2 * words_per_token)
    return 2.0 * (pooling + 3 * (by_word * words_per_token + by_token))
