"""Word vectors (layer 0) with constant weights: each distinct word is computed once and cached.

The vector of a word is bit-identical in every batch if the native kernel computes its products: in BLAS libraries the
order of sums depends on the number of rows.

Changed weights are detected, so that everything derived from them is computed again.
"""

from collections import OrderedDict
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version
from torch.optim.optimizer import register_optimizer_step_post_hook

from ..bilm.char_cnn import CharCNN, TokenEmbedder
from ..bilm.config import BiLMConfig
from ..bilm.layers import Highway, apply_highway, find_hooked
from ..bilm.network import BiLMNetwork
from ..text.words import SENTENCE_BEGIN, SENTENCE_END, CharacterCodec, Ids, Lexicon, LexiconCodec, Utf8Codec, Vocabulary
from .kernel import has_kernel
from .kernel_lstm import PackedLSTM
from .lstm_sequences import run_lstm
from .products import make_product
from .runtime import CACHE_LOCK, isolated

DEFAULT_CACHE_BYTES = 64 * 2**20
ENCODED_AT_ONCE = 1024
BOUNDARIES = (SENTENCE_BEGIN, SENTENCE_END)  # of biLMs whose codec has no others

_step_hooks: List[Any] = []  # the hook of `_watch_fused_optimizers`, once it is registered
BIT_DTYPES = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes of an element


class WordEncoder:
    """Layer 0 of the biLM: a vector for each distinct word.

    token_embeddings (Optional[Tensor]): Shape (V, P), precomputed vectors of the vocabulary's words.
    lexicon (Optional[Lexicon]): Symbols of the tables of a token embedder.
    cache_bytes (int): See `WordCache`.
    RAISES (ValueError): If the number of rows differs from the size of the vocabulary, or the lexicon does not fit.
    """

    def __init__(
        self,
        network: BiLMNetwork,
        vocabulary: Optional[Vocabulary],
        token_embeddings: Optional[Tensor],
        lexicon: Optional[Lexicon] = None,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        self.network = network
        self.modules = list(network.modules())
        self.vocabulary = vocabulary
        self.table = token_embeddings if token_embeddings is not None else network.word_embedding
        if self.table is not None:
            n_words = 0 if vocabulary is None else len(vocabulary)
            if n_words != len(self.table):
                raise ValueError(
                    f"The word embedding of this biLM has {len(self.table)} rows, but its vocabulary has {n_words} "
                    "words. Load it with the vocabulary it was trained with (vocab=...)."
                )
        self.codec: Optional[CharacterCodec] = None  # None if whole words are looked up in the table
        characters = network.config.char_cnn
        if self.table is None and characters is not None:
            self.codec = Utf8Codec(characters.max_characters)
        elif self.table is None:
            self.codec = make_lexicon_codec(network.config, lexicon)
        self.boundaries = BOUNDARIES if self.codec is None else self.codec.boundaries
        self._constant: Optional[ConstantWords] = None
        self.cache = WordCache(cache_bytes, network.config.projection_width, network.device)

    @torch.no_grad()
    def encode(self, words: Sequence[str]) -> Tensor:
        """From U distinct words, among them `boundaries`, to (U, P)."""
        if self.codec is None:
            return self._look_up(words)
        if self.cache.capacity < len(words) or find_hooked(self.modules):
            return self.compute(words)
        with CACHE_LOCK:
            missing = self.cache.missing(words)
            for start in range(0, len(missing), ENCODED_AT_ONCE):
                new_words = missing[start : start + ENCODED_AT_ONCE]
                self.cache.add(new_words, self.compute(new_words))
            return self.cache.get(words)

    def compute(self, words: Sequence[str]) -> Tensor:
        """From U words to (U, P), without the cache. Gradients are recorded if they are enabled."""
        if self.codec is None:
            return self._look_up(words)
        return self.encode_ids(*self.codec.encode(words))

    def encode_ids(self, char_ids: Ids, lengths: Ids) -> Tensor:
        """From ids (U, C) and numbers of ids without padding (U,) to (U, P). Gradients are recorded if they are
        enabled.
        """
        if not len(char_ids):
            width = self.network.config.projection_width
            return torch.zeros(0, width, dtype=torch.float32, device=self.network.device)
        order = np.argsort(lengths, kind="stable")  # groups of words of similar length
        device = self.network.device
        is_float32 = self.network.precision == "float32"  # modules cannot compute in another precision
        uses_modules = is_float32 and (torch.is_grad_enabled() or find_hooked(self.modules))
        compute = self.network.word_vectors if uses_modules else self._constant_words()
        vectors = [
            compute(torch.from_numpy(char_ids[rows]).to(device), lengths[rows].tolist())
            for rows in np.split(order, range(ENCODED_AT_ONCE, len(order), ENCODED_AT_ONCE))
        ]
        inverse = torch.from_numpy(np.argsort(order, kind="stable")).to(device)
        return torch.cat(vectors)[inverse]

    def pack(self) -> None:
        """Derive now what is derived from the weights."""
        if self.codec is not None:
            self._constant_words()

    def _constant_words(self) -> "ConstantWords":
        if self._constant is None:
            embedder = self.network.token_embedder
            self._constant = ConstantWords(self.network.char_cnn if embedder is None else embedder)
        return self._constant

    def _look_up(self, words: Sequence[str]) -> Tensor:
        ids = torch.from_numpy(self.vocabulary.ids(words)).to(self.table.device)  # type: ignore[union-attr]  # checked in __init__
        return torch.nn.functional.embedding(ids, self.table)  # type: ignore[arg-type]  # checked in __init__


def make_lexicon_codec(config: BiLMConfig, lexicon: Optional[Lexicon]) -> LexiconCodec:
    """The codec of a biLM with a token embedder.

    RAISES (ValueError): If the lexicon is missing or does not fit.
    """
    embedder = config.token_embedder
    n_characters, n_words = (0, 0) if embedder is None else (embedder.n_characters, embedder.n_words)
    problems = ["it has none"] if lexicon is None else lexicon.problems(n_characters, n_words)
    if problems or lexicon is None or embedder is None:
        raise ValueError(
            "This biLM reads words and characters by tables of its own, whose symbols are in a lexicon; problems with "
            f"its lexicon: {'; '.join(problems)}. Load the biLM with `load_bilm`, or pass `lexicon=` of the model the "
            "weights belong to."
        )
    return LexiconCodec(lexicon, embedder.max_characters, is_fixed=embedder.kind == "cnn")


def check_has_targets(config: BiLMConfig) -> None:
    """RAISES (ValueError): For a biLM with a token embedder, which predicts no words."""
    if config.token_embedder is not None:
        raise ValueError(
            "A biLM with words and characters (token_embedder, ELMoForManyLangs) cannot be pretrained further and has "
            "no perplexity: its files have no softmax, and text is read by the tables of symbols of the model. "
            "Fine-tune it in a pipeline or with `spacy_elmo.nn.Elmo` instead."
        )


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
        """Words that are not cached; the others are now the most recently used ones."""
        slots = self._slots
        missing: List[str] = []
        for word in words:
            if word in slots:
                slots.move_to_end(word)
            else:
                missing.append(word)
        return missing

    @torch.no_grad()
    def add(self, words: Sequence[str], vectors: Tensor) -> None:
        """Add new words with vectors (n, P), as many as fit. After an error, or an interrupt, the cache is empty."""
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
        """Vectors of cached words, shape (len(words), P), a copy."""
        places = np.fromiter(map(self._slots.__getitem__, words), dtype="int64", count=len(words))
        return self._table.index_select(0, torch.from_numpy(places).to(self._table.device))

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


class ConstantWords:
    """A `CharCNN` or `TokenEmbedder` for inference, in any precision; its weights must not change afterwards. Highways,
    projections and an LSTM over characters are packed for the native kernel, if there is one.
    """

    @torch.no_grad()
    def __init__(self, module: Any) -> None:
        self._module = module
        char_cnn: Optional[CharCNN] = module.char_cnn if isinstance(module, TokenEmbedder) else module
        self._char_cnn = char_cnn
        upper_modules = [] if char_cnn is None else char_cnn.upper_modules()
        self._upper_maps = [self._make_map(upper) for upper in upper_modules]
        self._project = self._linear(module.projection) if isinstance(module, TokenEmbedder) else None
        self._packed_lstm = PackedLSTM()

    @torch.no_grad()
    def __call__(self, ids: Tensor, lengths: Sequence[int]) -> Tensor:
        """From ids (U, C), and the number of character ids of each word without padding, to (U, P)."""
        if self._project is None:
            return self._run_char_cnn(ids, lengths)
        characters = self._run_char_lstm if self._char_cnn is None else self._run_char_cnn
        return self._project(self._module.features(ids, lengths, characters=characters))

    def _run_char_cnn(self, ids: Tensor, lengths: Sequence[int]) -> Tensor:
        features = self._char_cnn.pool(ids, lengths)  # type: ignore[union-attr]  # not None here; (U, F)
        for upper_map in self._upper_maps:
            features = upper_map(features)
        return features

    def _run_char_lstm(self, ids: Tensor, lengths: Sequence[int]) -> Tensor:
        """`CharLSTM`: the output at the last character, and in the backward direction at the first."""
        char_lstm, sizes = self._module.char_lstm, torch.tensor(lengths, device=ids.device)
        read = torch.arange(ids.shape[1], device=ids.device) < sizes.unsqueeze(1)  # (U, C)
        characters = nn.functional.embedding(ids[read], char_lstm.embedding)  # (T, E)
        outputs = run_lstm(characters, lengths, list(char_lstm.lstm.parameters()), self._packed_lstm)  # (T, 2E)
        forward, backward = outputs.chunk(2, dim=1)
        stops = sizes.cumsum(0)
        return torch.cat([forward[stops - 1], backward[stops - sizes]], dim=1)

    def _make_map(self, module: nn.Module) -> Callable[[Tensor], Tensor]:
        if isinstance(module, nn.Linear):
            return self._linear(module)
        if not isinstance(module, Highway):  # a layer norm
            return module
        scores = self._linear(module)
        return lambda features: apply_highway(features, scores(features))

    def _linear(self, module: Any) -> Callable[[Tensor], Tensor]:
        """The map of a module with a weight (n_out, n_in), which may be quantized, and a bias (n_out,)."""
        weight, bias = module.weight, module.bias
        if isinstance(weight, Tensor) and not has_kernel(weight):
            return partial(nn.functional.linear, weight=weight, bias=bias)
        matrix = weight.t().unsqueeze(0) if isinstance(weight, Tensor) else weight
        product = make_product(matrix, slice(0, 1))
        rows_bias = bias.detach().view(1, 1, -1)
        return lambda rows: product(rows.unsqueeze(0), rows_bias)[0]


class WeightVersions:
    """Versions of the weights of a network, and of a table of precomputed word vectors.

    PyTorch counts the in-place changes of each tensor; those by fused optimizers are counted here. Writes through
    `weight.data` or NumPy are not counted. On the CPU the last value of each weight is compared, too, which notices
    writes to whole tensors; `BiLM.clear_caches` is for the rest. A checksum of all weights, which would notice
    everything, takes 1.4 ms for `en_elmo_sm`, a third of the time of a sentence.
    """

    def __init__(self, network: nn.Module, table: Optional[Tensor] = None) -> None:
        _watch_fused_optimizers()
        self._network, self._table = network, table
        self._children = [
            (module._modules, name, child) for module in network.modules() for name, child in module._modules.items()
        ]
        self._weights: List[Tuple[Dict[str, Optional[nn.Parameter]], str, Any]] = [
            (module._parameters, name, _last_value(weight))
            for module in network.modules()
            for name, weight in module._parameters.items()
            if weight is not None
        ]
        # Tensors created in inference mode have no version counter.
        self._is_counted = not any(weight.is_inference() for weight in network.parameters())
        self._counted_table = None if table is None or table.is_inference() else table
        self._seen = self._read()

    def have_changed(self, network: nn.Module, table: Optional[Tensor] = None) -> bool:
        """Whether network or table is another one, a module was replaced, or a weight changed, moved or replaced."""
        is_other = network is not self._network or table is not self._table
        has_same_modules = all(modules.get(name) is child for modules, name, child in self._children)
        return is_other or not has_same_modules or self._seen != self._read()

    def _read(self) -> List[Tuple[int, int, int]]:
        versions = [] if self._counted_table is None else [(0, self._counted_table._version, 0)]
        for weights, name, last_value in self._weights:
            weight = weights.get(name)
            if weight is not None:
                version = weight._version if self._is_counted else 0
                versions.append((weight.data_ptr(), version, 0 if last_value is None else int(last_value)))
        return versions


def _watch_fused_optimizers() -> None:
    """Count the changes of fused optimizers, on any device, as torch counts the changes of all others."""
    if not _step_hooks:
        _step_hooks.append(register_optimizer_step_post_hook(_count_fused_step))


def _count_fused_step(optimizer: Any, args: Any, settings: Any) -> None:
    for group in optimizer.param_groups:
        for weight in group["params"] if group.get("fused") else ():
            if weight.grad is not None:
                increment_version(weight)


def _last_value(weight: Tensor) -> Any:
    """The bits of the last value, as a NumPy array without axes that shares the memory of the weight; None on a GPU,
    where reading a value waits for all work that was started.
    """
    if weight.device.type != "cpu" or not weight.numel():
        return None
    with torch.no_grad():
        return weight.detach()[(-1,) * weight.dim()].view(BIT_DTYPES[weight.element_size()]).numpy()
