"""Contextual nearest neighbors (Peters et al. 2018, table 4): the uses of words whose vectors are most similar.

`check_recall` measures the approximate search of an index.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from ..errors import Errors
from ..files import to_path
from ..inference.bilm import BiLM, check_positive, check_sentences
from ..util import batched
from ..weights import load_bilm
from .token_store import TOKENS_PER_READ, TokenIds, TokenStore, Use, Value
from .vector_search import open_search, search_cells
from .vectors import Vectors, to_array, to_units

__all__ = ["Neighbor", "NeighborIndex", "Recall", "Use", "check_recall", "to_key", "to_printable"]

LayerName = Union[int, str]
# Uses of a word up to which all of them are compared.
EXACT_USES = 4000
N_CANDIDATES = 100  # of the approximate search, whose exact cosine is computed
COSINE_TOLERANCE = 1e-5  # of cosines, which depend on how many are computed at once


class Neighbor(NamedTuple):
    """A use that was found, and the cosine of its vector with the query."""

    use: Use
    cosine: float


class NeighborIndex:
    """The tokens of a corpus, to be searched by vector. `open` opens an index, which a `with` block or `close` closes.
    Methods may be called from threads.

    store (TokenStore): Sentences and vectors.
    search (Any): Index of Faiss for approximate search, None for exact search.
    settings (Dict[str, Any]): What the index was built with.
    """

    def __init__(self, store: TokenStore, search: Any, settings: Dict[str, Any]) -> None:
        self.path = store.path
        self.store = store
        self.search = search
        self.settings = settings
        self.layer: LayerName = settings["layer"]
        self.bilm_digest: str = settings["bilm_digest"]
        self.width: int = settings["width"]
        self.words: Dict[str, int] = store.read_words()
        self.n_tokens: int = sum(self.words.values())
        self.n_documents: int = store.count("document")

    @classmethod
    def open(cls, path: Path) -> "NeighborIndex":
        """path (Path): Folder that `elmo index` wrote.
        RETURNS (NeighborIndex): Open for reading.
        RAISES (ValueError): EL390 for anything else, EL391 if it is not complete, EL392 if it is damaged, EL401 if
            it is being written, EL406 without its search file; without Faiss.
        """
        store = TokenStore(to_path(path))
        with store.close_on_error():
            meta, n_tokens = store.read_meta(), store.count("token")
            settings, state = meta.get("settings"), meta.get("search")
            if settings is None or state is None:
                problem = f"its build stopped after {n_tokens:,} tokens"
                raise ValueError(Errors.EL391.format(path=store.path, problem=problem))
            if n_tokens != state["n_tokens"]:
                problem = f"it has {n_tokens} tokens, should have {state['n_tokens']}"
                raise ValueError(Errors.EL392.format(path=store.path, problem=problem))
            index = cls(store, open_search(store, state), settings)
        return index

    @property
    def lang(self) -> Optional[str]:
        """RETURNS (Optional[str]): Language whose tokenizer read the texts; None for tokenized texts."""
        lang: Optional[str] = self.settings["reading"].get("lang")
        return lang

    def load_bilm(self, path: Optional[str] = None) -> BiLM:
        """path (Optional[str]): Where the biLM of the index is now; None for where it was.
        RETURNS (BiLM): It, in float32. It is not compared with the index, see `check_bilm`.
        RAISES (ValueError): If it cannot be read.
        """
        if path is not None:
            return load_bilm(path)
        try:
            return load_bilm(self.settings["bilm"])
        except (ValueError, OSError) as error:
            remedy = "If this biLM is in another place now, give its path as `bilm`."
            raise ValueError(f"The biLM of the index '{self.path}' cannot be read. {error} {remedy}") from error

    def __enter__(self) -> "NeighborIndex":
        """RETURNS (NeighborIndex): Itself; the `with` block closes it."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the files."""
        self.close()

    def close(self) -> None:
        """Close the files."""
        self.store.close()

    def query(
        self,
        vector: Any,
        k: int = 10,
        *,
        word: Optional[str] = None,
        exclude: Optional[str] = None,
        where: Optional[Tuple[str, Sequence[Value]]] = None,
    ) -> List[Neighbor]:
        """Find the uses whose vectors have the highest cosine with a vector.

        vector (Any): Shape (D,), of any length but zero: an array, a tensor or a list.
        k (int): Number of neighbors.
        word (Optional[str]): Only uses of this word, upper and lower case alike.
        exclude (Optional[str]): No uses of this word.
        where (Optional[Tuple[str, Sequence[Value]]]): Only uses in documents whose field of this name has one of these
            values; the field "document" is the name of the document.
        RETURNS (List[Neighbor]): The most similar first; fewer than k if there are no more.
        RAISES (ValueError): For a `k` below 1, a vector that does not fit, or an unknown field; EL392 if the index is
            damaged.
        """
        check_positive("k", k)
        unit = self._to_unit(vector)
        among = None if where is None else self.store.ids_with(self.require_field(where[0]), where[1])
        ids, cosines = self._find_best(unit, k, word and to_key(word), exclude and to_key(exclude), among)
        uses = self.store.read_uses(ids.tolist())
        return [Neighbor(use, min(1.0, float(cosine))) for use, cosine in zip(uses, cosines)]

    def find(
        self, bilm: BiLM, words: Sequence[str], position: int, k: int = 10, *, uses: str = "any"
    ) -> List[Neighbor]:
        """Find the neighbors of a word in its sentence.

        bilm (BiLM): That of the index.
        words (Sequence[str]): The tokens of a sentence.
        position (int): Position of the word, from 0.
        k (int): Number of neighbors.
        uses (str): "any"; "same": of the same word; "other": of other words.
        RETURNS (List[Neighbor]): See `query`.
        RAISES (ValueError): For unknown `uses`, or a position that is not in the sentence; EL394 for another biLM; see
            `query`.
        """
        if uses not in ("any", "same", "other"):
            raise ValueError(f"Unknown choice of uses '{uses}'. Choose one of: any, same, other.")
        vector = self.embed(bilm, words, position)
        word, exclude = (words[position] if uses == choice else None for choice in ("same", "other"))
        return self.query(vector, k, word=word, exclude=exclude)

    def uses(
        self, word: Union[str, Sequence[str]], limit: int = 1000, *, match_case: bool = False
    ) -> Tuple[List[Use], Vectors]:
        """word (Union[str, Sequence[str]]): A word, upper and lower case alike, or several forms of it.
        limit (int): Maximum number of uses; more uses (see `count_uses`) are sampled with a fixed seed.
        match_case (bool): Only uses that are written as one of the words is.
        RETURNS (Tuple[List[Use], Vectors]): Uses in the order of the corpus, and their unit vectors, shape (N, D).
        RAISES (ValueError): For a `limit` below 1.
        """
        check_positive("limit", limit)
        ids = self._ids_of([word] if isinstance(word, str) else word, match_case)
        if len(ids) > limit:
            ids = np.sort(np.random.default_rng(0).choice(ids, limit, replace=False))
        use_ids, vectors = self.store.read_vectors(ids.tolist(), self.width)
        return self.store.read_uses(use_ids.tolist()), vectors

    def count_uses(self, word: Union[str, Sequence[str]], *, match_case: bool = False) -> int:
        """RETURNS (int): Number of all uses of a word or of several, see `uses`."""
        words = [word] if isinstance(word, str) else word
        if match_case:
            return len(self._ids_of(words, True))
        return sum(self.words.get(key, 0) for key in set(map(to_key, words)))

    def require(self, word: str, *, match_case: bool = False) -> None:
        """RAISES (ValueError): If there is no use of a word, see `uses`."""
        if not self.count_uses(word, match_case=match_case):
            case = " in this spelling" if to_key(word) in self.words else ""
            raise ValueError(
                f"The index has no use of '{to_printable(word)}'{case}. Choose one of its words, or add texts."
            )

    def require_field(self, name: str) -> str:
        """RETURNS (str): The name of a field of documents.
        RAISES (ValueError): If no document has it.
        """
        names = self.store.field_names()
        if name not in names:
            raise ValueError(
                f"No document of the index has a field '{to_printable(name)}'. Choose one of: "
                f"{to_printable(', '.join(names))}; or build the index with a field of the JSON texts (`elmo "
                "index`)."
            )
        return name

    def values_of(self, uses: Sequence[Use], name: str) -> List[Optional[Value]]:
        """uses (Sequence[Use]): Uses in this index.
        name (str): A field of their documents, such as "year"; "document" is the name of the document.
        RETURNS (List[Optional[Value]]): The value of each; None where a document does not have it.
        RAISES (ValueError): If no document has it.
        """
        self.require_field(name)
        fields = self.store.read_fields([use.document for use in uses])
        return [fields[use.document].get(name) for use in uses]

    def embed(self, bilm: BiLM, words: Sequence[str], position: int) -> Vectors:
        """RETURNS (Vectors): Shape (D,), the vector of a word in its sentence on the layer of the index. For arguments
        and errors see `find`.
        """
        (sentence,) = check_sentences([words])
        if not 0 <= position < len(sentence):
            raise ValueError(Errors.EL018.format(position=position, n_words=len(sentence)))
        self.check_bilm(bilm)
        vector: Vectors = bilm.embed([sentence], layers=self.layer)[0][position]
        return vector

    def check_bilm(self, bilm: BiLM) -> None:
        """RAISES (ValueError): EL394 if it is not the biLM of the index."""
        if bilm.digest != self.bilm_digest:
            difference = f"its digest is {bilm.digest}, should be {self.bilm_digest}"
            bilm_path = self.settings["bilm"]
            raise ValueError(Errors.EL394.format(path=self.path, difference=difference, bilm=bilm_path))

    def _ids_of(self, words: Sequence[str], match_case: bool) -> TokenIds:
        ids: TokenIds = np.unique(np.concatenate([self.store.ids_of(key) for key in set(map(to_key, words))]))
        if not match_case:
            return ids
        batches = batched(ids.tolist(), TOKENS_PER_READ)
        is_kept = [use.word in words for batch in batches for use in self.store.read_uses(batch)]
        matching: TokenIds = ids[np.asarray(is_kept, dtype=bool)]
        return matching

    def _find_best(
        self, unit: Vectors, k: int, word: Optional[str], exclude: Optional[str], among: Optional[TokenIds]
    ) -> Tuple[TokenIds, Vectors]:
        if word is not None:
            ids = self.store.ids_of(word)
            among = ids if among is None else np.intersect1d(ids, among)
        without = None if exclude is None else self.store.ids_of(exclude)
        if among is not None and without is not None:
            among, without = np.setdiff1d(among, without), None
        if among is not None and len(among) <= EXACT_USES:
            return _best(*self.store.read_vectors(among.tolist(), self.width), unit, k)
        if self.search is None:
            return _find_exactly(self.store, unit, k, among=among, without=without)
        ids = search_cells(self.search, unit, max(N_CANDIDATES, 2 * k), among=among, without=without)
        return _best(*self.store.read_vectors(ids.tolist(), self.width), unit, k)

    def _to_unit(self, vector: Any) -> Vectors:
        array = to_array(vector)
        problem = ""
        if array.shape != (self.width,):
            problem = f"has the shape {array.shape}"
        elif not np.isfinite(array).all():
            problem = "has numbers that are not finite"
        elif not array.any():
            problem = "is zero"
        if problem:
            raise ValueError(
                f"The vector of a query {problem}. It should have {self.width} finite numbers that are not all zero."
            )
        return to_units(array)


def _find_exactly(
    store: TokenStore, unit: Vectors, k: int, *, among: Optional[TokenIds] = None, without: Optional[TokenIds] = None
) -> Tuple[TokenIds, Vectors]:
    """Compare all vectors with a unit vector of shape (D,), batch by batch; restricted to `among`, without `without`.

    RETURNS (Tuple[TokenIds, Vectors]): The k tokens with the highest cosines, and these, the most similar first.
    """
    best_ids, best = np.empty(0, dtype="int64"), np.empty(0, dtype="float32")
    for ids, vectors in store.iter_vectors(len(unit)):
        if among is not None:
            vectors, ids = vectors[np.isin(ids, among)], ids[np.isin(ids, among)]
        if without is not None:
            vectors, ids = vectors[~np.isin(ids, without)], ids[~np.isin(ids, without)]
        best_ids, best = np.concatenate([best_ids, ids]), np.concatenate([best, vectors @ unit])
        order = np.argsort(-best, kind="stable")[:k]
        best_ids, best = best_ids[order], best[order]
    return best_ids, best


def to_key(word: str) -> str:
    """RETURNS (str): A word as the index counts it: in lower case, unpaired surrogates replaced."""
    return word.lower().encode("utf8", "replace").decode("utf8")


def to_printable(text: str) -> str:
    """RETURNS (str): The text with U+FFFD for characters that could change how a terminal shows it."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def _best(ids: TokenIds, vectors: Vectors, unit: Vectors, k: int) -> Tuple[TokenIds, Vectors]:
    cosines = vectors @ unit
    order = np.argsort(-cosines, kind="stable")[:k]
    return ids[order], cosines[order]


@dataclass(frozen=True)
class Recall:
    """What a check found.

    recall (float): Share of the k true neighbors that the search finds.
    k (int): Neighbors of a query.
    n_queries (int): Tokens of the index whose neighbors were searched.
    query_ms (float): Median time of a query, with its sentences.
    """

    recall: float
    k: int
    n_queries: int
    query_ms: float


def check_recall(index: NeighborIndex, *, k: int = 10, n_queries: int = 100, seed: int = 0) -> Recall:
    """Compare the search with exact search, for tokens of an index that has some. A neighbor counts as found if its
    cosine is not below the k-th true neighbor's, since equal sentences have equal vectors.

    RETURNS (Recall): Over `n_queries` tokens drawn by `seed`, k neighbors each.
    RAISES (ValueError): For numbers below 1.
    """
    check_positive("k", k)
    check_positive("n_queries", n_queries)
    last, rng = index.store.read_meta()["next_id"], np.random.default_rng(seed)
    token_ids = rng.permutation(np.arange(1, last))
    ids, vectors = index.store.read_vectors(token_ids[: 4 * n_queries].tolist(), index.width)
    units = vectors[np.random.default_rng(seed).permutation(len(ids))[:n_queries]]  # (Q, D)
    best = np.empty((len(units), 0), dtype="float32")  # cosines of the k true neighbors, all vectors compared
    for _, stored in index.store.iter_vectors(index.width):
        best = np.sort(np.concatenate([best, units @ stored.T], axis=1), axis=1)[:, -k:]
    hits, times = 0, []
    for unit, cosines in zip(units, best):
        begin = time.perf_counter()
        neighbors = index.query(unit, k)
        times.append(time.perf_counter() - begin)
        hits += sum(neighbor.cosine >= cosines[0] - COSINE_TOLERANCE for neighbor in neighbors)
    n_true = max(1, len(units) * min(k, index.n_tokens))
    return Recall(hits / n_true, k, len(units), 1000 * float(np.median(times or [0.0])))
