"""Clusters of the uses of one word (word sense induction, Schütze 1998), and a map of them in two dimensions.

k-means on unit vectors, whose distances are those of cosines. Without a number of senses, that with the highest mean
silhouette (Rousseeuw 1987) is taken. The map is t-SNE (van der Maaten and Hinton 2008): near points are similar, while
distances between groups mean little.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

from .._compat import has_sklearn
from ..errors import Errors
from .plots import COLOURS, new_figure, save_figure
from .token_store import Use, Vectors, to_units

MAX_SENSES = 7  # as many as there are colours
MIN_USES = 3  # different ones, from which there are groups
N_COMPONENTS = 30  # kept by a principal component analysis
N_STARTS = 5  # of k-means
PERPLEXITY = 30.0


@dataclass(frozen=True)
class SenseMap:
    """Clusters and a map of N uses. Clusters are sorted by size.

    labels (NDArray[np.int64]): Shape (N,), the cluster of each use.
    exemplars (List[int]): Of each cluster the use that is nearest to its mean.
    points (NDArray[np.float64]): Shape (N, 2), the map.
    sizes (List[int]): Uses of each cluster.
    silhouette (float): Mean over all uses, -1 to 1; near 0 clusters overlap. NaN for one cluster.
    """

    labels: NDArray[np.int64]
    exemplars: List[int]
    points: NDArray[np.float64]
    sizes: List[int]
    silhouette: float


def cluster_uses(uses: Sequence[Use], vectors: Vectors, n_senses: Optional[int] = None, seed: int = 0) -> SenseMap:
    """Cluster the uses of a word.

    uses (Sequence[Use]): From `NeighborIndex.uses`.
    vectors (Vectors): Shape (N, D).
    n_senses (Optional[int]): Number of clusters; None: 2 to 7, by silhouette; 1 for fewer than 3 different uses.
    seed (int): Of k-means and of the map.
    RETURNS (SenseMap): Clusters, exemplars and map.
    RAISES (ValueError): EL398 without scikit-learn, EL404 for no uses, or too few for `n_senses`.
    """
    if not has_sklearn:
        raise ValueError(Errors.EL398.format(what="Clustering"))
    word = uses[0].word if uses else ""
    n_distinct = len(np.unique(vectors, axis=0))
    problem = _find_problem(n_distinct, n_senses)
    if problem:
        raise ValueError(Errors.EL404.format(word=word, problem=problem))
    if n_distinct < MIN_USES:  # nothing to tell apart
        return SenseMap(np.zeros(len(uses), "int64"), [0], np.zeros((len(uses), 2)), [len(uses)], float("nan"))
    reduced = _reduce(to_units(np.asarray(vectors, dtype="float32")), seed)
    choices = [n_senses] if n_senses is not None else range(2, min(MAX_SENSES, n_distinct - 1) + 1)
    labels, silhouette = max((_cluster(reduced, n, seed) for n in choices), key=lambda found: found[1])
    labels = _sort_by_size(labels)
    sizes = np.bincount(labels).tolist()
    exemplars = [_find_exemplar(reduced, labels == label) for label in range(len(sizes))]
    shown = float("nan") if len(sizes) == 1 else silhouette
    return SenseMap(labels, exemplars, _draw_map(reduced, seed), sizes, shown)


def draw_senses(uses: Sequence[Use], found: SenseMap, path: Path, *, n_uses: Optional[int] = None) -> None:
    """Draw the map, with the exemplar of each cluster in the legend.

    uses (Sequence[Use]): Shape (N,).
    found (SenseMap): Their clusters.
    path (Path): File to write, .png or .svg.
    n_uses (Optional[int]): Number of all uses, if these are a sample of them.
    """
    draw_map(record_map(uses, found, n_uses=n_uses), path)


def record_map(uses: Sequence[Use], found: SenseMap, *, n_uses: Optional[int] = None) -> Dict[str, Any]:
    """For arguments see `draw_senses`.

    RETURNS (Dict[str, Any]): What `draw_map` draws, for JSON: title, captions of the clusters, labels and points."""
    captions = [f"{size}: {shorten(uses[exemplar])}" for size, exemplar in zip(found.sizes, found.exemplars)]
    points = [[round(value, 2) for value in point] for point in found.points.tolist()]
    title = describe(uses, found, n_uses=n_uses)
    return {"title": title, "captions": captions, "labels": found.labels.tolist(), "points": points}


def draw_map(record: Mapping[str, Any], path: Path, *, source: str = "") -> None:
    """record (Mapping[str, Any]): See `record_map`.
    path (Path): File to write, .png or .svg.
    source (str): Noted in the file.
    """
    labels, points, captions = np.asarray(record["labels"]), np.asarray(record["points"]), record["captions"]
    figure, (axes,) = new_figure(height=4.2 + 0.25 * len(captions))
    for label, caption in enumerate(captions):
        own, text = points[labels == label], _escape_mathtext(caption)
        axes.scatter(*own.T, s=14, color=COLOURS[label % len(COLOURS)], label=text, marker="os^Dv*P"[label % 7])
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    figure.suptitle(_escape_mathtext(record["title"]))
    figure.legend(loc="outside lower left", frameon=False, fontsize=8)
    with warnings.catch_warnings():  # characters that the font lacks are drawn as boxes
        warnings.filterwarnings("ignore", message="Glyph")
        save_figure(figure, path, source=source)


def describe(uses: Sequence[Use], found: SenseMap, *, n_uses: Optional[int] = None) -> str:
    """For arguments see `draw_senses`.

    RETURNS (str): The finding in a line.
    """
    word, n = uses[0].word.lower(), f"{len(uses):,}"
    if n_uses is not None and n_uses > len(uses):
        n = f"{n} of {n_uses:,}"
    if len(found.sizes) == 1:
        return f"“{word}”: {n} {'use' if n == '1' else 'uses'} in one group"
    return f"“{word}”: {n} uses in {len(found.sizes)} groups (silhouette {found.silhouette:.2f})"


def shorten(use: Use, n_words: int = 6) -> str:
    """RETURNS (str): A use with a few words on each side."""
    start, stop = max(0, use.position - n_words), use.position + n_words + 1
    words = [word if word.isprintable() else "\ufffd" for word in use.words[start:stop]]
    return f"{'… ' if start else ''}{' '.join(words)}{' …' if stop < len(use.words) else ''}"


def _escape_mathtext(text: str) -> str:
    return text.replace("$", r"\$")


def _find_problem(n_distinct: int, n_senses: Optional[int]) -> str:
    most = max(1, min(n_distinct - 1, MAX_SENSES))
    if not n_distinct:
        return "there are none"
    if n_senses is not None and not 1 <= n_senses <= most:
        return f"{n_senses} senses were wanted, possible are 1 to {most}"
    return ""


def _reduce(units: Vectors, seed: int) -> NDArray[np.float64]:
    from sklearn.decomposition import PCA

    n = min(N_COMPONENTS, *units.shape)
    reduced: NDArray[np.float64] = PCA(n, random_state=seed).fit_transform(units.astype("float64"))
    return reduced


def _cluster(points: NDArray[np.float64], n_senses: int, seed: int) -> Tuple[NDArray[np.int64], float]:
    """RETURNS (Tuple[NDArray[np.int64], float]): Labels, and the mean silhouette."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    labels = KMeans(n_senses, n_init=N_STARTS, random_state=seed).fit_predict(points).astype("int64")
    if len(np.unique(labels)) < 2:
        return labels, -1.0
    return labels, float(silhouette_score(points, labels))


def _sort_by_size(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    order = np.argsort(-np.bincount(labels), kind="stable")
    numbers: Any = np.empty_like(order)
    numbers[order] = np.arange(len(order))
    return np.asarray(numbers[labels], dtype="int64")


def _find_exemplar(points: NDArray[np.float64], is_member: NDArray[np.bool_]) -> int:
    members = np.flatnonzero(is_member)
    distances = np.linalg.norm(points[members] - points[members].mean(axis=0), axis=1)
    return int(members[distances.argmin()])


def _draw_map(points: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, (len(points) - 1) / 3)
    found = TSNE(perplexity=perplexity, random_state=seed, init="pca", n_jobs=1).fit_transform(points)
    return np.asarray(found, dtype="float64")
