"""Approximate search of an index: an inverted file of Faiss (Jégou et al. 2011) with 8 bits per number.

The file is derived from the stored vectors. It is written under a new name and named in the store afterwards, so that
the store never names an incomplete file. Small indexes need no file: their search is exact.
"""

from contextlib import closing
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Tuple

import numpy as np

from ..errors import Errors
from ..files import hash_file
from ..util import has_faiss, require_package
from .token_store import TokenIds, TokenStore
from .vectors import Vectors

# Tokens up to which all vectors are compared: about 20 ms.
EXACT_TOKENS = 20_000
SEARCH_FILES = "vectors-*.faiss*"
MAX_CELLS = 4096
SAMPLES_PER_CELL = 40
N_PROBED = 24  # cells that are searched
# Share of changed tokens from which the cells are computed again.
MAX_CHANGED = 0.3
OnProgress = Callable[[int], Any]


def require_faiss(n_tokens: int, exact_tokens: int = EXACT_TOKENS) -> None:
    """RAISES (ValueError): If that many tokens need Faiss, and it is not installed."""
    remedy = '`pip install "spacy-elmo[index]"`, or `pip install faiss-cpu`'
    require_package(has_faiss or n_tokens <= exact_tokens, f"An index of {n_tokens} tokens", "Faiss", remedy)


def search_cells(
    index: Any, vector: Vectors, n: int, *, among: Optional[TokenIds], without: Optional[TokenIds]
) -> TokenIds:
    """Search an increasing number of cells of an index of Faiss with a unit vector of shape (D,), until there are n
    tokens; restricted to the tokens `among`, or excluding the tokens `without`.

    RETURNS (TokenIds): Up to n tokens, the most similar first by the 8-bit vectors.
    """
    import faiss

    ids = among if without is None else without
    chosen = None if ids is None else faiss.IDSelectorBatch(ids)
    selector = chosen if without is None else faiss.IDSelectorNot(chosen)
    selection = {} if selector is None else {"sel": selector}
    n_probed = N_PROBED
    while True:
        params = faiss.SearchParametersIVF(nprobe=min(n_probed, index.nlist), **selection)
        places: TokenIds = index.search(vector[None], n, params=params)[1][0]
        tokens = places[places >= 0]
        if len(tokens) >= n or n_probed >= index.nlist:
            return tokens
        n_probed *= 4


def open_search(store: TokenStore, state: Dict[str, Any]) -> Any:
    """RETURNS (Any): The index of Faiss that the entry "search" of the store names; None if the search is exact.
    RAISES (ValueError): EL406 if its file is missing or damaged; without Faiss.
    """
    if state["file"] is None:
        return None
    require_faiss(state["n_tokens"], 0)
    if problem := _find_file_problem(store.path, state):
        raise ValueError(Errors.EL406.format(path=store.path, problem=problem))
    return _read_index(store.path, state)


def is_search_lost(store: TokenStore) -> bool:
    """RETURNS (bool): Whether only the search file is missing or damaged, so that `write_search` makes it again."""
    state = store.read_meta().get("search")
    return (
        state is not None and bool(_find_file_problem(store.path, state)) and store.count("token") == state["n_tokens"]
    )


def repair_search(path: Path, *, exact_tokens: int = EXACT_TOKENS, progress: Optional[OnProgress] = None) -> bool:
    """Make the search file of an index again from the stored vectors, if it is missing or damaged.

    RETURNS (bool): Whether it was made.
    RAISES (ValueError): See `TokenStore` and `write_search`.
    """
    with closing(TokenStore(path)) as store:
        if not is_search_lost(store):
            return False
    with closing(TokenStore(path, can_write=True)) as store:
        write_search(store, store.read_meta()["settings"]["width"], exact_tokens=exact_tokens, progress=progress)
    return True


def write_search(
    store: TokenStore, width: int, *, exact_tokens: int = EXACT_TOKENS, progress: Optional[OnProgress] = None
) -> None:
    """Make the search file of all stored tokens, and name it in the store.

    width (int): D.
    exact_tokens (int): Tokens up to which no file is needed.
    progress (Optional[OnProgress]): Called with numbers of tokens.
    RAISES (ValueError): Without Faiss.
    """
    meta, n_tokens = store.read_meta(), store.count("token")
    state: Dict[str, Any] = {"file": None, "n_tokens": n_tokens}
    if n_tokens > exact_tokens:
        require_faiss(n_tokens, exact_tokens)
        import faiss

        index, added, n_trained = _start(store, meta.get("last_search"), n_tokens, width)
        for ids, vectors in store.iter_vectors(width, after=added):
            index.add_with_ids(vectors, ids)
            if progress is not None:
                progress(len(ids))
        name = f"vectors-{meta['next_id']}-{n_tokens}.faiss"
        temporary = store.path / f"{name}.part"  # removed below after a kill, whatever the next name
        faiss.write_index(index, str(temporary))
        temporary.replace(store.path / name)
        digest = _hash_index(store.path / name)
        state = {**state, "file": name, "digest": digest, "n_trained": n_trained, "last_id": meta["next_id"] - 1}
    with store.change():
        store.forget_removed()
        store.write_meta(search=state, last_search=state)
    for old in store.path.glob(SEARCH_FILES):
        if old.name != state["file"]:
            old.unlink()


def _start(store: TokenStore, last: Optional[Dict[str, Any]], n_tokens: int, width: int) -> Tuple[Any, int, int]:
    """The last index without what was deleted, or an empty one; the last token in it; the tokens it is made for."""
    if last is not None and last["file"] is not None and not _find_file_problem(store.path, last):
        removed = store.removed_ids()
        n_changed = 2 * len(removed) + n_tokens - last["n_tokens"]
        if n_changed <= MAX_CHANGED * last["n_trained"]:
            index = _read_index(store.path, last)
            index.remove_ids(removed)
            return index, last["last_id"], last["n_trained"]
    return _train(store, n_tokens, width), 0, n_tokens


def _train(store: TokenStore, n_tokens: int, width: int) -> Any:
    import faiss

    n_cells = max(1, min(MAX_CELLS, int(2 * n_tokens**0.5)))
    index = faiss.index_factory(width, f"IVF{n_cells},SQ8", faiss.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.seed = 10, 0
    index.cp.min_points_per_centroid = 1  # no warning for small indexes
    token_ids = np.random.default_rng(0).integers(1, store.read_meta()["next_id"], 2 * SAMPLES_PER_CELL * n_cells)
    _, sample = store.read_vectors(np.unique(token_ids)[:: 2 if n_tokens > len(token_ids) else 1].tolist(), width)
    index.train(sample)
    return index


def _read_index(folder: Path, state: Dict[str, Any]) -> Any:
    import faiss

    return faiss.read_index(str(folder / state["file"]))


def _find_file_problem(folder: Path, state: Dict[str, Any]) -> str:
    """RETURNS (str): What is wrong with the file; "" if it is intact or not needed."""
    if state["file"] is None:
        return ""
    path = folder / state["file"]
    if not path.is_file():
        return f"its file {state['file']} is missing"
    return "" if _hash_index(path) == state["digest"] else f"its file {state['file']} has changed"


def _hash_index(path: Path) -> str:
    return hash_file(path, "blake2b")[:32]
