"""Labelled text: sentences of Universal Dependencies, and sentences with word senses."""

import sys
from dataclasses import dataclass
from typing import Annotated, Any, Iterator, List, NamedTuple, Tuple, Union

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass as checked_dataclass
from spacy.tokens import Doc
from spacy.vocab import Vocab

from ..files import AnyPath
from ..settings import Problem, WholeNumber, check_record, list_problems, require
from .lines import decode_line, parse_line, read_lines
from .records import stream_json
from .sources import Source, make_source

N_COLUMNS = 10
NEW_DOCUMENT = b"# newdoc"
EMPTY_COLUMN = "_"
UPOS = frozenset("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split())


class Word(NamedTuple):
    """One syntactic word: its form, UPOS, XPOS, features and relation; "" where a column is empty."""

    form: str
    pos: str
    tag: str
    morph: str
    dep: str


def read_conllu(path: Union[AnyPath, Source], vocab: Vocab) -> Iterator[Doc]:
    """Stream the documents of a file, or its sentences if the file does not mark documents (`# newdoc`).

    path (Union[AnyPath, Source]): CoNLL-U in UTF-8, plain or compressed.
    vocab (Vocab): Vocabulary of the Docs.
    YIELDS (Doc): With sentence boundaries, `pos_`, `tag_`, `morph` and `dep_`; heads are not read.
    RAISES (ValueError): For a line in another format; EL108 for a damaged file.
    """
    document: List[List[Word]] = []
    has_documents, source = False, make_source(path)
    with source.open_as_text() as file:
        words: List[Word] = []
        for n_lines, raw in enumerate(read_lines(file, longest=sys.maxsize), start=1):
            if raw.startswith(b"#"):
                if raw.startswith(NEW_DOCUMENT):
                    yield from _make_docs(document, vocab, is_one=has_documents)
                    document, has_documents = [], True
            elif raw.strip():
                words += _parse_word(raw, f"{source.name}:{n_lines}")
            elif words:
                document, words = [*document, words], []
                if not has_documents:
                    yield from _make_docs(document, vocab, is_one=False)
                    document = []
        document += [words] if words else []  # the last empty line is missing
        yield from _make_docs(document, vocab, is_one=has_documents)


def _parse_word(raw: bytes, where: str) -> List[Word]:
    """RETURNS (List[Word]): The word, nothing for a multiword token or an empty node."""
    line, n_undecodable = decode_line(raw, where)
    columns = line.rstrip("\r\n").split("\t")
    word_id, form, _, pos, tag, morph, _, dep = [*columns, *[""] * 8][:8]
    problem = ""
    if n_undecodable:
        problem = "it is not UTF-8"
    elif len(columns) != N_COLUMNS:
        problem = f"it has {len(columns)} columns, divided by tabs, not {N_COLUMNS}"
    elif "-" in word_id or "." in word_id:
        return []
    elif not word_id.isdigit() or not form:
        problem = "it has no number or no form"
    elif pos != EMPTY_COLUMN and pos not in UPOS:
        problem = f"'{pos}' is not a universal part of speech"
    if problem:
        raise ValueError(f"Line {where} is not valid CoNLL-U: {problem}. Correct the line.")
    return [Word(form, *("" if value == EMPTY_COLUMN else value for value in (pos, tag, morph, dep)))]


def _make_docs(sentences: List[List[Word]], vocab: Vocab, *, is_one: bool) -> Iterator[Doc]:
    """YIELDS (Doc): One of all sentences, or one of each; none without sentences."""
    for group in [sentences] if is_one and sentences else [[sentence] for sentence in sentences]:
        words = [word for sentence in group for word in sentence]
        doc = Doc(
            vocab,
            words=[word.form for word in words],
            pos=[word.pos for word in words],
            tags=[word.tag for word in words],
            morphs=[word.morph for word in words],
            sent_starts=[i == 0 for sentence in group for i in range(len(sentence))],
        )
        for token, word in zip(doc, words):
            token.dep_ = word.dep
        yield doc


@dataclass(frozen=True)
class SenseUse:
    """One annotated token.

    position (int): Position of the token in its sentence.
    lemma (str), pos (str): Entry of the dictionary.
    sense (str): Name of the sense.
    """

    position: int
    lemma: str
    pos: str
    sense: str


def _to_annotation(item: Any) -> Any:
    """Further items of an annotation are not read."""
    return item[:4] if isinstance(item, list) else item


@checked_dataclass(config=ConfigDict(extra="ignore"))
class SenseLine:
    """A line of a file with senses."""

    doc: str
    tokens: List[Annotated[str, Field(min_length=1)]]
    senses: List[Annotated[Tuple[WholeNumber, str, str, str], BeforeValidator(_to_annotation)]]

    def __post_init__(self) -> None:
        n_tokens, text = len(self.tokens), "should be the position of a token"
        require(*((use[0] < n_tokens, Problem(("senses", i, 0), text)) for i, use in enumerate(self.senses)))


@dataclass(frozen=True)
class SenseSentence:
    """One sentence.

    document (str): Name of the document; sentences of a document follow each other.
    tokens (List[str]): All tokens.
    uses (List[SenseUse]): The annotated tokens, if there are any.
    """

    document: str
    tokens: List[str]
    uses: List[SenseUse]


def read_senses(path: Union[AnyPath, Source]) -> Iterator[SenseSentence]:
    """Stream the sentences of a file.

    path (Union[AnyPath, Source]): JSON lines or an array, plain or compressed. Empty lines are skipped.
    YIELDS (SenseSentence): In the order of the file.
    RAISES (ValueError): For a line in another format; EL108 for a damaged file.
    """
    source = make_source(path)
    with source.open_as_text() as file:
        for where, line in stream_json(file, source.name):
            if line.strip():
                yield _parse_senses(decode_line(line, where)[0], where)


def _parse_senses(line: str, where: str) -> SenseSentence:
    try:
        content, problems = check_record(SenseLine, parse_line(line))
        problem = list_problems(problems)
    except ValueError as error:
        content, problem = None, f"it is not valid JSON ({error})"
    if content is None:
        raise ValueError(
            f"Line {where} is not a sentence with word senses: {problem}. A line should be an object with 'doc', "
            "'tokens' and 'senses', a list of [position, lemma, part of speech, sense]. Correct the line."
        )
    uses = sorted((SenseUse(*use) for use in content.senses), key=lambda use: use.position)
    return SenseSentence(content.doc, content.tokens, uses)
