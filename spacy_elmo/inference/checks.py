"""Checks of the arguments of `BiLM`."""

from numbers import Integral
from typing import Any, Callable, Collection, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
from torch import Tensor

from .._choices import STATES
from ..bilm.config import BiLMConfig
from ..bilm.lm_head import LMHead
from ..errors import Errors
from ..text.vocabulary import Vocabulary

NO_LISTS = (str, bytes, Mapping, set, frozenset)  # that can be iterated, but have no words in their order


def check_sentences(sentences: Iterable[Sequence[str]]) -> List[List[str]]:
    """The words of each sentence; EL011 for input that is not tokenized, ValueError for what has no sentences."""
    _require_iterable(sentences)
    found: List[List[str]] = []
    for i, sentence in enumerate(sentences):
        is_list = isinstance(sentence, Iterable) and not isinstance(sentence, NO_LISTS)
        words = sentence if isinstance(sentence, list) else list(sentence) if is_list else []
        if not is_list or not _are_words(words):
            raise ValueError(Errors.EL011.format(i=i, kind=_kind(sentence)))
        found.append(words)
    return found


def check_runs(runs: Iterable[Sequence[str]]) -> Sequence[Sequence[str]]:
    """The same for runs, which are not copied: in a list only if they are not in a sequence."""
    _require_iterable(runs)
    found = runs if isinstance(runs, Sequence) else list(runs)
    for i, run in enumerate(found):
        is_list = isinstance(run, Collection) and not isinstance(run, NO_LISTS)
        if not is_list or not _are_words(run):
            raise ValueError(Errors.EL011.format(i=i, kind=_kind(run)))
    return found


def _require_iterable(sentences: Any) -> None:
    if not isinstance(sentences, Iterable):
        raise ValueError(
            f"The sentences are given as {_kind(sentences)}, but should be a list of lists of strings. Pass tokenized "
            "text, one list of words per sentence."
        )


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
        found = f"'{state}'" if isinstance(state, str) else f"a {type(state).__name__}"
        known = ", ".join(f"'{name}'" for name in STATES)
        raise ValueError(
            f"The state is {found}, but should be one of {known}, a BiLMState returned by `embed(..., "
            "return_state=True)` of this biLM, or None for a zero state. Choose one of these."
        )
    return state


def check_state_of(config: BiLMConfig, state: Any, *, return_state: bool = False) -> Any:
    """The same; "reset" instead of None if the encoder has no state. EL340 if it has none and one is wanted."""
    if config.has_state:
        return state
    is_given = state is not None and not isinstance(state, str)
    if return_state or state == "carry" or is_given:
        wanted = "return_state=True" if return_state else "a state" if is_given else 'state = "carry"'
        refuse_state(config, wanted)
    return "reset" if state is None else state


def refuse_state(config: BiLMConfig, wanted: str) -> None:
    """RAISES (ValueError): EL340 if the encoder has no state. `wanted` is what the user asks for."""
    if not config.has_state:
        raise ValueError(Errors.EL340.format(wanted=wanted, encoder=config.encoder))


def require_language_model(
    head: Optional[LMHead], vocabulary: Optional[Vocabulary], purpose: str
) -> Tuple[LMHead, Vocabulary]:
    """RAISES (ValueError): EL007 if one is missing. `purpose` is what needs both, in the plural."""
    if head is None:
        raise ValueError(Errors.EL007.format(part="softmax", what=purpose))
    if vocabulary is None:
        raise ValueError(Errors.EL007.format(part="vocabulary", what=purpose))
    return head, vocabulary


def require_float32(precision: str, what: str, remedy: str) -> None:
    """RAISES (ValueError): For another precision."""
    if precision != "float32":
        raise ValueError(f"{what} needs float32 weights, but their precision is {precision}. {remedy}")


def check_text(sentences: Iterable[Sequence[str]], state: str, batch_size: int, purpose: str) -> List[List[str]]:
    """`check_sentences` of at least one sentence, state and batch size; `purpose` is what is computed."""
    if state not in STATES:
        raise ValueError(f"The state of {purpose} is {state!r}, but should be one of {STATES}.")
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
        number = int(layers)
        return lambda rows: rows[number]
    raise ValueError(
        f"The setting layers is {layers!r}, but should be 'all', 'top', 'mean' or an int from 0 to {n_layers}."
    )


def _kind(sentence: Any) -> str:
    if isinstance(sentence, str):
        return "string"
    if isinstance(sentence, NO_LISTS):
        return type(sentence).__name__
    items = " with items that are not strings" if isinstance(sentence, Iterable) else ""
    return f"{type(sentence).__name__}{items}"
