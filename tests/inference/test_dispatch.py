"""Every row of the path table: docs/architecture.md shows the same one."""

import pytest
import torch

from spacy_elmo.inference import dispatch
from spacy_elmo.inference.dispatch import Path, Sizes, block_steps, choose_path
from spacy_elmo.text.lanes import plan_lanes

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
EN_ELMO_SM, MEDIUM, ORIGINAL = Sizes(2, 640, 128), Sizes(2, 2048, 256), Sizes(2, 4096, 512)
MEGA = 2**20


def choose(n_sequences, sizes, *, device=CPU, precision="float32", has_packing=True):
    plan = plan_lanes([5] * n_sequences, dispatch.MAX_LANES)
    return choose_path(plan, device, precision, sizes, has_packing=has_packing)


@pytest.mark.parametrize(
    "n_sequences, sizes, options, path",
    [
        (1, EN_ELMO_SM, {}, Path.SINGLE_TOGETHER),
        (1, MEDIUM, {}, Path.SINGLE_IN_TURN),
        (1, ORIGINAL, {}, Path.SINGLE_IN_TURN),
        (1, EN_ELMO_SM, {"has_packing": False}, Path.SINGLE_TOGETHER),
        (1, EN_ELMO_SM, {"precision": "int8"}, Path.IN_TURN),
        (1, ORIGINAL, {"precision": "bfloat16"}, Path.IN_TURN),
        (1, EN_ELMO_SM, {"device": GPU}, Path.BATCHED),
        (1, EN_ELMO_SM, {"device": GPU, "precision": "float16"}, Path.BATCHED),
        (12, EN_ELMO_SM, {}, Path.FEW_LANES),
        (13, EN_ELMO_SM, {}, Path.IN_TURN),
        (31, EN_ELMO_SM, {}, Path.IN_TURN),
        (32, EN_ELMO_SM, {}, Path.PARALLEL),
        (12, EN_ELMO_SM, {"precision": "int8"}, Path.IN_TURN),
        (32, EN_ELMO_SM, {"precision": "int8"}, Path.PARALLEL),
        (2, MEDIUM, {}, Path.IN_TURN),
        (5, MEDIUM, {}, Path.PARALLEL),
        (2, ORIGINAL, {}, Path.PARALLEL),
        (2, EN_ELMO_SM, {"has_packing": False}, Path.BATCHED),
        (200, EN_ELMO_SM, {"has_packing": False}, Path.BATCHED),
        (200, EN_ELMO_SM, {"device": GPU}, Path.BATCHED),
    ],
)
def test_each_kind_of_plan_has_its_path(n_sequences, sizes, options, path):
    assert choose(n_sequences, sizes, **options) is path


def test_empty_sequences_do_not_count():
    plan = plan_lanes([0, 5, 0], dispatch.MAX_LANES)
    assert choose_path(plan, CPU, "float32", EN_ELMO_SM, has_packing=True) is Path.SINGLE_TOGETHER


def test_layers_are_joined_up_to_a_size():
    assert EN_ELMO_SM.can_join and Sizes(2, 1024, 128).can_join
    assert not MEDIUM.can_join and not ORIGINAL.can_join


def test_limits_are_those_of_the_documentation():
    """The table of paths in docs/architecture.md has them."""
    assert dispatch.MAX_LANES == 256
    assert dispatch.SINGLE_TOGETHER_WEIGHTS == dispatch.JOINT_WEIGHTS == MEGA
    assert (dispatch.FEW_LANES_PRODUCTS, dispatch.PARALLEL_PRODUCTS) == (4 * MEGA, 10 * MEGA)
    assert (dispatch.GATE_BYTES, dispatch.WORD_GATE_BYTES) == (8 * MEGA, 64 * MEGA)


def test_a_block_has_as_many_steps_as_fit_in_its_gates():
    assert block_steps(1, 128, 640) == 8 * MEGA // (4 * 128 * 4 * 640)
    assert block_steps(1, 256, 4096) == dispatch.MIN_BLOCK_STEPS
