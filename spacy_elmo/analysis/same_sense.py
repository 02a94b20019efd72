"""Whether a word has the same sense in two sentences, as in Word-in-Context (Pilehvar and Camacho-Collados 2019).

The score is the cosine of the two vectors of the word. A logistic function of the cosine, fitted to pairs of annotated
uses, turns it into a probability.
"""

from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import srsly
from numpy.typing import NDArray

from ..corpora.files import STDIN, decode, open_bytes
from ..corpora.labelled import SenseSentence
from ..corpora.texts import choose_lang, find_word, make_splitter, read_json
from ..errors import Errors
from ..inference.bilm import BiLM, check_sentences
from .neighbors import Layer
from .vectors import require_sklearn, to_units

Cosines = NDArray[np.float64]
# The tokens of a sentence, and the position of a word in it, from 0.
Place = Tuple[Sequence[str], int]


class Calibration(NamedTuple):
    """P(same sense) = 1 / (1 + exp(-(slope * cosine + bias))).

    layer (Layer): Whose cosine it is.
    slope (float), bias (float): Fitted to pairs in which both answers are equally frequent.
    """

    layer: Layer
    slope: float
    bias: float

    @property
    def threshold(self) -> float:
        """RETURNS (float): The cosine from which both uses count as the same sense."""
        return -self.bias / self.slope

    def probability(self, cosine: float) -> float:
        """RETURNS (float): Of the same sense, if both answers are equally frequent."""
        return float(1 / (1 + np.exp(-(self.slope * cosine + self.bias))))


@dataclass(frozen=True)
class SameSense:
    """How similar two uses are.

    cosines (Dict[str, float]): By layer, "0" to "L" and "mean".
    probability (Optional[float]): Of the same sense; None without a calibration for the biLM.
    is_same (Optional[bool]): Whether that is 0.5 or more.
    """

    cosines: Dict[str, float]
    probability: Optional[float]
    is_same: Optional[bool]


class Pair(NamedTuple):
    """Two uses of a lemma: number of the sentence and position of each, and whether they have the same sense."""

    first: Tuple[int, int]
    second: Tuple[int, int]
    is_same: bool


@dataclass(frozen=True)
class WordPair:
    """A word in two sentences.

    where (str): File and line, for errors; empty for a pair from the command line.
    word (str), second_word (str): As the tokenizer gives it in each sentence.
    first (str), second (str): The sentences.
    """

    where: str
    word: str
    second_word: str
    first: str
    second: str


# Columns of a file of pairs.
COLUMNS, SECOND_WORD = ("word", "first", "second"), "second_word"
FORM = "Write tab-separated columns word, first, second and optionally second_word, or JSON objects with these keys."
BATCH = 256  # pairs computed together
# By digest of the weights, from `benchmarks/same_sense.py`.
CALIBRATIONS: Dict[str, Calibration] = {"e102d1a53d4a": Calibration(2, 2.8628, -1.5968)}


def compare_uses(
    bilm: BiLM,
    first: Sequence[str],
    first_position: int,
    second: Sequence[str],
    second_position: int,
    *,
    calibration: Optional[Calibration] = None,
) -> SameSense:
    """Compare a word in two sentences.

    bilm (BiLM): Computes the vectors; each sentence is read by itself.
    first (Sequence[str]), second (Sequence[str]): The tokens of each sentence.
    first_position (int), second_position (int): Of the word, from 0.
    calibration (Optional[Calibration]): For the probability, see `CALIBRATIONS`.
    RETURNS (SameSense): Cosines of all layers.
    RAISES (ValueError): For input that is not tokenized, or a position that is not in its sentence.
    """
    (found,) = compare_pairs(bilm, [((first, first_position), (second, second_position))], calibration=calibration)
    return found


def compare_pairs(
    bilm: BiLM, pairs: Sequence[Tuple[Place, Place]], *, calibration: Optional[Calibration] = None
) -> List[SameSense]:
    """Compare words in many pairs of sentences, which are computed together.

    bilm (BiLM): Computes the vectors; each sentence is read by itself.
    pairs (Sequence[Tuple[Place, Place]]): For both words of a pair, the tokens of the sentence and the position.
    calibration (Optional[Calibration]): For the probability, see `CALIBRATIONS`.
    RETURNS (List[SameSense]): One per pair.
    RAISES (ValueError): See `compare_uses`.
    """
    places = [place for pair in pairs for place in pair]
    sentences = check_sentences([words for words, _ in places])
    for words, (_, position) in zip(sentences, places):
        if not 0 <= position < len(words):
            raise ValueError(Errors.EL018.format(position=position, n_words=len(words)))
    uses = [(number, position) for number, (_, position) in enumerate(places)]
    compared = [Pair(first, second, True) for first, second in zip(uses[::2], uses[1::2])]
    rows: Any = pair_cosines(bilm, sentences, compared) if compared else []
    names = [*map(str, range(bilm.config.n_layers + 1)), "mean"]
    found = []
    for column in zip(*rows):
        cosines = {name: float(cosine) for name, cosine in zip(names, column)}
        probability = None if calibration is None else calibration.probability(cosines[str(calibration.layer)])
        found.append(SameSense(cosines, probability, None if probability is None else probability >= 0.5))
    return found


def pair_cosines(bilm: BiLM, sentences: Sequence[Sequence[str]], pairs: Sequence[Pair]) -> Cosines:
    """bilm (BiLM): Computes the vectors.
    sentences (Sequence[Sequence[str]]): Tokens of each; only those of pairs are read.
    pairs (Sequence[Pair]): N pairs.
    RETURNS (Cosines): Shape (L+2, N), by layer, the mean of the layers last.
    """
    uses = sorted({use for pair in pairs for use in (pair.first, pair.second)})
    numbers = sorted({sentence for sentence, _ in uses})
    vectors: Dict[Tuple[int, int], Any] = {}
    positions: Dict[int, List[int]] = {number: [] for number in numbers}
    for sentence, position in uses:
        positions[sentence].append(position)
    runs = [sentences[number] for number in numbers]
    for start, stop, tensor in bilm.iter_encode(runs, reuse_memory=True):
        first, layers = 0, tensor.cpu().numpy()  # (L+1, n, D)
        for number in numbers[start:stop]:
            for position in positions[number]:
                column = layers[:, first + position]
                vectors[number, position] = to_units(np.concatenate([column, column.mean(0, keepdims=True)]))
            first += len(sentences[number])
    left = np.stack([vectors[pair.first] for pair in pairs], axis=1)  # (L+2, N, D)
    right = np.stack([vectors[pair.second] for pair in pairs], axis=1)
    return np.asarray(np.einsum("lnd,lnd->ln", left, right), dtype="float64")


def make_pairs(sentences: Iterable[SenseSentence], *, per_lemma: int = 4, seed: int = 0) -> List[Pair]:
    """Draw pairs of uses of the same lemma and part of speech, from different sentences. Of each lemma as many have the
    same sense as have different ones, so that guessing gives 50 %.

    sentences (Iterable[SenseSentence]): Annotated with senses.
    per_lemma (int): Largest number of pairs of each answer.
    seed (int): Of the choice.
    RETURNS (List[Pair]): Sorted by lemma.
    """
    uses: Dict[Tuple[str, str], List[Tuple[int, int, str]]] = {}
    for number, sentence in enumerate(sentences):
        for use in sentence.uses:
            uses.setdefault((use.lemma, use.pos), []).append((number, use.position, use.sense))
    rng, found = np.random.default_rng(seed), []
    for _, of_lemma in sorted(uses.items()):
        drawn = [of_lemma[place] for place in rng.permutation(len(of_lemma))[: 10 * per_lemma]]
        pairs = [Pair(a[:2], b[:2], a[2] == b[2]) for a, b in combinations(drawn, 2) if a[0] != b[0]]
        both = [[pair for pair in pairs if pair.is_same is answer] for answer in (True, False)]
        n = min(per_lemma, *map(len, both))
        found += [some[place] for some in both for place in rng.permutation(len(some))[:n]]
    return found


def calibrate(cosines: Cosines, is_same: Sequence[bool], layer: Layer) -> Calibration:
    """Fit a logistic function of the cosine.

    cosines (Cosines): Shape (N,), of one layer.
    is_same (Sequence[bool]): The answer of each pair, both of them present.
    layer (Layer): Which layer that is.
    RETURNS (Calibration): For that layer.
    RAISES (ValueError): Without scikit-learn.
    """
    require_sklearn("A calibration")
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=1e4).fit(cosines[:, None], np.asarray(is_same))
    return Calibration(layer, float(fitted.coef_[0, 0]), float(fitted.intercept_[0]))


def compare_words(
    bilm: BiLM, digest: str, pairs: Iterable[WordPair], *, lang: Optional[str] = None
) -> Iterator[Dict[str, Any]]:
    """bilm (BiLM): The model.
    digest (str): Of its weights, for its calibration.
    pairs (Iterable[WordPair]): Read in batches.
    lang (Optional[str]): Language of the tokenizer; None for that of the biLM.
    YIELDS (Dict[str, Any]): The pair, and `cosines`, `probability` and `is_same`, see `SameSense`.
    RAISES (ValueError): EL381 if a sentence lacks its word, with the line of the pair; errors of reading the pairs.
    """
    calibration, waiting = CALIBRATIONS.get(digest), iter(pairs)
    nlp = make_splitter(choose_lang(lang, bilm.meta.get("lang")))
    while batch := list(islice(waiting, BATCH)):
        places = []
        with nlp.memory_zone():
            for pair in batch:
                at = f" of {pair.where}" if pair.where else ""
                one = find_word(nlp, pair.first, pair.word, name=f"The first sentence{at}")
                places.append((one, find_word(nlp, pair.second, pair.second_word, name=f"The second sentence{at}")))
        for pair, found in zip(batch, compare_pairs(bilm, places, calibration=calibration)):
            texts = {"word": pair.word, "second_word": pair.second_word, "first": pair.first, "second": pair.second}
            yield {**texts, "cosines": found.cosines, "probability": found.probability, "is_same": found.is_same}


def read_pairs(path: Path) -> Iterator[WordPair]:
    """path (Path): Lines with the tab-separated columns `word`, `first`, `second` and optionally `second_word`, in this
        order or in that of a first line with these names; or JSON lines or an array of objects with these keys. Plain
        or compressed; "-" for stdin.
    YIELDS (WordPair): Blank lines are skipped.
    RAISES (ValueError): If a pair is not complete, or if there is none; for invalid JSON.
    """
    columns: List[str] = []
    n_pairs = 0
    with open_bytes(path) as file:
        for where, line in read_json(file, "stdin" if path == STDIN else path):
            text = decode(line)[0].rstrip("\r\n")
            if not text.strip():
                continue
            if text.lstrip().startswith("{"):
                try:
                    record: Any = srsly.json_loads(text)
                except ValueError as error:
                    raise ValueError(
                        f"Line {where} is not valid JSON: {error}. Correct it: a .jsonl file has one JSON object per "
                        "line, or is one JSON array of objects."
                    ) from error
            else:
                cells = [cell.strip() for cell in text.split("\t")]
                if not columns:
                    has_header = {*COLUMNS} <= {*cells}
                    columns = cells if has_header else [*COLUMNS, SECOND_WORD]
                    if has_header:
                        continue
                record = dict(zip(columns, cells))
            n_pairs += 1
            yield _to_pair(record, where)
    if not n_pairs:
        raise ValueError(f"'{path}' has no pairs. {FORM}")


def _to_pair(record: Any, where: str) -> WordPair:
    missing = [name for name in COLUMNS if not isinstance(record.get(name), str) or not record[name].strip()]
    if missing:
        raise ValueError(f"The pair at {where} has no {' and no '.join(missing)}. {FORM}")
    other = record.get(SECOND_WORD) or record["word"]
    return WordPair(where, record["word"], str(other), record["first"], record["second"])
