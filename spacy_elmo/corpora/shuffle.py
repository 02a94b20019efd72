"""Draw blocks of text at random from a bounded buffer, with a state that can be stored."""

import random
from typing import Any, Dict, List, Optional, Sequence

Block = List[List[str]]


class ShuffleBuffer:
    """A number of waiting blocks; each draw takes one at random, and the next block of the corpus takes its place.

    A block comes out at most `n_blocks` places early. The randomness is the buffer's own.

    n_blocks (int): Blocks that wait; 0 and 1 keep the order.
    seed (int): Of the draws.
    """

    def __init__(self, n_blocks: int, *, seed: int) -> None:
        self.n_blocks = max(1, n_blocks)
        self._blocks: List[Block] = []
        self._random = random.Random(seed)

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def is_full(self) -> bool:
        """RETURNS (bool): Whether a block must be drawn before another is added."""
        return len(self._blocks) >= self.n_blocks

    def add(self, block: Block) -> None:
        """block (Block): Waits from now on."""
        self._blocks.append(block)

    def draw(self) -> Optional[Block]:
        """RETURNS (Optional[Block]): One of those that wait; None if none does."""
        if not self._blocks:
            return None
        i = self._random.randrange(len(self._blocks))
        self._blocks[i], self._blocks[-1] = self._blocks[-1], self._blocks[i]
        return self._blocks.pop()

    def permutation(self, n: int) -> List[int]:
        """RETURNS (List[int]): The numbers below n in a random order."""
        order = list(range(n))
        self._random.shuffle(order)
        return order

    def state_dict(self) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): Plain JSON types: what waits, and the state of the random numbers."""
        version, numbers, gauss = self._random.getstate()
        return {"blocks": [list(block) for block in self._blocks], "random": [version, list(numbers), gauss]}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """state (Dict[str, Any]): From `state_dict`."""
        version, numbers, gauss = state["random"]
        self._random.setstate((version, tuple(numbers), gauss))
        self._blocks = [_copy(block) for block in state["blocks"]]


def _copy(block: Sequence[Sequence[str]]) -> Block:
    return [list(sentence) for sentence in block]
