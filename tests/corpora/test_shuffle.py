"""The shuffle buffer of blocks."""

import json

import pytest

from spacy_elmo.corpora.shuffle import ShuffleBuffer


def _draw_all(buffer, blocks):
    drawn = []
    for block in blocks:
        buffer.add(block)
        if buffer.is_full:
            drawn.append(buffer.draw())
    while (block := buffer.draw()) is not None:
        drawn.append(block)
    return drawn


BLOCKS = [[[str(i)]] for i in range(200)]


@pytest.mark.parametrize("n_blocks", [0, 1])
def test_small_buffer_keeps_the_order(n_blocks):
    assert _draw_all(ShuffleBuffer(n_blocks, seed=0), BLOCKS) == BLOCKS


def test_buffer_gives_every_block_once_and_none_early():
    drawn = _draw_all(ShuffleBuffer(20, seed=0), BLOCKS)
    assert drawn != BLOCKS and sorted(drawn, key=BLOCKS.index) == BLOCKS
    assert all(BLOCKS.index(block) <= i + 20 for i, block in enumerate(drawn))
    assert drawn != _draw_all(ShuffleBuffer(20, seed=1), BLOCKS)


def test_state_goes_through_json():
    first, second = ShuffleBuffer(20, seed=0), ShuffleBuffer(20, seed=5)
    for block in BLOCKS[:15]:
        first.add(block)
    first.draw()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert len(second) == 14 and second.permutation(9) == first.permutation(9)
    assert _draw_all(second, BLOCKS[15:]) == _draw_all(first, BLOCKS[15:])
