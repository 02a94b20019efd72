"""Every row of the path table: docs/architecture.md shows the same one."""

import pytest
import torch

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.inference import dispatch
from spacy_elmo.inference.dispatch import Path, choose_path
from spacy_elmo.text.lanes import plan_lanes

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
EN_ELMO_SM, MEDIUM, ORIGINAL = (
    BiLMConfig(n_words=1, cell_width=cell_width, projection_width=width)
    for cell_width, width in ((640, 128), (2048, 256), (4096, 512))
)
MEGA = 2**20


def choose(n_sequences, config, *, device=CPU, precision="float32", has_packing=True):
    plan = plan_lanes([5] * n_sequences, dispatch.MAX_LANES)
    return choose_path(plan, device, precision, config, has_packing=has_packing)


@pytest.mark.parametrize(
    "n_sequences, config, options, path",
    [
        (1, EN_ELMO_SM, {}, Path.SINGLE_TOGETHER),
        (1, MEDIUM, {}, Path.SINGLE_IN_TURN),
        (1, EN_ELMO_SM, {"has_packing": False}, Path.SINGLE_TOGETHER),
        (1, EN_ELMO_SM, {"precision": "int8"}, Path.IN_TURN),
        (1, ORIGINAL, {"precision": "bfloat16"}, Path.IN_TURN),
        (1, EN_ELMO_SM, {"device": GPU}, Path.BATCHED),
        (12, EN_ELMO_SM, {}, Path.FEW_LANES),
        (13, EN_ELMO_SM, {}, Path.IN_TURN),
        (32, EN_ELMO_SM, {}, Path.PARALLEL),
        (12, EN_ELMO_SM, {"precision": "int8"}, Path.IN_TURN),
        (32, EN_ELMO_SM, {"precision": "int8"}, Path.PARALLEL),
        (2, MEDIUM, {}, Path.IN_TURN),
        (5, MEDIUM, {}, Path.PARALLEL),
        (200, EN_ELMO_SM, {"has_packing": False}, Path.BATCHED),
        (200, EN_ELMO_SM, {"device": GPU}, Path.BATCHED),
    ],
)
def test_each_kind_of_plan_has_its_path(n_sequences, config, options, path):
    assert choose(n_sequences, config, **options) is path


def test_empty_sequences_do_not_count():
    plan = plan_lanes([0, 5, 0], dispatch.MAX_LANES)
    assert choose_path(plan, CPU, "float32", EN_ELMO_SM, has_packing=True) is Path.SINGLE_TOGETHER
