"""Products of a task's layers by the native kernel."""

import copy
import pickle

import pytest
import torch
from inference.forcing import needs_kernel

from spacy_elmo.inference.packed_weights import PackedLinear

pytestmark = needs_kernel


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("shape", [(0,), (1,), (130,), (3, 7)], ids=str)
@pytest.mark.parametrize("widths", [(1, 1), (33, 70), (768, 49)], ids=str)
def test_a_product_is_that_of_torch_and_rows_have_the_same_bits_in_any_batch(widths, shape, has_bias):
    matrix, rows = torch.randn(*widths[::-1]), torch.randn(*shape, widths[0])
    bias = torch.randn(widths[1]) if has_bias else None
    product = PackedLinear().bind(matrix, bias)
    outputs = product(rows)
    torch.testing.assert_close(outputs, torch.nn.functional.linear(rows, matrix, bias), atol=1e-4, rtol=1e-5)
    for row, output in zip(rows.flatten(0, -2), outputs.flatten(0, -2)):
        assert torch.equal(product(row[None])[0], output)


@pytest.mark.parametrize("is_transposed", [True, False])
def test_a_changed_matrix_is_used_at_once(is_transposed):
    matrix, packed, rows = torch.randn(5, 8), PackedLinear(), torch.randn(2, 8)
    matrix = matrix.t().contiguous().t() if is_transposed else matrix
    before = packed.bind(matrix)(rows)
    matrix[4, 7] += 1.0
    after = packed.bind(matrix)(rows)
    torch.testing.assert_close(after, rows @ matrix.t())
    assert torch.equal(before[:, :4], after[:, :4]) and not torch.equal(before, after)


@pytest.mark.parametrize("make", [copy.deepcopy, copy.copy, lambda packed: pickle.loads(pickle.dumps(packed))])
def test_copies_and_pickles_have_no_weights(make):
    packed = PackedLinear()
    packed.bind(torch.randn(50, 50))
    assert isinstance(make(packed), PackedLinear) and len(pickle.dumps(packed)) < 200
