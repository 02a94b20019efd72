"""The class `BiLM`: contextual vectors and perplexities of tokenized sentences, without a spaCy pipeline."""

from itertools import count
from numbers import Integral
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..bilm.config import BiLMConfig
from ..bilm.network import BiLMNetwork, LMHead
from ..bilm.state import BiLMState, State
from ..errors import Errors
from ..text.words import Lexicon, Vocabulary
from ..util import STATES
from .digest import InputWords, RoundedCopy, WeightsByName, collect_weights, digest_weights
from .encoder import Encoder, SequenceBatch, require_state, resolve_state
from .kernel import check_precision
from .perplexity import (
    LanguageModel,
    Perplexity,
    check_finite,
    require_language_model,
    split_losses,
    summarize_losses,
    text_losses,
)
from .products import quantize, require_float32
from .runtime import isolated, to_host, trim_heap
from .word_encoder import DEFAULT_CACHE_BYTES, WeightVersions, WordCache, WordEncoder

VectorList = List[NDArray[np.float32]]
LayerChoice = Union[str, int]
_version_numbers = count()


class BiLM:
    """A biLM with its vocabulary and softmax, if it has them.

    network (BiLMNetwork): The weights.
    vocabulary (Optional[Vocabulary]): Words of the softmax, the word embedding or the token embeddings.
    head (Optional[LMHead]): The softmax, for perplexities and further training.
    token_embeddings (Optional[Tensor]): Shape (V, P), precomputed layer 0 of the vocabulary's words, instead of the
        character CNN; other words have the vector of `<UNK>`.
    meta (Optional[Dict[str, Any]]): Origin of the weights.
    steady_state (Optional[BiLMState]): The steady state, one row, if known; otherwise it is computed on first use.
    lexicon (Optional[Lexicon]): Symbols of the tables of a biLM with a token embedder.
    rounded_copy (Optional[RoundedCopy]): The weights that these are a rounded copy of, if they are one.
    """

    def __init__(
        self,
        network: BiLMNetwork,
        *,
        vocabulary: Optional[Vocabulary] = None,
        head: Optional[LMHead] = None,
        token_embeddings: Optional[Tensor] = None,
        meta: Optional[Dict[str, Any]] = None,
        steady_state: Optional[BiLMState] = None,
        lexicon: Optional[Lexicon] = None,
        rounded_copy: Optional[RoundedCopy] = None,
    ) -> None:
        self._rounded_copy = rounded_copy
        self.network = network.eval()
        self.vocabulary = vocabulary
        self.head = head
        self.lexicon = lexicon
        self.token_embeddings = token_embeddings
        self.meta: Dict[str, Any] = dict(meta or {})
        state = None if steady_state is None else steady_state.to(self.device).to_state(self.config)
        self._derived = DerivedData(self, state)

    def __getstate__(self) -> Dict[str, Any]:
        """Everything except data derived from the weights, such as the word cache."""
        state = {name: value for name, value in vars(self).items() if name != "_derived"}
        known = self._encoder.known_steady_state
        return {**state, "steady_state": known, "max_bytes": self.word_cache.max_bytes}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        steady_state, max_bytes = state.pop("steady_state"), state.pop("max_bytes")
        vars(self).update(state)
        self._derived = DerivedData(self, steady_state, max_bytes)

    @property
    def config(self) -> BiLMConfig:
        """RETURNS (BiLMConfig): Sizes and switches."""
        return self.network.config

    @property
    def device(self) -> torch.device:
        """RETURNS (torch.device): Device of the weights."""
        return self.network.device

    @property
    def precision(self) -> str:
        """RETURNS (str): Precision of the matrix products, see `set_precision`."""
        return self.network.precision

    @property
    def word_cache(self) -> WordCache:
        """RETURNS (WordCache): Cached word vectors; set its `max_bytes` to bound it, 0 for no cache."""
        return self._encoder.words.cache

    @property
    def version(self) -> int:
        """RETURNS (int): Changes whenever the weights change; unique among the biLMs of a process."""
        return self._current.version

    @property
    def digest(self) -> str:
        """RETURNS (str): 12 hexadecimal digits that identify the weights, cached until they change.

        It is a hash of all weights that vectors depend on, so that a change of any of them changes it. It is the same
        on each device and in files of each format. A copy in reduced precision, in memory or in a file of this package,
        has the digest of the weights that were rounded, until its weights change.
        """
        copied = self.rounded_copy
        return self._digest_values() if copied is None else copied.original

    @property
    def rounded_copy(self) -> Optional[RoundedCopy]:
        """RETURNS (Optional[RoundedCopy]): The weights that these are a rounded copy of; None if they are none, or no
        longer.
        """
        copied = self._rounded_copy
        return copied if copied is not None and copied.rounded == self._digest_values() else None

    def describe_copy(self, weights: WeightsByName) -> Optional[RoundedCopy]:
        """weights (WeightsByName): Rounded values of all weights, by the names of `collect_weights`.
        RETURNS (Optional[RoundedCopy]): The `rounded_copy` of a biLM that has them.
        """
        rounded = digest_weights(self.network, weights, InputWords(self.vocabulary, self.lexicon))
        return None if rounded == self.digest else RoundedCopy(self.digest, rounded)

    @property
    @isolated
    def steady_state(self) -> BiLMState:
        """RETURNS (BiLMState): One row, the initial state of sequences with "steady". Raises EL340 without state."""
        require_state(self.config, "the steady state")
        return BiLMState.from_state(self._encoder.steady_state)

    @isolated
    def to(self, device: Union[str, torch.device]) -> "BiLM":
        """Move everything to a device, in place.

        RETURNS (BiLM): The same object.
        RAISES (ValueError): EL015 if the device does not support the precision of the biLM.
        """
        precision, known = self.precision, self._encoder.known_steady_state
        steady = None if known is None else BiLMState.from_state(known)
        check_precision(precision, torch.device(device))
        digest = None if precision == "float32" else self.digest
        quantize(self.network, "float32")  # the packed form of quantized weights depends on the device
        self.network.to(device)
        quantize(self.network, precision)
        if self.head is not None:
            self.head.to(device)
        if self.token_embeddings is not None:
            self.token_embeddings = self.token_embeddings.to(device)
        self._derive(None if steady is None else steady.to(self.device).to_state(self.config))
        self._record_copy(digest)
        return self

    @isolated
    def set_precision(self, precision: str) -> "BiLM":
        """Compute in reduced precision, in place. It needs less memory and is less exact; bfloat16 is faster. It is
        for inference only.

        The matrices of LSTMs and highways are quantized, and their inputs on GPUs and CPUs with AVX512-BF16; states,
        gates and everything else stay float32. Rounding is final: after a change back to float32 the weights keep the
        rounded values. WL021 warns of bfloat16 that is slower than float32 on a GPU.

        precision (str): "float32", "bfloat16", "int8" (CPUs; weights have 255 levels and a scale for each column) or
            "float16" (GPUs).
        RETURNS (BiLM): The same object.
        RAISES (ValueError): For an unknown precision; EL015 if the device does not support it.
        """
        if precision != self.precision:
            digest = self.digest if precision == "float32" else None  # of weights that have been rounded
            quantize(self.network, precision)
            self.clear_caches()
            self._record_copy(digest)
            trim_heap()  # copies of the weights
        return self

    def compute_steady_state(self) -> BiLMState:
        """Compute the steady state again from the current weights; `save_bilm` stores it with them.

        RETURNS (BiLMState): One row.
        """
        self.clear_caches()
        return self.steady_state

    @isolated
    def pack(self, state: str = "reset") -> None:
        """Derive now everything from the weights that the first call would derive. Call it before a fork, so that the
        processes share it.

        state (str): "reset", "steady" or "carry".
        """
        self._encoder.pack(check_state(state))

    def clear_caches(self) -> None:
        """Discard everything derived from the weights. Needed only after writes that torch does not count: in place
        through `weight.data`, or through a NumPy array that shares memory. All other changes are detected.
        """
        self._derive(None)

    @isolated
    def embed(
        self,
        sentences: Iterable[Sequence[str]],
        *,
        state: Union[str, BiLMState, None] = "reset",
        return_state: bool = False,
        layers: LayerChoice = "all",
        boundaries: bool = False,
        batch_tokens: int = 8192,
    ) -> Any:
        """Contextual vectors of tokenized sentences.

        sentences (Iterable[Sequence[str]]): Tokens of each sentence, without boundaries.
        state (Union[str, BiLMState, None]): "reset": each sentence starts from zero. "steady": from the steady state.
            "carry": from the final state of the previous sentence. A `BiLMState`: sentence i starts from row i, as in
            bilm-tf and AllenNLP; None: the same with a zero state.
        return_state (bool): Also return the state after each sentence, one row each; rows beyond the batch are
            unchanged. With "carry" it is one row, the state after the last sentence.
        layers (Union[str, int]): "all": (L+1, n, D); "top", "mean" or the number of a layer: (n, D).
        boundaries (bool): Include the rows of `<S>` and `</S>`: n + 2 rows.
        batch_tokens (int): Tokens computed at once, which bounds the working memory.
        RETURNS (Union[VectorList, Tuple[VectorList, BiLMState]]): float32 arrays that own their memory, in the order
            given.
        RAISES (ValueError): For `batch_tokens` below 1, a state that does not fit, unknown layers; EL340 for a state
            without recurrence, EL341 for a sequence too long for a transformer, EL011 for input that is not tokenized.
        """
        check_positive("batch_tokens", batch_tokens)
        text = check_sentences(sentences)
        state = resolve_state(self.config, state, return_state=return_state)
        choose = layer_choice(layers, self.config.n_layers)
        is_carried = isinstance(state, str) and state == "carry"
        if not is_carried and (return_state or not isinstance(state, str)):
            start: Union[str, State] = self._initial_states(state, len(text))
        else:
            start = check_state(state)
        ends: List[State] = []
        batch, choices = SequenceBatch.make(text), dict[str, Any](group_lengths=[len(text)], with_boundaries=boundaries)
        vectors: VectorList = []
        for computed in self._encoder.slices(batch, start, batch_tokens, **choices):
            ends.append(computed.end)
            sizes = [length + 2 * computed.has_boundaries for length in computed.lengths]
            chosen = to_host(choose(computed.rows))  # (N, D) or (L+1, N, D), at once: one wait for a GPU
            for rows in chosen.split(sizes, dim=-2):
                inner = rows[..., 1:-1, :] if computed.has_boundaries and not boundaries else rows
                vectors.append(inner.numpy().astype("float32", copy=True))
        if not return_state:
            return vectors
        end = ends[-1] if ends else self.network.zero_state(1)
        if isinstance(start, State):
            end = State.cat([*ends, start.rows(len(text), None)])  # rows beyond the batch are unchanged
        return vectors, BiLMState.from_state(end)

    @isolated
    def encode(
        self,
        sequences: Sequence[Sequence[Any]],
        *,
        char_ids: Union[Tensor, NDArray[np.int64], None] = None,
        state: str = "reset",
        batch_tokens: int = 8192,
        group_lengths: Optional[Sequence[int]] = None,
        boundaries: bool = False,
        with_grad: bool = False,
    ) -> Tensor:
        """Compute the layers of all sequences, concatenated, on the device of the weights.

        sequences (Sequence[Sequence[Any]]): Words of each sequence; empty ones are allowed. With
            `char_ids` the rows of these words.
        char_ids (Union[Tensor, NDArray[np.int64], None]): Shape (U, C), one row per word, from AllenNLP's
            `batch_to_ids` or `CharacterCodec.encode`: shifted by one, 0 is the mask.
        state (str): "reset", "steady" or "carry".
        batch_tokens (int): Tokens computed at once.
        group_lengths (Optional[Sequence[int]]): For "carry": numbers of consecutive sequences that share a state.
        boundaries (bool): Keep the rows of BOS and EOS.
        with_grad (bool): Attach the layers to the graph. All sequences are computed at once, in float32, from zero
            states.
        RETURNS (Tensor): Shape (L+1, N, D), without gradients unless `with_grad`.
        RAISES (ValueError): For `batch_tokens` below 1, an unknown state, or gradients in reduced precision or with
            another state than "reset"; EL340 for a state without recurrence, EL341 for a sequence too long for a
            transformer, EL011 for sequences that are not lists of words, EL017 if the biLM reads whole words, or for
            ids that its codec does not have.
        """
        check_positive("batch_tokens", batch_tokens)
        if with_grad:
            require_float32(self.precision, "A gradient", "Load the weights again in float32.")
            if check_state(state) != "reset":
                raise ValueError(
                    f"The state is '{state}', but gradients need zero states. Set state='reset', or freeze the biLM "
                    "(with_grad=False)."
                )
        encoder = self._encoder
        with torch.set_grad_enabled(with_grad and torch.is_grad_enabled()):
            if char_ids is None:
                batch = SequenceBatch.make(check_sentences(sequences))
            else:
                batch = encoder.id_sequences(char_ids, sequences)
            if with_grad:
                return encoder.with_grad(batch, with_boundaries=boundaries)
            n_rows = sum(batch.lengths) + 2 * boundaries * len(batch.lengths)
            sizes = (self.config.n_layers + 1, n_rows, self.config.output_width)
            layers = torch.empty(sizes, dtype=torch.float32, device=self.device)
            choices: Dict[str, Any] = {"group_lengths": group_lengths, "with_boundaries": boundaries}
            row = 0
            for computed in encoder.slices(batch, check_state(state), batch_tokens, **choices):
                rows = computed.rows if boundaries else computed.inner()
                layers[:, row : row + rows.shape[1]] = rows
                row += rows.shape[1]
            return layers

    @isolated
    def iter_encode(
        self,
        sequences: Sequence[Sequence[str]],
        *,
        state: str = "reset",
        batch_tokens: int = 8192,
        group_lengths: Optional[Sequence[int]] = None,
        reuse_memory: bool = False,
    ) -> Iterator[Tuple[int, int, Tensor]]:
        """The same as `encode` in slices, so that the number of sequences does not affect the working memory.

        reuse_memory (bool): The layers of a slice are valid only until the next one is requested or the iteration
            ends: copy what you need. Otherwise each slice has its own memory.
        YIELDS (Tuple[int, int, Tensor]): start, stop and the layers (L+1, n, D) of sequences[start:stop].
        RAISES (ValueError): See `encode`.
        """
        check_positive("batch_tokens", batch_tokens)
        batch = SequenceBatch.make(check_sentences(sequences))
        for computed in self._encoder.slices(batch, check_state(state), batch_tokens, group_lengths=group_lengths):
            is_copied = not (reuse_memory or computed.has_boundaries)  # without boundaries, `inner` is a copy
            rows = computed.inner()
            yield computed.start, computed.stop, rows.clone() if is_copied else rows

    @isolated
    def perplexity(
        self,
        sentences: Iterable[Sequence[str]],
        *,
        state: Optional[str] = None,
        batch_size: int = 32,
        on_progress: Any = None,
    ) -> Perplexity:
        """Compute the perplexity of a text.

        sentences (Iterable[Sequence[str]]): Tokenized, without boundaries.
        state (Optional[str]): "carry" (the default of an LSTM), as in bilm-tf: sentences are concatenated in
            `batch_size` lanes until the first one has no text left. "reset" (the default of a transformer) and
            "steady": each sentence starts from zero or from the steady state, and all predictions count.
        batch_size (int): Sentences computed at once.
        on_progress (Optional[Callable[[int], Any]]): Called with the number of new predictions.
        RETURNS (Perplexity): Both directions, over the full softmax.
        RAISES (ValueError): For an unknown state, a batch size below 1, a text without sentences, "carry" in reduced
            precision, or a perplexity that is not finite; EL007 without a softmax or a vocabulary, EL011 for input that
            is not tokenized, EL340 for "carry" without state.
        """
        head, vocabulary = require_language_model(self.head, self.vocabulary, "perplexities")
        state = state or ("carry" if self.config.has_state else "reset")
        text = _check_text(sentences, state, batch_size)
        losses = text_losses(LanguageModel(self._encoder, head, vocabulary), text, state, batch_size)
        return check_finite(summarize_losses(losses, vocabulary, on_progress), self.network, head)

    @isolated
    def token_losses(
        self, sentences: Iterable[Sequence[str]], *, state: str = "reset", batch_size: int = 32
    ) -> VectorList:
        """Compute the negative log likelihood of every word, indexed by the predicted word.

        sentences (Iterable[Sequence[str]]): Tokenized, without boundaries.
        state (str): "reset", "steady", or "carry" (all sentences as one text, as in bilm-tf).
        batch_size (int): Sentences computed at once.
        RETURNS (VectorList): For each sentence of n words shape (d, n + 1), in nats: its words, then its boundary,
            `</S>` for the forward and `<S>` for the backward direction.
        RAISES (ValueError): See `perplexity`.
        """
        head, vocabulary = require_language_model(self.head, self.vocabulary, "losses")
        text = _check_text(sentences, state, batch_size)
        model, batch_size = LanguageModel(self._encoder, head, vocabulary), 1 if state == "carry" else batch_size
        losses = text_losses(model, text, state, batch_size)
        return split_losses(losses, text, state)

    @property
    def _current(self) -> "DerivedData":
        """What is derived from the current weights; discarded and begun anew if these have changed."""
        if self._derived.weight_versions.have_changed(self.network, self.token_embeddings):
            self._derive(None)
        return self._derived

    @property
    def _encoder(self) -> Encoder:
        """The encoder of the current weights."""
        return self._current.encoder

    def _derive(self, steady_state: Optional[State]) -> None:
        self._derived = DerivedData(self, steady_state, self._derived.encoder.words.cache.max_bytes)

    def _record_copy(self, digest: Optional[str]) -> None:
        """Keep the digest that the weights had before they were rounded, if it is given."""
        if digest is not None:
            self._rounded_copy = RoundedCopy(digest, self._digest_values())

    @isolated
    def _digest_values(self) -> str:
        """The digest of the float32 values of the weights; of a quantized matrix those before it was quantized."""
        derived = self._current
        if derived.digest is None:
            weights = collect_weights(self.network, self.token_embeddings)
            words = InputWords(self.vocabulary, self.lexicon)
            derived.digest = digest_weights(self.network, weights, words)
        return derived.digest

    def _initial_states(self, state: Union[str, BiLMState, None], n_rows: int) -> State:
        if isinstance(state, BiLMState):
            state.check(self.config)
            return state.to(self.device).pad(n_rows).to_state(self.config)
        return self._encoder.initial_state("reset" if state is None else check_state(state)).expand(n_rows)


class DerivedData:
    """What is derived from the weights of a biLM, valid until they change; it is no part of a pickle."""

    def __init__(self, bilm: BiLM, steady_state: Optional[State], cache_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        words = WordEncoder(bilm.network, bilm.vocabulary, bilm.token_embeddings, bilm.lexicon, cache_bytes)
        self.encoder = Encoder(words, steady_state=steady_state)
        self.weight_versions = WeightVersions(bilm.network, bilm.token_embeddings)
        self.version = next(_version_numbers)
        self.digest: Optional[str] = None  # of the float32 values, computed on first use


# Checks of the arguments

NOT_WORD_LISTS = (str, bytes, Mapping, set, frozenset)  # that can be iterated, but have no words in their order


def check_sentences(sentences: Iterable[Sequence[str]]) -> List[List[str]]:
    """The words of each sentence; EL011 for input that is not tokenized, ValueError for what has no sentences."""
    if not isinstance(sentences, Iterable):
        raise ValueError(
            f"The sentences are given as {_kind(sentences)}, but should be a list of lists of strings. Pass tokenized "
            "text, one list of words per sentence."
        )
    text: List[List[str]] = []
    for i, sentence in enumerate(sentences):
        is_list = type(sentence) is list or isinstance(sentence, Iterable) and not isinstance(sentence, NOT_WORD_LISTS)
        words = sentence if isinstance(sentence, list) else list(sentence) if is_list else []
        if not is_list or not _are_words(words):
            raise ValueError(Errors.EL011.format(i=i, kind=_kind(sentence)))
        text.append(words)
    return text


def _are_words(words: Iterable[Any]) -> bool:
    """Whether all are strings; a set of the types is several times as fast as a look at each word."""
    return {str}.issuperset(map(type, words)) or all(isinstance(word, str) for word in words)


def check_positive(name: str, value: int) -> None:
    """RAISES (ValueError): For a value that is no whole number, or below 1."""
    if not isinstance(value, Integral) or value < 1:
        raise ValueError(f"The {name} is {value!r}, but should be a whole number of 1 or more.")


def check_state(state: Any) -> str:
    """RAISES (ValueError): For a policy that is not known."""
    if not isinstance(state, str) or state not in STATES:
        described = f"'{state}'" if isinstance(state, str) else f"a {type(state).__name__}"
        known = ", ".join(f"'{name}'" for name in STATES)
        raise ValueError(
            f"The state is {described}, but should be one of {known}; for `embed` also a BiLMState returned by "
            "`embed(..., return_state=True)` of this biLM, or None for a zero state. Choose one of these."
        )
    return state


def _check_text(sentences: Iterable[Sequence[str]], state: str, batch_size: int) -> List[List[str]]:
    """`check_sentences` of at least one sentence, state and batch size."""
    check_state(state)
    check_positive("batch_size", batch_size)
    text = check_sentences(sentences)
    if not text:
        raise ValueError("The text is empty, but should be at least one sentence.")
    return text


def layer_choice(layers: Union[str, int], n_layers: int) -> Callable[[Tensor], Tensor]:
    """A map of layers (L+1, N, D) to the selected ones: "all", "top", "mean" or the number of a layer."""
    if layers == "all":
        return lambda rows: rows
    if layers == "top":
        return lambda rows: rows[-1]
    if layers == "mean":
        return lambda rows: rows.mean(dim=0)
    if isinstance(layers, (int, np.integer)) and not isinstance(layers, bool) and 0 <= layers <= n_layers:
        layer = int(layers)
        return lambda rows: rows[layer]
    raise ValueError(
        f"The setting layers is {layers!r}, but should be 'all', 'top', 'mean' or an int from 0 to {n_layers}."
    )


def _kind(sentence: Any) -> str:
    if isinstance(sentence, str):
        return "string"
    if isinstance(sentence, NOT_WORD_LISTS):
        return type(sentence).__name__
    items = " with items that are not strings" if isinstance(sentence, Iterable) else ""
    return f"{type(sentence).__name__}{items}"
