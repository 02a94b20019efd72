"""Clusters of the uses of one word (word sense induction, Schütze 1998), and a map of them in two dimensions.

k-means on unit vectors, whose distances grow as cosines fall. Without a number of senses, the one with the highest mean
silhouette (Rousseeuw 1987) is taken. The map is t-SNE (van der Maaten and Hinton 2008): near points are similar, while
distances between groups mean little. `draw_senses` draws it, `render_senses` writes a page of HTML.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

from .intervals import Floats
from .pages import make_page, to_html
from .plots import COLOURS, MARKERS, Look, add_legend, new_figure, save_figure, set_title, wrap
from .token_store import Use
from .vectors import Vectors, require_sklearn, to_array, to_units

MAX_SENSES = 7  # as many as there are colours
MIN_USES = 3  # minimum number of different uses for groups
N_COMPONENTS = 30  # kept by a principal component analysis
N_STARTS = 5  # of k-means
PERPLEXITY = 30.0
SIZE, MARGIN = 560.0, 20.0  # of the drawing
# Paths around 0 that look like `plots.MARKERS`, so that groups differ by more than their colour.
SHAPES = (
    "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0 -12 0",
    "M-5 -5h10v10h-10z",
    "M0 -7L6 0L0 7L-6 0z",
    "M0 -7L6 5H-6z",
    "M0 7L6 -5H-6z",
    "M0 -7L6.7 -2.2L4.1 5.7H-4.1L-6.7 -2.2z",
    "M0 -7L1.7 -2.3L6.7 -2.2L2.7 0.9L4.1 5.7L0 2.8L-4.1 5.7L-2.7 0.9L-6.7 -2.2L-1.7 -2.3z",
)
CAUTION = (
    "A group is a kind of context, often of syntax, not a sense of a dictionary: read its uses. Groups with a "
    "silhouette below 0.25 overlap; 1 is the highest."
)
HELP = (
    "<p>Each point is one use. Near points are similar to the biLM. Point at a use, or select a use with Tab "
    "and the arrow keys.</p>"
)


@dataclass(frozen=True)
class SenseMap:
    """Clusters and a map of N uses. Clusters are sorted by size.

    labels (NDArray[np.int64]): Shape (N,), the cluster of each use.
    exemplars (List[int]): For each cluster the use that is nearest to its mean.
    points (NDArray[np.float64]): Shape (N, 2), the map.
    sizes (List[int]): Uses of each cluster.
    silhouette (float): Mean over all uses, -1 to 1; near 0 clusters overlap. NaN for one cluster.
    """

    labels: NDArray[np.int64]
    exemplars: List[int]
    points: Floats
    sizes: List[int]
    silhouette: float


def cluster_uses(uses: Sequence[Use], vectors: Vectors, n_senses: Optional[int] = None, seed: int = 0) -> SenseMap:
    """Cluster the uses of a word.

    uses (Sequence[Use]): From `NeighborIndex.uses`.
    vectors (Vectors): Shape (N, D).
    n_senses (Optional[int]): Number of clusters; None: 2 to 7, by silhouette; 1 for fewer than 3 different uses.
    seed (int): Seed of k-means and of the map.
    RETURNS (SenseMap): Clusters, exemplars and map.
    RAISES (ValueError): Without scikit-learn; for no uses, or too few for `n_senses`.
    """
    require_sklearn("Clustering")
    vectors = to_array(vectors)
    n_distinct = len(np.unique(vectors, axis=0))
    most = max(1, min(n_distinct - 1, MAX_SENSES))
    if not n_distinct or (n_senses is not None and not 1 <= n_senses <= most):
        problem = f"n_senses is {n_senses}, should be 1 to {most}" if n_distinct else "there are none"
        raise ValueError(
            f"The uses of '{uses[0].word if uses else ''}' cannot be clustered: {problem}. Choose another number of "
            "senses, or another word."
        )
    if n_distinct < MIN_USES:  # nothing to distinguish
        return SenseMap(np.zeros(len(uses), "int64"), [0], np.zeros((len(uses), 2)), [len(uses)], float("nan"))
    from sklearn.decomposition import PCA

    units = to_units(vectors).astype("float64")
    reduced: Floats = PCA(min(N_COMPONENTS, *units.shape), random_state=seed).fit_transform(units)
    choices = [n_senses] if n_senses is not None else range(2, min(MAX_SENSES, n_distinct - 1) + 1)
    labels, silhouette = max((_cluster(reduced, n, seed) for n in choices), key=lambda clustering: clustering[1])
    order = np.argsort(-np.bincount(labels), kind="stable")
    labels = np.argsort(order)[labels]  # numbered by size
    sizes = np.bincount(labels).tolist()
    exemplars = [_find_exemplar(reduced, labels == label) for label in range(len(sizes))]
    shown = float("nan") if len(sizes) == 1 else silhouette
    return SenseMap(labels, exemplars, _project(reduced, seed), sizes, shown)


def draw_senses(
    uses: Sequence[Use], sense_map: SenseMap, path: Path, *, n_uses: Optional[int] = None, look: Optional[Look] = None
) -> None:
    """Draw the map of uses (see `_record_map`), with the exemplar of each cluster in the legend, into a file."""
    draw_map(_record_map(uses, sense_map, n_uses=n_uses), path, look=look)


def _record_map(uses: Sequence[Use], sense_map: SenseMap, *, n_uses: Optional[int] = None) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): What `draw_map` draws, for JSON: title, captions, labels and points."""
    captions = [
        f"group {i} ({size:,}): {shorten_use(uses[exemplar])}"
        for i, (size, exemplar) in enumerate(zip(sense_map.sizes, sense_map.exemplars), start=1)
    ]
    points = [[round(value, 2) for value in point] for point in sense_map.points.tolist()]
    title = describe_senses(uses, sense_map, n_uses=n_uses)
    return {"title": title, "captions": captions, "labels": sense_map.labels.tolist(), "points": points}


def draw_map(record: Mapping[str, Any], path: Path, *, source: str = "", look: Optional[Look] = None) -> None:
    """Draw a record (see `_record_map`) into a file. For `source` and `look` see `save_figure`."""
    labels, points, captions = np.asarray(record["labels"]), np.asarray(record["points"]), record["captions"]
    figure, (axes,) = new_figure(height=4.2 + 0.25 * len(captions), look=look)
    for label, caption in enumerate(captions):
        group_points, text = points[labels == label], wrap(figure, caption, 110)
        axes.scatter(
            *group_points.T, s=14, color=COLOURS[label % len(COLOURS)], label=text, marker=MARKERS[label % len(MARKERS)]
        )
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    set_title(figure, record["title"])
    add_legend(figure, axes, n_columns=1, loc="outside lower left", fontsize=8)
    save_figure(figure, path, source=source, look=look)


def describe_senses(uses: Sequence[Use], sense_map: SenseMap, *, n_uses: Optional[int] = None) -> str:
    """RETURNS (str): The finding in a line; `n_uses` is the number of all uses, if these are a sample."""
    words = ", ".join(f"\u201c{word}\u201d" for word in dict.fromkeys(use.word.lower() for use in uses))
    n = f"{len(uses):,}"
    if n_uses is not None and n_uses > len(uses):
        n = f"{n} of {n_uses:,}"
    if len(sense_map.sizes) == 1:
        return f"{words}: {n} {'use' if n == '1' else 'uses'} in one group"
    return f"{words}: {n} uses in {len(sense_map.sizes)} groups (silhouette {sense_map.silhouette:.2f})"


def shorten_use(use: Use, n_words: int = 6) -> str:
    """RETURNS (str): A use with a few words on each side."""
    start, stop = max(0, use.position - n_words), use.position + n_words + 1
    words = [word if word.isprintable() else "\ufffd" for word in use.words[start:stop]]
    return f"{'… ' if start else ''}{' '.join(words)}{' …' if stop < len(use.words) else ''}"


def _cluster(points: Floats, n_senses: int, seed: int) -> Tuple[NDArray[np.int64], float]:
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    labels = KMeans(n_senses, n_init=N_STARTS, random_state=seed).fit_predict(points).astype("int64")
    if len(np.unique(labels)) < 2:
        return labels, -1.0
    return labels, float(silhouette_score(points, labels))


def _find_exemplar(points: Floats, is_member: NDArray[np.bool_]) -> int:
    members = np.flatnonzero(is_member)
    distances = np.linalg.norm(points[members] - points[members].mean(axis=0), axis=1)
    return int(members[distances.argmin()])


def _project(points: Floats, seed: int) -> Floats:
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, (len(points) - 1) / 3)
    places = TSNE(perplexity=perplexity, random_state=seed, init="pca", n_jobs=1).fit_transform(points)
    return np.asarray(places, dtype="float64")


def render_senses(
    uses: Sequence[Use], sense_map: SenseMap, *, n_uses: Optional[int] = None, title: str = "", table: str = ""
) -> str:
    """RETURNS (str): A page of HTML with the map. Every sentence stands in a list too, group by group. `title` replaces
    the finding; `table` is HTML below the map.
    """
    order = np.argsort(sense_map.labels, kind="stable").tolist()
    low, high = sense_map.points.min(axis=0), sense_map.points.max(axis=0)
    scaled = (sense_map.points - low) / np.where(high > low, high - low, 1) * (SIZE - 2 * MARGIN) + MARGIN
    places = [(x, SIZE - y) for x, y in scaled.tolist()]
    points = "\n".join(_render_point(i, use, places[use], sense_map, uses) for i, use in enumerate(order))
    groups = "\n".join(_render_group(label, uses, sense_map) for label in range(len(sense_map.sizes)))
    title = title or describe_senses(uses, sense_map, n_uses=n_uses)
    box = f'viewBox="0 0 {SIZE:.0f} {SIZE:.0f}" role="group" aria-label="Map of the uses"'
    elements = [
        f"<h1>{to_html(title)}</h1>",
        HELP,
        f"<p>{CAUTION}</p>" if len(sense_map.sizes) > 1 else "",
        f"<main>\n<svg {box}>\n{points}\n</svg>",
        f'<div>\n<p id="shown" aria-live="polite">No use is selected.</p>\n{table}\n{groups}\n</div>\n</main>',
    ]
    return make_page(title, elements, kind="senses")


def _render_point(i: int, use: int, point: Tuple[float, float], sense_map: SenseMap, uses: Sequence[Use]) -> str:
    (x, y), label = point, int(sense_map.labels[use])
    name = to_html(f"Group {label + 1}: {shorten_use(uses[use])}")
    colour, focus = COLOURS[label % len(COLOURS)], 0 if i == 0 else -1
    place = f'd="{_shape(label)}" transform="translate({x:.1f} {y:.1f})" fill="{colour}" data-use="{use}"'
    return f'<path class="point" {place} tabindex="{focus}" role="img" aria-label="{name}"></path>'


def _shape(label: int) -> str:
    return SHAPES[label % len(SHAPES)]


def _render_group(label: int, uses: Sequence[Use], sense_map: SenseMap) -> str:
    members = np.flatnonzero(sense_map.labels == label).tolist()
    shape = f'<path d="{_shape(label)}" fill="{COLOURS[label % len(COLOURS)]}"></path>'
    swatch = f'<svg class="swatch" viewBox="-7 -7 14 14" aria-hidden="true">{shape}</svg>'
    title = f"<h2>{swatch} Group {label + 1}: {sense_map.sizes[label]} uses</h2>"
    exemplar = f"<p>Most typical: {_render_use(uses[sense_map.exemplars[label]])}</p>"
    items = "\n".join(f'<li id="use-{use}">{_render_use(uses[use])}</li>' for use in members)
    return f"{title}\n{exemplar}\n<details><summary>Its uses</summary>\n<ul>\n{items}\n</ul></details>"


def _render_use(use: Use) -> str:
    left, right = " ".join(use.words[: use.position]), " ".join(use.words[use.position + 1 :])
    sentence = f"{to_html(left)} <b>{to_html(use.word)}</b> {to_html(right)}"
    return f"<bdi>{sentence}</bdi> <small><bdi>{to_html(use.document)}</bdi></small>"
