"""Surprisal of the tokens of Docs: the negative log probability that the biLM gives each word, in bits."""

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy
from numpy.typing import NDArray
from spacy.tokens import Doc, Token
from thinc.util import get_torch_default_device

from ..errors import Errors
from ..inference.bilm import BiLM
from ..inference.checks import require_language_model
from ..weights import load_bilm
from ..weights.native import bilm_from_bytes, bilm_to_bytes
from .contexts import DocRuns, read_docs
from .elmo_model import PACKAGED_BILM
from .settings import find_reading_problems

Bits = NDArray[numpy.float32]
RUNS_AT_ONCE = 256


class Surprisal(NamedTuple):
    """Surprisal of a token, -log2 p(word | context), in bits. NaN for white space, which the biLM does not read.

    forward (float): Given the words before it.
    backward (float): Given the words after it; NaN for a forward model.
    mean (float): Mean of the directions.
    is_unk (bool): The word is not in the vocabulary: the numbers are those of `<UNK>`, which is more probable than any
        one word that it stands for.
    """

    forward: float
    backward: float
    mean: float
    is_unk: bool


@dataclass(frozen=True)
class Reading:
    """How Docs are cut into the sequences that the biLM reads; the same settings and defaults as of `ElmoModel`.

    contexts (str): "sentences", "doc", or "auto" (sentences if boundaries are set).
    state (str): "reset", "steady" or "carry".
    max_tokens (int): Longer sequences are split into windows of this many tokens.
    overlap (int): Tokens that neighbouring windows share.
    RAISES (ValueError): EL060 for invalid values.
    """

    contexts: str = "auto"
    state: str = "reset"
    max_tokens: int = 512
    overlap: int = 64

    def __post_init__(self) -> None:
        if problems := find_reading_problems(self):
            raise ValueError(Errors.EL060.format(block="component elmo_surprisal", problems="; ".join(problems)))


def load_language_model(weights: Optional[str]) -> BiLM:
    """weights (Optional[str]): Packaged name or path, None for the packaged biLM.
    RETURNS (BiLM): With its softmax, on the device of Thinc.
    RAISES (ValueError): EL007 without a softmax or a vocabulary; errors of reading the files.
    """
    bilm = load_bilm(weights or PACKAGED_BILM)
    require_language_model(bilm.head, bilm.vocabulary, "surprisal")
    return bilm.to(get_torch_default_device())


def language_model_to_bytes(bilm: BiLM) -> bytes:
    """RETURNS (bytes): Native format, softmax and vocabulary included."""
    return bilm_to_bytes(bilm, "float32")


def language_model_from_bytes(data: bytes) -> BiLM:
    """RETURNS (BiLM): What `language_model_to_bytes` got, on the device of Thinc."""
    return bilm_from_bytes(data).to(get_torch_default_device())


def compute_surprisal(bilm: BiLM, reading: Reading, docs: Sequence[Doc]) -> List[Bits]:
    """bilm (BiLM): With its softmax and its vocabulary.
    reading (Reading): How the Docs are cut into sequences.
    docs (Sequence[Doc]): The Docs.
    RETURNS (List[Bits]): For each Doc shape (d, n), in bits, NaN for white space.
    RAISES (ValueError): EL007 without a softmax or a vocabulary, for sentence contexts without sentence
        boundaries.
    """
    found = read_docs(docs, reading)
    bits = numpy.full((bilm.config.n_directions, sum(found.lengths)), numpy.nan, dtype="float32")
    for start, losses in _losses(bilm, reading.state, found):
        for i, nats in enumerate(losses, start):
            first, last = found.kept[i]
            bits[:, found.rows[i]] = nats[:, first:last] / math.log(2)
    return numpy.split(bits, list(accumulate(found.lengths))[:-1], axis=1) if docs else []


def _losses(bilm: BiLM, state: str, found: DocRuns) -> Iterator[Tuple[int, List[Bits]]]:
    """YIELDS (Tuple[int, List[Bits]]): The first run of a slice, and the losses of its runs, in nats."""
    sizes = [n for n in found.doc_runs if n] if state == "carry" else _slices(len(found.runs))
    start = 0
    for size in sizes:
        yield start, bilm.token_losses(found.runs[start : start + size], state=state)
        start += size


def _slices(n_runs: int) -> List[int]:
    return [min(RUNS_AT_ONCE, n_runs - start) for start in range(0, n_runs, RUNS_AT_ONCE)]


def find_unknown(bilm: BiLM, doc: Doc) -> List[bool]:
    """bilm (BiLM): With a vocabulary.
    RETURNS (List[bool]): For each token of the Doc, whether it is outside the vocabulary; white space is not.
    """
    vocabulary = require_language_model(bilm.head, bilm.vocabulary, "surprisal")[1]
    ids = vocabulary.ids([token.text for token in doc])
    return [bool(i == vocabulary.unk_id) and not token.is_space for i, token in zip(ids.tolist(), doc)]


# Values are stored under the keys of token extensions, which spaCy shifts when a Doc is joined or cut.


def set_surprisal(doc: Doc, prefix: str, bits: Bits, is_unk: Sequence[bool]) -> None:
    """doc (Doc): The Doc.
    prefix (str): Extension prefix of the component.
    bits (Bits): Shape (d, n).
    is_unk (Sequence[bool]): For each token, whether it is outside the vocabulary.
    """
    stored: Dict[Any, Any] = doc.user_data
    columns = bits.T.tolist()
    for token, values, unk in zip(doc, columns, is_unk):
        stored[_key(prefix, token)] = [len(token), bool(unk), *values]


def get_surprisal(token: Token, prefix: str) -> Surprisal:
    """token (Token): A token of a Doc that went through the component.
    prefix (str): Extension prefix of the component.
    RETURNS (Surprisal): In bits.
    RAISES (ValueError): If it was not computed, if tokens were merged or split since.
    """
    stored: Dict[Any, Any] = token.doc.user_data
    record = stored.get(_key(prefix, token))
    if record is None and not any(isinstance(key, tuple) and key[1] == f"{prefix}_surprisal" for key in stored):
        raise ValueError(
            f"There is no surprisal for '{token.text}' (extension prefix '{prefix}'). Process the Doc with a "
            'pipeline that has a component "elmo_surprisal".'
        )
    if record is None or record[0] != len(token):
        raise ValueError(
            f"The tokens around '{token.text}' were merged or split after their surprisal was computed. Read it "
            'before, or put "elmo_surprisal" after the component that retokenizes.'
        )
    _, is_unk, *bits = record
    forward, backward = [*bits, math.nan][:2]
    return Surprisal(forward, backward, sum(bits) / len(bits), is_unk)


def _key(prefix: str, token: Token) -> Tuple[str, str, int, None]:
    return "._.", f"{prefix}_surprisal", token.idx, None
