"""Split Docs into the token sequences (runs) that the biLM reads, and map their rows back to Doc order."""

from dataclasses import dataclass
from typing import Dict, Iterator, List, Sequence, Tuple

import numpy
from numpy.typing import NDArray
from spacy.attrs import IS_SPACE, ORTH, SENT_START
from spacy.strings import StringStore
from spacy.tokens import Doc

from ..text.lanes import Window, split_windows
from .settings import Reading

Rows = NDArray[numpy.int64]


@dataclass(frozen=True)
class DocRuns:
    """The sequences that the biLM reads for a batch of Docs.

    runs (List[List[str]]): Words of each sequence, without space tokens, with overlaps.
    kept (List[Tuple[int, int]]): Positions of each run whose vectors are kept; the others are context.
    rows (List[Rows]): For each run, the rows of the kept positions, ascending. Rows count the tokens of all Docs.
    doc_runs (List[int]): Number of runs of each Doc.
    lengths (List[int]): Tokens of each Doc.
    """

    runs: List[List[str]]
    kept: List[Tuple[int, int]]
    rows: List[Rows]
    doc_runs: List[int]
    lengths: List[int]

    def gather(self, start: int, end: int) -> Tuple[Rows, Rows]:
        """For a slice of the runs: positions to keep in their concatenation, and the rows of these."""
        sizes = numpy.array([len(run) for run in self.runs[start:end]], dtype="int64")
        first, last = numpy.array(self.kept[start:end], dtype="int64").reshape(-1, 2).T
        counts = last - first
        shifts = (sizes.cumsum() - sizes) + first - (counts.cumsum() - counts)
        positions = numpy.repeat(shifts, counts) + numpy.arange(counts.sum())
        return positions, numpy.concatenate([positions[:0], *self.rows[start:end]])


def read_docs(docs: Sequence[Doc], settings: Reading) -> DocRuns:
    """Split Docs of any length into runs, in Doc order; a Doc without words has no run.

    RAISES (ValueError): For sentence contexts without sentence boundaries.
    """
    found = DocRuns([], [], [], [], [len(doc) for doc in docs])
    texts = _Texts()
    first_row = 0
    for doc in docs:
        n_before = len(found.runs)
        for words, places in _sequences(doc, settings.contexts, texts):
            rows = first_row + places
            for window in _cut(len(words), settings):
                found.runs.append(words[window.start : window.end])
                found.kept.append((window.keep_start - window.start, window.keep_end - window.start))
                found.rows.append(rows[window.keep_start : window.keep_end])
        found.doc_runs.append(len(found.runs) - n_before)
        first_row += len(doc)
    return found


class _Texts(Dict[int, str]):
    """Cache of the text of each hash: one string per distinct word, whatever the length of the Docs."""

    strings: StringStore

    def __missing__(self, orth: int) -> str:
        text = self[orth] = self.strings[orth]
        return text


def _cut(n_tokens: int, settings: Reading) -> List[Window]:
    """RETURNS (List[Window]): Overlapping windows; without overlap if the state is carried from one to the next."""
    if settings.state != "carry":
        return split_windows(n_tokens, settings.max_tokens, settings.overlap)
    starts = range(0, n_tokens, settings.max_tokens)
    edges = [(start, min(start + settings.max_tokens, n_tokens)) for start in starts]
    return [Window(start, end, start, end) for start, end in edges]


def _sequences(doc: Doc, contexts: str, texts: _Texts) -> Iterator[Tuple[List[str], Rows]]:
    """YIELDS (Tuple[List[str], Rows]): The words of a sequence, possibly none, and their positions in the Doc."""
    if len(doc) == 0:
        return
    texts.strings = doc.vocab.strings
    places = numpy.flatnonzero(doc.to_array(IS_SPACE) == 0)
    orths = doc.to_array(ORTH)[places]
    edges = numpy.searchsorted(places, _sequence_starts(doc, contexts)).tolist()
    for start, end in zip(edges, [*edges[1:], len(places)]):
        yield [texts[orth] for orth in orths[start:end].tolist()], places[start:end]


def _sequence_starts(doc: Doc, contexts: str) -> List[int]:
    """RETURNS (List[int]): The first token of each sequence; the first sequence starts at 0."""
    if contexts == "doc":
        return [0]
    if not doc.has_annotation("SENT_START"):
        if contexts == "sentences":
            raise ValueError(
                f"contexts is 'sentences', but a Doc has no sentence boundaries: '{doc.text[:40]}'. Add a "
                "component that sets them ('sentencizer', 'senter' or 'parser') before this one, or set "
                'contexts = "auto".'
            )
        return [0]
    if "sents" in doc.user_hooks:
        return sorted({0, *(sent.start for sent in doc.sents)})
    starts = doc.to_array(SENT_START)  # 1 begins a sentence; the first token may lack it
    starts[0] = 1
    firsts: List[int] = numpy.flatnonzero(starts == 1).tolist()
    return firsts
