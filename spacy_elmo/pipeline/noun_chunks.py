"""Noun chunks of Universal Dependencies: `doc.noun_chunks` of a parser that has learned the labels of UD.

spaCy's rules for English and German have the labels of other treebanks, and miss the objects and obliques of UD. De
Marneffe et al. (2021), Universal Dependencies: function words depend on the noun, so that its subtree is more than the
phrase. It also has the preposition, and the subject and the copula of a predicate noun.
"""

from typing import Callable, Iterable, Iterator, Tuple, Union

from spacy.errors import Errors as SpacyErrors
from spacy.language import Language
from spacy.tokens import Doc, Span, Token
from spacy.util import get_lang_class

NOUN_CHUNKS = "spacy-elmo.UDNounChunks.v1"
OTHER_LABELS = ("de", "en", "fa", "ja")  # languages whose rules in spaCy have the labels of other treebanks
UD_LABELS = {"obj", "obl"}  # which these do not have
NOUNS = ("NOUN", "PROPN", "PRON")
# Relations without subtypes: of nouns that are a part of another phrase, or refer to nothing.
NO_HEADS = frozenset(
    "advmod amod aux case cc clf compound cop det discourse expl fixed flat goeswith mark nummod punct "
    "reparandum".split()
)
POSSESSOR = "nmod:poss"
# Dependents on the left that belong to the phrase, and those that only stand between them; any other ends it.
LEFT_PARTS = frozenset("acl amod clf compound det flat goeswith nmod nummod".split())
BETWEEN = frozenset(("advmod", "punct"))
# Dependents directly on the right that belong to the phrase, and those that do if they have one word ("nobody else").
RIGHT_PARTS = frozenset("clf compound fixed flat goeswith nummod".split())
RIGHT_WORDS = frozenset(("amod", "det"))


def UDNounChunks() -> Callable[[Language], Language]:
    """Let `doc.noun_chunks` read the labels of Universal Dependencies. For `nlp.after_creation`."""
    return _use_ud_labels


def _use_ud_labels(nlp: Language) -> Language:
    nlp.vocab.get_noun_chunks = find_noun_chunks  # type: ignore[assignment]  # spaCy's stub has Spans, its rules have not
    return nlp


def has_ud_labels(docs: Iterable[Doc]) -> bool:
    """RETURNS (bool): Whether the first parsed Docs have labels that only UD has."""
    return any(token.dep_.partition(":")[0] in UD_LABELS for doc in docs for token in doc)


def lacks_ud_rules(lang: str) -> bool:
    """RETURNS (bool): Whether spaCy has no rules for the noun chunks of UD in this language."""
    return lang in OTHER_LABELS or "noun_chunks" not in get_lang_class(lang).Defaults.syntax_iterators


def find_noun_chunks(doclike: Union[Doc, Span]) -> Iterator[Tuple[int, int, int]]:
    """Iterate over the phrases around a noun, a proper noun or a pronoun, without prepositions, coordinated nouns and
    clauses behind the noun. A possessor is a part of the phrase ("the king's crown"), and no phrase is in another.

    YIELDS (Tuple[int, int, int]): First token, the one behind the last, and the label "NP".
    RAISES (ValueError): E029 of spaCy without a parse, E1019 without parts of speech.
    """
    doc = doclike.doc
    for annotation, error in (("DEP", SpacyErrors.E029), ("POS", SpacyErrors.E1019)):
        if not doc.has_annotation(annotation):
            raise ValueError(error)
    label = doc.vocab.strings.add("NP")
    phrases = [_find_phrase(word) for word in doclike if _is_head(word)]
    last_end = -1
    for start, end in sorted(phrases, key=lambda phrase: (phrase[0], -phrase[1])):
        if start >= last_end:
            yield start, end, label
            last_end = end


def _is_head(word: Token) -> bool:
    return word.pos_ in NOUNS and word.dep_ != POSSESSOR and _relation(word) not in NO_HEADS


def _find_phrase(noun: Token) -> Tuple[int, int]:
    """RETURNS (Tuple[int, int]): First token of the phrase, and the one behind the last."""
    start, end = noun.i, noun.i + 1
    for child in reversed(list(noun.lefts)):
        if _relation(child) in LEFT_PARTS:
            start = child.left_edge.i
        elif _relation(child) not in BETWEEN:
            break
    for child in noun.rights:
        is_word = child.left_edge == child.right_edge
        is_part = _relation(child) in RIGHT_PARTS or (is_word and _relation(child) in RIGHT_WORDS)
        if not is_part or child.left_edge.i != end:
            break
        end = child.right_edge.i + 1
    return start, end


def _relation(token: Token) -> str:
    return token.dep_.partition(":")[0].lower()  # spaCy's "ROOT"
