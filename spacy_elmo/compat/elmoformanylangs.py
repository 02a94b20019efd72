"""`Embedder` of ELMoForManyLangs (Che et al. 2018): batches sorted by length, the state carried on."""

import random
from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..bilm.config import BiLMConfig
from ..bilm.network import BiLSTMStack
from ..bilm.state import BiLMState
from ..inference.bilm import BiLM
from ..inference.encoder import BOS_NUMBER, EOS_NUMBER, number_words
from ..inference.runtime import isolated
from ..inference.word_encoder import WordEncoder
from ..settings import Count
from ..text.words import PAD_SYMBOL
from ..util import batched
from ..weights import load_bilm
from .common import ConfigurationError as ConfigurationError
from .common import PathLike, add_submodules, check_argument, check_no_url, invalid, read_sentences

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
    model (BiLMNetwork): Attribute: the weights, a module of PyTorch with other names than in the original.
    config (Dict[str, Any]): Attribute: the settings that have an effect, by the names of the original, in the blocks
        `encoder` and `token_embedder`.
    char_lexicon (Dict[str, int]), word_lexicon (Dict[str, int]): Attributes: ids of characters and words, empty for a
        biLM of another program.
    RAISES (ValueError): For a URL, a batch size below 1, and files that cannot be read.
    """

    def __init__(self, model_dir: PathLike, batch_size: int = 64) -> None:
        check_no_url("model_dir", model_dir)
        self.model_dir, self.batch_size = model_dir, check_argument("batch_size", batch_size, Count)
        self.bilm = load_bilm(model_dir)
        self.model, self.config, lexicon = self.bilm.network, _to_original(self.bilm.config), self.bilm.lexicon
        self.char_lexicon: Dict[str, int] = {} if lexicon is None else lexicon.character_ids
        self.word_lexicon: Dict[str, int] = {} if lexicon is None else lexicon.word_ids
        self.use_cuda = torch.cuda.is_available()
        if self.use_cuda:
            self.bilm.to("cuda")
        self._state: Optional[BiLMState] = None
        self._reads_padding = _reads_padding(self.bilm)

    def sents2elmo(self, sents: Sequence[Sequence[str]], output_layer: int = -1) -> List[Array]:
        """sents (Sequence[Sequence[str]]): Tokens of each sentence; a string is a sentence of characters.
        output_layer (int): -1 for the mean of all layers, -2 for all layers, or the number of a layer, 0 for the words.
            With the encoder `lstm` -2 gives (T, D), -1 the mean over the tokens and a number one token, (D,),
            as in the original.
        RETURNS (List[Array]): Shape (T, D) for each sentence, with -2 (L+1, T, D).
        RAISES (ValueError): EL011 for input that is not tokenized; for an unknown layer, or a token that a sentence
            does not have.
        """
        sentences = read_sentences(sents)
        self._check_layer(output_layer, sentences)
        order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i]))
        batches = list(batched(order, self.batch_size))
        random.shuffle(batches)  # as the original does
        vectors: List[Array] = [np.zeros(0, dtype="float32")] * len(sentences)
        for batch in batches:
            for i, rows in zip(batch, self._embed([sentences[i] for i in batch])):
                vectors[i] = _choose(rows, output_layer)
        return vectors

    def _embed(self, batch: List[List[str]]) -> List[Array]:
        """Shape (L+1, T, D) for each sentence; with the encoder `lstm` its top layer, (T, D)."""
        if self._reads_padding:
            return _embed_padded(self.bilm, batch)
        vectors: List[Array]
        if self.bilm.config.encoder == "bilstm":
            vectors = self.bilm.embed(batch, layers="top")
        elif self.bilm.config.has_state:
            vectors, self._state = self.bilm.embed(batch, state=self._state, return_state=True)
        else:
            vectors = self.bilm.embed(batch)
        return vectors

    def _check_layer(self, output_layer: int, sentences: List[List[str]]) -> None:
        if self.bilm.config.encoder == "bilstm":
            what, last = "a token that each sentence has", min(map(len, sentences), default=0) - 1
        else:
            what, last = "a layer", self.bilm.config.n_layers
        is_number = isinstance(output_layer, (int, np.integer)) and not isinstance(output_layer, bool)
        if not is_number or not ALL <= output_layer <= max(last, AVERAGE):
            numbers = f", or the number of {what}, from 0 to {last}" if last >= 0 else ""
            raise invalid("output_layer", repr(output_layer), f"-1 (mean), -2 (everything){numbers}")


def _to_original(config: BiLMConfig) -> Dict[str, Any]:
    """The architecture in the form of the original's JSON; for other biLMs what fits."""
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
    """One layer, or the mean or all of the layers (L+1, T, D); of tokens in (T, D), whose mean is zero without any."""
    if output_layer == ALL:
        return layers
    is_mean = output_layer == AVERAGE
    chosen: Array = layers.sum(axis=0) / max(len(layers), 1) if is_mean else layers[output_layer].copy()
    return chosen


def _reads_padding(bilm: BiLM) -> bool:
    """Whether the original pads the sentences of this model. It cannot compute a plain LSTM above LSTMs over
    characters; these models are computed sentence by sentence.
    """
    embedder = bilm.config.token_embedder
    if bilm.config.encoder != "bilstm" or embedder is None:
        return False
    return embedder.kind == "cnn" or not embedder.n_characters


@isolated
@torch.no_grad()
def _embed_padded(bilm: BiLM, batch: Sequence[Sequence[str]]) -> List[Array]:
    """The encoder `lstm` over a padded batch of one or more sentences: both directions read the padding, as in the
    original. Returns the projected last layer (T, D) of each.

    Shorter sentences have the word `<pad>` behind `<eos>`, so that a vector depends on the longest sentence.
    """
    words = bilm._encoder.words
    distinct, sequences = number_words(batch, words.boundaries)
    vectors = torch.cat([words.encode(distinct), _padding(bilm, words)])
    longest = max(map(len, sequences)) + 2
    rows = [
        [BOS_NUMBER, *sequence, EOS_NUMBER] + [len(distinct)] * (longest - 2 - len(sequence)) for sequence in sequences
    ]
    encoder = bilm.network.encoder
    assert isinstance(encoder, BiLSTMStack)  # checked by `_reads_padding`
    tokens = torch.tensor(rows, device=vectors.device).flatten()
    top = encoder.encode(vectors, tokens, [longest] * len(rows))[-1]  # (B * S, D)
    padded = top.view(len(rows), longest, -1).cpu().numpy()
    return [stack[1 : len(sequence) + 1].copy() for stack, sequence in zip(padded, sequences)]


def _padding(bilm: BiLM, words: WordEncoder) -> Tensor:
    """Shape (1, P), the vector of the word `<pad>`, all characters of which are `<pad>`."""
    lexicon, codec = bilm.lexicon, words.codec
    assert lexicon is not None and codec is not None  # a token embedder has both
    ids = np.full((1, codec.max_characters or 1), lexicon.character_ids.get(PAD_SYMBOL, 0) + 1, dtype="int64")
    ids[0, 0] = lexicon.word_ids.get(PAD_SYMBOL, 0) + 1
    return words.encode_ids(ids, codec.lengths(ids))


add_submodules(__name__, {"Embedder": Embedder}, ("elmo",))
