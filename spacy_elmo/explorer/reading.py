"""The texts of the page: first texts by language, tokens, sentences, and the sequences (contexts) that a biLM reads."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import AbstractSet, Dict, List, NamedTuple, Optional, Tuple

import numpy
from numpy.typing import NDArray
from spacy.attrs import IS_SPACE
from spacy.tokens import Doc

from ..corpora.texts import MAX_STRINGS, make_splitter, tokenize
from ..inference.bilm import BiLM
from ..pipeline.model import SequenceSettings, read_docs

EXAMPLES_FILE = Path(__file__).parent / "static" / "examples.txt"  # a line per language
MAX_TOKENS = 5_000
READING = SequenceSettings(contexts="sentences")


class Examples(NamedTuple):
    """What the forms of the page hold at first: texts around a word with two meanings.

    a (str), b (str): Sentences with the word in two meanings.
    odd (str): `a` with an unexpected word.
    word (str): The word.
    """

    a: str
    b: str
    odd: str
    word: str


@cache
def read_examples() -> Dict[str, Examples]:
    """RETURNS (Dict[str, Examples]): The texts by language code."""
    rows = (line.split(" | ") for line in EXAMPLES_FILE.read_text(encoding="utf8").splitlines())
    return {lang: Examples(*texts) for lang, *texts in rows}


def find_examples(lang: str) -> Examples:
    """RETURNS (Examples): The texts of a language, such as "pt" or "pt-br", or English ones."""
    examples = read_examples()
    return examples.get(lang.lower().replace("_", "-").partition("-")[0], examples["en"])


def invalid(problem: str) -> ValueError:
    """RETURNS (ValueError): What to raise for a request that the page does not send."""
    return ValueError(f"The request is not valid: {problem}. Reload the page and try again.")


def check_length(n: int, unit: str, limit: int) -> None:
    """RAISES (ValueError): If a text has more characters or tokens (`unit`) than the limit."""
    if n > limit:
        raise ValueError(
            f"The text is too long: it has {n:,} {unit}, and this view reads at most {limit:,}. Shorten the text."
        )


@dataclass(frozen=True)
class Context:
    """A sequence that the biLM reads by itself, between BOS and EOS.

    tokens (List[int]): The token of each word, by position in the text.
    keep (Tuple[int, int]): Positions of the words whose vectors are used; the others overlap with a neighbor.
    """

    words: List[str]
    tokens: List[int]
    keep: Tuple[int, int]


class TextSplitter:
    """Splits texts into tokens and sentences with spaCy's tokenizer and sentence splitter, in bounded memory.

    lang (str): Language of both.
    RAISES (ValueError): For an unknown language.
    """

    def __init__(self, lang: str = "en") -> None:
        self.lang = lang
        self._nlp = make_splitter(lang)
        self.stop_words: AbstractSet[str] = self._nlp.Defaults.stop_words

    def read(self, text: str, limit: int = MAX_TOKENS) -> Doc:
        """RETURNS (Doc): Any text, with sentence boundaries. RAISES (ValueError): For more tokens than the limit."""
        if len(self._nlp.vocab.strings) > MAX_STRINGS:
            self._nlp = make_splitter(self.lang)
        doc = tokenize(text, self._nlp)
        check_length(len(doc), "tokens", limit)
        for _, pipe in self._nlp.pipeline:
            doc = pipe(doc)
        return doc


def find_contexts(doc: Doc) -> List[Context]:
    """doc (Doc): With sentence boundaries.
    RETURNS (List[Context]): A sequence per sentence, several for a sentence that is longer than a window.
    """
    if not len(doc):
        return []
    doc_sequences = read_docs([doc], READING)
    places = numpy.flatnonzero(doc.to_array(IS_SPACE) == 0)
    contexts = []
    for words, keep, rows in zip(doc_sequences.sequences, doc_sequences.central, doc_sequences.rows):
        start = int(numpy.searchsorted(places, rows[0])) - keep[0]
        contexts.append(Context(words, places[start : start + len(words)].tolist(), keep))
    return contexts


def find_place(doc: Doc, token: int) -> Tuple[Context, int]:
    """RETURNS (Tuple[Context, int]): The context from which the vector of a token is taken, and its position there.
    RAISES (ValueError): If the biLM does not read the token: white space, or beyond the end.
    """
    for context in find_contexts(doc):
        read = context.tokens[slice(*context.keep)]
        if token in read:
            return context, context.keep[0] + read.index(token)
    raise invalid(f"token {token} is not a word of the text")


def embed_doc(bilm: BiLM, doc: Doc) -> NDArray[numpy.float32]:
    """RETURNS (NDArray[numpy.float32]): Shape (L+1, n, D), for the n tokens that are not white space."""
    contexts = find_contexts(doc)
    vectors = bilm.embed([context.words for context in contexts])
    stacks = [rows[:, slice(*context.keep)] for context, rows in zip(contexts, vectors)]
    empty = numpy.zeros((bilm.config.n_layers + 1, 0, bilm.config.output_width), dtype="float32")
    return numpy.concatenate(stacks, axis=1) if stacks else empty


def cut_word(bilm: BiLM, word: str) -> Optional[str]:
    """RETURNS (Optional[str]): The part of a word that the biLM reads, if the word is too long; otherwise None."""
    characters, embedder = bilm.config.char_cnn, bilm.config.token_embedder
    if characters is not None and bilm.token_embeddings is None:
        read = word.encode("utf8", "ignore")[: characters.max_characters - 2].decode("utf8", "ignore")
        return read if read != word else None
    if embedder is not None and embedder.max_characters is not None and len(word) > embedder.max_characters - 2:
        return word[: embedder.max_characters - 2]
    return None
