"""Vectors of whole texts without training: TF-IDF, and ways to pool the layers of a biLM.

Similarity is Spearman's correlation of cosines with the scores of pairs of sentences (STS benchmark, Cer et al. 2017).
Search is the share of test texts whose nearest training text has the same label. Clustering is the V-measure of k-means
on the test texts, with as many groups as there are labels, mean of three seeds. No system reads a label or a score:
counts of n-grams, means and principal components come from the training texts, or from the sentences of the pairs.
"""

import csv
import gzip
import json
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import spacy
import typer
from corpus import PACKAGED
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.stats import spearmanr
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import v_measure_score
from sklearn.preprocessing import normalize

from spacy_elmo import BiLM, load_bilm

Rows = NDArray[np.float32]
CHARACTERS: Dict[str, Any] = {"analyzer": "char_wb", "ngram_range": (2, 5)}
CHUNK = 500  # texts whose layers, or whose cosines, are in memory


class Texts(NamedTuple):
    """Texts, their labels, and their layers by name of the pooling: shape (texts, L+1, D)."""

    texts: List[str]
    labels: List[str]
    layers: Dict[str, Rows]


# From the texts that are known, to vectors of these and of new texts.
System = Callable[[Texts, Texts], Tuple[Any, Any]]


def pool(bilm: BiLM, texts: List[str], half: int = 100) -> Dict[str, Rows]:
    """half (int): Rank of the word that counts one half; p = 1 / (11 rank) gives a = 1e-3 of Arora et al. (2017).
    RETURNS (Dict[str, NDArray]): The mean, the maximum and the weighted mean of each layer.
    """
    assert bilm.vocabulary is not None  # sorted by frequency
    ranks = {word.lower(): rank for rank, word in reversed(list(enumerate(bilm.vocabulary.words, start=1)))}
    tokenizer = spacy.blank("en").tokenizer
    found: Dict[str, List[Rows]] = {"mean": [], "max": [], "weighted": []}
    for start in range(0, len(texts), CHUNK):
        tokens = [[token.text for token in tokenizer(text)] for text in texts[start : start + CHUNK]]
        for words, layers in zip(tokens, bilm.embed(tokens, layers="all")):  # (L+1, n, D)
            weights = [1 / (1 + half / ranks.get(word.lower(), np.inf)) for word in words]
            found["mean"].append(layers.mean(axis=1))
            found["max"].append(layers.max(axis=1))
            found["weighted"].append(np.average(layers, axis=1, weights=weights))
    return {name: np.stack(rows) for name, rows in found.items()}


def tf_idf(**settings: Any) -> System:
    """RETURNS (System): N-grams of the known texts."""

    def system(known: Texts, new: Texts) -> Tuple[Any, Any]:
        vectorizer = TfidfVectorizer(sublinear_tf=True, **settings).fit(known.texts)
        return vectorizer.transform(known.texts), vectorizer.transform(new.texts)

    return system


def latent(known: Texts, new: Texts) -> Tuple[Any, Any]:
    """Latent semantic analysis: TF-IDF of characters, reduced to 256 values."""
    rows, others = tf_idf(**CHARACTERS, min_df=2)(known, new)
    svd = TruncatedSVD(256, random_state=0).fit(rows)
    return svd.transform(rows), svd.transform(others)


def elmo(pooling: str, choose: Callable[[Rows], Rows], n_removed: int = 0) -> System:
    """RETURNS (System): `choose` makes vectors (texts, width) of the layers. With `n_removed`, the mean of the known
    texts and that many of their principal components are subtracted.
    """

    def system(known: Texts, new: Texts) -> Tuple[Any, Any]:
        rows, others = (choose(texts.layers[pooling]) for texts in (known, new))
        if not n_removed:
            return rows, others
        mean = rows.mean(axis=0)
        axes = np.linalg.eigh(np.cov(rows, rowvar=False))[1][:, -n_removed:]  # (width, n_removed)
        return tuple(part - mean - (part - mean) @ axes @ axes.T for part in (rows, others))

    return system


SYSTEMS: Dict[str, System] = {
    "TF-IDF, words": tf_idf(),
    "TF-IDF, characters": tf_idf(**CHARACTERS),
    "latent semantic analysis": latent,
    "mean of the layers": elmo("mean", lambda layers: layers.mean(axis=1)),
    "layers concatenated": elmo("mean", lambda layers: layers.reshape(len(layers), -1)),
    "layer 2": elmo("mean", lambda layers: layers[:, 2]),
    "layer 1": elmo("mean", lambda layers: layers[:, 1]),
    "layer 0": elmo("mean", lambda layers: layers[:, 0]),
    "layer 0, maximum": elmo("max", lambda layers: layers[:, 0]),
    "layer 0, weighted": elmo("weighted", lambda layers: layers[:, 0]),
    "and principal components removed": elmo("weighted", lambda layers: layers[:, 0], 10),
}


def similarity(system: System, pairs: Texts) -> float:
    """pairs (Texts): All first sentences, then all second ones; the labels are the scores.
    RETURNS (float): Spearman's correlation in percent.
    """
    rows = normalize(system(pairs, pairs)[0])
    first, second = rows[: len(pairs.labels)], rows[len(pairs.labels) :]
    cosines = (first.multiply(second) if issparse(rows) else first * second).sum(axis=1)
    return 100 * float(spearmanr(np.asarray(cosines).ravel(), [float(score) for score in pairs.labels]).statistic)


def search(known: Any, labels: List[str], asked: Any, wanted: List[str]) -> float:
    """RETURNS (float): Rows of `asked` whose nearest known row has the wanted label, in percent."""
    best: List[int] = []
    for start in range(0, asked.shape[0], CHUNK):
        cosines = asked[start : start + CHUNK] @ known.T
        best += np.asarray(cosines.toarray() if issparse(cosines) else cosines).argmax(axis=1).tolist()
    return 100 * float(np.mean([labels[i] == label for i, label in zip(best, wanted)]))


def cluster(rows: Any, labels: List[str]) -> float:
    """RETURNS (float): V-measure in percent."""
    groups = [KMeans(len(set(labels)), n_init=1, random_state=seed).fit_predict(rows) for seed in range(3)]
    return 100 * float(np.mean([v_measure_score(labels, found) for found in groups]))


def read_texts(bilm: BiLM, folder: Path, part: str) -> Texts:
    """RETURNS (Texts): Of JSON lines with `text` and `label`, or `labels`, of which the first counts."""
    path = folder / f"{part}.jsonl"
    lines = path.read_bytes() if path.exists() else gzip.decompress(path.with_suffix(".jsonl.gz").read_bytes())
    records = [json.loads(line) for line in lines.decode("utf8").split("\n") if line]
    texts = [record["text"] for record in records]
    return Texts(texts, [record.get("label") or record["labels"][0] for record in records], pool(bilm, texts))


def read_pairs(bilm: BiLM, path: Path) -> Texts:
    """RETURNS (Texts): Of rows of two sentences and a score, separated by commas, or by tabs in a .tsv."""
    with path.open(encoding="utf8", newline="") as lines:
        rows = list(csv.reader(lines, delimiter="\t" if path.suffix == ".tsv" else ","))
    texts = [row[i] for i in (0, 1) for row in rows]
    return Texts(texts, [row[2] for row in rows], pool(bilm, texts))


def main(
    # fmt: off
    folders: List[Path] = typer.Argument(None, help="Folders with train.jsonl and test.jsonl, also .gz.", exists=True),
    pairs: Optional[Path] = typer.Option(None, "--pairs", "-p", help="Pairs of sentences with scores, .csv or .tsv."),
    bilm_name: str = typer.Option(PACKAGED, "--bilm", "-b", help="Name or path of a biLM with a vocabulary."),
    # fmt: on
) -> None:
    """Print a row for each system."""
    bilm = load_bilm(bilm_name)
    scored = None if pairs is None else read_pairs(bilm, pairs)
    parts = [[read_texts(bilm, folder, part) for part in ("train", "test")] for folder in folders or ()]
    columns = [name for folder in folders or () for name in (f"{folder.name}: search", "clustering")]
    print(f"{'':32}", *(["similarity"] if scored else []), *columns, sep="  ")
    for name, system in SYSTEMS.items():
        scores = [similarity(system, scored)] if scored else []
        for known, new in parts:
            rows, asked = (normalize(part) for part in system(known, new))
            scores += [search(rows, known.labels, asked, new.labels), cluster(asked, new.labels)]
        print(f"{name:32}", *(f"{score:.1f}" for score in scores), sep="  ", flush=True)


if __name__ == "__main__":
    typer.run(main)
