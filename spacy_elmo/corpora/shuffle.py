"""A shuffle buffer of bounded size for blocks of text, with a serializable state."""

import random
from typing import Any, Dict, List, Optional, Sequence

Block = List[List[str]]


class ShuffleBuffer:
    """Holds a number of blocks; each draw takes one at random, and the next block of the corpus replaces it.

    A block is drawn at most `n_blocks` positions early. The buffer has its own random number generator.

    n_blocks (int): Size of the buffer; 0 and 1 keep the order.
    seed (int): Seed of the generator.
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
        """block (Block): Added to the buffer."""
        self._blocks.append(block)

    def draw(self) -> Optional[Block]:
        """RETURNS (Optional[Block]): A random block of the buffer; None if it is empty."""
        if not self._blocks:
            return None
        blocks = self._blocks
        i = self._random.randrange(len(blocks))
        blocks[i], blocks[-1] = blocks[-1], blocks[i]
        return blocks.pop()

    def permutation(self, n: int) -> List[int]:
        """RETURNS (List[int]): The numbers below n in a random order."""
        order = list(range(n))
        self._random.shuffle(order)
        return order

    def state_dict(self) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): Plain JSON types: the blocks and the state of the generator."""
        version, numbers, gauss = self._random.getstate()
        return {"blocks": list(self._blocks), "random": [version, list(numbers), gauss]}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """state (Dict[str, Any]): From `state_dict`."""
        version, numbers, gauss = state["random"]
        self._random.setstate((version, tuple(numbers), gauss))
        self._blocks = [_copy(block) for block in state["blocks"]]


def _copy(block: Sequence[Sequence[str]]) -> Block:
    return [list(sentence) for sentence in block]
