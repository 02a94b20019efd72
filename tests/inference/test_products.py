"""Reduced precision: effects of rounding; nothing else changes. What oneDNN keeps."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import torch
from inference.forcing import needs_kernel
from nn.tiny import make_network
from own_process import run_script

from spacy_elmo import load_bilm
from spacy_elmo.inference import kernel, products
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.inference.kernel import PackedMatrix, check_precision, to_int8
from spacy_elmo.inference.products import quantize

PRECISIONS = [pytest.param(name, marks=needs_kernel) for name in ("bfloat16", "int8")]


def make_weight(d=1, n_in=40, n_out=24):
    return torch.randn(d, n_in, n_out, generator=torch.Generator().manual_seed(0)) / n_in**0.5


@needs_kernel
@pytest.mark.parametrize("are_gates", [False, True])
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_rounded_weights_are_what_is_packed_and_round_to_themselves(precision, are_gates):
    weight = make_weight(2, 37, 44)
    matrix = PackedMatrix(weight, precision, are_gates)
    if precision == "bfloat16":
        wanted = weight.bfloat16().float()
    else:
        values, scale = to_int8(weight, 1)
        assert values.abs().amax(1).eq(127).all() and scale.shape == (2, 1, 44)
        wanted = values * scale
        assert torch.equal(wanted.double(), values.double() * scale.double())  # exact, so that it can be restored
        assert (wanted - weight).abs().max() <= scale.max() / 2
    assert torch.equal(matrix.dense(), wanted)
    for other in (PackedMatrix(matrix.dense(), precision, are_gates), pickle.loads(pickle.dumps(matrix))):
        assert torch.equal(other.panels, matrix.panels)


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


@needs_kernel
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_reduced_precision_on_a_cpu_needs_the_kernel_also_in_a_pickle(precision, monkeypatch):
    content = pickle.dumps(BiLM(make_network()).set_precision(precision))
    monkeypatch.setattr(kernel, "native", None)
    for use in (lambda: load_bilm("en_elmo_sm", precision=precision), lambda: pickle.loads(content)):
        with pytest.raises(ValueError, match=f"EL015.*{precision}.*no native kernel, since.*'float32'"):
            use()


@pytest.mark.parametrize(
    "variables, is_native",
    [
        ({}, True),
        ({"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}, True),
        ({"ONEDNN_MAX_CPU_ISA": "avx512_core_vnni"}, False),
        ({"ONEDNN_MAX_CPU_ISA": "AVX2"}, False),
        ({"DNNL_MAX_CPU_ISA": "AVX512_CORE"}, False),
        ({"DNNL_MAX_CPU_ISA": "AVX512_CORE", "ONEDNN_MAX_CPU_ISA": "ALL"}, True),
        ({"SPACY_ELMO_CPU_ISA": "avx512_bf16"}, True),
        ({"SPACY_ELMO_CPU_ISA": ""}, True),
        ({"SPACY_ELMO_CPU_ISA": "none"}, True),  # without the kernel, which pretraining does not use
        ({"SPACY_ELMO_CPU_ISA": "avx512"}, False),
        ({"SPACY_ELMO_CPU_ISA": "avx2"}, False),
        ({"SPACY_ELMO_CPU_ISA": "generic", "ONEDNN_MAX_CPU_ISA": "ALL"}, False),
    ],
)
def test_bfloat16_is_native_only_with_instructions_that_may_be_used(variables, is_native, monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True, raising=False)
    for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "SPACY_ELMO_CPU_ISA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert products.has_bfloat16_units.__wrapped__() is is_native


def test_bfloat16_that_a_gpu_emulates_is_told_where_it_is_set(monkeypatch):
    """The device "meta" stands for a GPU: it has shapes and no numbers."""
    monkeypatch.setattr(products, "has_bfloat16_units", lambda device: False)
    network = make_network().to("meta")
    with warnings.catch_warnings(), pytest.raises(UserWarning, match="WL021"):
        warnings.simplefilter("error")
        quantize(network, "bfloat16")
    assert network.precision == "float32"
    with pytest.warns(UserWarning, match="WL021.*'bfloat16' is slower than float32 on this meta") as caught:
        quantize(network, "bfloat16")
    assert len(caught) == 1 and network.precision == "bfloat16"


SENTENCES = [
    ["She", "sat", "on", "the", "bank", "of", "the", "river", "."],
    ["Oslo"],
    [],
    ["The", "bank", "raised", "its", "rates", "."],
    ["A", "\U0001f30a", "in", "the", "sea"],
]
LOWEST_COSINE = {"bfloat16": 0.9999, "int8": 0.9995}


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


@needs_kernel
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
    imports = "import os, spacy_elmo.bilm.network, spacy_elmo.inference.torch_lanes"
    code = f"{imports}; print(*[os.environ[n] for n in {NAMES}])"
    without = [name for name in NAMES if name not in given]
    assert run_script(code, without=without, **given).split() == [kept, "16"]
