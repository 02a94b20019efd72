"""Vocabulary and softmax of a run: from the biLM it starts from, from a file, or new."""

from typing import List, Optional, cast

from .._settings import to_path
from ..bilm.lm_head import AdaptiveHead, LMHead, SoftmaxHead
from ..bilm.model import BiLMNetwork
from ..corpora.counting import SPECIAL
from ..corpora.files import Tell
from ..errors import Errors, Warnings
from ..inference.bilm import BiLM
from ..pretraining.config import PretrainConfig, SoftmaxConfig
from ..text.vocabulary import Vocabulary
from ..weights.parts import is_head_shared, read_vocabulary
from ..weights.sources import Source
from . import _common
from ._run_config import PathsConfig

MAX_NAMED = 5  # line numbers in an error message


def words_of(init: Optional[BiLM], paths: PathsConfig, *, is_new_head: bool) -> Optional[Vocabulary]:
    """Choose the vocabulary, if the words need not be counted.

    Rows of a word embedding and of a softmax belong to words, so a biLM that keeps them keeps its vocabulary.

    init (Optional[BiLM]): The biLM that training starts from.
    paths (PathsConfig): Paths of that biLM and of a vocabulary file.
    is_new_head (bool): Whether the softmax of that biLM is replaced.
    RETURNS (Optional[Vocabulary]): From the file or the biLM; None if the words must be counted.
    RAISES (ValueError): EL027, EL147, EL171 to EL173 or EL175 for a vocabulary file that is missing or does not fit.
    """
    given = _read_words(paths.vocab) if paths.vocab else None
    n_rows = _n_rows(init, is_new_head)
    if init is None or n_rows is None:
        return _check_lines(given, str(paths.vocab))
    if init.vocabulary is None:
        if given is None or len(given) != n_rows:
            found = "no vocabulary is given" if given is None else f"'{paths.vocab}' has {len(given):,} words"
            raise ValueError(Errors.EL172.format(init=paths.init, wanted=n_rows, found=found))
        return given
    if given is not None and given.words != init.vocabulary.words:
        error = Errors.EL147 if init.config.n_words is None else Errors.EL171
        n_different = len(set(given.words) ^ set(init.vocabulary.words))
        found = f"{n_different} words that differ from" if n_different else "another order than"
        raise ValueError(error.format(found=found, wanted=len(init.vocabulary), init=paths.init))
    return init.vocabulary


def check_head(init: BiLM, settings: SoftmaxConfig, name: str) -> None:
    """init (BiLM): The biLM that training starts from, with its softmax if it has one.
    settings (SoftmaxConfig): The softmax in the config.
    name (str): Name of the biLM, for the error.
    RAISES (ValueError): EL174 with all settings that differ.
    """
    head = init.head
    if head is None:
        return
    found = {"kind": "adaptive" if isinstance(head, AdaptiveHead) else "sampled or full"}
    found["tie_weights"] = str(is_head_shared(init.network, head)).lower()
    asked = {"kind": settings.kind if settings.kind == "adaptive" else "sampled or full"}
    asked["tie_weights"] = str(settings.tie_weights).lower()
    if isinstance(head, AdaptiveHead) and settings.kind == "adaptive":
        found.update(cutoffs=str(head.cutoffs), div_value=str(head.div_value))
        asked.update(cutoffs=str(list(settings.cutoffs)), div_value=str(float(settings.div_value)))
    different = _common.describe_differences(asked, found)
    if different:
        raise ValueError(Errors.EL174.format(init=name, different="; ".join(different)))


def refuse_useless_sparse(settings: PretrainConfig, *, is_word_input: bool) -> None:
    """RAISES (ValueError): EL176 if `sparse` is set, but every row has a gradient in every update."""
    softmax = settings.softmax
    has_sparse_table = is_word_input and not softmax.tie_weights
    if settings.optimizer.sparse and softmax.kind not in ("sampled", "auto") and not has_sparse_table:
        raise ValueError(Errors.EL176.format(kind=softmax.kind))


def make_head(
    network: BiLMNetwork, vocabulary: Vocabulary, settings: SoftmaxConfig, init: Optional[BiLM], tell: Tell
) -> LMHead:
    """Create the softmax of a run. A full or sampled one starts from the weights of the words that `init` has, too.

    network (BiLMNetwork): Its word embedding is shared with `tie_weights`.
    vocabulary (Vocabulary): V words.
    settings (SoftmaxConfig): Kind of softmax.
    init (Optional[BiLM]): The biLM that training starts from.
    tell (Tell): Is told how many words keep their weights.
    RETURNS (LMHead): With random weights for all other words.
    """
    width = network.config.projection_width
    if settings.kind == "adaptive":
        return AdaptiveHead(len(vocabulary), width, settings.cutoffs, settings.div_value)
    if settings.tie_weights:
        return SoftmaxHead.tied(network.word_embedding)
    head = SoftmaxHead(len(vocabulary), width)
    if init is not None and isinstance(init.head, SoftmaxHead) and init.vocabulary is not None:
        known = {word: row for row, word in enumerate(init.vocabulary.words)}
        rows = [row for row, word in enumerate(vocabulary.words) if word in known]
        head.copy_rows(init.head, rows, [known[vocabulary.words[row]] for row in rows])
        tell(f"Softmax: {len(rows):,} of {len(vocabulary):,} words start from their weights in paths.init")
    return head


def _n_rows(init: Optional[BiLM], is_new_head: bool) -> Optional[int]:
    """Rows of the word embedding or softmax that training keeps; None if it keeps none."""
    if init is None:
        return None
    if init.config.n_words is not None:
        return init.config.n_words
    return None if init.head is None or is_new_head else init.head.n_words


def _read_words(path: str) -> Vocabulary:
    if not to_path(path).is_file():
        raise ValueError(Errors.EL175.format(path=path))
    return cast(Vocabulary, read_vocabulary(Source(to_path(path)), is_needed=True))


def _check_lines(given: Optional[Vocabulary], path: str) -> Optional[Vocabulary]:
    """Refuse blank lines, and warn if the special words are not the first ones. For a new softmax or embedding."""
    if given is None:
        return None
    blank: List[int] = [number for number, word in enumerate(given.words, start=1) if not word.strip()]
    if blank:
        lines = ", ".join(map(str, blank[:MAX_NAMED]))
        raise ValueError(Errors.EL173.format(path=path, n_lines=len(blank), lines=lines))
    if tuple(given.words[: len(SPECIAL)]) != SPECIAL:
        found = ", ".join(given.words[: len(SPECIAL)])
        _common.msg.warn(Warnings.WL100.format(path=path, found=found, wanted=", ".join(SPECIAL)))
    return given
