"""A corpus as lists of tokens."""

from spacy_elmo.corpora.lines import Counts
from spacy_elmo.corpora.shards import find_shards


class Rows(list):
    """The rows of a data set."""

    split = None

    def skip(self, n):
        if n >= len(self):
            raise IndexError(n)  # as `datasets.Dataset` does
        return Rows(self[n:])


def read(places, **settings):
    """RETURNS (Tuple[List[List[str]], Counts]): All sentences, and what was counted."""
    counts = Counts()
    return [tokens for shard in find_shards(places, **settings) for tokens in shard.read(counts)], counts


def names(places, **settings):
    return [shard.name for shard in find_shards(places, **settings)]
