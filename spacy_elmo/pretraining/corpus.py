"""A corpus as a stream of tokenized sentences, and its vocabulary."""

import gzip
from collections import Counter
from pathlib import Path
from typing import Iterable, Iterator, List, Sequence, TextIO, cast

from ..errors import Errors
from ..text.characters import SENTENCE_BEGIN, SENTENCE_END
from ..text.vocabulary import UNKNOWN, Vocabulary


def read_sentences(paths: Sequence[Path]) -> Iterator[List[str]]:
    """Stream plain or gzip text, one tokenized sentence a line, tokens separated by spaces.

    paths (Sequence[Path]): Files, read in the order given; bytes that are not UTF-8 become U+FFFD.
    YIELDS (List[str]): The tokens of one sentence; empty lines are passed over.
    """
    for path in paths:
        with _open_text(path) as lines:
            for line in lines:
                tokens = line.split()
                if tokens:
                    yield tokens


def repeat_sentences(paths: Sequence[Path]) -> Iterator[List[str]]:
    """The same, over and over.

    RAISES (ValueError): EL101 if there is not one sentence.
    """
    while True:
        is_empty = True
        for tokens in read_sentences(paths):
            is_empty = False
            yield tokens
        if is_empty:
            raise ValueError(Errors.EL101.format(source=", ".join(str(path) for path in paths)))


def count_vocabulary(sentences: Iterable[Sequence[str]], n_words: int) -> Vocabulary:
    """The most frequent words, most frequent first, ties by spelling.

    sentences (Iterable[Sequence[str]]): The training text.
    n_words (int): Words to keep, without the three special ones in front.
    RETURNS (Vocabulary): `<S>`, `</S>`, `<UNK>`, then the words.
    """
    counts: Counter[str] = Counter()
    for tokens in sentences:
        counts.update(tokens)
    special = (SENTENCE_BEGIN, SENTENCE_END, UNKNOWN)
    for mark in special:
        counts.pop(mark, None)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return Vocabulary([*special, *(word for word, _ in ranked[:n_words])])


def _open_text(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return cast(TextIO, gzip.open(path, "rt", encoding="utf8", errors="replace"))
    return path.open(encoding="utf8", errors="replace")
