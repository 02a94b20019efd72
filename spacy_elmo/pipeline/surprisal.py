"""The component `elmo_surprisal`: how unexpected each token is to a biLM."""

import math
import os
from dataclasses import asdict
from functools import partial
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass
from spacy.language import Language
from spacy.tokens import Doc, Token
from spacy.training import Example
from spacy.util import minibatch
from thinc.types import Floats2d
from thinc.util import get_torch_default_device

from ..inference.bilm import BiLM
from ..inference.perplexity import require_language_model
from ..inference.runtime import register_fork_handlers
from ..settings import KNOWN_NAMES, Prefix, WeightsPath, read_block, takes
from ..util import batched
from ..weights import load_bilm
from ..weights.formats.native import bilm_from_bytes, bilm_to_bytes
from ..weights.load import resolve
from .doc_vectors import ExtensionGetter, register_getter
from .model import PACKAGED_BILM, DocSequences, SequenceSettings, read_docs

Bits = NDArray[numpy.float32]
SEQUENCES_AT_ONCE = 256


class Surprisal(NamedTuple):
    """Surprisal of a token, -log2 p(word | context), in bits. NaN for white space, which the biLM does not read.

    forward (float): Given the words before it.
    backward (float): Given the words after it; NaN for a forward model.
    mean (float): Mean of the directions.
    is_unk (bool): The word is not in the vocabulary: the numbers are for `<UNK>`, which is more probable than each word
        that it replaces.
    """

    forward: float
    backward: float
    mean: float
    is_unk: bool


def compute_surprisal(bilm: BiLM, reading: SequenceSettings, docs: Sequence[Doc]) -> List[Bits]:
    """For each Doc the surprisal in bits, shape (d, n), NaN for white space.

    RAISES (ValueError): EL007 without a softmax or a vocabulary, for sentence contexts without sentence boundaries.
    """
    doc_sequences = read_docs(docs, reading)
    bits = numpy.full((bilm.config.n_directions, sum(doc_sequences.lengths)), numpy.nan, dtype="float32")
    for start, losses in _losses(bilm, reading.state, doc_sequences):
        for i, nats in enumerate(losses, start):
            first, last = doc_sequences.central[i]
            bits[:, doc_sequences.rows[i]] = nats[:, first:last] / math.log(2)
    return numpy.split(bits, list(accumulate(doc_sequences.lengths))[:-1], axis=1) if docs else []


def _losses(bilm: BiLM, state: str, doc_sequences: DocSequences) -> Iterator[Tuple[int, List[Bits]]]:
    """YIELDS (Tuple[int, List[Bits]]): The first sequence of a slice, and the losses of its sequences, in nats."""
    sequences, start = iter(doc_sequences.sequences), 0
    batches = (
        (list(islice(sequences, n)) for n in doc_sequences.sequences_per_doc if n)
        if state == "carry"
        else batched(sequences, SEQUENCES_AT_ONCE)
    )
    for batch in batches:
        yield start, bilm.token_losses(batch, state=state)
        start += len(batch)


def find_unknown(bilm: BiLM, doc: Doc) -> List[bool]:
    """For each token of the Doc, whether it is outside the vocabulary of the biLM; white space is not."""
    vocabulary = require_language_model(bilm.head, bilm.vocabulary, "surprisal")[1]
    ids = vocabulary.ids([token.text for token in doc])
    return [bool(i == vocabulary.unk_id) and not token.is_space for i, token in zip(ids.tolist(), doc)]


# Values are stored under the keys of token extensions, which spaCy shifts when a Doc is joined or cut.


def _set_surprisal(doc: Doc, prefix: str, bits: Bits, is_unk: Sequence[bool]) -> None:
    """Store bits, shape (d, n), and whether each token is outside the vocabulary, on a Doc."""
    stored: Dict[Any, Any] = doc.user_data
    columns = bits.T.tolist()
    for token, values, unk in zip(doc, columns, is_unk):
        stored[_surprisal_key(prefix, token)] = [len(token), bool(unk), *values]


class SurprisalError(ValueError, AttributeError):
    """A token has no surprisal. `hasattr(doc._, "elmo_surprisal")`, which spaCy's `doc_cleaner` calls, is false."""


def _drop_surprisal(doc: Doc, prefix: str) -> None:
    for key in _find_surprisal_keys(doc, prefix):
        del doc.user_data[key]


def _get_surprisal(token: Token, prefix: str) -> Surprisal:
    """The surprisal of a token, in bits. SurprisalError if it was not computed, or tokens were merged or split."""
    stored: Dict[Any, Any] = token.doc.user_data
    record = stored.get(_surprisal_key(prefix, token))
    if record is None or record[0] != len(token):
        remedy = "process the Doc with a component 'elmo_surprisal'"
        if _find_surprisal_keys(token.doc, prefix):
            remedy = "tokens were merged or split: read it before, or put 'elmo_surprisal' after the component for this"
        raise SurprisalError(f"There is no surprisal for '{token.text}' (extension prefix '{prefix}'): {remedy}.")
    _, is_unk, *bits = record
    forward, backward = [*bits, math.nan][:2]
    return Surprisal(forward, backward, sum(bits) / len(bits), is_unk)


def _surprisal_key(prefix: str, token: Token) -> Tuple[str, str, int, None]:
    return "._.", f"{prefix}_surprisal", token.idx, None


def _find_surprisal_keys(doc: Doc, prefix: str) -> List[Any]:
    name = f"{prefix}_surprisal"
    return [key for key in doc.user_data if isinstance(key, tuple) and key[:2] == ("._.", name)]


FILE_NAME = "bilm"


@dataclass(frozen=True, config=KNOWN_NAMES)
class SurprisalSettings(SequenceSettings):
    """Weights of the component, and its attribute.

    weights (Optional[str]): Weights of a biLM with softmax and vocabulary: a packaged name, or a folder, zip or file in
        any known format; null for the packaged biLM. A saved pipeline contains its weights and does not read the path
        again.
    prefix (str): Start of the name of the extension attribute, PREFIX_surprisal; a second component needs another.
    """

    weights: Optional[WeightsPath] = None
    prefix: Prefix = "elmo"


@Language.factory(
    "elmo_surprisal",
    assigns=["doc._.elmo_surprisal", "token._.elmo_surprisal"],
    default_config=asdict(SurprisalSettings()),
)
@takes(SurprisalSettings)
def make_elmo_surprisal(nlp: Language, name: str, **settings: Any) -> "ElmoSurprisal":
    """How unexpected each token is to a biLM.

    nlp (Language): The pipeline.
    name (str): Name of the component in the pipeline.
    How Docs are cut into sequences, see `SequenceSettings`.
    Other settings, see `SurprisalSettings`.
    RETURNS (ElmoSurprisal): The component.
    """
    return ElmoSurprisal(name, **settings)


class ElmoSurprisal:
    """Sets `token._.elmo_surprisal` and `doc._.elmo_surprisal`. It has a biLM of its own, with the softmax, which the
    component `elmo` does not keep. Settings: see `SurprisalSettings`.

    RAISES (ValueError): For invalid settings, if the name is taken.
    """

    def __init__(self, name: str = "elmo_surprisal", **settings: Any) -> None:
        self.name = name
        if isinstance(settings.get("weights"), os.PathLike):
            settings["weights"] = os.fspath(settings["weights"])
        self.settings = read_block(SurprisalSettings, settings, f"[components.{name}] block")
        self._path = None if self.settings.weights is None else resolve(self.settings.weights)
        self._bilm: Any = None
        register_surprisal(self.settings.prefix)
        register_fork_handlers()

    @property
    def bilm(self) -> Any:
        """RETURNS (BiLM): The biLM, loaded on first use.
        RAISES (ValueError): EL007 without a softmax or a vocabulary; errors of reading the files.
        """
        if self._bilm is None:
            bilm = load_bilm(self._path or PACKAGED_BILM)
            require_language_model(bilm.head, bilm.vocabulary, "surprisal")
            self._bilm = bilm.to(get_torch_default_device())
        return self._bilm

    def initialize(self, get_examples: Callable[[], Iterable[Example]], *, nlp: Optional[Language] = None) -> None:
        """Load the biLM, so that a missing softmax is known before training."""
        self.bilm  # noqa: B018

    def __call__(self, doc: Doc) -> Doc:
        """RAISES (ValueError): See `bilm`; for sentence contexts without sentence boundaries."""
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """batch_size (int): Docs computed at once."""
        for docs in minibatch(stream, batch_size):
            self._annotate(docs)
            yield from docs

    def _annotate(self, docs: Sequence[Doc]) -> None:
        for doc, bits in zip(docs, compute_surprisal(self.bilm, self.settings, docs)):
            _set_surprisal(doc, self.settings.prefix, bits, find_unknown(self.bilm, doc))

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """RETURNS (bytes): The biLM in native format, with its softmax; all settings are in the config."""
        return bilm_to_bytes(self.bilm, "float32")

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "ElmoSurprisal":
        """data (bytes): From `to_bytes`."""
        self._bilm = bilm_from_bytes(data).to(get_torch_default_device())
        return self

    def to_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> None:
        """path (Union[str, Path]): The folder to write."""
        Path(path).mkdir(parents=True, exist_ok=True)
        (Path(path) / FILE_NAME).write_bytes(self.to_bytes())

    def from_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> "ElmoSurprisal":
        """Read the folder that `to_disk` wrote."""
        return self.from_bytes((Path(path) / FILE_NAME).read_bytes())

    def __setstate__(self, state: Dict[str, Any]) -> None:
        """From a pickle, for example in a spawned worker."""
        self.__dict__.update(state)
        register_surprisal(self.settings.prefix)
        register_fork_handlers()


class TokenSurprisalGetter(ExtensionGetter):
    """`token._.elmo_surprisal`: a `Surprisal`, in bits."""

    def __call__(self, token: Token) -> Surprisal:
        return _get_surprisal(token, self.prefix)


class DocSurprisalGetter(ExtensionGetter):
    """`doc._.elmo_surprisal`: shape (n, 2), forward and backward, in bits."""

    def __call__(self, doc: Doc) -> Floats2d:
        rows = [_get_surprisal(token, self.prefix)[:2] for token in doc]
        return numpy.array(rows, dtype="float32").reshape(-1, 2)


def register_surprisal(prefix: str = "elmo") -> None:
    """Register `doc._.elmo_surprisal` and `token._.elmo_surprisal`. May be called repeatedly.

    The component calls it. Call it yourself for Docs read from a file without a pipeline.
    prefix (str): The `prefix` setting of the component.
    RAISES (ValueError): If a name is taken.
    """
    remove = partial(_drop_surprisal, prefix=prefix)
    register_getter(Doc, f"{prefix}_surprisal", DocSurprisalGetter(prefix), remove)
    register_getter(Token, f"{prefix}_surprisal", TokenSurprisalGetter(prefix))
