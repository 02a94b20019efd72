"""The component `suffix_lemmatizer`: lemmas by form and part of speech, from the training data, and suffix rules for
other forms.

Forms that were seen have the lemma that they had most often, as in Stanza (Qi et al. 2020, sec. 2.1). For others the
longest suffix decides that has a rule, as in LemmaGen (Juršič et al. 2010): how many characters to cut off, and what to
append. Nothing is trained but these tables.
"""

import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any, Callable, Counter, DefaultDict, Dict, Iterable, List, Optional, Tuple, Union

import srsly
from spacy.attrs import LEMMA, ORTH, POS
from spacy.errors import Warnings as SpacyWarnings
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.pipeline.lemmatizer import lemmatizer_score
from spacy.tokens import Doc
from spacy.training import Example, validate_get_examples
from spacy.vocab import Vocab

from ..errors import Errors

# A rule is learned for the characters that change with up to so many before them, from so many forms at least.
MAX_CONTEXT, MIN_FORMS = 3, 2
MIN_STEM = 2  # characters that a rule leaves
MAX_CACHED = 100_000  # forms with their part of speech
FILE = "tables.json"
TABLES = ("forms", "lowercase_forms", "rules", "lowercased")
Rule = Tuple[int, str]  # characters to cut off, and those to append
Lemmas = DefaultDict[str, Counter[str]]  # counts by form


@Language.factory(
    "suffix_lemmatizer",
    assigns=["token.lemma"],
    requires=["token.pos"],
    default_config={"overwrite": False, "scorer": {"@scorers": "spacy.lemmatizer_scorer.v1"}},
    default_score_weights={"lemma_acc": 1.0},
)
def make_suffix_lemmatizer(
    nlp: Language, name: str, overwrite: bool, scorer: Optional[Callable[..., Any]]
) -> "SuffixLemmatizer":
    """Lemmas from the forms of the training data, with their parts of speech, and from rules for their suffixes.

    nlp (Language): The pipeline. A component before this one, such as a `morphologizer`, sets parts of speech.
    name (str): The component's name in it.
    overwrite (bool): Whether lemmas that a Doc has are replaced.
    scorer (Optional[Callable]): Scores Docs; null for none.
    RETURNS (SuffixLemmatizer): The component.
    """
    return SuffixLemmatizer(nlp.vocab, name, overwrite=overwrite, scorer=scorer)


class SuffixLemmatizer(Pipe):
    """Looks lemmas up by form and part of speech, and applies suffix rules to other forms.

    Tables are by part of speech: `rules` has the rule of a suffix; `lowercase_forms` the lemma of a form in lower case,
    where that is not the one of the rules, and lemmas that were not among the forms; `forms` the lemma of a form, where
    it is another one. The lemmas of the parts of speech in `lowercased` are in lower case, unless they are in a table.
    """

    def __init__(
        self,
        vocab: Vocab,
        name: str = "suffix_lemmatizer",
        *,
        overwrite: bool = False,
        scorer: Optional[Callable[..., Any]] = lemmatizer_score,
    ) -> None:
        self.vocab = vocab
        self.name = name
        self.overwrite = overwrite
        self.scorer = scorer
        self.forms: Dict[str, Dict[str, str]] = {}
        self.lowercase_forms: Dict[str, Dict[str, str]] = {}
        self.rules: Dict[str, Dict[str, Rule]] = {}
        self.lowercased: List[str] = []
        self._cache: Dict[Tuple[int, int], int] = {}  # lemma by form and part of speech

    def __call__(self, doc: Doc) -> Doc:
        """Set the lemmas of the tokens. Warns (W108 of spaCy) of tokens without a part of speech, which keep their
        form.

        RAISES (ValueError): EL098 if the component is not initialized.
        """
        if not self.rules:
            raise ValueError(Errors.EL098.format(name=self.name))
        if len(doc) == 0:
            return doc
        rows = doc.to_array([ORTH, POS, LEMMA])
        if not rows[:, 1].all():
            warnings.warn(SpacyWarnings.W108, stacklevel=2)
        if len(self._cache) > MAX_CACHED:
            self._cache.clear()
        for row, (orth, pos, lemma) in enumerate(rows.tolist()):
            if self.overwrite or not lemma:
                rows[row, 2] = self._cache.get((orth, pos)) or self._find(orth, pos)
        doc.from_array([LEMMA], rows[:, 2:])
        return doc

    def _find(self, orth: int, pos: int) -> int:
        strings = self.vocab.strings
        lemma: int = strings.add(self.lemmatize(strings[orth], strings[pos] if pos else ""))
        self._cache[orth, pos] = lemma
        return lemma

    def lemmatize(self, form: str, pos: str) -> str:
        """form (str): A form.
        pos (str): Its part of speech, such as "NOUN".
        RETURNS (str): Its lemma.
        """
        forms, lowercase_forms = self.forms.get(pos, {}), self.lowercase_forms.get(pos, {})
        return forms.get(form) or lowercase_forms.get(form.lower()) or self._apply_rules(form, pos)

    def _apply_rules(self, form: str, pos: str) -> str:
        base, rules = form.lower() if pos in self.lowercased else form, self.rules.get(pos, {})
        for start in range(len(base) + 1):
            n_cut, ending = rules.get(base[start:], (len(base), ""))
            if len(base) - n_cut >= MIN_STEM:
                return base[: len(base) - n_cut] + ending
        return base

    # Training

    def initialize(self, get_examples: Callable[[], Iterable[Example]], *, nlp: Optional[Language] = None) -> None:
        """Learn the tables from tokens with a lemma and a part of speech.

        RAISES (ValueError): If no token of the examples has both.
        """
        validate_get_examples(get_examples, "SuffixLemmatizer.initialize")
        by_pos: DefaultDict[str, Lemmas] = defaultdict(lambda: defaultdict(Counter))
        for eg in get_examples():
            for token in eg.reference:
                if token.lemma and token.pos:
                    by_pos[token.pos_][token.text][token.lemma_] += 1
        if not by_pos:
            raise ValueError(
                f"The component '{self.name}' has no tables: no token in the training examples has a lemma and a part "
                "of speech. Annotate both (token.lemma, token.pos)."
            )
        self.forms, self.lowercase_forms, self.rules, self._cache = {}, {}, {}, {}
        self.lowercased = sorted(pos for pos, lemmas in by_pos.items() if _is_lowercased(lemmas))
        for pos, lemmas in by_pos.items():  # each table has only what `lemmatize` gets wrong with those before it
            self.rules[pos] = _learn_rules(lemmas, lowercase=pos in self.lowercased)
            merged = _merge(lemmas, str.lower)
            for lemma in sorted({lemma for counts in lemmas.values() for lemma in counts} - merged.keys()):
                if lemma == lemma.lower():  # "sing", where only "sang" and "sings" were seen
                    merged[lemma][lemma] += 1
            for tables, counts in ((self.lowercase_forms, merged), (self.forms, lemmas)):
                tables[pos] = {form: lemma for form, lemma in _choose(counts) if self.lemmatize(form, pos) != lemma}

    # Serialization

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """RETURNS (bytes): The tables."""
        text: str = srsly.json_dumps({name: getattr(self, name) for name in TABLES})
        return text.encode("utf8")

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "SuffixLemmatizer":
        """RETURNS (SuffixLemmatizer): This component, with tables of `to_bytes`.
        RAISES (ValueError): For other bytes.
        """
        try:
            tables = srsly.json_loads(bytes_data.decode("utf8"))
            missing = [name for name in TABLES if name not in tables]
        except (ValueError, TypeError) as e:
            raise ValueError(f"The tables of '{self.name}' are not JSON: {e}. Save the pipeline again.") from e
        if missing:
            raise ValueError(f"The tables of '{self.name}' have no {', '.join(missing)}. Save the pipeline again.")
        for name in TABLES:
            setattr(self, name, tables[name])
        self._cache = {}
        return self

    def to_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> None:
        """path (Union[str, Path]): A folder, which is created; the tables are JSON."""
        Path(path).mkdir(parents=True, exist_ok=True)
        (Path(path) / FILE).write_bytes(self.to_bytes())

    def from_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> "SuffixLemmatizer":
        """RETURNS (SuffixLemmatizer): This component, with tables of `to_disk`."""
        return self.from_bytes((Path(path) / FILE).read_bytes())


def _choose(lemmas: Lemmas) -> Iterable[Tuple[str, str]]:
    """YIELDS (Tuple[str, str]): A form and its most frequent lemma."""
    return ((form, counts.most_common(1)[0][0]) for form, counts in lemmas.items())


def _merge(lemmas: Lemmas, key: Callable[[str], str]) -> Lemmas:
    """RETURNS (Lemmas): Counts of forms that have the same key."""
    merged: Lemmas = defaultdict(Counter)
    for form, counts in lemmas.items():
        merged[key(form)].update(counts)
    return merged


def _is_lowercased(lemmas: Lemmas) -> bool:
    """RETURNS (bool): Whether most forms with an upper-case letter have lemmas without one."""
    cases = [lemma == lemma.lower() for form, lemma in _choose(lemmas) if form != form.lower()]
    return 2 * sum(cases) >= len(cases)


def _learn_rules(lemmas: Lemmas, *, lowercase: bool) -> Dict[str, Rule]:
    """RETURNS (Dict[str, Rule]): The most frequent rule for each suffix, without those that a shorter one says."""
    counts: DefaultDict[str, Counter[Rule]] = defaultdict(Counter)
    for form, lemma in _choose(_merge(lemmas, str.lower) if lowercase else lemmas):
        n_shared = next(
            (i for i, pair in enumerate(zip(form, lemma)) if pair[0] != pair[1]), min(len(form), len(lemma))
        )
        if n_shared:
            for start in range(n_shared, max(n_shared - MAX_CONTEXT, 0) - 1, -1):
                counts[form[start:]][len(form) - n_shared, lemma[n_shared:]] += 1
    rules: Dict[str, Rule] = {}
    for suffix in sorted(counts, key=len):
        rule, _ = counts[suffix].most_common(1)[0]
        shorter = next((rules[suffix[i:]] for i in range(1, len(suffix) + 1) if suffix[i:] in rules), (0, ""))
        if counts[suffix].total() >= MIN_FORMS and rule != shorter:
            rules[suffix] = rule
    return rules
