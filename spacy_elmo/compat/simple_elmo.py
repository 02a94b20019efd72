"""`ElmoModel` of simple_elmo, after its public documentation: padded NumPy arrays of sentences."""

import logging
from typing import Any, Iterator, List, Literal, NamedTuple, NoReturn, Optional, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

from ..bilm.state import BiLMState
from ..errors import Errors
from ..files import to_path
from ..inference.bilm import BiLM
from ..settings import Count, Flag, WholeNumber
from ..util import batched
from ..weights import load_bilm
from ..weights.archive import list_files
from ..weights.formats.bilm_tf import describe_other_hdf5
from .bilm import Batcher
from .common import ConfigurationError as ConfigurationError
from .common import PathLike, add_submodules, check_argument, check_no_url, read_sentences

LAYERS = {"average": "mean", "top": "top", "all": "all"}  # value of `layers` -> value in `BiLM.embed`
ARGUMENTS = {"warmup": Flag, "layers": Literal["average", "top", "all"], "session": None}  # types
WEIGHTS_NAME, OPTIONS_NAME = "model.hdf5", "options.json"

Array = NDArray[np.float64]


class Placeholder(NamedTuple):
    """What stands for ids of a TensorFlow graph. Nothing can be fed to it."""

    shape: Tuple[Optional[int], ...]


class ElmoModel:
    """A biLM with the interface of simple_elmo.

    A call begins with a zero state, as with a new TensorFlow session, and carries the state of the LSTMs from batch to
    batch. By default it computes the first batch twice, so that the vectors start from the state after the first time.

    batch_size (int): Sentences computed at once.
    bilm (Optional[BiLM]): The biLM, None before `load`.
    logger (Logger): That of this package.
    batcher (Optional[Batcher]): Makes character ids as wide as the biLM reads them; None before `load`, and for a biLM
        that does not read UTF-8.
    sentence_character_ids (Optional[Placeholder]): Has the shape of the ids of `batcher`, (None, None, C).
    """

    def __init__(self) -> None:
        self.batch_size = 32
        self.bilm: Optional[BiLM] = None
        self.logger = logging.getLogger("spacy_elmo")
        self.batcher: Optional[Batcher] = None
        self.sentence_character_ids: Optional[Placeholder] = None

    def load(self, directory: PathLike, max_batch_size: int = 32, limit: int = 100, full: bool = False) -> str:
        """directory (PathLike): Folder with options.json and an HDF5 file (`model.hdf5`, else the first), a zip from
            the NLPL repository, or everything else that `load_bilm` takes.
        max_batch_size (int): Sentences computed at once.
        limit (int): Without effect: all words are cached when they first occur, also without a vocabulary.
        full (bool): Require the softmax of the language model.
        RETURNS (str): A message for the user.
        RAISES (ValueError): For a URL, invalid arguments, and files that cannot be read; EL007 without a softmax.
        """
        check_no_url("directory", directory)
        check_argument("max_batch_size", max_batch_size, Count)
        check_argument("limit", limit, WholeNumber)
        bilm = _load(directory)
        if full and bilm.head is None:
            raise ValueError(Errors.EL007.format(missing="softmax", what="models loaded with full=True"))
        if not full:
            bilm.head = None
        self.bilm, self.batch_size = bilm, max_batch_size
        characters = bilm.config.char_cnn
        self.batcher = self.sentence_character_ids = None
        if characters is not None and characters.codec == "utf8":
            self.batcher = Batcher(None, characters.max_characters)
            self.sentence_character_ids = Placeholder((None, None, characters.max_characters))
        return f"Loaded {directory}: {self.n_layers} layers of {self.vector_size} dimensions."

    @property
    def vector_size(self) -> int:
        """RETURNS (int): D, the width of a vector."""
        return self._loaded().config.output_width

    @property
    def n_layers(self) -> int:
        """RETURNS (int): L+1, the layer of the words included."""
        return self._loaded().config.n_layers + 1

    @property
    def max_chars(self) -> Optional[int]:
        """RETURNS (Optional[int]): C, ids of characters per word; None for a biLM without this limit."""
        config = self._loaded().config
        characters = config.char_cnn or config.token_embedder
        return None if characters is None else characters.max_characters

    def get_elmo_vectors(
        self, texts: Sequence[Sequence[str]], warmup: bool = True, layers: str = "average", session: None = None
    ) -> Array:
        """texts (Sequence[Sequence[str]]): Tokens of each sentence; a string is a sentence of characters.
        warmup (bool): Compute the first batch once before, and start from the state after it.
        layers (str): "average", "top" or "all".
        session (None): Only None: there are no TensorFlow sessions.
        RETURNS (Array): Shape (sentences, T, D), with "all" (sentences, L+1, T, D); zeros behind the end of a sentence.
        RAISES (ValueError): EL011 for input that is not tokenized; for invalid arguments, and before `load`.
        """
        sentences = read_sentences(texts)
        longest = max(map(len, sentences), default=0)
        n_rows = self._count_layers(warmup=warmup, layers=layers, session=session)
        padded = np.zeros((len(sentences), n_rows, longest, self.vector_size))
        for row, vectors in zip(padded, self._embed(sentences, warmup, layers)):
            row[:, : vectors.shape[1]] = vectors
        return padded if layers == "all" else padded[:, 0]

    def get_elmo_vector_average(
        self, texts: Sequence[Sequence[str]], warmup: bool = True, layers: str = "average", session: None = None
    ) -> Array:
        """texts (Sequence[Sequence[str]]), warmup (bool), layers (str), session (None): See `get_elmo_vectors`.
        RETURNS (Array): Shape (sentences, D), the mean over the words of each sentence divided by its L2 norm; with
            "all" (sentences, L+1, D), each matrix divided by its norm. A sentence without words has zeros.
        RAISES (ValueError): See `get_elmo_vectors`.
        """
        sentences = read_sentences(texts)
        n_rows = self._count_layers(warmup=warmup, layers=layers, session=session)
        means = np.zeros((len(sentences), n_rows, self.vector_size))
        for row, vectors in zip(means, self._embed(sentences, warmup, layers)):
            if vectors.shape[1]:
                mean = vectors.mean(axis=1, dtype="float64")
                row[:] = mean / (np.linalg.norm(mean) or 1.0)
        return means if layers == "all" else means[:, 0]

    def get_elmo_substitutes(self, data: Sequence[str], topn: int = 3, nodelimiters: bool = True) -> NoReturn:
        """The keys of the original's results are not documented.

        RAISES (NotImplementedError): With what to use.
        """
        raise NotImplementedError(
            "`get_elmo_substitutes` cannot be called here. Use `spacy_elmo.inference.substitutes.find_substitutes` "
            "instead."
        )

    def _embed(self, sentences: List[List[str]], warmup: bool, layers: str) -> Iterator[NDArray[np.float32]]:
        """YIELDS (NDArray[np.float32]): Shape (1 or L+1, T, D) for each sentence."""
        bilm = self._loaded()
        batches = list(batched(sentences, self.batch_size))
        state: Optional[BiLMState] = None
        if warmup and bilm.config.has_state and batches:
            _, state = bilm.embed(batches[0], state=None, return_state=True, layers="top")
        for batch in batches:
            if bilm.config.has_state:
                vectors, state = bilm.embed(batch, state=state, return_state=True, layers=LAYERS[layers])
            else:
                vectors = bilm.embed(batch, layers=LAYERS[layers])
            yield from (rows if layers == "all" else rows[None] for rows in vectors)

    def _count_layers(self, **arguments: Any) -> int:
        """The number of layers in the result, and a check of the arguments."""
        for name, value in arguments.items():
            check_argument(name, value, ARGUMENTS[name])
        return self.n_layers if arguments["layers"] == "all" else 1

    def _loaded(self) -> BiLM:
        if self.bilm is None:
            raise ValueError("No biLM is loaded. Call `load(PATH)` first.")
        return self.bilm


def _load(directory: PathLike) -> BiLM:
    folder = to_path(directory)
    sources = list_files(folder) if folder.is_dir() else {}
    weights = [name for name in sources if name.endswith(".hdf5") and not describe_other_hdf5(sources[name].path)]
    if len(weights) > 1 and OPTIONS_NAME in sources:  # for load_bilm they are ambiguous
        chosen = WEIGHTS_NAME if WEIGHTS_NAME in weights else weights[0]
        return load_bilm(options=sources[OPTIONS_NAME].path, weights=sources[chosen].path)
    return load_bilm(directory)


add_submodules(__name__, {"ElmoModel": ElmoModel}, ("elmo_helpers",))
