"""Fit spaCy's tokenizer to annotated Docs: its rules for affixes, and its exceptions. A trained pipeline stores both.

A rule is dropped or added if more words are right; what is still divided wrongly becomes an exception.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Sequence, Tuple

from spacy import util
from spacy.language import Language
from spacy.symbols import ORTH
from spacy.tokenizer import Tokenizer
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

# New rules: several symbols as one token, repeated ones ("!!!", "---"), ends of sentences ("?!") and lines ("=---");
# and brackets and quotes, which are wanted inside of a text ("late)(See").
NEW_RULES = (r"(?P<symbol>[^\w\s]|_)(?P=symbol)+", r"[.?!…]{2,}", r"[-=~*#_]{2,}", r"[()\[\]{}<>\"]")
COMPILERS: Dict[str, Tuple[str, Callable[[Sequence[str]], Any]]] = {
    "prefixes": ("prefix_search", lambda rules: util.compile_prefix_regex(rules).search),
    "suffixes": ("suffix_search", lambda rules: util.compile_suffix_regex(rules).search),
    "infixes": ("infix_finditer", lambda rules: util.compile_infix_regex(rules).finditer),
}
MIN_COUNT = 2  # texts between spaces that are seen less often do not become exceptions
Pieces = Tuple[str, ...]
Texts = Dict[str, "Counter[Pieces]"]


# The name is part of the settings of a training: change it with the rules, so that trainings of before are not taken.
@util.registry.callbacks("fit_tokenizer")
def create_fitting(path: str) -> Callable[[Language], None]:
    """path (str): Docs of a language with spaces between words, a .spacy file.
    RETURNS (Callable[[Language], None]): Fits the tokenizer, for `before_init` in [initialize].
    """

    def fit(nlp: Language) -> None:
        fit_tokenizer(nlp, DocBin().from_disk(Path(path)).get_docs(Vocab()))

    return fit


def fit_tokenizer(nlp: Language, docs: Iterable[Doc]) -> None:
    """nlp (Language): Its tokenizer is changed, and keeps the rules of its language that are of use.
    docs (Iterable[Doc]): Docs with the words that the tokenizer should find.
    """
    if not isinstance(nlp.tokenizer, Tokenizer):
        return  # of a language whose words another package divides
    texts = count_texts(docs)
    with_symbols = {text: divisions for text, divisions in texts.items() if not text.isalpha()}  # rules act on these
    joined = " ".join(with_symbols)
    n_right = count_right(nlp.tokenizer, with_symbols)
    for name, (attribute, compile_rules) in COMPILERS.items():
        rules = list(getattr(nlp.Defaults, name) or ())
        for rule in (rule for rule in [*NEW_RULES, *rules] if re.search(rule, joined)):
            changed = [other for other in rules if other != rule] if rule in rules else [rule, *rules]
            before = getattr(nlp.tokenizer, attribute)
            setattr(nlp.tokenizer, attribute, compile_rules(changed))
            n_now = count_right(nlp.tokenizer, with_symbols)
            if n_now > n_right:
                rules, n_right = changed, n_now
            else:
                setattr(nlp.tokenizer, attribute, before)
    prefixes = find_prefixes(with_symbols)
    if prefixes and nlp.tokenizer.token_match is None:
        nlp.tokenizer.token_match = re.compile(rf"(?i)(?:{'|'.join(prefixes)})-[^\W\d_][\w-]*$").match
        if count_right(nlp.tokenizer, with_symbols) <= n_right:
            nlp.tokenizer.token_match = None
    add_exceptions(nlp.tokenizer, texts)


def count_texts(docs: Iterable[Doc]) -> Texts:
    """RETURNS (Texts): How often each text between spaces is divided into which words."""
    texts: Texts = {}
    for doc in docs:
        pieces: List[str] = []
        for token in doc:
            pieces.append(token.text)
            if token.whitespace_ or token.i == len(doc) - 1:
                texts.setdefault("".join(pieces), Counter())[tuple(pieces)] += 1
                pieces = []
    return texts


def count_right(tokenizer: Tokenizer, texts: Texts) -> float:
    """RETURNS (float): How many words have the right place, less half of those that have not: as F1 counts."""
    total = 0.0
    for text, divisions in texts.items():
        pieces = tuple(token.text for token in tokenizer(text))
        total += sum(n * _agreement(pieces, right) for right, n in divisions.items())
    return total


def _agreement(pieces: Pieces, right: Pieces) -> float:
    if pieces == right:
        return len(right)
    n_common = len(set(_spans(pieces)) & set(_spans(right)))
    return 2 * n_common - (len(pieces) + len(right)) / 2


def _spans(pieces: Pieces) -> List[Tuple[int, int]]:
    ends = [sum(map(len, pieces[: position + 1])) for position in range(len(pieces))]
    return list(zip([0, *ends], ends))


def find_prefixes(texts: Texts) -> List[str]:
    """RETURNS (List[str]): What stands before a hyphen, and is more often one word with what follows than a word."""
    counts: Counter[str] = Counter()
    for divisions in texts.values():
        for pieces, n in divisions.items():
            for piece, following in zip(pieces, [*pieces[1:], ""]):
                prefix, hyphen, rest = piece.partition("-")
                if prefix.isalpha() and (rest[:1].isalpha() or following == "-"):
                    counts[prefix.lower()] += n if hyphen else -n
    return sorted(prefix for prefix, n in counts.items() if n >= MIN_COUNT)


def add_exceptions(tokenizer: Tokenizer, texts: Texts) -> None:
    """Add the texts whose most frequent division is not that of the tokenizer."""
    for text, divisions in texts.items():
        best = max(divisions, key=lambda right: sum(n * _agreement(right, other) for other, n in divisions.items()))
        if divisions[best] >= MIN_COUNT and tuple(token.text for token in tokenizer(text)) != best:
            tokenizer.add_special_case(text, [{ORTH: piece} for piece in best])
