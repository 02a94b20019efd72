"""No limit of the engine changes a result, with the kernel not a bit."""

import numpy as np
import pytest
from inference.forcing import force_engine, needs_kernel
from inference.stacks import SENTENCES, VARIANTS, make_stack

from spacy_elmo.inference import kernel_stack, torch_lanes

LIMITS = [("FEW_LANES", 0), ("FEW_LANES", 99), ("GATE_BYTES", 0), ("CALL_MULTIPLICATIONS", 1)]


@needs_kernel
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name, limit", LIMITS)
def test_no_limit_changes_a_bit(variant, name, limit, monkeypatch):
    bilm = make_stack(**VARIANTS[variant])
    expected = bilm.embed(SENTENCES)
    monkeypatch.setattr(kernel_stack, name, limit)
    bilm.clear_caches()
    for vectors, others in zip(bilm.embed(SENTENCES), expected):
        np.testing.assert_array_equal(vectors, others)


def test_the_number_of_steps_that_torch_computes_at_once_changes_no_vector(monkeypatch):
    force_engine(monkeypatch, "torch")
    bilm = make_stack()
    expected = bilm.embed(SENTENCES)
    monkeypatch.setattr(torch_lanes, "CHUNK_GATE_BYTES", 0)
    for vectors, others in zip(bilm.embed(SENTENCES), expected):
        np.testing.assert_allclose(vectors, others, rtol=0.0, atol=5e-6)
