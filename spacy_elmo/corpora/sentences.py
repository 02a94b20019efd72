"""Cut texts into tokens and sentences with spaCy, in bounded memory."""

import sys
from typing import Iterable, Iterator, List, Optional, Tuple, Union

import spacy
from spacy.language import Language
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc, Span

from ..errors import Errors
from .shards import Record

Item = Union[str, List[str], Doc]
# An item, and how many sequences of bytes in it were not UTF-8.
Read = Tuple[Item, int]
# Words that spaCy may hold before it starts from an empty vocabulary again.
MAX_STRINGS = 300_000


class SentenceCutter:
    """Turns a text, a list of words or a Doc into sentences.

    lang (Optional[str]): Tokenizer of texts; None: tokens are separated by white space.
    running_text (bool): Items without sentence boundaries are cut by spaCy's `sentencizer`.
    RAISES (ValueError): EL137 for an unknown language.
    """

    def __init__(self, lang: Optional[str] = None, *, running_text: bool = False) -> None:
        self.is_plain = lang is None and not running_text
        self._tokenizes = lang is not None
        self._lang = lang or "xx"
        self._nlp = make_nlp(self._lang)
        self._sentencizer = Sentencizer() if running_text else None

    def records(self, items: Iterable[Read]) -> Iterator[Tuple[Record, int]]:
        """Cut items, in bounded memory.

        items (Iterable[Read]): None is read ahead.
        YIELDS (Tuple[Record, int]): The sentences of an item, and its undecodable sequences of bytes.
        """
        for item, n_replaced in items:
            # spaCy keeps every word it meets. A memory zone forgets them too, but halves the speed.
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
    option (str), instead (str): How the error names the setting, and says that none is needed.
    RETURNS (Language): A pipeline with a tokenizer only.
    RAISES (ValueError): EL137 for an unknown language.
    """
    try:
        nlp = spacy.blank(lang)
    except ImportError as error:
        raise ValueError(Errors.EL137.format(lang=lang, reason=error, option=option, instead=instead)) from error
    nlp.max_length = sys.maxsize  # the limit is there for parsers
    return nlp


def _words_of(span: Union[Doc, Span]) -> List[str]:
    return _clean([token.text for token in span])


def _clean(words: List[str]) -> List[str]:
    """No token is blank, and none has a line end, with which it would not fit in the file of a vocabulary."""
    kept = [word for word in words if word and not word.isspace()]
    if any("\n" in word or "\r" in word for word in kept):
        return [" ".join(word.split()) for word in kept]
    return kept
