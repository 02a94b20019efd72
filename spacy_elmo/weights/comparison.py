"""Compare two biLMs: settings, tensors, and the vectors of each layer on sentences."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ..inference.bilm import BiLM
from ..util import find_changes
from .archive import Array
from .tensor_map import to_arrays

SAME, DIFFERENT, PERMUTED, RESHAPED, ONLY_A, ONLY_B = "same", "different", "permuted", "other shape", "only A", "only B"
VECTOR_TOLERANCE = 2e-5  # float32 sums in another order differ by less
BATCH_SENTENCES = 256
MAX_SORTED = 2**26  # numbers of a tensor up to which a permutation is looked for

# Sentences of many lengths, with words that are long, empty, of other scripts, of several code points or not valid.
COMPARED_SENTENCES: Tuple[Tuple[str, ...], ...] = (
    ("She", "sat", "on", "the", "bank", "of", "the", "river", "."),
    ("The", "bank", "raised", "its", "rates", "by", "0.25", "%", "on", "2019-03-01", "!"),
    ("Hello",),
    (".",),
    ("caf\u00e9", "cafe\u0301", "na\u00efve", "\u00dcberma\u00df", "\u0130stanbul"),
    ("\u6771\u4eac", "\ud55c\uad6d", "\u0440\u0435\u043a", "\u0627\u0644\u0646\u0647\u0631", "\u0928\u0926\u0940"),
    ("\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "zero\u200bwidth", "\u3000", "\u00a0"),
    ("a" * 47, "b" * 48, "c" * 49, "\u00e9" * 30, "\u6771" * 60),
    ("<S>", "</S>", "<UNK>", "", " ", "tab\there", "ends\ud800here"),
    ("UPPER", "lower", "MiXeD", "don't", "rock-'n'-roll", "http://example.org/?q=1", "@user", "#tag"),
    ("the", "unseen", "bank") * 30,
)


@dataclass(frozen=True)
class TensorDifference:
    """A tensor of one or both biLMs.

    name (str): Its name in the state dict; "softmax." is the prefix of the softmax, which vectors do not depend on.
    status (str): "same", "different", "permuted" (the same values in another order), "other shape", "only A", "only B".
    max_difference (Optional[float]): Largest absolute difference, for two tensors of one shape.
    """

    name: str
    status: str
    max_difference: Optional[float] = None


@dataclass(frozen=True)
class LayerDifference:
    """The vectors of one layer; layer 0 is the token layer.

    mean_cosine (float): Mean cosine of the vectors of a token.
    sentence (int), position (int), token (str): Place of the largest difference: number of the sentence, from 0, and of
        its token; BOS is 0, and EOS the last.
    """

    layer: int
    max_difference: float
    mean_cosine: float
    sentence: int
    position: int
    token: str


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison: settings that differ, with both values; all tensors; the layers that both biLMs have.

    layers (Tuple[LayerDifference, ...]): Empty if their widths differ.
    n_tokens (int): Tokens compared, without BOS and EOS.
    has_same_shape (bool): Both have the same number of layers and the same width.
    """

    settings: Dict[str, Tuple[Any, Any]]
    tensors: Tuple[TensorDifference, ...]
    layers: Tuple[LayerDifference, ...]
    n_tokens: int
    has_same_shape: bool

    def is_equal(self, tolerance: float = VECTOR_TOLERANCE) -> bool:
        """Whether all layers of all tokens agree. Settings and tensors may differ."""
        return self.has_same_shape and self.first_different(tolerance) is None

    def first_different(self, tolerance: float = VECTOR_TOLERANCE) -> Optional[int]:
        """The lowest layer with a difference above the tolerance, or that is not a number."""
        return next(
            (difference.layer for difference in self.layers if not difference.max_difference <= tolerance), None
        )


def compare_bilms(a: BiLM, b: BiLM, sentences: Sequence[Sequence[str]] = COMPARED_SENTENCES) -> Comparison:
    """Compare the settings, the tensors, and the layers on tokenized sentences, each of which starts from the zero
    state.
    """
    has_same_width = a.config.output_width == b.config.output_width
    return Comparison(
        settings=find_changes(_settings_of(a), _settings_of(b)),
        tensors=tuple(_compare_tensors(_arrays_of(a), _arrays_of(b))),
        layers=tuple(_compare_layers(a, b, sentences)) if has_same_width else (),
        n_tokens=sum(map(len, sentences)),
        has_same_shape=has_same_width and a.config.n_layers == b.config.n_layers,
    )


def _settings_of(bilm: BiLM) -> Dict[str, Any]:
    record = bilm.config.to_dict()
    characters = record.pop("char_cnn") or {}
    words = None if bilm.vocabulary is None else bilm.vocabulary.words
    return {
        **record,
        **{f"char_cnn.{name}": value for name, value in characters.items()},
        "vocabulary": "none" if words is None else f"{len(words):,} words, sha256 {_hash_words(words)}",
        **_lexicon_of(bilm),
        "softmax": "none" if bilm.head is None else type(bilm.head).__name__,
        "token_embeddings": "none" if bilm.token_embeddings is None else str(list(bilm.token_embeddings.shape)),
        "precision": bilm.precision,
    }


def _lexicon_of(bilm: BiLM) -> Dict[str, str]:
    """Symbols of the tables of ELMoForManyLangs; other biLMs have none."""
    lexicon = bilm.lexicon
    tables = {} if lexicon is None else {"characters": lexicon.characters, "words": lexicon.words}
    return {
        f"lexicon.{name}": f"{len(table):,}, sha256 {_hash_words(list(map(repr, table)))}"
        for name, table in tables.items()
    }


def _hash_words(words: Sequence[str]) -> str:
    return sha256("\n".join(words).encode("utf8", "surrogatepass")).hexdigest()[:12]


def _arrays_of(bilm: BiLM) -> Dict[str, Array]:
    arrays = to_arrays(bilm.network)
    if bilm.head is not None:
        arrays.update({f"softmax.{name}": array for name, array in to_arrays(bilm.head).items()})
    if bilm.token_embeddings is not None:
        arrays["token_embeddings"] = bilm.token_embeddings.detach().cpu().numpy()
    return arrays


def _compare_tensors(a: Dict[str, Array], b: Dict[str, Array]) -> Iterator[TensorDifference]:
    for name in dict.fromkeys([*a, *b]):
        if name not in b or name not in a:
            yield TensorDifference(name, ONLY_A if name in a else ONLY_B)
            continue
        array_a, array_b = a[name], b[name]
        difference = float(np.abs(array_a - array_b).max(initial=0.0)) if array_a.shape == array_b.shape else None
        status = SAME if difference == 0 else RESHAPED if difference is None else DIFFERENT
        if status != SAME and array_a.size == array_b.size <= MAX_SORTED:
            is_permuted = np.array_equal(np.sort(array_a, axis=None), np.sort(array_b, axis=None))
            status = PERMUTED if is_permuted else status
        yield TensorDifference(name, status, difference)


def _compare_layers(a: BiLM, b: BiLM, sentences: Sequence[Sequence[str]]) -> List[LayerDifference]:
    n_layers = min(a.config.n_layers, b.config.n_layers) + 1
    largest = [(-1.0, 0, 0)] * n_layers  # difference, sentence, position; NaN is infinite
    cosines, n_rows = np.zeros(n_layers), 0
    for start in range(0, len(sentences), BATCH_SENTENCES):
        batch = sentences[start : start + BATCH_SENTENCES]
        pairs = zip(a.embed(batch, boundaries=True), b.embed(batch, boundaries=True))
        for sentence, (first, second) in enumerate(pairs, start=start):
            n_rows += first.shape[1]
            for layer in range(n_layers):
                cosines[layer] += _cosines(first[layer], second[layer]).sum()
                rows = np.nan_to_num(np.abs(first[layer] - second[layer]).max(axis=1), nan=np.inf)  # (n + 2,)
                position = int(rows.argmax())
                if rows[position] > largest[layer][0]:
                    largest[layer] = (float(rows[position]), sentence, position)
    return [
        LayerDifference(
            layer=layer,
            max_difference=difference,
            mean_cosine=float(cosines[layer] / n_rows),
            sentence=sentence,
            position=position,
            token=["<S>", *sentences[sentence], "</S>"][position],
        )
        for layer, (difference, sentence, position) in enumerate(largest)
        if n_rows
    ]


def _cosines(a: Array, b: Array) -> Array:
    """Cosine of each row, 1 for two rows of zeros."""
    norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    products: Array = (a * b).sum(axis=-1)
    return np.where(norms > 0, products / np.where(norms > 0, norms, 1), (a == b).all(axis=-1))
