"""Digests of biLMs: 12 hexadecimal digits that identify the weights, in every format and precision.

A digest is a hash of all weights in float32, so that it changes with each of them. Rounding changes weights, too, but
not the digest: a matrix in reduced precision has the hash of the matrix that was rounded, and a `RoundedCopy` records
of which weights the float32 values in a file are a copy.
"""

import hashlib
import json
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Union

from torch import Tensor

from ..bilm.char_cnn import has_mask_row
from ..bilm.config import BiLMConfig
from ..bilm.lstm import LSTMLayer, full_bias
from ..bilm.network import BiLMNetwork
from ..text.words import Lexicon, Vocabulary
from .products import QuantizedMatrix, hash_values, stored_state

DIGEST_LENGTH = 12  # hexadecimal digits
EMBEDDINGS = "token_embeddings"
WeightsByName = Mapping[str, Union[Tensor, QuantizedMatrix]]


class RoundedCopy(NamedTuple):
    """Float32 weights that were rounded before, to the dtype of a file or for a computation in reduced precision.

    original (str): Digest of the weights before they were rounded.
    rounded (str): Digest of the values that they have since. Weights with another digest are no copy.
    """

    original: str
    rounded: str


class InputWords(NamedTuple):
    """The words and characters that are rows of tables of the biLM's input. A biLM that reads characters of UTF-8 has
    no such tables.
    """

    vocabulary: Optional[Vocabulary] = None
    lexicon: Optional[Lexicon] = None


def collect_weights(network: BiLMNetwork, token_embeddings: Optional[Tensor]) -> WeightsByName:
    """All weights that vectors depend on, by name; without the softmax."""
    weights = stored_state(network)
    return weights if token_embeddings is None else {**weights, EMBEDDINGS: token_embeddings}


def digest_weights(network: BiLMNetwork, weights: WeightsByName, words: InputWords) -> str:
    """The digest of weights by the names of `collect_weights`, for the network. It also depends on settings that change
    vectors but no shape, and on the words of tables.

    Biases of LSTMs are read with the forget bias, as in the computation: files of AllenNLP store them with it, those of
    bilm-tf without, and the sum is equal in both. The row of the mask, which only some formats store, is left out.
    """
    biases = {f"{name}.bias" for name, module in network.named_modules() if isinstance(module, LSTMLayer)}
    hashed = hashlib.sha256(json.dumps(_list_settings(network.config)).encode("ascii"))
    for name, weight in sorted(weights.items()):
        if isinstance(weight, Tensor):
            values = full_bias(weight.detach()) if name in biases else weight[1:] if has_mask_row(name) else weight
            value_hash = hash_values(values)
        else:
            value_hash = weight.original
        hashed.update(f"\n{name} {value_hash}".encode())
    has_rows = network.config.n_words is not None or EMBEDDINGS in weights
    if has_rows and words.vocabulary is not None:
        hashed.update(_encode(words.vocabulary.words))
    if words.lexicon is not None:
        hashed.update(_encode([*words.lexicon.characters, None, *words.lexicon.words]))
    return hashed.hexdigest()[:DIGEST_LENGTH]


def _list_settings(config: BiLMConfig) -> List[Any]:
    """Settings that change vectors, but no shape; None or False where they have no effect."""
    characters, transformer = config.char_cnn or config.token_embedder, config.transformer
    return [
        config.cell_clip,
        config.projection_clip if config.has_projection else None,
        config.has_skip and max(config.n_layers, config.encoder_depth) > 1,
        None if characters is None else [characters.activation, characters.max_characters],
        None if transformer is None else transformer.n_heads,
    ]


def _encode(symbols: Sequence[Optional[str]]) -> bytes:
    return json.dumps(list(symbols)).encode("ascii")
