"""Texts of all formats with spaCy: items of plain text, JSONL and DocBin, split into tokens and sentences."""

import json
import re
import sys
from contextlib import closing
from itertools import chain
from numbers import Number
from pathlib import Path
from typing import (
    Any,
    BinaryIO,
    Callable,
    Dict,
    Generator,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
    cast,
)

import spacy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.pipeline import Sentencizer
from spacy.tokenizer import Tokenizer  # type: ignore[import-not-found]  # compiled, without types
from spacy.tokens import Doc, DocBin, Span

from ..errors import Errors, Warnings
from ..util import is_number
from .files import (
    REPLACEMENT,
    Counts,
    OnMessage,
    format_of,
    import_arrow,
    open_address,
    open_bytes,
    parse_line,
    read_lines,
)

# The sentences of a line, paragraph, Doc or row of a data set; empty for an empty line.
Record = List[List[str]]
# A text to tokenize, a list of words, or a Doc.
Item = Union[str, List[str], Doc]
# All fields of a record of JSON or a row of a data set, its text included; empty for other texts.
Fields = Mapping[str, Any]
# An item, the number of invalid UTF-8 sequences in it, and its fields.
Read = Tuple[Item, int, Fields]


class TextRecord(NamedTuple):
    """A text of a corpus: a line, an object of JSON, a row or a Doc.

    place (str): Where it is: "FILE:LINE".
    item (Item): The text; empty if it cannot be read.
    fields (Mapping[str, Any]): Fields of its object or row that are kept: texts, numbers, or None for null.
    error (Optional[ValueError]): Why it cannot be read. The rest of a damaged file is one record.
    id (str): Its name: FILE:LINE for a line of text, FILE#N for an object, a row or a Doc, as `elmo index` names it.
    """

    place: str
    item: Item
    fields: Mapping[str, Any] = {}
    error: Optional[ValueError] = None
    id: str = ""


SURROGATE = re.compile("[\ud800-\udfff]")
SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
WHITE_SPACE = "none"  # in place of a language
MAX_RUN = 500  # characters without white space that are split into tokens; longer runs are one token
LONG_RUN = re.compile(rf"(\S{{{MAX_RUN + 1},}})( ?)")
# Strings in spaCy's vocabulary before it is replaced.
MAX_STRINGS = 300_000
PARQUET_ROWS = 1000  # read at a time
WITH_FIELDS = ("jsonl", "parquet")  # kinds of files whose texts have fields
# Punctuation that tokenizers split off; without apostrophes and hyphens.
ENDINGS = frozenset('.,;:!?…)]"”»。、，！？；：）」』؟،।')
# Tokenized English text has 1 % of tokens that end in punctuation, mostly abbreviations; raw text has 14 %.
MOST = 0.05


def read_records(
    file: str,
    nlp: Language,
    counts: Counts,
    *,
    format: str = "auto",
    is_tokenized: bool = False,
    keep: Sequence[str] = (),
    opened: Callable[[BinaryIO], object] = lambda file: None,
) -> Generator[TextRecord, None, None]:
    """Stream the texts of a file. One that cannot be read is a record with an error, so that records match lines.

    file (str): From `find_files`.
    nlp (Language): Its vocabulary is that of the Docs.
    counts (Counts): The number of unpaired surrogates replaced by U+FFFD is added to it.
    format (str): "text", "jsonl", "docbin" or "parquet"; "auto" infers it from the suffix, "text" for stdin.
    is_tokenized (bool): Whether tokens are separated by white space.
    keep (Sequence[str]): Fields of JSON objects, or columns of Parquet, that each of their records must have; they are
        None in other files, in which a text has its own "id".
    opened (Callable[[BinaryIO], object]): Called with the open file, see `open_bytes`.
    YIELDS (TextRecord): One per line, object, row or Doc; an empty line is an empty item.
    """
    kind = format if format != "auto" else format_of(file)
    raw: Generator[Tuple[str, Any], None, None]
    if kind == "docbin":
        raw = ((f"{file}, Doc {i}", doc) for i, doc in enumerate(read_docbin(file, nlp), start=1))
    else:
        raw = read_parquet(file, keep) if kind == "parquet" else _read_lines(file, kind, opened)
    nothing = dict.fromkeys(name for name in keep if name != "id")
    with closing(raw):  # an error keeps this frame, and the open file with it
        try:
            for n_records, (place, content) in enumerate(raw, start=1):
                try:
                    item, n_replaced, fields = _parse(content, kind, place, keep)
                except ValueError as error:
                    yield TextRecord(place, "", error=error)
                    continue
                counts.n_undecodable += n_replaced
                yield TextRecord(
                    place,
                    item.split() if is_tokenized and isinstance(item, str) else item,
                    fields if kind in WITH_FIELDS else nothing,
                    id=place if kind == "text" else f"{file}#{n_records}",
                )
        except ValueError as error:  # of a file that is damaged from here
            yield TextRecord(file, "", error=error)


def to_doc(item: Item, nlp: Language) -> Doc:
    """The item, tokenized by the pipeline's tokenizer if it is a text. Empty words, which spaCy does not allow, become
    spaces, whose vectors are zero, so that each word has its row.
    """
    if isinstance(item, Doc):
        return item
    return tokenize(item, nlp) if isinstance(item, str) else Doc(nlp.vocab, words=[word or " " for word in item])


def tokenize(text: str, nlp: Language) -> Doc:
    """Every text is tokenized by this function, in a time that grows with its length. spaCy's rules split signs off one
    by one and search the rest again, so that a line of 10,000 equals signs takes 53 s: for them, a run of more than
    `MAX_RUN` characters without white space is one token.
    """
    # Other tokenizers, such as that of Chinese, are linear.
    if not isinstance(nlp.tokenizer, Tokenizer) or not LONG_RUN.search(text):
        return nlp.make_doc(text)
    tokens: List[Tuple[str, bool]] = []
    start = 0
    for run in LONG_RUN.finditer(text):
        before = nlp.make_doc(text[start : run.start()])
        tokens += [*((token.text, bool(token.whitespace_)) for token in before), (run[1], bool(run[2]))]
        start = run.end()
    tokens += ((token.text, bool(token.whitespace_)) for token in nlp.make_doc(text[start:]))
    return Doc(nlp.vocab, words=[word for word, _ in tokens], spaces=[has_space for _, has_space in tokens])


def read_json(file: BinaryIO, path: object) -> Iterator[Tuple[str, bytes]]:
    """Stream JSON lines, or the elements of a JSON array, which is held in memory as a whole.

    YIELDS (Tuple[str, bytes]): Place of a record, for errors, and the record; blank lines are records of JSON lines.
    RAISES (ValueError): For an array that is not valid.
    """
    lines, start = read_lines(file, longest=sys.maxsize), []
    for line in lines:
        start.append(line)
        if line.strip():
            break
    if not start or not start[-1].lstrip().startswith(b"["):
        yield from ((f"{path}:{n_lines}", line) for n_lines, line in enumerate(chain(start, lines), start=1))
        return
    try:
        records = json.loads(b"".join(chain(start, lines)))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"Line {path}:{len(start)} is not valid JSON: {error}. Correct it: a .jsonl file has one JSON object "
            "per line, or is one JSON array of objects."
        ) from error
    for n_records, record in enumerate(records, start=1):
        yield f"{path}, element {n_records}", json.dumps(record).encode("ascii")


def parse_json(line: str, where: str) -> Read:
    """The text or the words of a line, the number of unpaired surrogates replaced by U+FFFD, and the object.

    line (str): A JSON object with `words` or `tokens`, or else with `text`; a blank line is an empty text.
    where (str): File and line number, for the error.
    RAISES (ValueError): For another line.
    """
    if not line.strip():
        return "", 0, {"text": ""}
    try:
        record = parse_line(line)
    except ValueError as error:
        raise ValueError(
            f"Line {where} is not valid JSON: {error}. Correct it: a .jsonl file has one JSON object per line, or "
            "is one JSON array of objects."
        ) from error
    record = record if isinstance(record, dict) else {}
    # A number is a count of words or tokens. Anything else is meant as words, in place of which no text is read.
    names = (name for name in ("words", "tokens") if name in record and not is_number(record[name]))
    name = next(names, "text")
    item = record.get(name)
    if isinstance(item, list):
        check_words(item, f"'{name}' of line {where}")
    elif name != "text" or not isinstance(item, str):
        raise ValueError(
            f"Line {where} is '{line[:60]}', but should be a JSON object with 'text' (a string) or 'words' (a "
            "list of strings). Correct the line."
        )
    return (*(replace_surrogates(item) if SURROGATE_ESCAPE.search(line) else (item, 0)), record)


def check_words(item: Any, where: str) -> None:
    """RAISES (ValueError): For a list of words that are not all strings; it names `where`."""
    for word in item if isinstance(item, list) else ():
        if not isinstance(word, str):
            actual = "a null" if is_missing(word) else f"{word!r} ({type(word).__name__})"
            raise ValueError(f"{where} has {actual} among its words, should have strings. Correct it, or leave it out.")


def is_missing(value: Any) -> bool:
    """RETURNS (bool): Whether a value is null: None, NaN, or what pandas or NumPy have in its place."""
    is_nan = isinstance(value, Number) and value != value
    return value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant") or is_nan


def read_docbin(file: str, nlp: Language) -> Iterator[Doc]:
    """The Docs of a file of `DocBin.to_disk`, held in memory as a whole. ValueError for an invalid file."""
    try:
        with open_bytes(Path(file)) as content:
            docs = DocBin().from_bytes(content.read())
    # zlib, msgpack and spaCy raise different errors for invalid bytes.
    except Exception as error:
        raise ValueError(
            f"'{file}' cannot be read as a DocBin: {str(error).rstrip('.')}. Write .spacy files with `DocBin.to_disk`."
        ) from error
    yield from docs.get_docs(nlp.vocab)


class Row(Dict[str, Any]):
    """Columns of a row of Parquet.

    vectors (Optional[NDArray]): Shape (T, D), of the tokens that are not blank.
    """

    vectors: Optional[NDArray[Any]] = None


def read_parquet(
    file: str, keep: Optional[Sequence[str]] = (), vectors: Optional[str] = None
) -> Generator[Tuple[str, Tuple[Item, Row]], None, None]:
    """Stream the rows of a Parquet file.

    file (str): A path or an address. Its column `words` or `tokens` (lists of strings) or `text` is read.
    keep (Optional[Sequence[str]]): Further columns; None for all but lists, such as vectors.
    vectors (Optional[str]): A column with a vector per token, as `elmo embed` writes it.
    YIELDS (Tuple[str, Tuple[Item, Row]]): The place, the text (empty for null) and the columns of a row.
    RAISES (ValueError): If it is damaged or has no column of texts or of lists of them; if pyarrow is missing.
    """
    parquet = import_arrow("pyarrow.parquet", file)
    with open_address(file) as content:
        try:
            table = parquet.ParquetFile(content)
            names = table.schema_arrow.names
        except Exception as error:  # pyarrow raises several kinds
            raise ValueError(f"'{file}' cannot be read as Parquet: {error}. Is it complete?") from error
        types = import_arrow("pyarrow.types", file)
        # As in JSON, numbers are counts of words or tokens.
        kinds = {field.name: field.type for field in table.schema_arrow}
        counts = {name for name, kind in kinds.items() if types.is_integer(kind) or types.is_floating(kind)} - {"text"}
        text = next((name for name in ("words", "tokens", "text") if name in names and name not in counts), None)
        if keep is None:
            keep = [name for name, kind in kinds.items() if not types.is_nested(kind)]
        if text is None or set(keep) - set(names):
            raise ValueError(
                f"'{file}' has the columns {', '.join(names)}, should have {', '.join(['text (or words)', *keep])}. "
                "Rename the column of the texts, and keep columns that the file has."
            )
        if not _holds_texts(kinds[text], types):
            raise ValueError(
                f"The column '{text}' of '{file}' has the type {kinds[text]}, should be strings (or lists of strings). "
                "Cast it, or rename the column of the texts to `text` or `words`."
            )
        columns = list(dict.fromkeys([text, *keep]))
        n_rows = 0
        for batch in table.iter_batches(PARQUET_ROWS, columns=columns if vectors is None else [*columns, vectors]):
            arrays = _vectors_of(batch.column(vectors)) if vectors is not None else None
            for i, row in enumerate(map(Row, batch.select(columns).to_pylist())):
                n_rows += 1
                item = row[text] if row[text] is not None else ""
                if arrays is not None and isinstance(item, list):
                    row.vectors = arrays[i][[bool(word) and not word.isspace() for word in item]]
                yield f"{file}, row {n_rows}", (item, row)


def _holds_texts(kind: Any, types: Any) -> bool:
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        kind = kind.value_type
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind) or str(kind) == "string_view"


def _vectors_of(column: Any) -> List[NDArray[Any]]:
    """RETURNS (List[NDArray]): Per row of a column of lists of fixed-size lists, shape (T, D)."""
    offsets = column.offsets.to_numpy()
    flat = column.values.flatten().to_numpy(zero_copy_only=False).reshape(-1, column.type.value_type.list_size)
    return [flat[start:end] for start, end in zip(offsets, offsets[1:])]


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


def make_nlp(lang: str, *, option: str = "--lang", instead: str = "leave it out") -> Language:
    """A pipeline with a tokenizer only.

    option (str), instead (str): Name of the setting, and its value for tokenized text, for the error.
    RAISES (ValueError): For an unknown language.
    """
    try:
        nlp = spacy.blank(lang)
    except ImportError as error:
        raise ValueError(
            f"There is no tokenizer for the language '{lang}': {error} Set {option} to a language code that "
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
    name (str): Of the text, for the error.
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


def choose_lang(lang: Optional[str], *known: Any) -> str:
    """The language that the user chooses, or else the first known language; "en" if none is known.

    *known (Any): Languages in an index, then in the meta data of a biLM; anything but a text is ignored.
    """
    return lang or next((name for name in known if isinstance(name, str) and name.strip()), "en")


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
        remedy = f"If it is, tokenize it with spaCy: --lang {lang}, or the code of another language."
        if is_chosen:
            remedy = (
                f"It is tokenized in the language of the biLM, as with --lang {lang}. Choose another language, or "
                f"--lang {WHITE_SPACE} if its tokens are separated by white space."
            )
        return Warnings.WL103.format(
            share=f"{self.n_attached / self.n_tokens:.0%}",
            source=", ".join(map(str, places)),
            example=self.example,
            remedy=remedy,
        )


def choose_tokenizer(
    lang: Optional[str],
    sentences: Iterable[List[str]],
    places: Sequence[object],
    warn: OnMessage,
    meta: Mapping[str, Any],
) -> Optional[str]:
    """How a command reads the texts of a corpus: in the language that is asked for; else raw text in that of the biLM,
    and other text at white space.

    lang (Optional[str]): The choice of the user: a language or `WHITE_SPACE`; None without a choice.
    sentences (Iterable[List[str]]): The corpus, split at white space. Its first tokens are read.
    places (Sequence[object]): Names of the texts.
    warn (OnMessage): Called with WL103 for raw text.
    meta (Mapping[str, Any]): Of the biLM, with its language.
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


def _has_tokenizer(lang: str) -> bool:
    try:
        make_nlp(lang)
    except ValueError:
        return False
    return True


def warn_of_raw_text(
    check: PunctuationCheck,
    places: Sequence[object],
    lang: Optional[str],
    warn: OnMessage,
    meta: Optional[Mapping[str, Any]] = None,
) -> None:
    """Warn if the tokens of a text that has been read, in `check`, look like raw text; `lang`, the language of its
    tokenizer, prevents the warning, which proposes that of the biLM, in `meta`.
    """
    warning = check.warning(places, choose_lang(None, (meta or {}).get("lang")))
    if warning is not None and lang is None:
        warn(warning)


def _parse(content: Any, kind: str, place: str, keep: Sequence[str]) -> Tuple[Item, int, Fields]:
    """RETURNS (Tuple[Item, int, Fields]): The text, the number of replaced surrogates, the fields kept."""
    if isinstance(content, bytes):
        content = _decode(content, place).rstrip("\r\n")
    if kind == "parquet":
        check_words(content[0], place)
        return content[0], 0, _select(content[1], keep, place)
    if kind != "jsonl":
        return content, 0, {}
    item, n_replaced, record = parse_json(content, place)
    return item, n_replaced, _select(record, keep, place) if keep else {}


def find_field(record: Mapping[str, Any], name: str) -> Any:
    """RETURNS (Any): A field, or for "meta.year" that of an object in one; None if there is none."""
    value: Any = record
    for key in [name] if name in record else name.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _select(record: Mapping[str, Any], keep: Sequence[str], place: str) -> Fields:
    """RETURNS (Fields): Texts, numbers and None; objects, lists, true and false as JSON."""
    fields = {name: find_field(record, name) for name in keep}
    if missing := [name for name in keep if fields[name] is None and name not in record]:
        raise ValueError(
            f"Line {place} does not have the field(s) {', '.join(missing)}; it has {', '.join(record) or 'none'}. Keep "
            "fields that every text has, or skip those without with --on-error skip."
        )
    as_they_are = (int, float, type(None))
    return {name: value if type(value) in as_they_are else to_text(value) for name, value in fields.items()}


def to_text(value: Any) -> str:
    """RETURNS (str): A field as text: null is empty, numbers, objects and lists are JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    is_json = isinstance(value, (bool, int, float, list, tuple, Mapping))
    return json.dumps(value, ensure_ascii=False, default=str) if is_json else str(value)


def _read_lines(file: str, kind: str, opened: Callable[[BinaryIO], object]) -> Generator[Tuple[str, bytes], None, None]:
    with open_bytes(file, opened) as content:
        if kind == "jsonl":
            yield from read_json(content, file)
        else:  # a text of any length is one item
            lines = enumerate(read_lines(content, longest=sys.maxsize), start=1)
            yield from ((f"{file}:{n_lines}", line) for n_lines, line in lines)


def _decode(line: bytes, where: str) -> str:
    try:
        return line.decode("utf8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Line {where} is not valid UTF-8: {error}. Convert the file to UTF-8, or set its format with "
            "--input-format."
        ) from error


def replace_surrogates(item: Item) -> Tuple[Item, int]:
    """Replace unpaired surrogates, which UTF-8 cannot encode and spaCy does not accept."""
    words = [item] if isinstance(item, str) else cast(List[str], item)
    replaced = [SURROGATE.subn(REPLACEMENT, word) for word in words]
    n_replaced = sum(n for _, n in replaced)
    return (replaced[0][0] if isinstance(item, str) else [word for word, _ in replaced]), n_replaced


def _clean(words: List[str]) -> List[str]:
    """Remove blank tokens, and line ends within tokens, which a vocabulary file cannot store."""
    visible = [word for word in words if word and not word.isspace()]
    if any("\n" in word or "\r" in word for word in visible):
        return [" ".join(word.split()) for word in visible]
    return visible
