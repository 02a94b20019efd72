"""The tokens of an index in one SQLite file: vectors, words, sentences and documents, changed in transactions.
Documents may have fields, such as their author and their year.

A process that is killed leaves the file as it was after its last commit. Tokens have increasing numbers that are never
used again. A sentence has the number of its first stored token, so that the sentence of a token is the last one whose
number is not larger.
"""

import errno
import json
import os
import sqlite3
import weakref
from collections import Counter
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from threading import Lock
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

import numpy as np
from numpy.typing import NDArray

from ..errors import Errors
from ..util import batched
from .vectors import Vectors, to_units

TokenIds = NDArray[np.int64]
Value = Union[str, int, float]  # of a field
ItemT = TypeVar("ItemT")
STORE_FILE = "tokens.sqlite"
STORE_VERSION = 1
DTYPE = np.float16
LOCK_WAIT_S = 2.0  # for another process
TOKENS_PER_READ = 10_000  # tokens read at once
VARIABLES = 500  # of one statement; SQLite allows 999 or more
SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE document (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, digest TEXT NOT NULL,
    n_records INTEGER NOT NULL, is_complete INTEGER NOT NULL);
CREATE TABLE sentence (id INTEGER PRIMARY KEY, document INTEGER NOT NULL, n_tokens INTEGER NOT NULL,
    words TEXT NOT NULL);
CREATE TABLE word (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE, n INTEGER NOT NULL);
CREATE TABLE token (id INTEGER PRIMARY KEY, word INTEGER NOT NULL, position INTEGER NOT NULL, vector BLOB NOT NULL);
CREATE TABLE removed (id INTEGER PRIMARY KEY);
CREATE INDEX sentence_document ON sentence (document);
CREATE INDEX token_word ON token (word);
CREATE TABLE field (document INTEGER NOT NULL, name TEXT NOT NULL, value NOT NULL,
    PRIMARY KEY (document, name)) WITHOUT ROWID;
"""
SYSTEM_ERRORS = ("unable to open", "disk I/O error", "readonly database")  # of SQLite, without the file
DOCUMENT = "document"  # the field that is the name of the document
USE = """
SELECT token.id, sentence.words, token.position, document.name FROM token
JOIN sentence ON sentence.id = (SELECT max(id) FROM sentence WHERE id <= token.id)
JOIN document ON document.id = sentence.document WHERE token.id IN ({marks})
"""
OF_DOCUMENT = """
SELECT token.id FROM sentence JOIN document ON document.id = sentence.document
JOIN token ON token.id BETWEEN sentence.id AND sentence.id + sentence.n_tokens - 1 WHERE document.name = ?
"""


class StoredDocument(NamedTuple):
    """How far a document has been read: its digest, the number of records read, and whether these are all."""

    digest: str
    n_records: int
    is_complete: bool


class Use(NamedTuple):
    """One use of a word.

    word (str): As it is written.
    words (List[str]): Its sentence.
    position (int): Position of the word in the sentence, from 0.
    document (str): Name of the document.
    """

    word: str
    words: List[str]
    position: int
    document: str


def to_stored(value: Any) -> Any:
    """The value of a field as it is stored: a NumPy scalar as one of Python, a truth value or a date as a text."""
    plain = value.item() if isinstance(value, np.generic) else value
    return str(plain).lower() if isinstance(plain, (bool, date)) else plain


class LockedError(ValueError):
    """EL401: another process writes the index."""


class TokenStore:
    """An open file. Its methods may be called from several threads. It is closed by `close`, or when it is deleted.

    is_new (bool): Create the file, instead of opening an existing file.
    can_write (bool): Lock the file against other processes, to change it.
    RAISES (ValueError): EL390 if there is no such file, EL392 if it is damaged, EL401 if another process writes it.
    """

    def __init__(self, path: Path, *, is_new: bool = False, can_write: bool = False) -> None:
        self.path = path
        self._lock = Lock()
        file = path / STORE_FILE
        if not is_new and not file.is_file():
            problem = f"it has no file {STORE_FILE}" if path.is_dir() else "there is no such folder"
            raise ValueError(Errors.EL390.format(path=path, problem=problem))
        self._file = sqlite3.connect(file, check_same_thread=False, isolation_level=None, timeout=LOCK_WAIT_S)
        self._close = weakref.finalize(self, self._file.close)
        with self.close_on_error(), self._show_errors():
            self._prepare(is_new, can_write or is_new)

    def _prepare(self, is_new: bool, can_write: bool) -> None:
        self._file.execute("PRAGMA locking_mode = EXCLUSIVE" if can_write else "PRAGMA query_only = ON")
        if is_new:
            self._file.execute("PRAGMA page_size = 16384")
        if can_write:
            self._file.execute("BEGIN EXCLUSIVE")
            for statement in SCHEMA.split(";") if is_new else ():
                self._file.execute(statement)
            if is_new:
                self.write_meta(version=STORE_VERSION, next_id=1)
            self._file.execute("COMMIT")
        stored = self._file.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
        if stored is None or stored[0] != str(STORE_VERSION):
            problem = f"its version is {stored and stored[0]}, should be {STORE_VERSION}"
            raise ValueError(Errors.EL390.format(path=self.path, problem=problem))

    @contextmanager
    def _show_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._translate(error) from error

    def _translate(self, error: sqlite3.Error) -> Exception:
        """RETURNS (Exception): An error that names the index, in place of one of SQLite."""
        reason = str(error)
        if "locked" in reason:
            return LockedError(Errors.EL401.format(path=self.path))
        if "disk is full" in reason:
            return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        if any(text in reason for text in SYSTEM_ERRORS):
            remedy = "Check its permissions and the disk"
            return OSError(Errors.EL037.format(path=self.path / STORE_FILE, reason=reason, remedy=remedy))
        if isinstance(error, sqlite3.ProgrammingError):  # for instance a closed index, or a value of another type
            return ValueError(f"The index '{self.path}' cannot be read: {reason.rstrip('.')}.")
        is_other = "not a database" in reason or "no such table" in reason
        template = Errors.EL390 if is_other else Errors.EL392
        return ValueError(template.format(path=self.path, problem=f"{STORE_FILE}: {reason}"))

    @contextmanager
    def close_on_error(self) -> Iterator[None]:
        """Close the file if what follows fails: the traceback of an error keeps the store, and its lock."""
        with ExitStack() as stack:
            stack.callback(self.close)
            yield
            stack.pop_all()

    def close(self) -> None:
        """Close the file; changes that are not committed are lost."""
        self._close()

    def fetch(self, statement: str, values: Sequence[Any] = ()) -> List[Tuple[Any, ...]]:
        """RETURNS (List[Tuple[Any, ...]]): The rows that a SELECT finds. Raises EL392 if the file is damaged."""
        with self._lock, self._show_errors():
            return self._file.execute(statement, values).fetchall()

    def read_meta(self) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): Settings and state of the index."""
        return {key: json.loads(value) for key, value in self.fetch("SELECT key, value FROM meta")}

    def write_meta(self, **values: Any) -> None:
        """Store settings of JSON types; inside `change`."""
        rows = [(key, json.dumps(value)) for key, value in values.items()]
        self._file.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)

    @contextmanager
    def change(self) -> Iterator[None]:
        """All changes inside are made at the end, or not at all."""
        with self._lock, self._show_errors(), self._file:  # which commits, or rolls back
            self._file.execute("BEGIN IMMEDIATE")
            yield

    # Inside `change` only.

    def set_document(self, name: str, digest: str, n_records: int, is_complete: bool) -> int:
        """RETURNS (int): The number of a document; how far it has been read is stored."""
        statement = (
            "INSERT INTO document (name, digest, n_records, is_complete) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO "
            "UPDATE SET digest = excluded.digest, n_records = excluded.n_records, is_complete = excluded.is_complete"
        )
        self._file.execute(statement, (name, digest, n_records, is_complete))
        (document_id,) = self._file.execute("SELECT id FROM document WHERE name = ?", (name,)).fetchone()
        return int(document_id)

    def set_fields(self, document: str, fields: Mapping[str, Value]) -> None:
        """Store the fields of a document by its name, instead of those that it has."""
        (document_id,) = self._file.execute("SELECT id FROM document WHERE name = ?", (document,)).fetchone()
        self._file.execute("DELETE FROM field WHERE document = ?", (document_id,))
        rows = [(document_id, name, value) for name, value in fields.items()]
        self._file.executemany("INSERT INTO field VALUES (?, ?, ?)", rows)

    def add_sentences(self, sentences: Sequence[Tuple[int, List[str], List[int]]], vectors: Vectors) -> None:
        """Store tokens with their sentences.

        sentences (Sequence[Tuple[int, List[str], List[int]]]): Number of the document, words, and the positions of the
            tokens to store, at least one.
        vectors (Vectors): Shape (N, D), unit vectors of all stored tokens.
        """
        (next_id,) = self._file.execute("SELECT value FROM meta WHERE key = 'next_id'").fetchone()
        first = token_id = int(next_id)
        texts = [words[position].lower() for _, words, positions in sentences for position in positions]
        count = "INSERT INTO word (text, n) VALUES (?, ?) ON CONFLICT (text) DO UPDATE SET n = n + excluded.n"
        counts, find = Counter(texts), "SELECT id FROM word WHERE text = ?"
        self._file.executemany(count, counts.items())
        word_ids = {text: int(self._file.execute(find, (text,)).fetchone()[0]) for text in counts}
        places = []
        for document, words, positions in sentences:
            row = (token_id, document, len(positions), json.dumps(words, ensure_ascii=False))
            self._file.execute("INSERT INTO sentence VALUES (?, ?, ?, ?)", row)
            places += positions
            token_id += len(positions)
        rows = zip(
            range(first, token_id), (word_ids[text] for text in texts), places, map(bytes, vectors.astype(DTYPE))
        )
        self._file.executemany("INSERT INTO token VALUES (?, ?, ?, ?)", rows)
        self.write_meta(next_id=token_id)

    def delete_document(self, name: str) -> int:
        """RETURNS (int): Number of tokens deleted, with the sentences of the document."""
        before = self._file.total_changes
        self._file.execute(f"INSERT INTO removed {OF_DOCUMENT}", (name,))
        n_tokens = self._file.total_changes - before
        counts = f"SELECT word, count(*) FROM token WHERE id IN ({OF_DOCUMENT}) GROUP BY word"
        rows = self._file.execute(counts, (name,)).fetchall()
        self._file.executemany("UPDATE word SET n = n - ? WHERE id = ?", [(n, word) for word, n in rows])
        self._file.execute(f"DELETE FROM token WHERE id IN ({OF_DOCUMENT})", (name,))
        for table in ("sentence", "field"):
            self._file.execute(
                f"DELETE FROM {table} WHERE document = (SELECT id FROM document WHERE name = ?)", (name,)
            )
        self._file.execute("DELETE FROM word WHERE n = 0")
        self._file.execute("DELETE FROM document WHERE name = ?", (name,))
        return n_tokens

    def forget_removed(self) -> None:
        """Clear the list of deleted tokens, when the vector search no longer has them."""
        self._file.execute("DELETE FROM removed")

    # Reading.

    def find_document(self, name: str) -> Optional[StoredDocument]:
        """How far a document has been read; None if it is not in the index."""
        rows = self.fetch("SELECT digest, n_records, is_complete FROM document WHERE name = ?", (name,))
        return StoredDocument(rows[0][0], int(rows[0][1]), bool(rows[0][2])) if rows else None

    def read_fields(self, documents: Sequence[str]) -> Dict[str, Dict[str, Value]]:
        """RETURNS (Dict[str, Dict[str, Value]]): The fields of documents, by their names."""
        fields: Dict[str, Dict[str, Value]] = {name: {DOCUMENT: name} for name in documents}
        for names, marks in _split_values(list(fields)):
            source = "document JOIN field ON field.document = document.id"
            where = f"WHERE document.name IN ({marks})"
            for document, name, value in self.fetch(
                f"SELECT document.name, field.name, value FROM {source} {where}", names
            ):
                fields[document][name] = value
        return fields

    def field_names(self) -> List[str]:
        """RETURNS (List[str]): The names of all fields."""
        rows = self.fetch("SELECT DISTINCT name FROM field ORDER BY name")
        return [DOCUMENT, *(name for (name,) in rows)]

    def read_values(self, name: str) -> List[Value]:
        """RETURNS (List[Value]): The different values of a field."""
        source, values = self._source(name)
        return [value for (value,) in self.fetch(f"SELECT DISTINCT value FROM {source} ORDER BY value", values)]

    def ids_with(self, name: str, values: Sequence[Value]) -> TokenIds:
        """RETURNS (TokenIds): The tokens of the documents whose field has one of the values."""
        rows: List[Tuple[Any, ...]] = []
        source, first = self._source(name)
        for stored, marks in _split_values([to_stored(value) for value in values]):
            tables = f"{source} AS known JOIN sentence ON sentence.document = known.document"
            rows += self.fetch(
                f"SELECT sentence.id, n_tokens FROM {tables} WHERE value IN ({marks})", [*first, *stored]
            )
        ranges = [np.arange(start, start + n, dtype="int64") for start, n in sorted(rows)]
        return np.concatenate([np.empty(0, dtype="int64"), *ranges])

    def _source(self, name: str) -> Tuple[str, List[str]]:
        """RETURNS (Tuple[str, List[str]]): A table of the values of a field by the number of the document, and its
        parameters.
        """
        if name == DOCUMENT:
            return "(SELECT id AS document, name AS value FROM document)", []
        return "(SELECT document, value FROM field WHERE name = ?)", [name]

    def find_numbered(self, name: str, above: int) -> List[str]:
        """RETURNS (List[str]): Documents `name#N` with a larger N than `above`."""
        first, end = f"{name}#", f"{name}$"  # "$" comes after "#"
        rows = self.fetch("SELECT name FROM document WHERE name >= ? AND name < ?", (first, end))
        suffixes = {text: text[len(first) :] for (text,) in rows}
        return [text for text, n in suffixes.items() if n.isascii() and n.isdecimal() and int(n) > above]

    def count(self, table: str) -> int:
        """RETURNS (int): Number of rows of a table."""
        return int(self.fetch(f"SELECT count(*) FROM {table}")[0][0])

    def read_words(self) -> Dict[str, int]:
        """RETURNS (Dict[str, int]): The words in lower case with their counts, the most frequent first."""
        return dict(self.fetch("SELECT text, n FROM word ORDER BY n DESC, text"))

    def ids_of(self, word: str) -> TokenIds:
        """RETURNS (TokenIds): The tokens of a word in lower case."""
        rows = self.fetch("SELECT id FROM token WHERE word = (SELECT id FROM word WHERE text = ?) ORDER BY id", (word,))
        return np.asarray([token_id for (token_id,) in rows], dtype="int64")

    def removed_ids(self) -> TokenIds:
        """RETURNS (TokenIds): Deleted tokens that the vector search may still have."""
        return np.asarray([token_id for (token_id,) in self.fetch("SELECT id FROM removed")], dtype="int64")

    def read_vectors(self, ids: Sequence[int], width: int) -> Tuple[TokenIds, Vectors]:
        """RETURNS (Tuple[TokenIds, Vectors]): The tokens of these that exist, in increasing order, and shape (n, D)."""
        rows: List[Tuple[Any, ...]] = []
        for chunk, marks in _split_values(sorted(ids)):
            rows += self.fetch(f"SELECT id, vector FROM token WHERE id IN ({marks}) ORDER BY id", chunk)
        return self._unpack(rows, width)

    def iter_vectors(self, width: int, *, after: int = 0) -> Iterator[Tuple[TokenIds, Vectors]]:
        """YIELDS (Tuple[TokenIds, Vectors]): Batches of all tokens with larger numbers than `after`, see
        `read_vectors`.
        """
        while rows := self.fetch(
            f"SELECT id, vector FROM token WHERE id > ? ORDER BY id LIMIT {TOKENS_PER_READ}", (after,)
        ):
            yield self._unpack(rows, width)
            after = rows[-1][0]

    def read_uses(self, ids: Sequence[int]) -> List[Use]:
        """RETURNS (List[Use]): The uses of tokens, in the same order."""
        rows: Dict[int, Use] = {}
        for chunk, marks in _split_values(list(ids)):
            for token_id, text, position, document in self.fetch(USE.format(marks=marks), chunk):
                words = json.loads(text)
                rows[token_id] = Use(words[position], words, position, document)
        return [rows[token_id] for token_id in ids]

    def _unpack(self, rows: Sequence[Tuple[Any, ...]], width: int) -> Tuple[TokenIds, Vectors]:
        n_bytes = width * np.dtype(DTYPE).itemsize
        wrong = [len(vector) for _, vector in rows if len(vector) != n_bytes]
        if wrong:
            problem = f"a vector has {wrong[0]} bytes, should have {n_bytes}"
            raise ValueError(Errors.EL392.format(path=self.path, problem=problem))
        values = np.frombuffer(b"".join(vector for _, vector in rows), dtype=DTYPE)
        ids = np.asarray([token_id for token_id, _ in rows], dtype="int64")
        return ids, to_units(values.astype("float32").reshape(len(rows), width))


def _split_values(values: List[ItemT]) -> Iterator[Tuple[List[ItemT], str]]:
    """Parts of the values for one statement each, with their question marks."""
    return ((values, ",".join("?" * len(values))) for values in batched(values, VARIABLES))
