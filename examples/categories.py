"""Categories of whole texts: logistic regression on n-grams and on the layers of a biLM, beside naive Bayes.

No network is trained: the layers of a frozen biLM are averaged over the words of a text and kept apart, 3D values for
three layers, and stand beside TF-IDF of words, pairs of words and characters. On keywords n-grams are better, on
wording and with few examples the layers; how much the layers weigh is chosen on the development part. Needs
scikit-learn. Any data of texts with a `label`, or with several `labels`, can be given, and saved for the config of
`elmo init-config --component textcat`.
"""

import argparse
import random
import statistics
from itertools import groupby
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np
import spacy
from _common import positive
from _records import MISSING, PARTS, Field, check_parts, read_parts
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack
from spacy.tokens import DocBin

from spacy_elmo import BiLM, load_bilm

try:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import accuracy_score, f1_score
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.naive_bayes import ComplementNB, MultinomialNB
    from sklearn.preprocessing import MultiLabelBinarizer, StandardScaler
except ModuleNotFoundError as error:
    raise SystemExit(f"{error}: this example needs scikit-learn: pip install scikit-learn") from error

STRENGTHS = (1.0, 10.0, 100.0)  # C of logistic regression
SHARES = (0.1, 0.3, 1.0)  # of the layers beside n-grams, whose vectors have unit length
SMOOTHING = (0.03, 0.1, 0.3, 1.0)  # alpha of naive Bayes
THRESHOLDS = np.arange(0.05, 0.9, 0.05)  # of the probability of a category, if a text can have several
CHUNK = 1000  # texts whose layers are in memory


class Text(NamedTuple):
    """What is classified, and its categories."""

    text: str
    labels: Tuple[str, ...]


def read_text(line: Field) -> List[Text]:
    """RETURNS (List[Text]): One, with the category `label` or the categories `labels`."""
    labels = (line["label"].as_text(),) if line["labels"].value is MISSING else line["labels"].as_words()
    return [Text(line["text"].as_text(), labels)]


def choose(texts: Sequence[Text], per_class: int, seed: int) -> List[int]:
    """RETURNS (List[int]): Places of `per_class` texts of each category, drawn at random; 0 for all texts."""
    places = list(range(len(texts)))
    if not per_class:
        return places
    random.Random(seed).shuffle(places)
    counts: Dict[str, int] = {}
    chosen = []
    for place in places:
        rarest = min(texts[place].labels, key=lambda label: counts.get(label, 0))
        if counts.get(rarest, 0) < per_class:
            counts[rarest] = counts.get(rarest, 0) + 1
            chosen.append(place)
    return chosen


def pool(bilm: BiLM, texts: Sequence[Text]) -> NDArray[np.float32]:
    """RETURNS (NDArray): The mean of each layer over the words of a text, side by side: shape (texts, (L+1) * D)."""
    tokenizer = spacy.blank("en").tokenizer
    found = []
    for start in range(0, len(texts), CHUNK):
        words = [[token.text for token in tokenizer(text.text)] for text in texts[start : start + CHUNK]]
        found += [layers.mean(axis=1, dtype="float32").ravel() for layers in bilm.embed(words, layers="all")]
    return np.stack(found)


def save(folder: Path, texts: Dict[str, List[Text]], drawn: Dict[str, List[int]]) -> None:
    """Write `dev.spacy`, `test.spacy` and a file for each sample of the training part, for spaCy's text classifiers."""
    if folder.exists():
        raise SystemExit(f"--save is '{folder}', which exists: give a new folder, or delete it")
    folder.mkdir(parents=True)
    tokenizer = spacy.blank("en").tokenizer
    labels = sorted({label for part in texts.values() for text in part for label in text.labels})
    samples = {f"train-{name}": [texts["train"][i] for i in places] for name, places in drawn.items()}
    for name, part in {**samples, "dev": texts["dev"], "test": texts["test"]}.items():
        docs = [tokenizer(text.text) for text in part]
        for doc, text in zip(docs, part):
            doc.cats = {label: float(label in text.labels) for label in labels}
        DocBin(docs=docs).to_disk(folder / f"{name}.spacy")
    print(f"{folder}: dev.spacy, test.spacy, {', '.join(f'{name}.spacy' for name in samples)}")


class Problem:
    """The parts as features and categories; scores are accuracy, or macro-F1 if a text has several categories."""

    def __init__(self, texts: Dict[str, List[Text]], layers: Dict[str, NDArray[np.float32]], chosen: List[int]) -> None:
        parts = {**texts, "train": [texts["train"][i] for i in chosen]}
        self.has_several = any(len(text.labels) > 1 for part in texts.values() for text in part)
        binarizer = MultiLabelBinarizer().fit([text.labels for text in texts["train"]])
        self.labels = {
            name: binarizer.transform([text.labels for text in part])
            if self.has_several
            else np.array([text.labels[0] for text in part])
            for name, part in parts.items()
        }
        strings = {name: [text.text for text in part] for name, part in parts.items()}
        n_grams = [
            TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
            TfidfVectorizer(
                analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True, min_df=2 if len(chosen) > 2000 else 1
            ),
        ]
        for vectorizer in n_grams:
            vectorizer.fit(strings["train"])
        self.words = {name: n_grams[0].transform(part) for name, part in strings.items()}
        characters = {name: n_grams[1].transform(part) for name, part in strings.items()}
        self.n_grams = {name: hstack([self.words[name], characters[name]]).tocsr() for name in PARTS}
        rows = {**layers, "train": layers["train"][chosen]}
        scaler = StandardScaler().fit(rows["train"])
        width = np.sqrt(rows["train"].shape[1])
        self.layers = {name: csr_matrix(scaler.transform(part) / width) for name, part in rows.items()}

    def joined(self, share: float) -> Dict[str, Any]:
        """RETURNS (Dict[str, csr_matrix]): N-grams and layers side by side."""
        return {name: hstack([self.n_grams[name], share * self.layers[name]]).tocsr() for name in PARTS}

    def systems(self) -> Iterator[Tuple[str, Any, Dict[str, Any]]]:
        """RETURNS (Iterator[Tuple[str, Any, Dict[str, csr_matrix]]]): Name of the row, classifier, features."""
        for alpha in SMOOTHING:
            for bayes in (MultinomialNB(alpha=alpha), ComplementNB(alpha=alpha)):
                for features in (self.words, self.n_grams):
                    yield "naive Bayes, n-grams", bayes, features
        for c in STRENGTHS:
            regression = LogisticRegression(C=c, max_iter=300)
            yield "regression, n-grams", regression, self.n_grams
            yield "regression, layers", regression, self.layers
            for share in SHARES:
                yield "regression, both", regression, self.joined(share)

    def score(self) -> Dict[str, float]:
        """RETURNS (Dict[str, float]): Score of the test part by row, with the settings best on the development part."""
        best: Dict[str, Tuple[float, float]] = {}
        for row, classifier, features in self.systems():
            model = OneVsRestClassifier(classifier) if self.has_several else classifier
            model.fit(features["train"], self.labels["train"])
            scores = self._scores(model, features)
            best[row] = max(best.get(row, (-1.0, 0.0)), scores, key=lambda pair: pair[0])
        return {row: 100 * test for row, (_, test) in best.items()}

    def _scores(self, model: Any, features: Dict[str, Any]) -> Tuple[float, float]:
        if not self.has_several:
            found = [accuracy_score(self.labels[name], model.predict(features[name])) for name in ("dev", "test")]
            return float(found[0]), float(found[1])
        dev, test = (model.predict_proba(features[name]) for name in ("dev", "test"))
        at = max(THRESHOLDS, key=lambda threshold: macro_f1(self.labels["dev"], dev >= threshold))
        return macro_f1(self.labels["dev"], dev >= at), macro_f1(self.labels["test"], test >= at)


def macro_f1(wanted: Any, found: Any) -> float:
    """RETURNS (float): The mean over categories."""
    return float(f1_score(wanted, found, average="macro", zero_division=0))


def main() -> None:
    """Read all parts, compute the layers once, print a row per system and number of examples."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    default = Path("../shared/data/sentiment/sentence-polarity")
    parser.add_argument("--data", type=Path, default=default, help="folder with the data")
    parser.add_argument("--bilm", default="en_elmo_sm", help="packaged name or path of the biLM")
    parser.add_argument("--seeds", type=positive, default=3, help="samples of the training part")
    parser.add_argument("--limit", type=positive, default=None, help="lines to read of each file, the first ones")
    parser.add_argument("--per-class", type=positive, nargs="*", default=[10, 100], help="examples of a category")
    parser.add_argument("--all", action="store_true", help="train on the whole training part as well")
    told = "write samples and parts as .spacy files to a new folder, and train nothing"
    parser.add_argument("--save", type=Path, default=None, help=told)
    arguments = parser.parse_args()
    texts = read_parts(arguments.data, read_text, arguments.limit)
    check_parts(texts, "texts")
    seeds = range(arguments.seeds)
    drawn = {f"{n}-{seed}": choose(texts["train"], n, seed) for n in arguments.per_class for seed in seeds}
    if arguments.all:
        drawn["all"] = choose(texts["train"], 0, 0)
    if arguments.save:
        save(arguments.save, texts, drawn)
        return
    try:
        bilm = load_bilm(arguments.bilm)
    except (OSError, ValueError) as error:
        raise SystemExit(f"--bilm is '{arguments.bilm}', which cannot be loaded: {error}") from error
    layers = {name: pool(bilm, part) for name, part in texts.items()}
    for size, group in groupby(drawn.items(), key=lambda sample: sample[0].split("-")[0]):
        found = [Problem(texts, layers, places).score() for _, places in group]
        for row in found[0]:
            scores = [scores[row] for scores in found]
            told = ", ".join(f"{score:.1f}" for score in scores)
            print(f"{size:>4} per category  {row:22} {statistics.mean(scores):5.1f}  ({told})", flush=True)


if __name__ == "__main__":
    main()
