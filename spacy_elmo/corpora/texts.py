"""Texts with spaCy: split into tokens and sentences, in which language, and whether a text is tokenized."""

import re
import sys
from typing import Any, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import spacy
from spacy.language import Language
from spacy.pipeline import Sentencizer
from spacy.tokenizer import Tokenizer  # type: ignore[import-not-found]  # compiled, without types
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from ..errors import Errors, Warnings
from .places import OnMessage

# The sentences of a line, paragraph, Doc or row of a data set; empty for an empty line.
Record = List[List[str]]
# A text to tokenize, a list of words, or a Doc.
Item = Union[str, List[str], Doc]
WHITE_SPACE = "none"  # in place of a language
MAX_UNBROKEN = 500  # characters without white space that are split into tokens; more of them are one token
UNBROKEN = re.compile(rf"(\S{{{MAX_UNBROKEN + 1},}})( ?)")
# Strings in spaCy's vocabulary before it is replaced.
MAX_STRINGS = 300_000
# Punctuation that tokenizers split off; without apostrophes and hyphens.
ENDINGS = frozenset('.,;:!?…)]"”»。、，！？；：）」』؟،।')
# Tokenized English text has 1 % of tokens that end in punctuation, mostly abbreviations; raw text has 14 %.
MOST = 0.05


def to_doc(item: Item, nlp: Language) -> Doc:
    """The item, tokenized by the pipeline's tokenizer if it is a text. Empty words, which spaCy does not allow, become
    spaces, whose vectors are zero, so that each word has its row.
    """
    if isinstance(item, Doc):
        return item
    return tokenize(item, nlp) if isinstance(item, str) else Doc(nlp.vocab, words=[word or " " for word in item])


def tokenize(text: str, nlp: Language) -> Doc:
    """Every text is tokenized by this function, in a time that grows with its length. spaCy's rules split signs off one
    by one and search the rest again, so that a line of 10,000 equals signs takes 53 s: for them, more than
    `MAX_UNBROKEN` characters without white space is one token.
    """
    # Other tokenizers, such as the Chinese one, are linear.
    if not isinstance(nlp.tokenizer, Tokenizer) or not UNBROKEN.search(text):
        return nlp.make_doc(text)
    tokens: List[Tuple[str, bool]] = []
    start = 0
    for match in UNBROKEN.finditer(text):
        before = nlp.make_doc(text[start : match.start()])
        tokens += [*((token.text, bool(token.whitespace_)) for token in before), (match[1], bool(match[2]))]
        start = match.end()
    tokens += ((token.text, bool(token.whitespace_)) for token in nlp.make_doc(text[start:]))
    return Doc(nlp.vocab, words=[word for word, _ in tokens], spaces=[has_space for _, has_space in tokens])


class SentenceCutter:
    """Splits a text, a list of words or a Doc into sentences.

    lang (Optional[str]): Language of the tokenizer; None: tokens are separated by white space.
    running_text (bool): Split items without sentence boundaries by spaCy's `sentencizer`.
    RAISES (ValueError): For an unknown language.
    """

    def __init__(self, lang: Optional[str] = None, *, running_text: bool = False) -> None:
        self.is_plain = lang is None and not running_text
        self._tokenizes = lang is not None
        self._lang = lang or "xx"
        self._nlp = make_nlp(self._lang)
        self._sentencizer = Sentencizer() if running_text else None

    @property
    def vocab(self) -> Vocab:
        """RETURNS (Vocab): The vocabulary of Docs that are cut next."""
        return self._nlp.vocab

    def cut(self, item: Item) -> Record:
        """RETURNS (Record): The sentences of an item. Memory stays bounded, however many items are split."""
        # spaCy stores every string. A memory zone frees them too, but halves the speed.
        if len(self._nlp.vocab.strings) > MAX_STRINGS:
            self._nlp = make_nlp(self._lang)
        if isinstance(item, str):
            item = tokenize(item, self._nlp) if self._tokenizes else item.split()
        if isinstance(item, list):
            words = _clean(item)
            if self._sentencizer is None or not words:
                return [words] if words else []
            item = Doc(self._nlp.vocab, words=words)
        sentences = (_clean([token.text for token in span]) for span in self._spans(item))
        return [sentence for sentence in sentences if sentence]

    def _spans(self, doc: Doc) -> Iterable[Union[Doc, Span]]:
        if self._sentencizer is not None and not doc.has_annotation("SENT_START"):
            doc = self._sentencizer(doc)
        return doc.sents if doc.has_annotation("SENT_START") else [doc]


def _clean(words: List[str]) -> List[str]:
    """Remove blank tokens, and line ends within tokens, which a vocabulary file cannot store."""
    visible = [word for word in words if word and not word.isspace()]
    if any("\n" in word or "\r" in word for word in visible):
        return [" ".join(word.split()) for word in visible]
    return visible


def make_nlp(lang: str, *, name: str = "lang", instead: str = "leave it out") -> Language:
    """A pipeline with a tokenizer only.

    name (str), instead (str): Name of the setting, and its value for tokenized text, for the error.
    RAISES (ValueError): For an unknown language.
    """
    try:
        nlp = spacy.blank(lang)
    except ImportError as error:
        reason = str(error).rstrip(".")
        raise ValueError(
            f"There is no tokenizer for the language '{lang}': {reason}. Set `{name}` to a language code that "
            f"`spacy.blank` knows ('en', 'de', 'xx' for any language), or {instead} if the text is tokenized."
        ) from error
    nlp.max_length = sys.maxsize  # the default limit is for parsers
    return nlp


def make_splitter(lang: str) -> Language:
    """A pipeline with a tokenizer and spaCy's rule-based sentence splitter. ValueError for an unknown language."""
    nlp = make_nlp(lang, instead="choose en")
    nlp.add_pipe("sentencizer")
    return nlp


def find_word(
    nlp: Language, text: str, word: str, occurrence: int = 1, name: str = "The text"
) -> Tuple[List[str], int]:
    """The words of the sentence with a token, and its position among them.

    nlp (Language): See `make_splitter`.
    occurrence (int): Which of the equal tokens, from 1.
    name (str): Name of the text, for the error.
    RAISES (ValueError): EL381 if the word does not occur so often.
    """
    doc = nlp(tokenize(text, nlp))
    places = [token for token in doc if token.text == word]
    if len(places) < occurrence:
        tokens = " ".join(f"'{token.text}'" for token in doc if not token.is_space)[:200]
        n_occurrences = f"{len(places):,} occurrence{'' if len(places) == 1 else 's'}"
        raise ValueError(
            Errors.EL381.format(text=name, word=word, n_occurrences=n_occurrences, occurrence=occurrence, tokens=tokens)
        )
    token = places[occurrence - 1]
    sentence: Span = token.sent
    words = [word_token for word_token in sentence if not word_token.is_space]
    return [word_token.text for word_token in words], words.index(token)


class PunctuationCheck:
    """The share of tokens that end in punctuation among the first `max_tokens` tokens of a text."""

    def __init__(self, max_tokens: int = 20_000) -> None:
        self.n_tokens = self.n_attached = 0
        self.example = ""
        self._max_tokens = max_tokens

    @property
    def is_full(self) -> bool:
        return self.n_tokens >= self._max_tokens

    def add(self, tokens: Iterable[str]) -> None:
        if self.is_full:
            return
        for token in tokens:
            self.n_tokens += 1
            if token[-1:] in ENDINGS and any(character.isalnum() for character in token):
                self.n_attached += 1
                self.example = self.example or token

    def watch(self, sentences: Iterable[List[str]]) -> Iterator[List[str]]:
        """Check the first tokens of sentences while passing them on."""
        for tokens in sentences:
            self.add(tokens)
            yield tokens

    def warning(self, places: Sequence[object], lang: str = "en", *, is_chosen: bool = False) -> Optional[str]:
        """WL103 if more than `MOST` of the tokens end in punctuation; it proposes the tokenizer of `lang`, or states
        that it is used.
        """
        if self.n_attached <= MOST * self.n_tokens:
            return None
        remedy = f'If it is, tokenize it with spaCy: `lang="{lang}"`, or the code of another language.'
        if is_chosen:
            remedy = (
                f'It is tokenized in the language of the biLM, as with `lang="{lang}"`. Choose another language, or '
                f'`lang="{WHITE_SPACE}"` if its tokens are separated by white space.'
            )
        return Warnings.WL103.format(
            share=f"{self.n_attached / self.n_tokens:.0%}",
            source=", ".join(map(str, places)),
            example=self.example,
            remedy=remedy,
        )


def warn_of_raw_text(
    check: PunctuationCheck,
    places: Sequence[object],
    lang: Optional[str],
    warn: OnMessage,
    meta: Optional[Mapping[str, Any]] = None,
) -> None:
    """Warn if the tokens in `check` look like raw text, unless the text has a tokenizer, of the language `lang`; the
    warning proposes the language of the biLM, in `meta`.
    """
    warning = check.warning(places, choose_lang(None, (meta or {}).get("lang")))
    if warning is not None and lang is None:
        warn(warning)


def choose_tokenizer(
    lang: Optional[str],
    sentences: Iterable[List[str]],
    places: Sequence[object],
    warn: OnMessage,
    meta: Mapping[str, Any],
) -> Optional[str]:
    """Choose how to tokenize a corpus: in the given language; else raw text in the language of the biLM, and other text
    at white space.

    lang (Optional[str]): The choice of the user: a language or `WHITE_SPACE`; None without a choice.
    sentences (Iterable[List[str]]): The corpus, split at white space. Its first tokens are read.
    places (Sequence[object]): Names of the texts.
    warn (OnMessage): Called with WL103 for raw text.
    meta (Mapping[str, Any]): Meta data of the biLM, with its language.
    RETURNS (Optional[str]): The language; None for white space.
    """
    if lang is not None:
        return None if lang == WHITE_SPACE else lang
    check = PunctuationCheck()
    for tokens in sentences:
        check.add(tokens)
        if check.is_full:
            break
    known = choose_lang(None, meta.get("lang"))
    is_known = known == meta.get("lang") and _has_tokenizer(known)
    warning = check.warning(places, known, is_chosen=is_known)
    if warning is None:
        return None
    warn(warning)
    return known if is_known else None


def choose_lang(lang: Optional[str], *known: Any) -> str:
    """The language that the user chooses, or else the first known language; "en" if none is known.

    *known (Any): Languages in an index, then in the meta data of a biLM; anything but a text is ignored.
    """
    return lang or next((name for name in known if isinstance(name, str) and name.strip()), "en")


def _has_tokenizer(lang: str) -> bool:
    try:
        make_nlp(lang)
    except ValueError:
        return False
    return True
