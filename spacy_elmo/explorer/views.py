"""The views of the explorer: each answers a request with JSON. Only an index that the page has built is kept.

Limits of what one request may ask for bound its memory and its time.
"""

import json
from contextlib import ExitStack, closing, contextmanager
from heapq import nlargest
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Annotated, Any, Callable, Dict, Iterator, List, Optional, Sequence

import numpy
from numpy.typing import NDArray
from pydantic import Field
from spacy.tokens import Token

from ..about import __version__
from ..analysis.index_build import Document, IndexBuilder, make_settings, open_for_writing
from ..analysis.layer_weight_plots import name_mixes
from ..analysis.neighbors import NeighborIndex, Use
from ..analysis.sense_map import MAX_SENSES, MIN_USES, cluster_uses
from ..inference.bilm import BiLM
from ..inference.substitutes import find_substitutes
from ..pipeline.layer_weights import TaskMix
from ..pipeline.surprisal import compute_surprisal, find_unknown
from ..settings import Whole, check_record, list_problems
from ..util import finite_or_none
from .reading import (
    MAX_TOKENS,
    READING,
    TextSplitter,
    check_length,
    cut_word,
    embed_doc,
    find_contexts,
    find_examples,
    find_place,
    invalid,
)

MAX_TEXT_CHARACTERS = 20_000
MAX_COMPARED = 60  # tokens of each text of the view Compare
MAX_WORD = 200  # characters of a word to look up
MAX_RESULTS = 50
MAX_USES = 500  # points of a map of senses
MAX_INDEXED = 150_000  # characters of a text that the page has indexed: 8 s with en_elmo_sm on one thread
SAMPLE_FILE = Path(__file__).parent / "static" / "sample.txt"  # English, written for this page
MANY = 20  # minimum number of uses for a map
N_SUGGESTED = 6
SHOWN = 25  # words of a use on either side
BUSY_SECONDS = 60.0  # maximum time of a request in the queue
DIGITS = 6  # significant ones of products
Reply = Dict[str, Any]


class Busy(Exception):
    """Other requests took too long."""


class RequestBody:
    """The body of a request, whose fields are checked when they are read.

    body (bytes): A JSON object.
    RAISES (ValueError): For anything else. Methods raise it for a value of another type or outside its range.
    """

    def __init__(self, body: bytes) -> None:
        try:
            content = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise invalid("its body is not valid JSON") from error
        self._values: Dict[str, Any] = _check("its body", Dict[str, Any], content)

    def text(self, name: str, limit: int = MAX_TEXT_CHARACTERS) -> str:
        """RETURNS (str): A text of `limit` characters at most; unpaired surrogates, which UTF-8 does not have, are
        U+FFFD."""
        value: str = _check(name, str, self._values.get(name))
        check_length(len(value), "characters", limit)
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def number(self, name: str, low: int, high: int) -> int:
        """RETURNS (int): A number from `low` to `high`."""
        value: int = _check(name, Annotated[Whole, Field(ge=low, le=high)], self._values.get(name))
        return value

    def maybe_number(self, name: str, low: int, high: int) -> Optional[int]:
        """RETURNS (Optional[int]): See `number`; None if the field is null or absent."""
        return None if self._values.get(name) is None else self.number(name, low, high)


def _check(name: str, kind: Any, value: Any) -> Any:
    checked, problems = check_record(kind, value)
    if problems:
        raise invalid(f"{name} {list_problems(problems)}")
    return checked


class Explorer:
    """Answers the requests of the page. A lock lets one request at a time compute.

    bilm (BiLM), name (str): The model, and its name on the page.
    reader (Optional[TextSplitter]): Tokenizer and sentence splitter, by default for English.
    index (Optional[NeighborIndex]): For the views Neighbors and Senses.
    mixes (Sequence[TaskMix]): Learned mixes of a pipeline.
    busy_seconds (float): Timeout of the lock.
    """

    def __init__(
        self,
        bilm: BiLM,
        name: str,
        *,
        reader: Optional[TextSplitter] = None,
        index: Optional[NeighborIndex] = None,
        mixes: Sequence[TaskMix] = (),
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self.bilm, self.name = bilm, name
        self.index, self.mixes = index, mixes
        self._folder: Optional[TemporaryDirectory[str]] = None  # of an index that the page has built
        self._reader = reader or TextSplitter()
        self._busy_seconds = busy_seconds
        self._lock = Lock()

    def close(self) -> None:
        """Close the index, and delete it if the page has built it."""
        if self.index is not None:
            self.index.close()
        if self._folder is not None:
            self._folder.cleanup()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock. RAISES (Busy): If other requests hold it for too long."""
        if not self._lock.acquire(timeout=self._busy_seconds):
            raise Busy(
                f"The explorer is busy: other requests took longer than {self._busy_seconds:g} seconds. Wait until "
                "they are done, then try again."
            )
        try:
            yield
        finally:
            self._lock.release()

    def answer(self, view: str, body: bytes) -> Reply:
        """RETURNS (Dict[str, Any]): The answer of a view to the body of a request, to be sent as JSON.
        RAISES (ValueError): For requests that cannot be answered. Busy: If other requests take too long.
        """
        fields = RequestBody(body)
        with self.locked():
            return VIEWS[view](self, fields)

    def settings(self) -> Reply:
        """RETURNS (Dict[str, Any]): What the page needs: the biLM, the index and the limits."""
        names, index, sizes = name_mixes(self.mixes), self.index, ("layer", "n_tokens", "n_documents")
        lang = self._reader.lang
        texts = find_examples(lang)
        if index is not None and index.count_uses(texts.word) < MANY:
            texts = texts._replace(word=next(iter(self._suggest(index)), texts.word))
        return {
            "version": __version__,
            "bilm": self.name,
            "mixture_size": self.bilm.config.n_layers + 1,
            "width": self.bilm.config.output_width,
            "n_directions": self.bilm.config.n_directions,
            "has_softmax": self.bilm.head is not None and self.bilm.vocabulary is not None,
            "mixes": [
                {"name": name, "shares": list(mix.shares), "gamma": mix.gamma} for name, mix in zip(names, self.mixes)
            ],
            "index": None if index is None else {name: getattr(index, name) for name in sizes},
            "can_index": index is None or self._folder is not None,
            "has_sample": lang == "en",
            "lang": lang,
            "texts": texts._asdict(),
            "limits": {
                "characters": MAX_TEXT_CHARACTERS,
                "tokens": MAX_TOKENS,
                "compared": MAX_COMPARED,
                "indexed": MAX_INDEXED,
            },
        }

    def build_index(self, fields: RequestBody) -> Reply:
        """Index a text, or the sample in place of an empty one, in a temporary folder.

        RETURNS (Dict[str, Any]): The new settings.
        RAISES (ValueError): If the explorer was started with an index; for a text without tokens.
        """
        if self.index is not None and self._folder is None:
            raise invalid("the explorer was started with an index, which is not replaced")
        text = fields.text("text", MAX_INDEXED).strip()
        name = "pasted text" if text else "sample text"
        if not text and self._reader.lang == "en":
            text = SAMPLE_FILE.read_text(encoding="utf8")
        doc = self._reader.read(text, limit=MAX_INDEXED)
        sentences = [[token.text for token in sentence if not token.is_space] for sentence in doc.sents]
        records = [[words] for words in sentences if words]
        if not records:
            raise invalid("the text to index has no words")
        settings = make_settings(self.bilm, name=self.name, layer=self.bilm.config.n_layers, content_words="")
        folder = TemporaryDirectory(prefix="elmo-explore-")
        with ExitStack() as after_error:
            after_error.callback(folder.cleanup)
            with closing(open_for_writing(Path(folder.name), settings)) as store:
                builder = IndexBuilder(store, self.bilm, exact_tokens=MAX_INDEXED)
                builder.add([Document(name, "", lambda n_skipped: iter(records[n_skipped:]))])
                builder.finish()
            index = NeighborIndex.open(Path(folder.name))
            after_error.pop_all()
        self.close()
        self.index, self._folder = index, folder
        return self.settings()

    def _suggest(self, index: NeighborIndex, least: int = MIN_USES) -> List[str]:
        """RETURNS (List[str]): The most frequent words of the index, with at least so many uses, without stop words."""
        stops = self._reader.stop_words
        suggestions = (
            (n, word)
            for word, n in index.words.items()
            if n >= least and word.isalpha() and (len(word) > 1 or not word.isascii()) and word not in stops
        )
        return [word for _, word in nlargest(N_SUGGESTED, suggestions)]

    def tokens(self, fields: RequestBody) -> Reply:
        """RETURNS (Dict[str, Any]): Tokens and contexts of a text."""
        doc = self._reader.read(fields.text("text"))
        contexts = [{"tokens": context.tokens, "keep": list(context.keep)} for context in find_contexts(doc)]
        vocabulary = self.bilm.vocabulary
        unknown = [vocabulary is not None and not token.is_space and token.text not in vocabulary for token in doc]
        rows = [
            {**_describe_token(token), "is_unknown": is_unknown, "read": cut_word(self.bilm, token.text)}
            for token, is_unknown in zip(doc, unknown)
        ]
        return {"tokens": rows, "contexts": contexts, "has_vocabulary": self.bilm.vocabulary is not None}

    def compare(self, fields: RequestBody) -> Reply:
        """RETURNS (Dict[str, Any]): Products of the layers of two texts, see `compare_layers`."""
        docs = [self._reader.read(fields.text(name), MAX_COMPARED) for name in ("a", "b")]
        words = [[token.text for token in doc if not token.is_space] for doc in docs]
        return {"words": words, **compare_layers(*(embed_doc(self.bilm, doc) for doc in docs))}

    def surprisal(self, fields: RequestBody) -> Reply:
        """RETURNS (Dict[str, Any]): Tokens with their surprisal in bits, null for white space."""
        doc = self._reader.read(fields.text("text"))
        (bits,) = compute_surprisal(self.bilm, READING, [doc])
        unknown = find_unknown(self.bilm, doc)
        return {
            "tokens": [
                {
                    **_describe_token(token),
                    "is_unknown": is_unknown,
                    "bits": [finite_or_none(value) for value in column],
                }
                for token, is_unknown, column in zip(doc, unknown, bits.T.tolist())
            ]
        }

    def substitutes(self, fields: RequestBody) -> Reply:
        """RETURNS (Dict[str, Any]): Words that the biLM expects in the place of a token."""
        doc = self._reader.read(fields.text("text"))
        context, position = find_place(doc, fields.number("token", 0, MAX_TOKENS))
        substitutes = find_substitutes(self.bilm, context.words, position, k=fields.number("k", 1, MAX_RESULTS))
        rows = [
            {name: finite_or_none(value) for name, value in substitute._asdict().items()} for substitute in substitutes
        ]
        return {"word": context.words[position], "substitutes": rows}

    def neighbors(self, fields: RequestBody) -> Reply:
        """RETURNS (Dict[str, Any]): Tokens of a text, and the stored uses closest to one of them, if one is given."""
        index = self._require_index()
        doc = self._reader.read(fields.text("text"))
        tokens = [_describe_token(token) for token in doc]
        token = fields.maybe_number("token", 0, MAX_TOKENS)
        if token is None:
            return {"tokens": tokens, "neighbors": None}
        context, position = find_place(doc, token)
        k, uses = fields.number("k", 1, MAX_RESULTS), fields.text("uses")
        neighbors = index.find(self.bilm, context.words, position, k, uses=uses)
        rows = [{**_describe_use(use), "cosine": float(cosine)} for use, cosine in neighbors]
        return {"tokens": tokens, "neighbors": rows}

    def senses(self, fields: RequestBody) -> Reply:
        """RETURNS (Dict[str, Any]): The number of uses of a word; these uses, or a sample, with their points and
        groups, whose number is the one with the highest silhouette if `n_senses` is null; sizes and exemplars of the
        groups. For too few uses, words with more uses instead.
        """
        index = self._require_index()
        word = fields.text("word", MAX_WORD).strip()
        n_senses = fields.maybe_number("n_senses", 2, MAX_SENSES)
        words = [word] if index.count_uses(word) else word.split() or [word]  # or several forms of one
        uses, vectors = index.uses(words, limit=MAX_USES)
        n_uses = max(MIN_USES, n_senses or 0)
        if len(uses) < n_uses:
            return {"n_uses": len(uses), "uses": [], "n_wanted": n_uses, "suggested": self._suggest(index, n_uses)}
        sense_map = cluster_uses(uses, vectors, n_senses)
        return {
            "n_uses": index.count_uses(words),
            "uses": [_describe_use(use) for use in uses],
            "labels": sense_map.labels.tolist(),
            "points": sense_map.points.tolist(),
            "exemplars": sense_map.exemplars,
            "sizes": sense_map.sizes,
            "silhouette": finite_or_none(sense_map.silhouette),
        }

    def _require_index(self) -> NeighborIndex:
        if self.index is None:
            raise ValueError(
                "This view needs an index, and the explorer was started without one. Build one with `python -m "
                "spacy elmo index CORPUS INDEX`, then start the explorer with it."
            )
        return self.index


VIEWS: Dict[str, Callable[[Explorer, RequestBody], Reply]] = {
    "compare": Explorer.compare,
    "index": Explorer.build_index,
    "neighbors": Explorer.neighbors,
    "senses": Explorer.senses,
    "substitutes": Explorer.substitutes,
    "surprisal": Explorer.surprisal,
    "tokens": Explorer.tokens,
}


def _describe_token(token: Token) -> Reply:
    return {"text": token.text, "space": token.whitespace_, "is_space": token.is_space}


def _describe_use(use: Use) -> Reply:
    """A use with the words around it, position counted among these."""
    start = max(0, use.position - SHOWN)
    words = use.words[start : use.position + SHOWN + 1]
    return {"words": words, "position": use.position - start, "document": use.document}


def compare_layers(a: NDArray[numpy.float32], b: NDArray[numpy.float32]) -> Reply:
    """Products of the layers of two texts, from which the page computes similarities of any mix.

    A mix is gamma * sum_j s_j h_j (Peters et al. 2018, eq. 1). A dot product of two mixes is a weighted sum of the dot
    products of their layers: gamma^2 * sum_jk s_j s_k <h_j, h'_k>.

    a (NDArray[numpy.float32]), b (NDArray[numpy.float32]): Shapes (L+1, n, D) and (L+1, m, D).
    RETURNS (Dict[str, Any]): "products" (L+1, L+1, n, m), between the texts; "own" has the products of the layers of
        each token with each other, (L+1, L+1, n) and (L+1, L+1, m), for the norms.
    """
    return {
        "products": _round(numpy.einsum("jnd,kmd->jknm", a, b)),
        "own": [_round(numpy.einsum("jnd,knd->jkn", layers, layers)) for layers in (a, b)],
    }


def _round(products: NDArray[numpy.float32]) -> Any:
    values = [float(f"{value:.{DIGITS}g}") for value in products.ravel().tolist()]
    return numpy.reshape(values, products.shape).tolist()
