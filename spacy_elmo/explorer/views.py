"""The views of the explorer: each answers a request with JSON. Nothing is kept from one request to the next."""

import math
from contextlib import contextmanager
from threading import Lock
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

from spacy.tokens import Doc, Token

from ..about import __version__
from ..analysis.layer_weights import name_mixes
from ..analysis.neighbors import NeighborIndex
from ..errors import Errors
from ..inference.bilm import BiLM
from ..inference.substitutes import find_substitutes
from ..ml.surprisal import compute_surprisal, find_unknown
from ..ml.task_mixes import TaskMix
from .comparison import compare_layers
from .fields import Fields
from .limits import BUSY_SECONDS, MAX_CHARACTERS, MAX_COMPARED, MAX_RESULTS, MAX_TOKENS
from .reading import READING, TextReader, cut_word, embed_doc, find_contexts, find_place
from .senses import map_senses
from .uses import CHOICES, describe_index, describe_use

Answer = Dict[str, Any]


class Busy(Exception):
    """Other requests took too long."""


class Explorer:
    """Answers the requests of the page. A lock lets one request at a time compute.

    bilm (BiLM): The model.
    name (str): Its name, for the page.
    reader (Optional[TextReader]): Tokenizer and sentence splitter, by default for English.
    index (Optional[NeighborIndex]): For the views Neighbours and Senses.
    mixes (Sequence[TaskMix]): Learned mixes of a pipeline.
    busy_seconds (float): How long a request waits for the lock.
    """

    def __init__(
        self,
        bilm: BiLM,
        name: str,
        *,
        reader: Optional[TextReader] = None,
        index: Optional[NeighborIndex] = None,
        mixes: Sequence[TaskMix] = (),
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self.bilm, self.name = bilm, name
        self.index, self.mixes = index, mixes
        self._reader = reader or TextReader()
        self._busy_seconds = busy_seconds
        self._lock = Lock()

    def close(self) -> None:
        """Close the index."""
        if self.index is not None:
            self.index.close()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the lock.

        RAISES (Busy): EL416 if other requests hold it for too long.
        """
        if not self._lock.acquire(timeout=self._busy_seconds):
            raise Busy(Errors.EL416.format(seconds=f"{self._busy_seconds:g}"))
        try:
            yield
        finally:
            self._lock.release()

    def answer(self, view: str, body: bytes) -> Answer:
        """view (str): A key of `VIEWS`.
        body (bytes): The body of the request.
        RETURNS (Dict[str, Any]): The answer, to be sent as JSON.
        RAISES (ValueError): EL413, EL414, EL417 and EL419 for requests that cannot be answered, EL007 if the biLM has
            no softmax. Busy: EL416.
        """
        fields = Fields(body)
        with self.turn():
            return VIEWS[view](self, fields)

    def settings(self) -> Answer:
        """RETURNS (Dict[str, Any]): What the page needs to know of the biLM, the index and the limits."""
        names = name_mixes(self.mixes)
        return {
            "version": __version__,
            "bilm": self.name,
            "n_layers": self.bilm.config.n_layers + 1,
            "width": self.bilm.config.output_width,
            "n_directions": self.bilm.config.n_directions,
            "has_softmax": self.bilm.head is not None and self.bilm.vocabulary is not None,
            "mixes": [
                {"name": name, "shares": list(mix.shares), "gamma": mix.gamma} for name, mix in zip(names, self.mixes)
            ],
            "index": describe_index(self.index),
            "limits": {"characters": MAX_CHARACTERS, "tokens": MAX_TOKENS, "compared": MAX_COMPARED},
        }

    def tokens(self, fields: Fields) -> Answer:
        """RETURNS (Dict[str, Any]): Tokens and contexts of a text."""
        doc = self._reader.read(fields.text("text"))
        contexts = [{"tokens": context.tokens, "keep": list(context.keep)} for context in find_contexts(doc)]
        unknown = self._unknown(doc)
        found = [
            {**_describe_token(token), "is_unknown": is_unknown, "read": cut_word(self.bilm, token.text)}
            for token, is_unknown in zip(doc, unknown)
        ]
        return {"tokens": found, "contexts": contexts, "has_vocabulary": self.bilm.vocabulary is not None}

    def compare(self, fields: Fields) -> Answer:
        """RETURNS (Dict[str, Any]): Products of the layers of two texts, see `compare_layers`."""
        docs = [self._reader.read(fields.text(name), MAX_COMPARED) for name in ("a", "b")]
        words = [[token.text for token in doc if not token.is_space] for doc in docs]
        return {"words": words, **compare_layers(*(embed_doc(self.bilm, doc) for doc in docs))}

    def surprisal(self, fields: Fields) -> Answer:
        """RETURNS (Dict[str, Any]): Tokens with their surprisal in bits, null for white space."""
        doc = self._reader.read(fields.text("text"))
        (bits,) = compute_surprisal(self.bilm, READING, [doc])
        unknown = find_unknown(self.bilm, doc)
        return {
            "tokens": [
                {**_describe_token(token), "is_unknown": is_unknown, "bits": [_number(value) for value in column]}
                for token, is_unknown, column in zip(doc, unknown, bits.T.tolist())
            ]
        }

    def substitutes(self, fields: Fields) -> Answer:
        """RETURNS (Dict[str, Any]): Words that the biLM expects in the place of a token."""
        doc = self._reader.read(fields.text("text"))
        context, position = find_place(doc, fields.number("token", 0, MAX_TOKENS))
        found = find_substitutes(self.bilm, context.words, position, k=fields.number("k", 1, MAX_RESULTS))
        rows = [{name: _number(value) for name, value in one._asdict().items()} for one in found]
        return {"word": context.words[position], "substitutes": rows}

    def neighbours(self, fields: Fields) -> Answer:
        """RETURNS (Dict[str, Any]): Tokens of a text, and the stored uses closest to one of them, if one is given."""
        index = self._require_index()
        doc = self._reader.read(fields.text("text"))
        tokens = [_describe_token(token) for token in doc]
        token = fields.maybe_number("token", 0, MAX_TOKENS)
        if token is None:
            return {"tokens": tokens, "neighbours": None}
        context, position = find_place(doc, token)
        k, uses = fields.number("k", 1, MAX_RESULTS), fields.choice("uses", CHOICES)
        found = index.find(self.bilm, context.words, position, k, uses=uses)
        rows = [{**describe_use(one.use), "cosine": float(one.cosine)} for one in found]
        return {"tokens": tokens, "neighbours": rows}

    def senses(self, fields: Fields) -> Answer:
        """RETURNS (Dict[str, Any]): A map of the uses of a word, in groups."""
        return map_senses(self._require_index(), fields)

    def _require_index(self) -> NeighborIndex:
        if self.index is None:
            raise ValueError(Errors.EL417)
        return self.index

    def _unknown(self, doc: Doc) -> List[bool]:
        vocabulary = self.bilm.vocabulary
        if vocabulary is None:
            return [False] * len(doc)
        return [not token.is_space and token.text not in vocabulary for token in doc]


VIEWS: Dict[str, Callable[[Explorer, Fields], Answer]] = {
    "compare": Explorer.compare,
    "neighbours": Explorer.neighbours,
    "senses": Explorer.senses,
    "substitutes": Explorer.substitutes,
    "surprisal": Explorer.surprisal,
    "tokens": Explorer.tokens,
}


def _describe_token(token: Token) -> Answer:
    return {"text": token.text, "space": token.whitespace_, "is_space": token.is_space}


def _number(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
