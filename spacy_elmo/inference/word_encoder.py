"""Word vectors (layer 0), each distinct word computed once, with a bounded cache for constant weights."""

from collections import OrderedDict
from typing import List, Optional, Sequence

import numpy as np
import torch
from torch import Tensor

from ..bilm.config import BiLMConfig
from ..bilm.model import BiLMNetwork
from ..errors import Errors
from ..text.characters import CharacterCodec, Lexicon, LexiconCodec, Utf8Codec
from ..text.lanes import Ids
from ..text.vocabulary import Vocabulary
from .fork import CACHE_LOCK
from .isolation import isolated
from .runs import BOUNDARIES
from .words import ConstantWords, make_constant_words

DEFAULT_CACHE_BYTES = 64 * 2**20
WORDS_AT_ONCE = 1024


class WordCache:
    """Cache of word vectors; the least recently used ones are evicted first. See `CACHE_LOCK` for threads.

    max_bytes (int): Maximum size of the cached vectors, 0 for no cache; a lower value evicts words at once.
    width (int): P.
    device (torch.device): Device of the vectors.
    """

    def __init__(self, max_bytes: int, width: int, device: torch.device) -> None:
        self._max_bytes = max_bytes
        self._slots: OrderedDict[str, int] = OrderedDict()
        self._table = torch.empty(0, width, dtype=torch.float32, device=device)

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def max_bytes(self) -> int:
        """RETURNS (int): Maximum size of the cached vectors."""
        return self._max_bytes

    @max_bytes.setter
    def max_bytes(self, max_bytes: int) -> None:
        with CACHE_LOCK:
            self._max_bytes = max_bytes
            if len(self._table) > self.capacity:
                self._shrink()

    @property
    def capacity(self) -> int:
        """RETURNS (int): Words that fit into `max_bytes`."""
        return self.max_bytes // (self._table.shape[1] * self._table.element_size())

    def missing(self, words: Sequence[str]) -> List[str]:
        """RETURNS (List[str]): The words that are not cached."""
        slots = self._slots
        return [word for word in words if word not in slots]

    def touch(self, words: Sequence[str]) -> None:
        """Mark cached words as most recently used; other words are ignored."""
        for word in words:
            if word in self._slots:
                self._slots.move_to_end(word)

    @torch.no_grad()
    def add(self, words: Sequence[str], vectors: Tensor) -> None:
        """Add new words, as many as fit. After an error, or an interrupt, the cache is empty.

        words (Sequence[str]): Words that are not cached.
        vectors (Tensor): Shape (len(words), P).
        """
        try:
            self._insert(words[: self.capacity], vectors)
        except BaseException:  # a word without its vector must not stay
            self._slots.clear()
            raise

    def _insert(self, words: Sequence[str], vectors: Tensor) -> None:
        if not words:
            return
        slots = []
        for word in words:
            slot = len(self._slots) if len(self._slots) < self.capacity else self._slots.popitem(last=False)[1]
            self._slots[word] = slot
            slots.append(slot)
        self._grow(max(slots) + 1)
        self._table[torch.tensor(slots, device=self._table.device)] = vectors[: len(words)]

    def get(self, words: Sequence[str]) -> Tensor:
        """words (Sequence[str]): Cached words.
        RETURNS (Tensor): Shape (len(words), P), a copy.
        """
        self.touch(words)
        slots = self._slots
        places = torch.tensor([slots[word] for word in words], dtype=torch.long)
        return self._table[places.to(self._table.device)]

    @isolated
    @torch.no_grad()
    def _shrink(self) -> None:
        """Keep the most recently used words, in a new table of their size."""
        words = list(self._slots)[max(len(self._slots) - self.capacity, 0) :]
        self._table = self.get(words)
        self._slots = OrderedDict((word, slot) for slot, word in enumerate(words))

    def _grow(self, n_rows: int) -> None:
        if n_rows > len(self._table):
            room = min(self.capacity, max(n_rows, 2 * len(self._table), 256))
            table = self._table.new_empty(room, self._table.shape[1])
            table[: len(self._table)] = self._table
            self._table = table


class WordEncoder:
    """Layer 0 of the biLM: a vector for each distinct word.

    network (BiLMNetwork): Computes the vectors from characters or word ids.
    vocabulary (Optional[Vocabulary]): Words of the rows of a word embedding or of `token_embeddings`.
    token_embeddings (Optional[Tensor]): Shape (V, P), precomputed vectors of the vocabulary's words.
    lexicon (Optional[Lexicon]): Symbols of the tables of a token embedder.
    max_cache_bytes (int): Maximum size of the cache, 0 for none.
    RAISES (ValueError): EL010 if the number of rows differs from the size of the vocabulary, EL300 if the lexicon does
        not fit.
    """

    def __init__(
        self,
        network: BiLMNetwork,
        vocabulary: Optional[Vocabulary],
        token_embeddings: Optional[Tensor],
        lexicon: Optional[Lexicon] = None,
        *,
        max_cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        self.network = network
        self.vocabulary = vocabulary
        self.table = token_embeddings if token_embeddings is not None else network.word_embedding
        if self.table is not None:
            n_words = 0 if vocabulary is None else len(vocabulary)
            if n_words != len(self.table):
                raise ValueError(Errors.EL010.format(n_words=n_words, n_rows=len(self.table)))
        self.codec: Optional[CharacterCodec] = None  # None if whole words are looked up in the table
        characters = network.config.char_cnn
        if self.table is None and characters is not None:
            self.codec = Utf8Codec(characters.max_characters)
        elif self.table is None:
            self.codec = make_lexicon_codec(network.config, lexicon)
        self.boundaries = BOUNDARIES if self.codec is None else self.codec.boundaries
        self._constant: Optional[ConstantWords] = None
        self.cache = WordCache(max_cache_bytes, network.config.projection_width, network.device)

    @torch.no_grad()
    def encode(self, words: Sequence[str]) -> Tensor:
        """words (Sequence[str]): U distinct words, among them `boundaries`.
        RETURNS (Tensor): Shape (U, P).
        """
        if self.codec is None:
            return self._look_up(words)
        if self.cache.capacity < len(words):
            return self.compute(words)
        with CACHE_LOCK:
            missing = self.cache.missing(words)
            if missing:
                self.cache.touch(words)  # so that words of other calls are evicted first
            for start in range(0, len(missing), WORDS_AT_ONCE):
                part = missing[start : start + WORDS_AT_ONCE]
                self.cache.add(part, self.compute(part))
            return self.cache.get(words)

    def compute(self, words: Sequence[str]) -> Tensor:
        """Encode words without the cache. Gradients are recorded if they are enabled.

        words (Sequence[str]): U words.
        RETURNS (Tensor): Shape (U, P).
        """
        if self.codec is None:
            return self._look_up(words)
        return self.encode_ids(*self.codec.encode(words))

    def encode_ids(self, char_ids: Ids, lengths: Ids) -> Tensor:
        """char_ids (Ids): Shape (U, C).
        lengths (Ids): Shape (U,), number of ids of each word without padding.
        RETURNS (Tensor): Shape (U, P); gradients are recorded if they are enabled.
        """
        if not len(char_ids):
            width = self.network.config.projection_width
            return torch.zeros(0, width, dtype=torch.float32, device=self.network.device)
        order = np.argsort(lengths, kind="stable")  # groups of words of similar length
        device = self.network.device
        compute = self.network.word_vectors if torch.is_grad_enabled() else self._constant_words()
        parts = [
            compute(torch.from_numpy(char_ids[some]).to(device), lengths[some].tolist())
            for some in np.split(order, range(WORDS_AT_ONCE, len(order), WORDS_AT_ONCE))
        ]
        inverse = torch.from_numpy(np.argsort(order, kind="stable")).to(device)
        return torch.cat(parts)[inverse]

    def prepare(self) -> None:
        """Derive now everything from the weights that the first words would need."""
        if self.codec is not None:
            self._constant_words().prepare()

    def _constant_words(self) -> ConstantWords:
        if self._constant is None:
            self._constant = make_constant_words(self.network)
        return self._constant

    def _look_up(self, words: Sequence[str]) -> Tensor:
        ids = torch.from_numpy(self.vocabulary.ids(words)).to(self.table.device)  # type: ignore[union-attr]  # checked in __init__
        return torch.nn.functional.embedding(ids, self.table)  # type: ignore[arg-type]  # checked in __init__


def make_lexicon_codec(config: BiLMConfig, lexicon: Optional[Lexicon]) -> LexiconCodec:
    """config (BiLMConfig): Of a biLM with a token embedder.
    lexicon (Optional[Lexicon]): The symbols of its tables.
    RETURNS (LexiconCodec): The codec.
    RAISES (ValueError): EL300 if the lexicon is missing or does not fit.
    """
    embedder = config.token_embedder
    n_characters, n_words = (0, 0) if embedder is None else (embedder.n_characters, embedder.n_words)
    problems = ["it has none"] if lexicon is None else lexicon.problems(n_characters, n_words)
    if problems or lexicon is None or embedder is None:
        raise ValueError(Errors.EL300.format(problems="; ".join(problems)))
    return LexiconCodec(lexicon, embedder.max_characters, is_fixed=embedder.kind == "cnn")
