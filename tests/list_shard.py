"""A corpus in memory."""

from typing import Iterator, Sequence

from spacy_elmo.corpora.lines import Counts, skip_items
from spacy_elmo.corpora.shards import Shard
from spacy_elmo.corpora.texts import Record


class ListShard(Shard):
    """Sentences in memory.

    name (str): For reports.
    sentences (Sequence[Sequence[str]]): Each is a record.
    """

    def __init__(self, name: str, sentences: Sequence[Sequence[str]]) -> None:
        self.name = name
        self.sentences = sentences

    def read_records(self, counts: Counts, *, skip: int = 0) -> Iterator[Record]:
        for tokens in skip_items(iter(self.sentences), skip, name=self.name):
            counts.n_empty += not tokens
            yield [list(tokens)] if tokens else []
