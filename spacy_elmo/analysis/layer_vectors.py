"""Vectors of labelled tokens, layer by layer, in bounded memory, and their nearest neighbors by cosine."""

from typing import Any, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from ..inference.bilm import BiLM
from ..pipeline.model import ElmoSettings, read_docs
from ..util import batched
from .labelled_docs import Indices, LabelledDocs
from .vectors import Vectors, to_units

# The mean of all layers, treated as an additional layer: the mix of an untrained listener.
MEAN = "mean"
MAX_VECTOR_BYTES = 2**28  # vectors of layers that are computed in one reading, 268 MB
COMPARED_AT_ONCE = 4096  # vectors; the cosines of two batches take 64 MB


def name_all(bilm: BiLM) -> List[Union[int, str]]:
    """RETURNS (List[Union[int, str]]): The layers, 0 (the token layer) to L, and "mean"."""
    return [*range(bilm.config.n_layers + 1), MEAN]


def iter_layers(
    bilm: BiLM, labelled: LabelledDocs, reading: Optional[ElmoSettings] = None
) -> Iterator[Tuple[int, int, Vectors]]:
    """Compute the vectors of labelled tokens in slices.

    bilm (BiLM): The biLM.
    labelled (LabelledDocs): N labelled tokens.
    reading (Optional[ElmoSettings]): How the biLM reads Docs, as of a component: `get_settings(elmo.model)`; None for
        the defaults.
    YIELDS (Tuple[int, int, Vectors]): start, stop and the vectors of the labelled tokens from `start` to before
        `stop`: shape (L+2, stop - start, D), the mean of the layers last.
    RAISES (ValueError): For sentence contexts without sentence boundaries.
    """
    settings = reading or ElmoSettings()
    doc_sequences = read_docs(labelled.docs, settings)
    slices = bilm.iter_encode(
        doc_sequences.sequences,
        state=settings.state,
        batch_tokens=settings.batch_tokens,
        group_lengths=doc_sequences.sequences_per_doc,
        reuse_memory=True,
    )
    for first, last, tensor in slices:
        positions, rows = doc_sequences.gather(first, last)
        if not len(rows):
            continue
        start = int(labelled.rows.searchsorted(rows[0]))
        stop = int(labelled.rows.searchsorted(rows[-1], side="right"))
        if start < stop:
            places: Any = positions[rows.searchsorted(labelled.rows[start:stop])]
            layers = tensor[:, places].cpu().numpy()  # (L+1, n, D)
            yield start, stop, np.concatenate([layers, layers.mean(axis=0, keepdims=True)])


def collect_layers(
    bilm: BiLM, labelled: LabelledDocs, layers: Sequence[Union[int, str]], reading: Optional[ElmoSettings] = None
) -> Vectors:
    """Compute the vectors of some layers, reading the text once. All layers together would take (L+2) times the memory
    of one.

    layers (Sequence[Union[int, str]]): Each 0 to L, or "mean".
    RETURNS (Vectors): Shape (layers, N, D).
    """
    places = [-1 if layer == MEAN else int(layer) for layer in layers]
    vectors = np.empty((len(layers), len(labelled.labels), bilm.config.output_width), dtype="float32")
    for start, stop, stack in iter_layers(bilm, labelled, reading):
        vectors[:, start:stop] = stack[places]
    return vectors


def group_layers(
    layers: Sequence[Union[int, str]], n_tokens: int, width: int, max_bytes: int = MAX_VECTOR_BYTES
) -> List[List[Union[int, str]]]:
    """RETURNS (List[List[Union[int, str]]]): The layers in order, in groups whose float32 vectors of all tokens take at
    most `max_bytes` together; a single layer may be larger.
    """
    size = max(1, max_bytes // max(1, 4 * n_tokens * width))
    return list(batched(layers, size))


def find_nearest(known: Vectors, queries: Vectors, *, batch_size: int = COMPARED_AT_ONCE) -> Indices:
    """Find the known vector with the highest cosine, the first one of equals.

    known (Vectors): Shape (N, D), N at least 1.
    queries (Vectors): Shape (M, D).
    batch_size (int): Vectors compared at once, which takes the memory of batch_size * batch_size cosines.
    RETURNS (Indices): Shape (M,), numbers of known vectors. The cosine of a zero vector is 0.
    """
    nearest = np.zeros(len(queries), dtype="int64")
    for start in range(0, len(queries), batch_size):
        units = to_units(queries[start : start + batch_size])  # (m, D)
        best = np.full(len(units), -np.inf, dtype="float32")
        for first in range(0, len(known), batch_size):
            cosines = units @ to_units(known[first : first + batch_size]).T  # (m, n)
            places = cosines.argmax(axis=1)
            highest = cosines[np.arange(len(units)), places]
            is_better = highest > best
            best[is_better] = highest[is_better]
            nearest[start : start + batch_size][is_better] = first + places[is_better]
    return nearest


def predict_nearest(known: Vectors, labels: Sequence[str], queries: Vectors) -> List[str]:
    """RETURNS (List[str]): For each query the label of the nearest known vector."""
    return [labels[i] for i in find_nearest(known, queries).tolist()]
