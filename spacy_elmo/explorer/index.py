"""What the explorer asks of an index of contextual vectors; `analysis.neighbors.NeighborIndex` gives it."""

from typing import Any, Dict, List, Optional, Protocol, Sequence, Tuple, Union

import numpy
from numpy.typing import NDArray

from ..encoding.facade import BiLM

USES = ("any", "same", "other")


class Use(Protocol):
    """A stored token: its word, the words of its sentence, its position there, and the name of its document."""

    @property
    def word(self) -> str:
        """RETURNS (str): The word, as it is written."""

    @property
    def words(self) -> List[str]:
        """RETURNS (List[str]): The sentence."""

    @property
    def position(self) -> int:
        """RETURNS (int): Position of the word in the sentence."""

    @property
    def document(self) -> str:
        """RETURNS (str): Name of the document."""


class Neighbor(Protocol):
    """A use, and its cosine with what was asked for."""

    @property
    def use(self) -> Use:
        """RETURNS (Use): The stored token."""

    @property
    def cosine(self) -> float:
        """RETURNS (float): From -1 to 1."""


class Index(Protocol):
    """The uses of all words of a corpus."""

    @property
    def layer(self) -> Union[int, str]:
        """RETURNS (Union[int, str]): The layer of the vectors, or "mean"."""

    @property
    def n_tokens(self) -> int:
        """RETURNS (int): Number of stored uses."""

    @property
    def n_documents(self) -> int:
        """RETURNS (int): Number of documents."""

    def find(
        self, bilm: BiLM, words: List[str], position: int, k: int = 10, *, uses: str = "any"
    ) -> Sequence[Neighbor]:
        """RETURNS (Sequence[Neighbor]): The k uses closest to a word in its sentence."""

    def uses(self, word: str, limit: int = 1000) -> Tuple[Sequence[Use], NDArray[numpy.float32]]:
        """RETURNS (Tuple[Sequence[Use], NDArray[numpy.float32]]): Uses of a word, and their vectors (N, D)."""


def describe_index(index: Optional[Index]) -> Optional[Dict[str, Any]]:
    """RETURNS (Optional[Dict[str, Any]]): Layer and sizes of an index, None without one."""
    if index is None:
        return None
    return {"layer": index.layer, "n_tokens": index.n_tokens, "n_documents": index.n_documents}


def describe_use(use: Use) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): A use, for the page."""
    return {"words": list(use.words), "position": use.position, "document": use.document}
