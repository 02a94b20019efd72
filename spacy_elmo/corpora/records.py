"""Shards of raw text, JSONL and DocBin, split into tokens and sentences by spaCy."""

from pathlib import Path
from typing import Iterable, Iterator, Tuple

from .items import parse_json, read_docbin, read_json
from .lines import STDIN, decode, open_bytes, read_lines, skip_items
from .sentences import Read, SentenceCutter, make_nlp
from .shards import Counts, Record, Shard


class _CutShard(Shard):
    """Items of a file, split by spaCy.

    path (Path): The file.
    cutter (SentenceCutter): Splits items into sentences.
    """

    def __init__(self, path: Path, cutter: SentenceCutter) -> None:
        self.path = path
        self.name = path.name if path != STDIN else "stdin"
        self._cutter = cutter

    def read_records(self, counts: Counts, *, skip: int = 0) -> Iterator[Record]:
        """See `Shard.read_records`; a record is a line or a Doc."""
        return count_records(self._cutter.records(self._read_items(skip)), counts)

    def _read_items(self, skip: int) -> Iterator[Read]:
        raise NotImplementedError


class RawTextShard(_CutShard):
    """A file with one text per line: a paragraph or a sentence."""

    def _read_items(self, skip: int) -> Iterator[Read]:
        with open_bytes(self.path) as file:
            for line in skip_items(read_lines(file), skip, name=self.name):
                text, n_replaced = decode(line)
                yield text.strip(), n_replaced


class JsonShard(_CutShard):
    """JSON objects with `text`, `words` or `tokens`, in an array or one per line; an empty line is an empty record."""

    def _read_items(self, skip: int) -> Iterator[Read]:
        with open_bytes(self.path) as file:
            for where, line in skip_items(read_json(file, self.path), skip, name=self.name):
                text, n_replaced = decode(line)
                item, n_surrogates = parse_json(text.strip(), where)
                yield item, n_replaced + n_surrogates


class DocBinShard(_CutShard):
    """A DocBin; Docs are split at sentence boundaries if they have any. The file is held in memory as a whole."""

    def _read_items(self, skip: int) -> Iterator[Read]:
        # A vocabulary per file: DocBin adds all its strings to it, and they are freed with the file.
        docs = read_docbin(str(self.path), make_nlp("xx"))
        return ((doc, 0) for doc in skip_items(docs, skip, name=self.name))


def count_records(records: Iterable[Tuple[Record, int]], counts: Counts) -> Iterator[Record]:
    """Count records while they are streamed.

    records (Iterable[Tuple[Record, int]]): Sentences, and the number of invalid UTF-8 sequences.
    counts (Counts): Updated.
    YIELDS (Record): The sentences.
    """
    for record, n_replaced in records:
        counts.n_undecodable += n_replaced
        counts.n_empty += not record
        yield record
