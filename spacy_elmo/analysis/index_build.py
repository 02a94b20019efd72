"""Fill an index: read documents, compute vectors in bounded memory, store them batch by batch.

Each batch is one transaction, with how far its documents have been read. A build that is stopped or killed continues
after its last batch. Unchanged documents are skipped, changed documents are replaced. An index that is built again
(`start_replacement`) grows in a folder inside the old one, whose files it replaces at the end.
"""

import hashlib
import json
import shutil
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ..corpora.lines import Counts
from ..corpora.records import SURROGATE, Fields, find_field
from ..corpora.shards import FileShard, Shard
from ..corpora.signatures import REPLACEMENT
from ..corpora.sources import Source, import_arrow
from ..corpora.texts import Record, make_nlp
from ..errors import Errors
from ..inference.bilm import BiLM
from ..util import batched, describe_changes, has_faiss
from .neighbors import LayerName
from .token_store import DOCUMENT, STORE_FILE, LockedError, StoredDocument, TokenStore, Value, to_stored
from .vector_search import EXACT_TOKENS, SEARCH_FILES, OnProgress, is_search_lost, require_faiss, write_search
from .vectors import Vectors, to_units

INDEX_BATCH_TOKENS = 16_000
LARGEST = 2**63  # SQLite stores smaller numbers
MAX_DOCUMENTS = 10_000  # whose fields are stored in one transaction
MAX_SENTENCE_WORDS = 500  # of a stored sentence; longer ones are split
NEW = "new.part"  # folder of an index that replaces another
# Settings that must be the same when an index is changed.
FIXED = ("bilm_digest", "layer", "content_words", "precision", "reading")
Keep = Callable[[str], bool]
OnEnd = Callable[[str, int], Any]  # name of the file, number of its documents


@dataclass(frozen=True)
class Document:
    """A text that is added, replaced and deleted as a whole.

    name (str): Unique in the index.
    digest (str): Changes with the text; "" if unknown, so that the document is always read again.
    read (Callable[[int], Iterator[Record]]): Its records, without the first n.
    fields (Fields): Further metadata. A change does not change the digest.
    """

    name: str
    digest: str
    read: Callable[[int], Iterator[Record]]
    fields: Fields = field(default_factory=dict)


def find_documents(shards: Iterable[Shard], counts: Counts, on_end: Optional[OnEnd] = None) -> Iterator[Document]:
    """A file of plain text is one document, named by its path. Every line of JSON, Doc or row of a data set is one,
    named by its file and its number, from 1.

    counts (Counts): Empty records and invalid UTF-8 are added to it.
    on_end (Optional[OnEnd]): Called at the end of each file with numbered documents, for
        `IndexBuilder.delete_above`.
    YIELDS (Document): Not yet read.
    """
    for shard in shards:
        if isinstance(shard, FileShard) and shard.kind == "text":
            yield Document(_name(shard), _digest_text(shard.source), partial(_read_shard, shard, counts))
            continue
        n_read = 0
        for n_read, (record, fields) in enumerate(shard.read_documents(counts), start=1):
            digest = hashlib.sha256(json.dumps(record).encode("utf8")).hexdigest()
            yield Document(f"{_name(shard)}#{n_read}", digest, partial(_skip, [record]), fields)
        if on_end is not None:
            on_end(_name(shard), n_read)


def use_stored_vectors(shards: Iterable[Shard], bilm: BiLM, layer: LayerName) -> int:
    """Let Parquet files of `elmo embed` give the vectors that they have, instead of computing them again; files of
    another biLM, in another precision or without the layer are not used.

    RETURNS (int): Number of files whose vectors are used.
    """
    expected = {"fingerprint": bilm.digest, "precision": bilm.precision, "pool": None}
    column = "elmo" if layer == "mean" else f"elmo_layer_{layer}"
    n_files = 0
    for shard in shards:
        if isinstance(shard, FileShard) and shard.kind == "parquet":
            with shard.source.look().open_at_random() as file:
                schema = import_arrow("pyarrow.parquet", shard.source.name).read_schema(file)
            meta = json.loads((schema.metadata or {}).get(b"spacy_elmo", b"{}"))
            if column in schema.names and all(meta.get(name, "") == value for name, value in expected.items()):
                shard.vectors = column
                n_files += 1
    return n_files


def _read_shard(shard: Shard, counts: Counts, n_skipped: int) -> Iterator[Record]:
    return shard.read_records(counts, skip=n_skipped)


def _skip(records: List[Record], n_skipped: int) -> Iterator[Record]:
    return iter(records[n_skipped:])


def _name(shard: Shard) -> str:
    return shard.name if shard.source is None else shard.source.place


def _digest_text(source: Source) -> str:
    if source.stream is not None:  # which is read once
        return ""
    digest = hashlib.sha256()
    with source.open_as_text() as file:
        while content := file.read(1 << 20):
            digest.update(content)
    return digest.hexdigest()


def open_for_writing(path: Path, settings: Dict[str, Any]) -> TokenStore:
    """Open an index to add to it, or create a new index.

    RETURNS (TokenStore): Locked against other processes.
    RAISES (ValueError): EL390 for a folder with other files, EL393 for an index with other settings, EL401 if another
        process writes it.
    """
    if path.exists() and (not path.is_dir() or (any(path.iterdir()) and not (path / STORE_FILE).is_file())):
        raise ValueError(
            Errors.EL390.format(path=path, problem=f"it has no file {STORE_FILE}, and is not an empty folder")
        )
    is_new = not (path / STORE_FILE).is_file()
    path.mkdir(parents=True, exist_ok=True)
    store = TokenStore(path, is_new=is_new, can_write=True)
    with store.close_on_error():
        stored = store.read_meta().get("settings")
        if stored is None:
            with store.change():
                store.write_meta(settings=settings)
        elif differences := find_differences(stored, settings):
            raise ValueError(Errors.EL393.format(path=path, differences="; ".join(differences)))
    return store


def read_settings(path: Path, *, is_needed: bool) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Settings of an index, complete or not, and the names of its "fields"; empty without an
    index.
    RAISES (ValueError): EL390 if there is no index, but it is needed.
    """
    if not is_needed and not (path / STORE_FILE).is_file():
        return {}
    with closing(TokenStore(path)) as store:
        fields = [name for name in store.field_names() if name != DOCUMENT]
        return {**(store.read_meta().get("settings") or {}), "fields": fields}


def make_filter(stop_words: str) -> Optional[Keep]:
    """stop_words (str): Language of the stop words; "" to keep all words.
    RETURNS (Optional[Keep]): Whether a word is stored; None for all of them.
    """
    if not stop_words:
        return None
    stops = make_nlp(stop_words).Defaults.stop_words
    return lambda word: word.lower() not in stops and any(map(str.isalpha, word))


def find_differences(before: Dict[str, Any], now: Dict[str, Any]) -> List[str]:
    """RETURNS (List[str]): A text for each setting (see `make_settings`) that changes the vectors and differs."""
    return describe_changes(*({key: settings.get(key) for key in FIXED} for settings in (before, now)))


def make_settings(
    bilm: BiLM, *, name: str, layer: LayerName, content_words: str, reading: Optional[Dict[str, Any]] = None
) -> Dict[str, Any]:
    """bilm (BiLM): Computes the vectors.
    name (str): Its path.
    layer (LayerName): 0 to L, or "mean".
    content_words (str): Language of the stop words that are left out; "" for none.
    reading (Optional[Dict[str, Any]]): How texts are split, for comparison when texts are added.
    RAISES (ValueError): If the biLM has no such layer.
    """
    known = [*range(bilm.config.n_layers + 1), "mean"]
    if layer not in known:
        raise ValueError(f"The biLM '{name}' has no layer '{layer}'. Choose one of: {', '.join(map(str, known))}.")
    return {
        "bilm": name,
        "bilm_digest": bilm.digest,
        "layer": layer,
        "width": bilm.config.output_width,
        "content_words": content_words,
        "precision": bilm.precision,
        "reading": reading or {},
    }


class IndexBuilder:
    """Adds documents to an open index.

    bilm (BiLM): That of the settings.
    keep (Optional[Keep]): Whether a word is stored; None: all are. All are read.
    fields (Sequence[str]): Names of the fields of documents that are stored.
    batch_tokens (int): Tokens of a transaction.
    exact_tokens (int): Tokens up to which the search is exact.
    """

    def __init__(
        self,
        store: TokenStore,
        bilm: BiLM,
        *,
        keep: Optional[Keep] = None,
        fields: Sequence[str] = (),
        batch_tokens: int = INDEX_BATCH_TOKENS,
        exact_tokens: int = EXACT_TOKENS,
    ) -> None:
        self.store = store
        self.bilm = bilm
        self.keep: Keep = keep or (lambda word: True)
        self.batch_tokens = batch_tokens
        self.exact_tokens = exact_tokens
        if DOCUMENT in fields:
            raise ValueError(f"A field cannot be named '{DOCUMENT}', which is the name of a document. Rename it.")
        self.fields = list(fields)
        self.layer: LayerName = store.read_meta()["settings"]["layer"]
        self.is_stopped = False
        self.n_unchanged = self.n_replaced = self.n_read = self.n_dropped = self.n_updated = 0
        self.n_documents = 0
        self.n_with: Counter[str] = Counter()  # how many of them have a field, by its name
        self.known_fields: List[str] = []  # of the first document that has any

    def stop(self) -> None:
        """Stop after the current batch."""
        self.is_stopped = True

    def add(
        self,
        documents: Iterable[Document],
        progress: Optional[OnProgress] = None,
        on_sentence: Optional[Callable[[Sequence[str]], Any]] = None,
    ) -> None:
        """Read documents, except those that the index has.

        documents (Iterable[Document]): In any order.
        progress (Optional[OnProgress]): Called with numbers of tokens read.
        on_sentence (Optional[Callable[[Sequence[str]], Any]]): Called with the words of each sentence read.
        RAISES (ValueError): If there are too many tokens for exact search, and Faiss is not installed; for
            texts that cannot be read.
        """
        for batch in self._batches(documents):
            if on_sentence is not None:
                for _, words in batch.sentences:
                    on_sentence(words)
            n_tokens = sum(len(words) for _, words in batch.sentences)
            vectors = self._encode(batch)
            self._write(batch, vectors)
            if not has_faiss and self.store.read_meta()["next_id"] > self.exact_tokens:
                require_faiss(self.store.count("token"), self.exact_tokens)  # now, not after hours
            self.n_read += n_tokens
            if progress is not None:
                progress(n_tokens)
            if self.is_stopped:
                return

    def check_streams(self, shards: Iterable[Shard], deleted: Sequence[str] = ()) -> None:
        """RAISES (ValueError): For a stream whose name a document of the index has, except for those that are `deleted`
        before it is read: nothing shows whether it is the same text.
        """
        for shard in shards:
            if shard.source is None or shard.source.stream is None:
                continue
            name = _name(shard)
            stored = [name] * (self.store.find_document(name) is not None) + self.store.find_numbered(name, 0)
            if same := [document for document in stored if document not in deleted]:
                shard.source.stream.close()  # after a first look
                raise ValueError(
                    f"The index '{self.store.path}' has a document '{same[0]}' already, and '{name}' is a stream (a "
                    "pipe, a device or stdin), which has no name that would show whether it is the same text. Write it "
                    f"to a file, delete the document first (`delete`), or build the index anew (`force=True`)."
                )

    def delete(self, name: str) -> int:
        """RETURNS (int): Number of tokens of the document, which is deleted; see `require`."""
        self.require(name)
        with self.store.change():
            self.store.write_meta(search=None)
            return self.store.delete_document(name)

    def delete_above(self, name: str, n: int) -> None:
        """Delete the documents `name#N` of a file that has become shorter: those with an N above its last number."""
        names = self.store.find_numbered(name, n)
        if names:
            with self.store.change():
                self.store.write_meta(search=None)
                for dropped in names:
                    self.store.delete_document(dropped)
            self.n_dropped += len(names)

    def require(self, name: str) -> None:
        """RAISES (ValueError): If there is no document of this name."""
        if self.store.find_document(name) is None:
            known = ", ".join(
                stored_name for (stored_name,) in self.store.fetch("SELECT name FROM document ORDER BY name LIMIT 5")
            )
            n = self.store.count("document")
            raise ValueError(
                f"The index '{self.store.path}' has no document '{name}'. It has {n} documents, for instance: "
                f"{known or 'none'}."
            )

    def finish(self, progress: Optional[OnProgress] = None) -> None:
        """Make the index searchable, if anything has changed or the search file is lost. `progress`: see `add`."""
        meta = self.store.read_meta()
        if meta.get("search") is None or is_search_lost(self.store):
            width = meta["settings"]["width"]
            write_search(self.store, width, exact_tokens=self.exact_tokens, progress=progress)

    def _batches(self, documents: Iterable[Document]) -> "Iterator[_Batch]":
        """Batches of the sentences that the index does not have."""
        batch = _Batch()
        for document in documents:
            name, fields = document.name, self._pick(document)
            stored = self.store.find_document(name)
            has_changed = stored is not None and (document.digest == "" or stored.digest != document.digest)
            if stored is not None and stored.is_complete and not has_changed:
                self.n_unchanged += 1
                if self.fields and {DOCUMENT: name, **fields} != self.store.read_fields([name])[name]:
                    batch.fields[name] = fields
                    self.n_updated += 1
                if len(batch.fields) >= MAX_DOCUMENTS:
                    yield batch
                    batch = _Batch()
                continue
            if has_changed:
                batch.replaced.append(name)
                self.n_replaced += 1
            batch.fields[name] = fields
            n_records = 0 if stored is None or has_changed else stored.n_records
            rows = getattr(document.fields, "vectors", None)  # of all its sentences
            for record in document.read(n_records):
                n_records += 1
                for sentence in record:
                    batch.add(name, sentence, rows)
                    rows = None if rows is None else rows[len(sentence) :]
                if batch.n_tokens >= self.batch_tokens:
                    batch.progress[name] = StoredDocument(document.digest, n_records, is_complete=False)
                    yield batch
                    batch = _Batch()
            batch.progress[name] = StoredDocument(document.digest, n_records, is_complete=True)
        if batch.progress or batch.fields:
            yield batch

    def _pick(self, document: Document) -> Dict[str, Value]:
        """RETURNS (Dict[str, Value]): Those of the fields to store that the document has."""
        values = {name: _to_value(document, name) for name in self.fields}
        present = {name: value for name, value in values.items() if value is not None}
        self.n_documents += 1
        self.n_with.update(present.keys())
        self.known_fields = self.known_fields or list(map(str, document.fields))
        return present

    def _encode(self, batch: "_Batch") -> Vectors:
        """RETURNS (Vectors): Shape (N, D), the unit vectors of all tokens: those that were read, or computed now."""
        sentences = [words for _, words in batch.sentences]
        if len(batch.vectors) == len(sentences) > 0:
            return np.concatenate([to_units(rows.astype("float32")) for rows in batch.vectors])
        stacks = [np.empty((0, self.bilm.config.output_width), dtype="float32")]
        for _, _, layers in self.bilm.iter_encode(sentences, reuse_memory=True):
            chosen = layers.mean(0) if self.layer == "mean" else layers[int(self.layer)]
            stacks.append(to_units(chosen.cpu().numpy()))
        return np.concatenate(stacks)

    def _write(self, batch: "_Batch", vectors: Vectors) -> None:
        with self.store.change():
            if batch.progress:
                self.store.write_meta(search=None)
            for name in batch.replaced:
                self.store.delete_document(name)
            items = batch.progress.items()
            document_ids = {name: self.store.set_document(name, *progress) for name, progress in items}
            for name, fields in batch.fields.items():
                self.store.set_fields(name, fields)
            sentences, rows, first = [], [], 0
            for name, words in batch.sentences:
                places = [place for place, word in enumerate(words) if self.keep(word)]
                rows += [first + place for place in places]
                first += len(words)
                if places:
                    sentences.append((document_ids[name], words, places))
            self.store.add_sentences(sentences, vectors[np.asarray(rows, dtype="int64")])


class _Batch:
    """Sentences of one transaction, how far their documents have been read, and fields."""

    def __init__(self) -> None:
        self.sentences: List[Tuple[str, List[str]]] = []
        self.progress: Dict[str, StoredDocument] = {}
        self.fields: Dict[str, Dict[str, Value]] = {}
        self.replaced: List[str] = []
        self.vectors: List[Vectors] = []  # of the sentences, if they were read
        self.n_tokens = 0

    def add(self, name: str, words: Sequence[str], rows: Optional[Vectors]) -> None:
        for segment in batched(words, MAX_SENTENCE_WORDS):
            self.sentences.append((name, segment))
            if rows is not None:
                self.vectors.append(rows[: len(segment)])
                rows = rows[len(segment) :]
            self.n_tokens += len(segment)


def _to_value(document: Document, name: str) -> Optional[Value]:
    """RETURNS (Optional[Value]): A field; None if it is missing, null, an empty text, NaN or infinite.
    RAISES (ValueError): For a list or an object.
    """
    value = find_field(document.fields, name)
    if isinstance(value, (bool, date)):
        return str(to_stored(value))
    if isinstance(value, str):
        return SURROGATE.sub(REPLACEMENT, value).strip() or None
    if value is not None and not isinstance(value, (int, float)):
        raise ValueError(
            f"The field '{name}' of '{document.name}' is {value!r:.80}, should be a text or a number. Change it, or "
            "leave the field out of `keep`."
        )
    return value if value is None or abs(value) < LARGEST else None


def start_replacement(path: Path) -> Path:
    """RETURNS (Path): Folder for the new index: `path` itself if it has no index, otherwise a new folder inside it.
    RAISES (ValueError): EL401 if another process writes the index, or replaces it.
    """
    if not (path / STORE_FILE).is_file():
        return path
    _check_unlocked(path)
    new = path / NEW
    if new.exists():  # of a build that was killed
        _check_unlocked(new)
        shutil.rmtree(new)
    return new


def replace_index(path: Path, new: Path) -> None:
    """Replace an index by a complete new index, which `start_replacement` gave and which is closed. Other files stay.
    The step that counts is one rename: a kill before it leaves the old index, a kill after it the new one.

    RAISES (ValueError): EL401 if another process writes the old index.
    """
    _check_unlocked(path)
    names = [file.name for file in new.glob(SEARCH_FILES)]
    for name in names:
        (new / name).replace(path / name)
    for journal in path.glob(f"{STORE_FILE}-*"):  # it would be applied to the new file
        journal.unlink()
    (new / STORE_FILE).replace(path / STORE_FILE)
    for file in path.glob(SEARCH_FILES):
        if file.name not in names:
            file.unlink()
    shutil.rmtree(new)


def _check_unlocked(path: Path) -> None:
    try:
        TokenStore(path, can_write=True).close()
    except LockedError:
        raise
    except ValueError:  # damaged: it is replaced
        pass
