"""Checks of the arguments of `BiLM`."""

from numbers import Integral
from typing import Any, Callable, Collection, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .._choices import STATES
from ..bilm.config import BiLMConfig
from ..bilm.lm_head import LMHead
from ..errors import Errors
from ..text.characters import CharacterCodec, Utf8Codec
from ..text.vocabulary import Vocabulary
from .runs import IdRuns
from .word_encoder import WordEncoder

MIN_COLUMNS = 4  # a word, and begin, content and end of its characters
NO_LISTS = (str, bytes, Mapping, set, frozenset)  # that can be iterated, but have no words in their order


def check_sentences(sentences: Iterable[Sequence[str]]) -> List[List[str]]:
    """RETURNS (List[List[str]]): The words of each sentence.
    RAISES (ValueError): EL011 for input that is not tokenized, EL019 for what has no sentences at all.
    """
    if not isinstance(sentences, Iterable):
        raise ValueError(Errors.EL019.format(kind=_kind(sentences)))
    found: List[List[str]] = []
    for i, sentence in enumerate(sentences):
        is_list = isinstance(sentence, Iterable) and not isinstance(sentence, NO_LISTS)
        words = sentence if isinstance(sentence, list) else list(sentence) if is_list else []
        if not is_list or not _are_words(words):
            raise ValueError(Errors.EL011.format(i=i, kind=_kind(sentence)))
        found.append(words)
    return found


def check_runs(runs: Iterable[Sequence[str]]) -> Sequence[Sequence[str]]:
    """The same for runs, which are not copied.

    RETURNS (Sequence[Sequence[str]]): The runs, in a list if they are not in a sequence.
    RAISES (ValueError): EL011 for a run that is not a list of words, EL019 for what has no runs at all.
    """
    if not isinstance(runs, Iterable):
        raise ValueError(Errors.EL019.format(kind=_kind(runs)))
    found = runs if isinstance(runs, Sequence) else list(runs)
    for i, run in enumerate(found):
        is_list = isinstance(run, Collection) and not isinstance(run, NO_LISTS)
        if not is_list or not _are_words(run):
            raise ValueError(Errors.EL011.format(i=i, kind=_kind(run)))
    return found


def _are_words(words: Iterable[Any]) -> bool:
    """Whether all are strings; a set of the types is several times as fast as a look at each word."""
    return {str}.issuperset(map(type, words)) or all(isinstance(word, str) for word in words)


def check_positive(name: str, value: int) -> None:
    """RAISES (ValueError): EL004 for a value that is no whole number, or below 1."""
    if not isinstance(value, Integral) or value < 1:
        raise ValueError(Errors.EL004.format(name=name, value=repr(value), wanted="a whole number of 1 or more"))


def check_state(state: Any) -> str:
    """RETURNS (str): The policy.
    RAISES (ValueError): EL009 for one that is not known.
    """
    if not isinstance(state, str) or state not in STATES:
        found = f"'{state}'" if isinstance(state, str) else f"a {type(state).__name__}"
        raise ValueError(Errors.EL009.format(state=found, known=", ".join(f"'{name}'" for name in STATES)))
    return state


def check_state_of(config: BiLMConfig, state: Any, *, return_state: bool = False) -> Any:
    """state (Any): A policy, a state, or None for a zero state.
    return_state (bool): Whether the state afterwards is wanted.
    RETURNS (Any): The same; "reset" instead of None if the encoder has no state.
    RAISES (ValueError): EL340 if the encoder has no state and one is wanted.
    """
    if config.has_state:
        return state
    is_given = state is not None and not isinstance(state, str)
    if return_state or state == "carry" or is_given:
        wanted = "return_state=True" if return_state else "a state" if is_given else 'state = "carry"'
        refuse_state(config, wanted)
    return "reset" if state is None else state


def refuse_state(config: BiLMConfig, wanted: str) -> None:
    """wanted (str): What the user asks for.
    RAISES (ValueError): EL340 if the encoder has no state.
    """
    if not config.has_state:
        raise ValueError(Errors.EL340.format(wanted=wanted, encoder=config.encoder))


def require_language_model(
    head: Optional[LMHead], vocabulary: Optional[Vocabulary], purpose: str
) -> Tuple[LMHead, Vocabulary]:
    """purpose (str): What needs both, in the plural.
    RETURNS (Tuple[LMHead, Vocabulary]): Both.
    RAISES (ValueError): EL007 if one is missing.
    """
    if head is None:
        raise ValueError(Errors.EL007.format(part="softmax", what=purpose))
    if vocabulary is None:
        raise ValueError(Errors.EL007.format(part="vocabulary", what=purpose))
    return head, vocabulary


def require_float32(precision: str, what: str, remedy: str) -> None:
    """RAISES (ValueError): EL016 for another precision."""
    if precision != "float32":
        raise ValueError(Errors.EL016.format(what=what, precision=precision, remedy=remedy))


def check_text(sentences: Iterable[Sequence[str]], state: str, batch_size: int, purpose: str) -> List[List[str]]:
    """purpose (str): What is computed of the text, in the plural.
    RETURNS (List[List[str]]): The words of each sentence.
    RAISES (ValueError): EL004 for an unknown state, a batch size below 1 or no sentences, EL011 for input that is not
        tokenized.
    """
    if state not in STATES:
        wanted = f"one of {STATES}"
        raise ValueError(Errors.EL004.format(name=f"state of {purpose}", value=repr(state), wanted=wanted))
    check_positive("batch_size", batch_size)
    text = check_sentences(sentences)
    if not text:
        raise ValueError(Errors.EL004.format(name="text", value="empty", wanted="at least one sentence"))
    return text


def id_runs(char_ids: Union[Tensor, NDArray[np.int64]], index: Sequence[Sequence[int]], words: WordEncoder) -> IdRuns:
    """char_ids (Union[Tensor, NDArray[np.int64]]): Shape (U, C), ids of the codec.
    index (Sequence[Sequence[int]]): Rows of `char_ids`.
    words (WordEncoder): Word encoder of the biLM.
    RETURNS (IdRuns): The sequences, with gradients if these are enabled.
    RAISES (ValueError): EL017 for invalid ids, or if the biLM reads whole words.
    """
    ids = np.asarray(char_ids.cpu() if isinstance(char_ids, Tensor) else char_ids, dtype="int64")
    problem = _id_problem(ids, [number for run in index for number in run], words.codec)
    if problem or words.codec is None:
        raise ValueError(Errors.EL017.format(problem=problem))
    rows = np.concatenate([words.codec.encode(words.boundaries, ids.shape[1])[0], ids])
    return IdRuns(words.encode_ids(rows, words.codec.lengths(rows)), index)


def _id_problem(ids: NDArray[np.int64], numbers: List[int], codec: Optional[CharacterCodec]) -> str:
    if codec is None:
        return "this biLM reads whole words"
    width = codec.max_characters
    if ids.ndim != 2 or (ids.shape[1] != width if width else ids.shape[1] < MIN_COLUMNS):
        remedy = f", as `batch_to_ids(sentences, max_characters={width})` makes them"
        is_utf8 = isinstance(codec, Utf8Codec)
        return f"they have shape {ids.shape}, should have (words, {width or 'ids of a word'}){remedy * is_utf8}"
    largest = codec.largest_ids(ids.shape[1])
    if ids.size and not (0 <= ids.min() and (ids <= largest).all()):
        columns = "" if isinstance(largest, int) else " in the first column, 0 to its number of characters in others"
        return f"they are {ids.min()} to {ids.max()}, should be 0 to {np.ravel(largest)[0]}{columns}"
    if numbers and not 0 <= min(numbers) <= max(numbers) < len(ids):
        return f"the index has rows {min(numbers)} to {max(numbers)}, but there are {len(ids)} rows"
    return ""


def layer_choice(layers: Union[str, int], n_layers: int) -> Callable[[Tensor], Tensor]:
    """layers (Union[str, int]): "all", "top", "mean" or the number of a layer.
    n_layers (int): L.
    RETURNS (Callable[[Tensor], Tensor]): Maps layers (L+1, N, D) to the selected ones.
    RAISES (ValueError): EL008 for another value.
    """
    if layers == "all":
        return lambda rows: rows
    if layers == "top":
        return lambda rows: rows[-1]
    if layers == "mean":
        return lambda rows: rows.mean(dim=0)
    if isinstance(layers, (int, np.integer)) and not isinstance(layers, bool) and 0 <= layers <= n_layers:
        number = int(layers)
        return lambda rows: rows[number]
    raise ValueError(Errors.EL008.format(value=layers, n_layers=n_layers))


def _kind(sentence: Any) -> str:
    if isinstance(sentence, str):
        return "string"
    if isinstance(sentence, NO_LISTS):
        return type(sentence).__name__
    items = " with items that are not strings" if isinstance(sentence, Iterable) else ""
    return f"{type(sentence).__name__}{items}"
