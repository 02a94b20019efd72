"""`ElmoModel` of simple_elmo, after its public documentation: padded NumPy arrays of sentences."""

from pathlib import Path
from typing import Any, Iterator, List, NoReturn, Optional, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

from ..bilm.state import BiLMState
from ..encoding.checks import check_sentences
from ..encoding.facade import BiLM
from ..errors import Errors
from ..weights import load_bilm
from .arguments import ConfigurationError, PathLike, check_count, check_no_url

LAYERS = {"average": "mean", "top": "top", "all": "all"}  # value of `layers` -> that of `BiLM.embed`
WEIGHTS_NAME, OPTIONS_NAME = "model.hdf5", "options.json"

Array = NDArray[np.float32]


class ElmoModel:
    """A biLM with the interface of simple_elmo.

    The state of the LSTMs is carried from batch to batch within a call. A call begins with a zero state, unless it is
    given the `session` of the call before.
    """

    def __init__(self) -> None:
        self.max_batch_size = 32
        self.bilm: Optional[BiLM] = None
        self._last: Tuple[Any, Optional[BiLMState]] = (None, None)  # session and its state

    def load(self, directory: PathLike, max_batch_size: int = 32, limit: int = 100, full: bool = False) -> None:
        """directory (PathLike): Folder with options.json and an HDF5 file (`model.hdf5`, else the first), a zip from
            the NLPL repository, or everything else that `load_bilm` takes.
        max_batch_size (int): Sentences computed at once.
        limit (int): Without effect: all words are cached when they are met, whether in a vocabulary or not.
        full (bool): Require the softmax of the language model.
        RAISES (ValueError): EL330 for a URL, EL332 for invalid arguments, EL007 without a softmax, EL020 to EL034 for
            files that cannot be read.
        """
        check_no_url("directory", directory)
        check_count("max_batch_size", max_batch_size)
        check_count("limit", limit, least=0)
        bilm = _load(directory)
        if full and bilm.head is None:
            raise ValueError(Errors.EL007.format(part="softmax", what="models loaded with full=True"))
        if not full:
            bilm.head = None
        self.bilm, self.max_batch_size, self._last = bilm, max_batch_size, (None, None)

    @property
    def vector_size(self) -> int:
        """RETURNS (int): D, the width of a vector."""
        return self._loaded("vector_size").config.output_width

    @property
    def n_layers(self) -> int:
        """RETURNS (int): L+1, the layer of the words included."""
        return self._loaded("n_layers").config.n_layers + 1

    def get_elmo_vectors(self, texts: Sequence[Sequence[str]], layers: str = "average", session: Any = None) -> Array:
        """texts (Sequence[Sequence[str]]): Tokens of each sentence.
        layers (str): "average", "top" or "all".
        session (Any): Any object; calls with the same one continue with the state of the call before.
        RETURNS (Array): Shape (sentences, T, D), with "all" (sentences, L+1, T, D); zeros behind the end of a sentence.
        RAISES (ValueError): EL011 for input that is not tokenized, EL332 for unknown layers, EL334 before `load`.
        """
        sentences = check_sentences(texts)
        longest = max(map(len, sentences), default=0)
        n_rows = self._n_rows("get_elmo_vectors", layers)
        padded = np.zeros((len(sentences), n_rows, longest, self.vector_size), dtype="float32")
        for row, vectors in zip(padded, self._embed(sentences, layers, session)):
            row[:, : vectors.shape[1]] = vectors
        return padded if layers == "all" else padded[:, 0]

    def get_elmo_vector_average(
        self, texts: Sequence[Sequence[str]], layers: str = "average", session: Any = None
    ) -> Array:
        """texts (Sequence[Sequence[str]]), layers (str), session (Any): See `get_elmo_vectors`.
        RETURNS (Array): Shape (sentences, D), the mean over the words of each sentence; with "all" (sentences, L+1, D).
            A sentence without words has zeros.
        RAISES (ValueError): See `get_elmo_vectors`.
        """
        sentences = check_sentences(texts)
        n_rows = self._n_rows("get_elmo_vector_average", layers)
        means = np.zeros((len(sentences), n_rows, self.vector_size), dtype="float32")
        for row, vectors in zip(means, self._embed(sentences, layers, session)):
            row[:] = vectors.sum(axis=1) / max(vectors.shape[1], 1)
        return means if layers == "all" else means[:, 0]

    def get_elmo_substitutes(self, *args: Any, **settings: Any) -> NoReturn:
        """RAISES (NotImplementedError): EL335, with what to use."""
        raise NotImplementedError(Errors.EL335.format(name="get_elmo_substitutes", instead="`BiLM.token_losses`"))

    def _embed(self, sentences: List[List[str]], layers: str, session: Any) -> Iterator[Array]:
        """YIELDS (Array): Shape (1 or L+1, T, D) for each sentence."""
        bilm = self._loaded("get_elmo_vectors")
        is_continued = session is not None and session is self._last[0]
        state = self._last[1] if is_continued else None
        for start in range(0, len(sentences), self.max_batch_size):
            batch = sentences[start : start + self.max_batch_size]
            if bilm.config.has_state:
                found, state = bilm.embed(batch, state=state, return_state=True, layers=LAYERS[layers])
                self._last = (session, state)
            else:
                found = bilm.embed(batch, layers=LAYERS[layers])
            yield from (rows if layers == "all" else rows[None] for rows in found)

    def _n_rows(self, method: str, layers: str) -> int:
        self._loaded(method)
        if not isinstance(layers, str) or layers not in LAYERS:
            wanted = " or ".join(f"'{name}'" for name in LAYERS)
            raise ConfigurationError(Errors.EL332.format(name="layers", value=repr(layers), wanted=wanted))
        return self.n_layers if layers == "all" else 1

    def _loaded(self, method: str) -> BiLM:
        if self.bilm is None:
            raise ValueError(Errors.EL334.format(method=method))
        return self.bilm


def _load(directory: PathLike) -> BiLM:
    folder = Path(directory)
    weights = sorted(folder.glob("*.hdf5")) if (folder / OPTIONS_NAME).is_file() else []
    if len(weights) > 1:  # load_bilm refuses to choose one
        preferred = folder / WEIGHTS_NAME
        return load_bilm(options=folder / OPTIONS_NAME, weights=preferred if preferred in weights else weights[0])
    return load_bilm(directory)
