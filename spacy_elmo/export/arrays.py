"""The arrays of a biLM for a graph. Each is taken once, so that none is forgotten."""

from typing import Any, Dict, List

from numpy.typing import NDArray

from ..errors import Errors
from ..inference.bilm import BiLM
from ..weights.parts import to_arrays


class Arrays:
    """The parameters of a biLM by name, float32.

    bilm (BiLM): The model.
    """

    def __init__(self, bilm: BiLM) -> None:
        self._arrays: Dict[str, NDArray[Any]] = to_arrays(bilm.network)
        self._taken: List[str] = []

    def take(self, name: str) -> NDArray[Any]:
        """RETURNS (NDArray): The array of this name, which counts as used.
        RAISES (ValueError): EL352 if there is none.
        """
        if name not in self._arrays:
            raise ValueError(Errors.EL352.format(reason=f"it has no parameter '{name}'"))
        self._taken.append(name)
        return self._arrays[name]

    def unused(self) -> List[str]:
        """RETURNS (List[str]): Names that were not taken."""
        return sorted(set(self._arrays) - set(self._taken))
