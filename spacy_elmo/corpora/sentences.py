"""Split texts into tokens and sentences with spaCy, in bounded memory."""

import sys
from typing import Any, Iterable, Iterator, List, Optional, Tuple, Union

import spacy
from spacy.language import Language
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc, Span

from ..errors import Errors
from .shards import Record

Item = Union[str, List[str], Doc]
# An item, and the number of invalid UTF-8 sequences in it.
Read = Tuple[Item, int]
# Strings in spaCy's vocabulary before it is replaced by an empty one.
MAX_STRINGS = 300_000


class SentenceCutter:
    """Splits a text, a list of words or a Doc into sentences.

    lang (Optional[str]): Language of the tokenizer; None: tokens are separated by white space.
    running_text (bool): Split items without sentence boundaries by spaCy's `sentencizer`.
    RAISES (ValueError): EL137 for an unknown language.
    """

    def __init__(self, lang: Optional[str] = None, *, running_text: bool = False) -> None:
        self.is_plain = lang is None and not running_text
        self._tokenizes = lang is not None
        self._lang = lang or "xx"
        self._nlp = make_nlp(self._lang)
        self._sentencizer = Sentencizer() if running_text else None

    def records(self, items: Iterable[Read]) -> Iterator[Tuple[Record, int]]:
        """Split items, in bounded memory.

        items (Iterable[Read]): Read one at a time.
        YIELDS (Tuple[Record, int]): The sentences of an item, and its number of invalid UTF-8 sequences.
        """
        for item, n_replaced in items:
            # spaCy stores every string. A memory zone frees them too, but halves the speed.
            if len(self._nlp.vocab.strings) > MAX_STRINGS:
                self._nlp = make_nlp(self._lang)
            yield self._cut(item), n_replaced

    def _cut(self, item: Item) -> Record:
        if isinstance(item, str):
            item = self._nlp.make_doc(item) if self._tokenizes else item.split()
        if isinstance(item, list):
            words = _clean(item)
            if self._sentencizer is None or not words:
                return [words] if words else []
            item = Doc(self._nlp.vocab, words=words)
        return [sentence for sentence in map(_words_of, self._spans(item)) if sentence]

    def _spans(self, doc: Doc) -> Iterable[Union[Doc, Span]]:
        if self._sentencizer is not None and not doc.has_annotation("SENT_START"):
            doc = self._sentencizer(doc)
        return doc.sents if doc.has_annotation("SENT_START") else [doc]


def make_nlp(lang: str, *, option: str = "--lang", instead: str = "leave it out") -> Language:
    """lang (str): Code of a language.
    option (str), instead (str): Name of the setting, and its value for tokenized text, for the error.
    RETURNS (Language): A pipeline with a tokenizer only.
    RAISES (ValueError): EL137 for an unknown language.
    """
    try:
        nlp = spacy.blank(lang)
    except ImportError as error:
        raise ValueError(Errors.EL137.format(lang=lang, reason=error, option=option, instead=instead)) from error
    nlp.max_length = sys.maxsize  # the default limit is for parsers
    return nlp


def make_splitter(lang: str) -> Language:
    """lang (str): Code of a language.
    RETURNS (Language): A pipeline with its tokenizer and spaCy's rule-based sentence splitter.
    RAISES (ValueError): EL137 for an unknown language.
    """
    nlp = make_nlp(lang, instead="choose en")
    nlp.add_pipe("sentencizer")
    return nlp


def choose_lang(given: Optional[str], *known: Any) -> str:
    """given (Optional[str]): Language that the user asks for.
    *known (Any): Languages in an index, then in the meta data of a biLM; anything but a text is passed over.
    RETURNS (str): The first that is there, "en" without any.
    """
    return given or next((lang for lang in known if isinstance(lang, str) and lang.strip()), "en")


def _words_of(span: Union[Doc, Span]) -> List[str]:
    return _clean([token.text for token in span])


def _clean(words: List[str]) -> List[str]:
    """Remove blank tokens, and line ends within tokens, which a vocabulary file cannot store."""
    kept = [word for word in words if word and not word.isspace()]
    if any("\n" in word or "\r" in word for word in kept):
        return [" ".join(word.split()) for word in kept]
    return kept
