"""Reduced precision: effects of rounding; nothing else changes. What oneDNN keeps."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import torch
from nn.tiny import make_bilm, make_network
from own_process import run_script

from spacy_elmo import load_bilm
from spacy_elmo.inference import kernel, products
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.inference.products import Int8Matrix, check_precision, to_int8

needs_bfloat16 = pytest.mark.skipif(not products.works("bfloat16"), reason="installed without a compiler")
needs_int8 = pytest.mark.skipif(not products.works("int8"), reason="torch without int8 products")

LEVELS = [
    pytest.param(n, marks=pytest.mark.skipif(n > products.most_levels(), reason="a processor without VNNI"))
    for n in products.LEVELS
]
PRECISIONS = [pytest.param("bfloat16", marks=needs_bfloat16), pytest.param("int8", marks=needs_int8)]


def make_weight(d=1, n_in=40, n_out=24):
    return torch.randn(d, n_in, n_out, generator=torch.Generator().manual_seed(0)) / n_in**0.5


@pytest.mark.parametrize("most", LEVELS)
def test_int8_product_is_that_of_the_rounded_numbers(monkeypatch, most):
    monkeypatch.setattr(products, "most_levels", lambda: most)
    weight, rows = make_weight(), torch.randn(7, 40)
    bias, other = torch.randn(1, 1, 24), torch.randn(1, 7, 24)
    rows[2] = 0.0
    product = Int8Matrix(weight, torch.full((24,), 2.0)).product(slice(0, 1))
    row_scale = rows.abs().amax(1, keepdim=True).clamp(min=1e-30) / most
    levels = (rows / row_scale).round()
    assert levels.abs().max() == most
    values, scale = to_int8(weight[0], 0)
    wanted = 2.0 * (levels.double() @ values.double()) * row_scale * scale
    for found, added in (
        (product(rows[None]), 0.0),
        (product(rows[None], bias), bias),
        (product(rows[None], other), other),
    ):
        torch.testing.assert_close(found, (wanted + added).float().view(1, 7, 24), atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "precision, device, message",
    [
        ("int4", "cpu", "should be one of"),
        ("float16", "cpu", "EL015.*'float16'.*cpu.*many times slower.*'float32'"),
        ("int8", "cuda", "EL015.*int8.*cuda.*for CPUs"),
    ],
)
def test_what_cannot_be_computed_is_refused(precision, device, message):
    with pytest.raises(ValueError, match=message):
        check_precision(precision, torch.device(device))


@pytest.mark.issue(49)
def test_bfloat16_on_a_cpu_needs_the_kernel(monkeypatch):
    monkeypatch.setattr(kernel, "native", None)
    with pytest.raises(ValueError, match="EL015.*bfloat16.*native kernel was not compiled.*'float32'"):
        load_bilm("en_elmo_sm", precision="bfloat16")


@pytest.mark.issue(48)
@pytest.mark.parametrize(
    "variables, is_native",
    [
        ({}, True),
        ({"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}, True),
        ({"ONEDNN_MAX_CPU_ISA": "avx512_core_vnni"}, False),
        ({"ONEDNN_MAX_CPU_ISA": "AVX2"}, False),
        ({"DNNL_MAX_CPU_ISA": "AVX512_CORE"}, False),
        ({"DNNL_MAX_CPU_ISA": "AVX512_CORE", "ONEDNN_MAX_CPU_ISA": "ALL"}, True),
    ],
)
def test_bfloat16_is_native_only_with_instructions_that_onednn_may_use(variables, is_native, monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True, raising=False)
    for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert products.has_bfloat16_units.__wrapped__() is is_native


@needs_int8
@pytest.mark.issue(48)
def test_a_precision_that_is_slow_on_this_processor_is_told_where_it_is_set(monkeypatch):
    monkeypatch.setattr(products, "most_levels", lambda: 63)
    monkeypatch.setattr(products, "INT8_WEIGHTS", 0)
    bilm = make_bilm()
    with warnings.catch_warnings(), pytest.raises(UserWarning, match="WL021"):
        warnings.simplefilter("error")
        bilm.set_precision("int8")
    assert bilm.precision == "float32"
    with pytest.warns(UserWarning, match="WL021.*without VNNI.*0.18 to 0.6 times") as caught:
        bilm.set_precision("int8")
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bilm.set_precision("int8").set_precision("float32")


@needs_bfloat16
@needs_int8
def test_int8_of_a_small_lstm_needs_no_instructions(monkeypatch):
    monkeypatch.setattr(products, "most_levels", lambda: 63)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # WL021
        make_bilm().set_precision("int8")


@needs_int8
@pytest.mark.issue(49)
@pytest.mark.parametrize("cell_width, width", [(64, 1100), (1100, 300)])
def test_a_large_matrix_beside_small_ones_is_computed_in_int8(cell_width, width):
    sizes = {"cell_width": cell_width, "projection_width": width, "always_project": True}
    bilm = BiLM(make_network(**sizes, has_skip=False, highway_between=True))
    vectors = bilm.embed(SENTENCES)
    for one, other in zip(bilm.set_precision("int8").embed(SENTENCES), vectors):
        np.testing.assert_allclose(one, other, rtol=0, atol=0.01)


@pytest.fixture
def forget_trials():
    """What products can do is tried once in a process."""
    products.most_levels.cache_clear()
    yield products.most_levels.cache_clear
    products.most_levels.cache_clear()


@needs_int8
def test_int8_products_that_overflow_are_detected(monkeypatch, forget_trials):
    """A processor that adds pairs of products in 16 bits gets fewer levels; one that adds all in 16 bits, no int8."""
    right, narrow = products.linear_int8, products.LEVELS[1]
    monkeypatch.setattr(products, "linear_int8", lambda rows, *rest: right(rows.clamp(max=2 * narrow + 1), *rest))
    assert products.most_levels() == narrow and products.works("int8")
    forget_trials()
    monkeypatch.setattr(products, "linear_int8", lambda *args: right(*args).clamp(-32768.0, 32767.0))
    with pytest.raises(ValueError, match="no fast int8 products"):
        load_bilm("en_elmo_sm", precision="int8")


SENTENCES = [
    ["She", "sat", "on", "the", "bank", "of", "the", "river", "."],
    ["Oslo"],
    [],
    ["The", "bank", "raised", "its", "rates", "."],
    ["A", "\U0001f30a", "in", "the", "sea"],
]
LOWEST_COSINE = {"bfloat16": 0.9995, "int8": 0.998}


@pytest.fixture(scope="module")
def exact():
    return load_bilm("en_elmo_sm").embed(SENTENCES)


def lowest_cosine(vectors, others):
    cosines = [
        (one * other).sum(-1) / np.linalg.norm(one, axis=-1) / np.linalg.norm(other, axis=-1)
        for one, other in zip(vectors, others)
    ]
    return min(cosine.min() for cosine in cosines if cosine.size)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_vectors_are_near_those_in_float32_and_stay_so_when_copied(exact, precision):
    bilm = load_bilm("en_elmo_sm", precision=precision)
    assert bilm.precision == precision
    found = bilm.embed(SENTENCES)
    assert LOWEST_COSINE[precision] < lowest_cosine(found, exact)
    assert not any(np.array_equal(one, two) for one, two in zip(found, exact) if one.size)
    for other in (copy.deepcopy(bilm), pickle.loads(pickle.dumps(bilm)), bilm.set_precision(precision)):
        assert all(np.array_equal(one, two) for one, two in zip(found, other.embed(SENTENCES)))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_changing_the_precision_forgets_what_was_computed_before(exact, precision):
    bilm = load_bilm("en_elmo_sm")
    bilm.embed(SENTENCES)
    steady = bilm.steady_state.h.clone()
    found = bilm.set_precision(precision).embed(SENTENCES)
    assert all(
        np.array_equal(one, two)
        for one, two in zip(found, load_bilm("en_elmo_sm", precision=precision).embed(SENTENCES))
    )
    assert 0 < (bilm.steady_state.h - steady).abs().max() < 0.2
    rounded = bilm.set_precision("float32").embed(SENTENCES)
    assert 0 < max(np.abs(one - two).max() for one, two in zip(rounded, exact) if one.size) < 0.1


@pytest.mark.issue(41)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("state", ["reset", "steady"])
def test_vectors_do_not_depend_on_batch_or_order(state, precision):
    bilm = load_bilm("en_elmo_sm", precision=precision)
    many = [*SENTENCES, *([word] * n for n, word in enumerate("abcdefghijkl")), *(["bank", str(n)] for n in range(130))]
    together = bilm.embed(many, state=state)
    for n_lanes in (1, 33, 66, 130):
        for one, other in zip(bilm.embed(many[:n_lanes], state=state), together):
            np.testing.assert_array_equal(one, other)
    for one, other in zip(bilm.embed(many[::-1], state=state, batch_tokens=7)[::-1], together):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_perplexity_of_sentences_is_near_and_what_needs_float32_is_refused(precision):
    bilm = load_bilm("en_elmo_sm")
    wanted = bilm.perplexity(SENTENCES[:2], state="reset").mean
    bilm.set_precision(precision)
    assert bilm.perplexity(SENTENCES[:2], state="reset").mean == pytest.approx(wanted, rel=0.05)
    with pytest.raises(ValueError, match=f"{precision}. Choose state 'reset'"):
        bilm.perplexity(SENTENCES)
    with pytest.raises(ValueError, match=f"gradient.*{precision}"):
        bilm.encode(SENTENCES, with_grad=True)


def test_a_float32_bilm_that_was_used_can_be_pickled():
    bilm = load_bilm("en_elmo_sm")
    wanted, steady = bilm.embed(SENTENCES), bilm.steady_state
    other = pickle.loads(pickle.dumps(bilm))
    assert torch.equal(other.steady_state.h, steady.h) and torch.equal(other.steady_state.c, steady.c)
    assert all(np.array_equal(one, two) for one, two in zip(wanted, other.embed(SENTENCES), strict=True))


@needs_int8
def test_moving_keeps_the_precision_and_refuses_a_device_without_it_before_anything_changes():
    bilm = load_bilm("en_elmo_sm", precision="int8")
    found = bilm.embed(SENTENCES)
    with pytest.raises(ValueError, match="EL015.*int8.*cuda"):
        bilm.to("cuda")
    assert bilm.to("cpu").precision == "int8"
    assert all(np.array_equal(one, two) for one, two in zip(found, bilm.embed(SENTENCES)))


NAMES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


@pytest.mark.parametrize("given, kept", [({}, "16"), ({NAMES[0]: "99"}, "99")])
def test_what_onednn_keeps_is_bounded_unless_the_user_says_otherwise(given, kept):
    """It would keep something for each of a thousand shapes, and a text has no end of them."""
    code = f"import os, spacy_elmo.bilm.model, spacy_elmo.inference.lstm; print(*[os.environ[n] for n in {NAMES}])"
    without = [name for name in NAMES if name not in given]
    assert run_script(code, without=without, **given).split() == [kept, "16"]
