"""`Embedder` of ELMoForManyLangs (Che et al. 2018): batches sorted by length, the state carried on."""

import random
from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from ..bilm.config import BiLMConfig
from ..bilm.state import BiLMState
from ..errors import Errors
from ..weights import load_bilm
from .arguments import ConfigurationError, PathLike, check_count, check_no_url, read_sentences
from .padded_bilstm import PaddedBiLSTM, reads_padding

AVERAGE, ALL = -1, -2  # values of `output_layer` beside the number of a layer

Array = NDArray[np.float32]


class Embedder:
    """Vectors of tokenized sentences, as the original gives them.

    The sentences of a call are sorted by length and split into batches. Row k of a batch begins with the state that row
    k of the batch before ended with, also from call to call: the same sentences give other vectors the second time.
    Batches are computed in an order drawn from Python's `random`, so a call with more than `batch_size` sentences is
    repeatable only after `random.seed`.

    A model with the encoder `lstm` has no state, and only its top layer is returned. It reads the padding of a batch,
    so that a vector depends on the longest sentence of the batch.

    model_dir (PathLike): Folder of ELMoForManyLangs, or everything else that `load_bilm` takes.
    batch_size (int): Sentences computed at once.
    model (BiLMNetwork): Attribute: the weights, a module of PyTorch with other names than those of the original.
    config (Dict[str, Any]): Attribute: the settings that have an effect, by the names of the original, in the blocks
        `encoder` and `token_embedder`.
    char_lexicon (Dict[str, int]), word_lexicon (Dict[str, int]): Attributes: ids of characters and words, empty for a
        biLM of another program.
    RAISES (ValueError): EL330 for a URL, EL332 for a batch size below 1, also for files that cannot be read.
    """

    def __init__(self, model_dir: PathLike, batch_size: int = 64) -> None:
        check_no_url("model_dir", model_dir)
        self.model_dir, self.batch_size = model_dir, check_count("batch_size", batch_size)
        self.bilm = load_bilm(model_dir)
        self.model, self.config, lexicon = self.bilm.network, _to_original(self.bilm.config), self.bilm.lexicon
        self.char_lexicon: Dict[str, int] = {} if lexicon is None else lexicon.character_ids
        self.word_lexicon: Dict[str, int] = {} if lexicon is None else lexicon.word_ids
        self.use_cuda = torch.cuda.is_available()
        if self.use_cuda:
            self.bilm.to("cuda")
        self._state: Optional[BiLMState] = None
        self._padded = PaddedBiLSTM(self.bilm) if reads_padding(self.bilm) else None

    def sents2elmo(self, sents: Sequence[Sequence[str]], output_layer: int = -1) -> List[Array]:
        """sents (Sequence[Sequence[str]]): Tokens of each sentence; a string is a sentence of characters.
        output_layer (int): -1 for the mean of all layers, -2 for all layers, or the number of a layer, 0 for the words.
            With the encoder `lstm` -2 gives (T, D), -1 the mean over the tokens and a number that of one token, (D,),
            as in the original.
        RETURNS (List[Array]): Shape (T, D) for each sentence, with -2 (L+1, T, D).
        RAISES (ValueError): EL011 for input that is not tokenized, EL332 for an unknown layer, or for a token that a
            sentence does not have.
        """
        sentences = read_sentences(sents)
        self._check_layer(output_layer, sentences)
        order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i]))
        batches = [order[start : start + self.batch_size] for start in range(0, len(order), self.batch_size)]
        random.shuffle(batches)  # as the original does
        found: List[Array] = [np.zeros(0, dtype="float32")] * len(sentences)
        for batch in batches:
            for i, rows in zip(batch, self._embed([sentences[i] for i in batch])):
                found[i] = _choose(rows, output_layer)
        return found

    def _embed(self, batch: List[List[str]]) -> List[Array]:
        """RETURNS (List[Array]): Shape (L+1, T, D) for each sentence; with the encoder `lstm` its top layer, (T, D)."""
        if self._padded is not None:
            return self._padded.embed(batch)
        if self.bilm.config.encoder == "bilstm":
            top: List[Array] = self.bilm.embed(batch, layers="top")
            return top
        if not self.bilm.config.has_state:
            stateless: List[Array] = self.bilm.embed(batch)
            return stateless
        layers, self._state = self.bilm.embed(batch, state=self._state, return_state=True)
        found: List[Array] = layers
        return found

    def _check_layer(self, output_layer: int, sentences: List[List[str]]) -> None:
        if self.bilm.config.encoder == "bilstm":
            what, last = "a token that each sentence has", min(map(len, sentences), default=0) - 1
        else:
            what, last = "a layer", self.bilm.config.n_layers
        is_number = isinstance(output_layer, (int, np.integer)) and not isinstance(output_layer, bool)
        if not is_number or not ALL <= output_layer <= max(last, AVERAGE):
            numbers = f", or the number of {what}, from 0 to {last}" if last >= 0 else ""
            wanted = f"-1 (mean), -2 (everything){numbers}"
            raise ConfigurationError(Errors.EL332.format(name="output_layer", value=repr(output_layer), wanted=wanted))


def _to_original(config: BiLMConfig) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): The architecture in the form of the original's JSON; for other biLMs what fits."""
    is_plain, characters, embedder = config.encoder == "bilstm", config.char_cnn, config.token_embedder
    encoder: Dict[str, Any] = {
        "name": "lstm" if is_plain else "elmo",
        "projection_dim": config.projection_width,
        "dim": config.cell_width,
        "n_layers": config.encoder_depth if is_plain else config.n_layers,
    }
    if not is_plain:
        encoder.update(cell_clip=config.cell_clip or 0, proj_clip=config.projection_clip or 0)
    words: Dict[str, Any] = {"name": "cnn", "char_dim": 0, "word_dim": 0 if characters else config.projection_width}
    cnn: Any = characters
    if embedder is not None:
        words = {"name": embedder.kind, "char_dim": embedder.character_width, "word_dim": embedder.word_width}
        cnn = embedder if embedder.filters else None
        if embedder.max_characters is not None:
            words["max_characters_per_token"] = embedder.max_characters
    elif characters is not None:
        words.update(char_dim=characters.embedding_width, max_characters_per_token=characters.max_characters)
    if cnn is not None:
        filters = [list(pair) for pair in cnn.filters]
        words.update(filters=filters, activation=cnn.activation, n_highway=cnn.n_highway)
    return {"encoder": encoder, "token_embedder": words}


def _choose(layers: Array, output_layer: int) -> Array:
    """layers (Array): Shape (L+1, T, D), or (T, D), of which the mean is zero without tokens."""
    if output_layer == ALL:
        return layers
    if output_layer == AVERAGE:
        mean: Array = layers.sum(axis=0) / max(len(layers), 1)
        return mean
    chosen: Array = layers[output_layer].copy()
    return chosen
