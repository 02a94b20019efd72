"""LSTM stacks by the native kernel: bit-identical in every batch and with any number of threads, in bounded memory."""

import gc
import itertools
import os
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from inference.forcing import needs_kernel
from inference.stacks import SENTENCE, SENTENCES, VARIANTS, make_stack
from own_process import run_script

from spacy_elmo.inference import kernel, kernel_stack

pytestmark = needs_kernel


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_layers_in_reduced_precision_are_those_of_rounded_weights(variant, precision):
    """AVX512-BF16 rounds the inputs of products, too."""
    bilm = make_stack(**VARIANTS[variant])
    exact = np.concatenate(bilm.embed(SENTENCES), axis=1)
    vectors = np.concatenate(bilm.set_precision(precision).embed(SENTENCES), axis=1)
    rounded = np.concatenate(bilm.set_precision("float32").embed(SENTENCES), axis=1)
    tolerance = 0.02 * np.abs(exact).max() if kernel.native.INSTRUCTION_SET == "avx512_bf16" else 2e-5
    np.testing.assert_allclose(vectors, rounded, rtol=1e-5, atol=tolerance)
    assert not np.array_equal(exact, rounded)


@pytest.mark.parametrize(
    "state, precision",
    [
        ("reset", "float32"),
        ("steady", "float32"),
        ("reset", "bfloat16"),
        ("reset", "int8"),
    ],
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_vectors_are_bit_identical_in_every_batch(variant, state, precision):
    bilm = make_stack(**VARIANTS[variant]).set_precision(precision)
    single = [bilm.embed([sentence], state=state)[0] for sentence in SENTENCES]
    for n_threads, n, batch_tokens in itertools.product((1, 2, 8), (2, 6, 7, 13, 43), (8192, 30)):
        torch.set_num_threads(n_threads)
        for vectors, expected in zip(bilm.embed(SENTENCES[:n], state=state, batch_tokens=batch_tokens), single):
            np.testing.assert_array_equal(vectors, expected)
    for vectors, expected in zip(bilm.embed(SENTENCES[::-1], state=state)[::-1], single):
        np.testing.assert_array_equal(vectors, expected)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_vectors_are_bit_identical_with_more_lanes_than_rows_of_a_block(precision):
    """The kernel multiplies 120 or 240 rows at once."""
    bilm, n_sentences = make_stack(**VARIANTS["odd widths"]).set_precision(precision), 300
    sentences = [[SENTENCE[n % 7], *SENTENCE[n % 5 : n % 5 + 3]] for n in range(n_sentences)]
    torch.set_num_threads(1)
    together = bilm.embed(sentences)
    for number in (0, 119, 120, 239, 240, 255, n_sentences - 1):
        np.testing.assert_array_equal(together[number], bilm.embed([sentences[number]])[0])


LIMITED = """
import resource, torch
torch.set_num_threads(2)
from nn.tiny import make_network
from spacy_elmo.inference.bilm import BiLM
bilm = BiLM(make_network(cell_width=1, projection_width=1))
bilm.embed([["a"]])
with open("/proc/self/statm") as file:
    n_bytes = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (n_bytes + 2**28, n_bytes + 2**28))
print(bilm.embed([["a", "bank"]] * 50)[0].shape)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no limit of the address space")
def test_tiny_widths_need_little_memory():
    """The number of slots between two checks for signals is not that of the multiply-adds of a tiny biLM."""
    assert run_script(LIMITED, n_threads=2) == "(3, 2, 2)\n"


def test_threads_can_share_a_bilm():
    bilm, results = make_stack(), {}
    expected = bilm.embed(SENTENCES)
    torch.set_num_threads(2)
    workers = [threading.Thread(target=lambda k=k: results.update({k: bilm.embed(SENTENCES)})) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for vectors in results.values():
        assert all(np.array_equal(one, other) for one, other in zip(vectors, expected))
    assert len(results) == 4


def test_an_interrupt_ends_a_batch(monkeypatch):
    """And the biLM can be used after it. No garbage is collected, as Python ignores what is raised in the callbacks of
    a collection, as those of Hypothesis."""
    signal = pytest.importorskip("signal")
    bilm = make_stack()
    bilm.embed(SENTENCES)
    monkeypatch.setattr(kernel_stack, "CALL_MULTIPLICATIONS", 1)
    calls = []

    def interrupt(*args):
        calls.append(args)
        raise KeyboardInterrupt

    gc.disable()
    before = signal.signal(signal.SIGINT, interrupt)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            for _ in range(10**6):
                bilm.embed(SENTENCES * 50, batch_tokens=10**6)
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)
        gc.enable()
    assert len(calls) == 1
    assert all(np.isfinite(vectors).all() for vectors in bilm.embed(SENTENCES))
