"""Corpora as shards: files, folders, patterns and data sets, each a stream of token lists."""

import os
from abc import ABC, abstractmethod
from copy import copy
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Union

from .. import util
from ..files import AnyPath, to_path
from .lines import Counts, decode_line, read_lines, skip_items
from .parquet import read_parquet
from .places import OnMessage, abbreviate, find_sources, ignore_message
from .records import Fields, ParsedItem, parse_json_text, read_docbin, stream_json, to_item
from .sources import Source, is_address
from .texts import Item, Record, SentenceCutter, make_nlp

CORPUS_FORMATS = ("auto", "text", "jsonl", "docbin", "parquet")
# Data sets of the Hugging Face `datasets` package.
DATASET_PREFIX = "hf:"
TRAIN = "train"  # the default split
COLUMNS = ("tokens", "words", "text", "sentence")  # tried in this order if no column is named
SAVED_NAMES = ("dataset_dict.json", "state.json")  # one of these is in every folder of `save_to_disk`


class Shard(ABC):
    """One file, or one split of a data set.

    name (str): For reports, and to identify the corpus when a run is resumed.
    source (Optional[Source]): The file or stream; None for a data set.
    """

    name: str
    source: Optional[Source] = None

    def identity(self) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): Plain JSON types that change with the text, as far as it is known before it is
        read: the size of a file in bytes, and the time of its last change in nanoseconds.
        """
        if self.source is None or self.source.stream is not None or not os.path.isfile(self.source.name):
            return {"name": self.name}
        file = os.stat(self.source.name)
        return {"name": self.name, "size_bytes": file.st_size, "changed_ns": file.st_mtime_ns}

    def look(self) -> "Shard":
        """RETURNS (Shard): The same one, for a first look, see `Source.look`."""
        if self.source is None:
            return self
        shard = copy(self)
        shard.source = self.source.look()
        return shard

    @abstractmethod
    def read_records(self, counts: Counts, *, skip: int = 0) -> Iterator[Record]:
        """Stream the records.

        counts (Counts): Empty records and invalid UTF-8 are added to it, when the record is yielded.
        skip (int): Number of records to skip, without tokenizing and counting them.
        YIELDS (Record): The sentences of each record; [] for an empty record.
        RAISES (ValueError): If there are fewer records than `skip`.
        """

    def read_documents(self, counts: Counts) -> Iterator[Tuple[Record, Fields]]:
        """YIELDS (Tuple[Record, Fields]): Each record with its fields, such as the author and the year of a line of
        JSON. For `counts` and errors see `read_records`.
        """
        return ((record, {}) for record in self.read_records(counts))

    def read(self, counts: Counts) -> Iterator[List[str]]:
        """The tokens of each sentence, none empty; empty records and invalid UTF-8 are added to `counts`."""
        return chain.from_iterable(self.read_records(counts))


class _CutShard(Shard):
    """Items split by spaCy."""

    def __init__(self, name: str, cutter: SentenceCutter) -> None:
        self.name, self.cutter = name, cutter

    def read_records(self, counts: Counts, *, skip: int = 0) -> Iterator[Record]:
        """See `Shard.read_records`; a record is a line, a Doc or a row."""
        return (record for record, _ in self.read_documents(counts, skip=skip))

    def read_documents(self, counts: Counts, *, skip: int = 0) -> Iterator[Tuple[Record, Fields]]:
        """See `Shard.read_documents`."""
        for item, n_replaced, fields in self._read_items(skip):
            record = self.cutter.cut(item)
            counts.n_undecodable += n_replaced
            counts.n_empty += not record
            yield record, fields

    @abstractmethod
    def _read_items(self, skip: int) -> Iterator[ParsedItem]:
        """Items without the first `skip` ones."""


class FileShard(_CutShard):
    """Items of a file: lines of text (paragraphs or sentences), JSON objects with `text`, `words` or `tokens` (one per
    line, of which empty ones are empty records, or in an array), rows of Parquet with such a column, or the Docs of a
    DocBin, which are split at sentence boundaries if they have any, and held in memory as a whole.

    vectors (Optional[str]): A column of Parquet with a vector per token, which the fields of a document then have.
    """

    source: Source
    vectors: Optional[str] = None

    def __init__(self, source: Source, cutter: SentenceCutter, format: str = "auto") -> None:
        super().__init__(source.label, cutter)
        self.source, self._format = source, format

    @property
    def kind(self) -> str:
        """RETURNS (str): Format of the file: "text", "jsonl", "docbin" or "parquet"; a stream is opened for it."""
        return self.source.format if self._format == "auto" else self._format

    def read_records(self, counts: Counts, *, skip: int = 0) -> Iterator[Record]:
        """See `Shard.read_records`; a record is a line, a Doc or a row."""
        if self.kind == "text" and self.cutter.is_plain:
            return self._read_lines(counts, skip)
        return super().read_records(counts, skip=skip)

    def _read_lines(self, counts: Counts, skip: int) -> Iterator[Record]:
        """Split lines at white space. This is the way of most corpora, and the fastest one."""
        with self.source.open_as_text() as file:
            for line in skip_items(read_lines(file), skip, name=self.name):
                text, n_replaced = decode_line(line, self.name)
                tokens = text.split()
                counts.n_undecodable += n_replaced
                if tokens:
                    yield [tokens]
                else:
                    counts.n_empty += 1
                    yield []

    def _read_items(self, skip: int) -> Iterator[ParsedItem]:
        kind = self.kind
        if kind == "docbin":
            # A vocabulary per file: DocBin adds all its strings to it, and they are freed with the file.
            docs = read_docbin(self.source, make_nlp("xx"))
            yield from ((doc, 0, {}) for doc in skip_items(docs, skip, name=self.name))
        elif kind == "parquet":
            rows = read_parquet(self.source, None, self.vectors)
            for where, (value, row) in skip_items(rows, skip, name=self.name):
                yield to_item(value, where, row, self.cutter.vocab), 0, row
        else:
            with self.source.open_as_text() as file:
                lines = (
                    stream_json(file, self.source.name)
                    if kind == "jsonl"
                    else (("", line) for line in read_lines(file))
                )
                for where, line in skip_items(lines, skip, name=self.name):
                    text, n_replaced = decode_line(line, self.name)
                    item: Item = text.strip()
                    fields: Fields = {}
                    if kind == "jsonl":
                        item, n_surrogates, fields = parse_json_text(text.strip(), where, self.cutter.vocab)
                        n_replaced += n_surrogates
                    yield item, n_replaced, fields


class DatasetShard(_CutShard):
    """The rows of one split.

    place (str): `hf:NAME[@CONFIG][:SPLIT][:COLUMN]`, NAME a folder of `save_to_disk` or an argument of
        `load_dataset`; or such a folder. The default split is "train".
    cutter (SentenceCutter): Splits rows into sentences.
    RAISES (ValueError): If `datasets` is missing, if the data set does not exist, if it
        lacks the split.
    """

    def __init__(self, place: str, cutter: SentenceCutter) -> None:
        remedy = "`pip install datasets`, or use plain or .gz text"
        util.require_package(util.has_datasets, f"Reading '{place}'", "datasets", remedy)
        named = place.startswith(DATASET_PREFIX)
        name, split, column, *_ = [*(place.removeprefix(DATASET_PREFIX).split(":") if named else [place]), "", ""]
        name = os.path.expanduser(name)
        super().__init__(f"{DATASET_PREFIX}{Path(name).name if Path(name).is_dir() else name}:{split or TRAIN}", cutter)
        self._column: Optional[str] = column or None
        self._rows = self._open(name, split)

    def identity(self) -> Dict[str, Any]:
        """See `Shard.identity`; saved data sets have a fingerprint."""
        fingerprint = getattr(self._rows, "_fingerprint", None)
        return {"name": self.name, "column": self._column, "fingerprint": fingerprint}

    def _read_items(self, skip: int) -> Iterator[ParsedItem]:
        rows = iter(self._rows)
        if skip:
            try:  # one row earlier, to check that it exists; a data set on disk with too few rows raises IndexError
                rows = iter(self._rows.skip(skip - 1))
            except IndexError:
                rows = iter(())
            skip_items(rows, 1, name=self.name, n_before=skip - 1)
        for row in rows:
            yield self._item_of(row), 0, row

    def _item_of(self, row: Mapping[str, Any]) -> Item:
        columns = [self._column] if self._column else COLUMNS
        for column in columns:
            item = row.get(column)
            if isinstance(item, (str, list, dict)):
                return to_item(item, f"The column '{column}' of the data set '{self.name}'", row, self.cutter.vocab)
        if any(column in row and row[column] is None for column in columns):
            return ""  # counted as an empty record
        described = ", ".join(f"{name} ({type(value).__name__})" for name, value in row.items())
        raise ValueError(
            f"The data set '{self.name}' has no text column: it has {described}, should have {' or '.join(columns)}. "
            "Name a column of strings or of lists of strings: hf:NAME:SPLIT:COLUMN."
        )

    def _open(self, name: str, split: str) -> Any:
        datasets: Any = import_module("datasets")
        split_name = split or TRAIN
        try:
            if _is_saved_dataset(Path(name)):
                saved = datasets.load_from_disk(name)
            else:
                name, _, config = name.partition("@")
                return datasets.load_dataset(name, config or None, split=split_name, streaming=True)
        # Many error classes: network, unknown name, split or configuration, damaged files.
        except Exception as error:
            raise ValueError(
                f"The data set '{self.name}' cannot be opened: {error}. Write it as hf:NAME[:SPLIT][:COLUMN], where "
                "NAME is an argument of `datasets.load_dataset` (NAME@CONFIG for one of its configurations) or a "
                "folder written by `save_to_disk`."
            ) from error
        # A saved folder has several splits, or a single split, whose name may differ from "train".
        if not isinstance(saved, dict) and split in ("", TRAIN, str(saved.split)):
            return saved
        splits = saved if isinstance(saved, dict) else {str(saved.split): saved}
        if split_name not in splits:
            raise ValueError(
                f"The data set '{self.name}' has no split '{split_name}', only: {', '.join(splits)}. Write "
                "hf:NAME:SPLIT with one of its splits."
            )
        return splits[split_name]


def _is_saved_dataset(path: Path) -> bool:
    """RETURNS (bool): Whether the folder was written by `save_to_disk`."""
    return any((path / name).is_file() for name in SAVED_NAMES)


def find_shards(
    places: Union[AnyPath, Sequence[AnyPath]],
    *,
    lang: Optional[str] = None,
    format: str = "auto",
    running_text: bool = False,
    on_message: OnMessage = ignore_message,
    output: Optional[AnyPath] = None,
) -> List[Shard]:
    """Find the shards of a corpus, sorted by name. A file that is named more than once is read once.

    places (Union[AnyPath, Sequence[AnyPath]]): Files; folders, searched at any depth for .txt, .jsonl, .ndjson,
        .parquet and .spacy (each also .gz, .bz2, .xz, .zst); patterns with `*` or `**`; `hf:NAME[:SPLIT][:COLUMN]` or a
        folder saved by `datasets`; "-" for stdin, which, like a pipe, can be read once.
    lang (Optional[str]): Language of the tokenizer of plain texts; None: tokens are separated by white space.
    format (str): "text", "jsonl", "docbin" or "parquet" for all files; "auto" infers it, see `Source.format`.
    running_text (bool): Split texts into sentences.
    on_message (OnMessage): Called with a message on files that are not read, or named twice.
    output (Optional[AnyPath]): What is being written, which is not read, see `find_sources`.
    RETURNS (List[Shard]): At least one shard, not yet read.
    RAISES (ValueError): For a place without texts, if `datasets` is missing, for an unknown language,
        for a name that is not UTF-8, for a data set that cannot be opened, for an unknown format.
    """
    if format not in CORPUS_FORMATS:
        raise ValueError(f"Unknown format '{format}'. Choose one of: {', '.join(CORPUS_FORMATS)}.")
    cutter = SentenceCutter(lang, running_text=running_text)
    shards: List[Shard] = []
    seen: Set[str] = set()
    repeated: List[str] = []
    for place in map(os.fsdecode, [places] if isinstance(places, (str, bytes, os.PathLike)) else places):
        is_dataset = place.startswith(DATASET_PREFIX) or _is_saved_dataset(to_path(place))
        if is_address(place):
            raise ValueError(f"Only `elmo embed` reads addresses such as '{place}'. Copy the texts to a local disk.")
        for source in [Source(place)] if is_dataset else find_sources(place, on_message, output=output):
            _reject_other_encodings(source.name)
            if (key := source.name if is_dataset else source.key) in seen:
                repeated.append(source.name)
                continue
            seen.add(key)
            shards.append(DatasetShard(place, cutter) if is_dataset else FileShard(source, cutter, format))
    if repeated:
        on_message(f"Files named more than once are read once: {abbreviate(repeated)}")
    return shards


def choose_cutter(shards: Iterable[Shard], *, lang: Optional[str] = None, running_text: bool = False) -> List[Shard]:
    """The same shards, found once, with the tokenizer of another language, see `find_shards`."""
    cutter = SentenceCutter(lang, running_text=running_text)
    changed = [copy(shard) for shard in shards]
    for shard in changed:
        if isinstance(shard, _CutShard):
            shard.cutter = cutter
    return changed


def read_first(shards: Iterable[Shard]) -> Iterator[List[str]]:
    """Stream sentences to look at, of texts that a tokenizer would split. What is read of a stream is not lost."""
    for shard in shards:
        if isinstance(shard, FileShard) and shard.kind != "docbin":
            yield from shard.look().read(Counts())


def is_stream(shards: Iterable[Shard]) -> bool:
    """RETURNS (bool): Whether a part of the text can be read only once."""
    return any(shard.source is not None and shard.source.stream is not None for shard in shards)


def read_shards(shards: Iterable[Shard], counts: Optional[Counts] = None) -> Iterator[List[str]]:
    """Stream the tokens of all sentences once, in order and without splitting; counts are added to `counts`."""
    counts = Counts() if counts is None else counts
    for shard in shards:
        for tokens in shard.read(counts):
            counts.n_sentences += 1
            counts.n_tokens += len(tokens)
            yield tokens


def _reject_other_encodings(name: str) -> None:
    """Python decodes bytes of a name that are not UTF-8 to unpaired surrogates, which JSON files cannot store."""
    escaped = name.encode("utf8", "backslashreplace").decode("utf8")
    if escaped != name:
        raise ValueError(
            f"The file name {escaped!r} is not valid UTF-8 (invalid bytes are escaped here). Models and "
            "checkpoints store the names of their texts in UTF-8. Rename the file or folder."
        )
