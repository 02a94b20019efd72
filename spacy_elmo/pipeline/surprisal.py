"""The component `elmo_surprisal`: how unexpected each token is to a biLM."""

from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Sequence, Union

import numpy
from spacy.language import Language
from spacy.tokens import Doc, Token
from spacy.training import Example
from spacy.util import minibatch
from thinc.api import Config
from thinc.types import Floats2d

from ..errors import Errors
from ..inference.threads import register_fork_handlers
from ..ml.doc_vectors import ExtensionGetter, register_getter
from ..ml.loaders import resolve
from ..ml.surprisal import (
    Reading,
    Surprisal,
    compute_surprisal,
    find_unknown,
    get_surprisal,
    language_model_from_bytes,
    language_model_to_bytes,
    load_language_model,
    set_surprisal,
)

DEFAULT_CONFIG = """
[elmo_surprisal]
# Weights of a biLM with softmax and vocabulary: a packaged name, or a folder, zip or file in any known format; null for
# the packaged biLM. A saved pipeline contains its weights and does not read the path again.
weights = null
# Sequences that the biLM reads: "sentences", "doc", or "auto" (sentences if boundaries are set on the Doc).
contexts = "auto"
# Recurrent state at the start of a sequence: "reset", "steady" or "carry", as of the component elmo.
state = "reset"
# Longer sequences are split into windows of this many tokens.
max_tokens = 512
# Tokens that neighbouring windows share; each token is taken from the window where it is most central.
overlap = 64
# Name of the extension attribute, PREFIX_surprisal; a second component needs another.
prefix = "elmo"
"""
DEFAULT_BLOCKS = Config().from_str(DEFAULT_CONFIG)["elmo_surprisal"]
FILE_NAME = "bilm"


@Language.factory(
    "elmo_surprisal",
    assigns=["doc._.elmo_surprisal", "token._.elmo_surprisal"],
    default_config=DEFAULT_BLOCKS,
)
def make_elmo_surprisal(
    nlp: Language,
    name: str,
    weights: Optional[str],
    contexts: str,
    state: str,
    max_tokens: int,
    overlap: int,
    prefix: str,
) -> "ElmoSurprisal":
    """Create the component from its config.

    nlp (Language): The pipeline.
    name (str): Name of the component in the pipeline.
    weights (Optional[str]): Packaged name or path of a biLM with softmax and vocabulary; null for the packaged biLM.
    contexts (str), state (str), max_tokens (int), overlap (int): As of `spacy-elmo.ElmoModel.v1`.
    prefix (str): Start of the name of the extension attribute.
    RETURNS (ElmoSurprisal): The component.
    """
    reading = Reading(contexts=contexts, state=state, max_tokens=max_tokens, overlap=overlap)
    return ElmoSurprisal(name, weights=weights, reading=reading, prefix=prefix)


class ElmoSurprisal:
    """Sets `token._.elmo_surprisal` and `doc._.elmo_surprisal`. It has a biLM of its own, with the softmax, which the
    component `elmo` does not keep.

    name (str): Name of the component.
    weights (Optional[str]): Packaged name or path of a biLM with softmax and vocabulary; None for the packaged biLM.
    reading (Optional[Reading]): How Docs are cut into sequences, by default as of the component `elmo`.
    prefix (str): Start of the name of the extension attribute.
    RAISES (ValueError): EL060 for invalid settings, if the name is taken.
    """

    def __init__(
        self,
        name: str = "elmo_surprisal",
        *,
        weights: Optional[str] = None,
        reading: Optional[Reading] = None,
        prefix: str = "elmo",
    ) -> None:
        if not prefix.isidentifier():
            problems = f"prefix is '{prefix}', should be a Python name"
            raise ValueError(Errors.EL060.format(block="component elmo_surprisal", problems=problems))
        self.name = name
        self.weights = weights
        self._path = None if weights is None else resolve(weights)
        self.reading = reading or Reading()
        self.prefix = prefix
        self._bilm: Any = None
        register_surprisal(prefix)
        register_fork_handlers()

    @property
    def bilm(self) -> Any:
        """RETURNS (BiLM): The biLM, loaded on first use.
        RAISES (ValueError): EL007 without a softmax or a vocabulary; errors of reading the files.
        """
        if self._bilm is None:
            self._bilm = load_language_model(self._path)
        return self._bilm

    def initialize(self, get_examples: Callable[[], Iterable[Example]], *, nlp: Optional[Language] = None) -> None:
        """Load the biLM, so that a missing softmax is known before training."""
        self.bilm  # noqa: B018

    def __call__(self, doc: Doc) -> Doc:
        """doc (Doc): The Doc.
        RETURNS (Doc): The same Doc.
        RAISES (ValueError): See `bilm`; for sentence contexts without sentence boundaries.
        """
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """stream (Iterable[Doc]): The Docs.
        batch_size (int): Docs computed at once.
        YIELDS (Doc): The same Docs, in order.
        """
        for docs in minibatch(stream, batch_size):
            self._annotate(docs)
            yield from docs

    def _annotate(self, docs: Sequence[Doc]) -> None:
        for doc, bits in zip(docs, compute_surprisal(self.bilm, self.reading, docs)):
            set_surprisal(doc, self.prefix, bits, find_unknown(self.bilm, doc))

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """RETURNS (bytes): The biLM in native format; all settings are in the config."""
        return language_model_to_bytes(self.bilm)

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "ElmoSurprisal":
        """data (bytes): From `to_bytes`.
        RETURNS (ElmoSurprisal): The same component.
        """
        self._bilm = language_model_from_bytes(data)
        return self

    def to_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> None:
        """path (Union[str, Path]): The folder to write."""
        Path(path).mkdir(parents=True, exist_ok=True)
        (Path(path) / FILE_NAME).write_bytes(self.to_bytes())

    def from_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> "ElmoSurprisal":
        """path (Union[str, Path]): The folder that `to_disk` wrote.
        RETURNS (ElmoSurprisal): The same component.
        """
        return self.from_bytes((Path(path) / FILE_NAME).read_bytes())

    def __setstate__(self, state: Dict[str, Any]) -> None:
        """From a pickle, for example in a spawned worker."""
        self.__dict__.update(state)
        register_surprisal(self.prefix)
        register_fork_handlers()


class TokenSurprisalGetter(ExtensionGetter):
    """`token._.elmo_surprisal`: a `Surprisal`, in bits."""

    def __call__(self, token: Token) -> Surprisal:
        return get_surprisal(token, self.prefix)


class DocSurprisalGetter(ExtensionGetter):
    """`doc._.elmo_surprisal`: shape (n, 2), forward and backward, in bits."""

    def __call__(self, doc: Doc) -> Floats2d:
        rows = [get_surprisal(token, self.prefix)[:2] for token in doc]
        return numpy.array(rows, dtype="float32").reshape(-1, 2)


def register_surprisal(prefix: str = "elmo") -> None:
    """Register `doc._.elmo_surprisal` and `token._.elmo_surprisal`. May be called repeatedly.

    The component calls it. Call it yourself for Docs read from a file without a pipeline.
    prefix (str): The `prefix` setting of the component.
    RAISES (ValueError): If a name is taken.
    """
    register_getter(Doc, f"{prefix}_surprisal", DocSurprisalGetter(prefix))
    register_getter(Token, f"{prefix}_surprisal", TokenSurprisalGetter(prefix))
