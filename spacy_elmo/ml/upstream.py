"""What a listener needs of the ELMo component upstream."""

from typing import Any, Dict, List, Optional, Protocol, Sequence, Tuple

from spacy.tokens import Doc

from .types import ElmoBatch


class Upstream(Protocol):
    """Interface of the component that a listener listens to."""

    name: str
    prefix: str
    listener_map: Dict[str, List[Any]]
    is_checked: bool

    @property
    def sizes(self) -> Optional[Tuple[int, int]]:
        """RETURNS (Optional[Tuple[int, int]]): L+1 and D, None if there are no weights yet."""

    @property
    def bilm_label(self) -> str:
        """RETURNS (str): Which biLM it has, see `TorchBiLM.label`; empty if there are no weights yet."""

    def fill(self) -> None:
        """Load the packaged weights if there are none."""

    def compute(self, docs: Sequence[Doc], *, is_train: bool) -> ElmoBatch:
        """Compute the layers of Docs, without a backward pass through the biLM."""

    def add_listener(self, listener: Any, component_name: str) -> None:
        """Register a listener of a component."""

    def remove_listener(self, listener: Any, component_name: str) -> bool:
        """Unregister a listener of a component."""
