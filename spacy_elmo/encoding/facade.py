"""A biLM to use from Python: sentences in, layers out; perplexity; no pipeline needed."""

from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..bilm.config import BiLMConfig
from ..bilm.lm_head import LMHead
from ..bilm.low_precision import check_precision, lower
from ..bilm.model import BiLMNetwork
from ..errors import Errors
from ..text.vocabulary import Vocabulary
from .encoder import STATES, Encoder
from .perplexity import STATES as READINGS
from .perplexity import STEPS, Losses, Perplexity, carried_losses, sentence_losses, summarize
from .state import BiLMState
from .word_encoder import WordCache

Vectors = List[NDArray[np.float32]]
Layers = Union[str, int]


class BiLM:
    """A biLM with its vocabulary and softmax, where it has them.

    network (BiLMNetwork): The weights.
    vocabulary (Optional[Vocabulary]): Words of the softmax, the word table or the token embeddings.
    head (Optional[LMHead]): The softmax, for perplexities and further training.
    token_embeddings (Optional[Tensor]): Shape (V, P), ready layer 0 of the vocabulary's words in place of characters;
        other words get the vector of `<UNK>`.
    meta (Optional[Dict[str, Any]]): Where the weights come from.
    steady_state (Optional[BiLMState]): One row, if it is known already; else it is computed when first needed.
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
    ) -> None:
        self.network = network.eval()
        self.vocabulary = vocabulary
        self.head = head
        self.token_embeddings = token_embeddings
        self.meta: Dict[str, Any] = dict(meta or {})
        self._encoder = Encoder(network, vocabulary, token_embeddings, steady_state=steady_state)

    def __getstate__(self) -> Dict[str, Any]:
        """Everything but what is derived from the weights, the word cache among it."""
        state = {name: value for name, value in vars(self).items() if name != "_encoder"}
        return {**state, "steady_state": self._encoder.known_steady_state, "max_bytes": self.word_cache.max_bytes}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        steady_state, max_bytes = state.pop("steady_state"), state.pop("max_bytes")
        vars(self).update(state)
        self._encoder = Encoder(self.network, self.vocabulary, self.token_embeddings, steady_state=steady_state)
        self.word_cache.max_bytes = max_bytes

    @property
    def config(self) -> BiLMConfig:
        """RETURNS (BiLMConfig): Sizes and switches."""
        return self.network.config

    @property
    def device(self) -> torch.device:
        """RETURNS (torch.device): Where the weights lie."""
        return self._encoder.device

    @property
    def precision(self) -> str:
        """RETURNS (str): "float32", or what `set_precision` made of it."""
        return self.network.precision

    @property
    def word_cache(self) -> WordCache:
        """RETURNS (WordCache): Vectors of words met before; set its `max_bytes` to bound it, 0 for none."""
        return self._encoder.words.cache

    @property
    def steady_state(self) -> BiLMState:
        """RETURNS (BiLMState): One row, the settled state that `state="steady"` starts from."""
        return self._encoder.steady_state

    def to(self, device: Union[str, torch.device]) -> "BiLM":
        """Move everything to a device, in place.

        RETURNS (BiLM): The same object.
        RAISES (ValueError): EL015 if the device has no products in the precision of the biLM.
        """
        precision = self.precision
        check_precision(precision, torch.device(device))
        lower(self.network, "float32")  # what fewer bits are packed into depends on the device
        self.network.to(device)
        lower(self.network, precision)
        if self.head is not None:
            self.head.to(device)
        if self.token_embeddings is not None:
            self.token_embeddings = self.token_embeddings.to(device)
        self._derive(self._encoder.known_steady_state)
        return self

    def set_precision(self, precision: str) -> "BiLM":
        """Compute in fewer bits, in place: smaller, less exact, faster if large; for vectors only, not for training.

        The matrices of the LSTMs and highways are rounded, and what is multiplied with them; states, gates and
        everything else stay float32. Rounding is final: back in float32 the weights have the rounded values.

        precision (str): "float32", "bfloat16", "int8" (CPUs: weights rounded to 255 levels, rows to as many or 127) or
            "float16" (GPUs).
        RETURNS (BiLM): The same object.
        RAISES (ValueError): EL014 for an unknown precision, EL015 if the device has no such products.
        """
        before = self.precision
        lower(self.network, precision)
        if precision != before:
            self.refresh()
        return self

    def settle(self) -> BiLMState:
        """Compute the settled state anew, from the weights as they are; `save_bilm` stores it beside them.

        RETURNS (BiLMState): One row.
        """
        self.refresh()
        return self.steady_state

    def refresh(self) -> None:
        """Forget what was derived from the weights. To be called after they have changed."""
        self._derive(None)

    def embed(
        self,
        sentences: Iterable[Sequence[str]],
        *,
        state: Union[str, BiLMState, None] = "reset",
        return_state: bool = False,
        layers: Layers = "all",
        boundaries: bool = False,
        batch_tokens: int = 8192,
    ) -> Any:
        """Contextual vectors of tokenized sentences.

        sentences (Iterable[Sequence[str]]): Tokens of each sentence, without marks.
        state (Union[str, BiLMState, None]): "reset": each sentence starts from zero. "steady": from the settled state.
            "carry": each goes on where the one before stopped. A `BiLMState`: sentence i goes on from row i, as
            bilm-tf and AllenNLP do; None: the same from zero.
        return_state (bool): Also return the state after each sentence, a row each; rows beyond the batch keep theirs.
            With "carry" it is one row, the state after the last sentence, from which one more sentence can go on.
        layers (Union[str, int]): "all": (L+1, n, D); "top", "mean" or the number of a layer: (n, D).
        boundaries (bool): Keep the rows of `<S>` and `</S>`: n + 2 rows.
        batch_tokens (int): Tokens computed at once, which bounds the working memory.
        RETURNS (Union[Vectors, Tuple[Vectors, BiLMState]]): float32 arrays of their own, in the order given.
        RAISES (ValueError): EL004 for `batch_tokens` below 1, EL006 and EL009 for a state that does not fit, EL008 for
            unknown layers, EL011 for input that is not tokenized.
        """
        _check_positive("batch_tokens", batch_tokens)
        sentences = _checked_sentences(sentences)
        choose = _layer_choice(layers, self.config.n_layers)
        n_rows = len(sentences)
        if isinstance(state, str) and state == "carry":
            found, end = self._encoder.carry_on(sentences, batch_tokens)
        elif return_state or not isinstance(state, str):
            found, end = self._encoder.continue_rows(sentences, self._start(state, n_rows), batch_tokens)
        else:
            self._check_policy(state)
            end = None
            found = self._encoder.slices(sentences, state, batch_tokens, with_marks=boundaries, reuse_memory=True)
        vectors: Vectors = []
        for start, stop, rows, has_marks in found:
            lengths = [len(sentences[i]) + 2 * has_marks for i in range(start, stop)]
            chosen = choose(rows).cpu()  # (N, D) or (L+1, N, D), at once: a GPU is waited for
            for part in chosen.split(lengths, dim=-2):
                inner = part[..., 1:-1, :] if has_marks and not boundaries else part
                vectors.append(inner.numpy().astype("float32", copy=True))
        return (vectors, end()) if return_state and end is not None else vectors

    def encode(
        self,
        runs: Sequence[Sequence[str]],
        *,
        state: str = "reset",
        batch_tokens: int = 8192,
        group_lengths: Optional[Sequence[int]] = None,
    ) -> Tensor:
        """The layers of all runs, one after the other, on the device of the weights.

        runs (Sequence[Sequence[str]]): Token runs, each read as one sequence; empty ones allowed.
        state (str): "reset", "steady" or "carry".
        batch_tokens (int): Tokens computed at once.
        group_lengths (Optional[Sequence[int]]): For "carry": consecutive runs through which the state runs on.
        RETURNS (Tensor): Shape (L+1, N, D), without gradients.
        """
        found = self.iter_encode(runs, state=state, batch_tokens=batch_tokens, group_lengths=group_lengths)
        parts = [rows for _, _, rows in found]
        if not parts:
            return torch.zeros(self.config.n_layers + 1, 0, self.config.output_width, device=self.device)
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def iter_encode(
        self,
        runs: Sequence[Sequence[str]],
        *,
        state: str = "reset",
        batch_tokens: int = 8192,
        group_lengths: Optional[Sequence[int]] = None,
        reuse_memory: bool = False,
    ) -> Iterator[Tuple[int, int, Tensor]]:
        """The same as `encode` in slices, so that the working memory is bounded whatever the number of runs.

        reuse_memory (bool): Let the layers of a slice be valid only until the next one is asked for, or the iteration
            ends: copy what you need. Without it each slice has memory of its own.
        YIELDS (Tuple[int, int, Tensor]): start, stop and the layers (L+1, n, D) of runs[start:stop].
        """
        self._check_policy(state)
        _check_positive("batch_tokens", batch_tokens)
        found = self._encoder.slices(runs, state, batch_tokens, group_lengths=group_lengths, reuse_memory=reuse_memory)
        for start, stop, rows, has_marks in found:
            yield start, stop, _without_marks(rows, [len(run) for run in runs[start:stop]]) if has_marks else rows
            del rows  # before the next slice is computed

    def encode_with_grad(self, runs: Sequence[Sequence[str]]) -> Tensor:
        """The layers of all runs, attached to the graph of the weights, each run from a zero state.

        runs (Sequence[Sequence[str]]): Token runs, each read as one sequence.
        RETURNS (Tensor): Shape (L+1, N, D). Call `refresh` when the weights have changed.
        RAISES (ValueError): EL016 in another precision than float32.
        """
        self._require_float32("A gradient", "Load the weights again, in float32.")
        return self._encoder.with_grad(runs)

    def perplexity(
        self, sentences: Iterable[Sequence[str]], *, state: str = "carry", batch_size: int = 32
    ) -> Perplexity:
        """How well the biLM predicts a text.

        sentences (Iterable[Sequence[str]]): Tokenized, without marks.
        state (str): "carry" reads as bilm-tf does: sentences run on in `batch_size` lanes in step, until the first lane
            runs dry. "reset" and "steady" read each sentence by itself, from zero or from the settled state, and drop
            nothing.
        batch_size (int): Sentences read side by side.
        RETURNS (Perplexity): Both directions, over the full softmax.
        RAISES (ValueError): EL004 for an unknown state, a batch size below 1 or a text without sentences, EL007 without
            a softmax or a vocabulary, EL011 for input that is not tokenized, EL016 for "carry" in another
            precision than float32.
        """
        parts, vocabulary = self._losses(sentences, state, batch_size, "perplexities")
        return summarize(parts, vocabulary)

    def token_losses(
        self, sentences: Iterable[Sequence[str]], *, state: str = "carry", batch_size: int = 32
    ) -> NDArray[np.float32]:
        """The negative log likelihood of every prediction that `perplexity` counts.

        RETURNS (NDArray[np.float32]): Shape (d, tokens), in nats, ordered by step, then lane; for "reset" and "steady"
            by sentence, then word.
        """
        parts, _ = self._losses(sentences, state, batch_size, "losses")
        return np.concatenate([losses for losses, _, _ in parts], axis=1)

    def _losses(
        self, sentences: Iterable[Sequence[str]], state: str, batch_size: int, what: str
    ) -> Tuple[Iterator[Losses], Vocabulary]:
        head, vocabulary = self._language_model(what)
        if state not in READINGS:
            wanted = f"one of {READINGS}"
            raise ValueError(Errors.EL004.format(name=f"state of {what}", value=repr(state), wanted=wanted))
        _check_positive("batch_size", batch_size)
        text = _checked_sentences(sentences)
        if not text:
            raise ValueError(Errors.EL004.format(name="text", value="empty", wanted="at least one sentence"))
        if state == "carry":
            self._require_float32("Reading on through a text (state 'carry')", "Choose state 'reset' or 'steady'.")
            return carried_losses(self.network, head, vocabulary, text, batch_size=batch_size), vocabulary
        slices = self._encoder.slices(text, state, STEPS * batch_size, with_marks=True)
        return sentence_losses(slices, head, vocabulary, text, self.config.n_directions), vocabulary

    def _language_model(self, purpose: str) -> Tuple[LMHead, Vocabulary]:
        if self.head is None:
            raise ValueError(Errors.EL007.format(part="softmax", what=purpose))
        if self.vocabulary is None:
            raise ValueError(Errors.EL007.format(part="vocabulary", what=purpose))
        return self.head, self.vocabulary

    def _require_float32(self, what: str, remedy: str) -> None:
        if self.precision != "float32":
            raise ValueError(Errors.EL016.format(what=what, precision=self.precision, remedy=remedy))

    def _derive(self, steady_state: Optional[BiLMState]) -> None:
        max_bytes = self.word_cache.max_bytes
        self._encoder = Encoder(self.network, self.vocabulary, self.token_embeddings, steady_state=steady_state)
        self.word_cache.max_bytes = max_bytes

    def _start(self, state: Union[str, BiLMState, None], n_rows: int) -> BiLMState:
        if isinstance(state, BiLMState):
            state.check(self.config)
            return state.to(self.device).pad(n_rows)
        if state is not None:
            self._check_policy(state)
        if state == "steady":
            steady = self.steady_state
            return BiLMState(steady.h.expand(-1, n_rows, -1), steady.c.expand(-1, n_rows, -1))
        return BiLMState.zeros(self.config, n_rows, self.device)

    def _check_policy(self, state: Any) -> None:
        if not isinstance(state, str) or state not in STATES:
            found = f"'{state}'" if isinstance(state, str) else f"a {type(state).__name__}"
            raise ValueError(Errors.EL009.format(state=found, known=", ".join(f"'{name}'" for name in STATES)))


def _without_marks(rows: Tensor, lengths: Sequence[int]) -> Tensor:
    sizes = np.asarray(lengths, dtype="int64")
    keep = np.ones(int((sizes + 2).sum()), dtype=bool)
    stops = np.cumsum(sizes + 2)
    keep[stops - 1] = keep[stops - sizes - 2] = False
    return rows[:, torch.from_numpy(keep).to(rows.device)]


def _checked_sentences(sentences: Iterable[Sequence[str]]) -> List[List[str]]:
    found: List[List[str]] = []
    for i, sentence in enumerate(sentences):
        is_list = isinstance(sentence, Iterable) and not isinstance(sentence, str)
        words = sentence if isinstance(sentence, list) else list(sentence) if is_list else []
        if not is_list or not all(isinstance(word, str) for word in words):
            raise ValueError(Errors.EL011.format(i=i, kind=_kind(sentence)))
        found.append(words)
    return found


def _check_positive(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(Errors.EL004.format(name=name, value=value, wanted="1 or more"))


def _kind(sentence: Any) -> str:
    if isinstance(sentence, str):
        return "string"
    items = " with items that are not strings" if isinstance(sentence, Iterable) else ""
    return f"{type(sentence).__name__}{items}"


def _layer_choice(layers: Layers, n_layers: int) -> Any:
    if layers == "all":
        return lambda rows: rows
    if layers == "top":
        return lambda rows: rows[-1]
    if layers == "mean":
        return lambda rows: rows.mean(dim=0)
    if isinstance(layers, (int, np.integer)) and not isinstance(layers, bool) and 0 <= layers <= n_layers:
        return lambda rows: rows[int(layers)]
    raise ValueError(Errors.EL008.format(value=layers, n_layers=n_layers))
