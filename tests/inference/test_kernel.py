"""The native kernel: exact, bit-identical in every batch, and inside of its memory. Torch's products give the same."""

import gc
import itertools
import os
import platform
import re
import runpy
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from inference.forcing import ENGINES, force_engine, needs_kernel
from nn.tiny import make_network

from spacy_elmo.bilm.lstm import full_bias
from spacy_elmo.bilm.state import BiLMState
from spacy_elmo.inference import kernel, kernel_stack
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.inference.kernel import PackedMatrix
from spacy_elmo.inference.products import make_product

VARIANTS = {
    "plain": {},
    "forward": {"directions": "forward"},
    "no projection": {"cell_width": 8},
    "no skip": {"has_skip": False},
    "highway between layers": {"has_skip": False, "highway_between": True},
    "highway, no projection": {"has_skip": False, "highway_between": True, "cell_width": 13, "projection_width": 13},
    "no clips": {"cell_clip": None, "projection_clip": None},
    "small clips": {"cell_clip": 0.05, "projection_clip": 0.02},
    "four layers": {"n_layers": 4},
    "odd widths": {"cell_width": 33, "projection_width": 7},
    "several panels": {"cell_width": 100, "projection_width": 70},
    "more than a group of panels": {"cell_width": 300, "projection_width": 161},
}
SENTENCE = "the river runs past the old mill and the bank of the river".split()
SENTENCES = [SENTENCE[n % 5 : n % 5 + 1 + n % 7] for n in range(40)] + [[], SENTENCE, SENTENCE * 3]
N_THREADS = (1, 2, 3, 8)


def make_bilm(**changes):
    network = make_network(3, **{"cell_width": 24, **changes})
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2.0)  # so that gates move and clips clip
    return BiLM(network)


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_layers_are_those_with_gradients_in_float64(variant, engine, monkeypatch):
    force_engine(monkeypatch, engine)
    bilm, exact = make_bilm(**VARIANTS[variant]), make_bilm(**VARIANTS[variant])
    exact.network.double()
    vectors = bilm.embed(SENTENCES)
    expected = exact.encode(SENTENCES, with_grad=True).detach().numpy()
    assert np.ptp(expected[-1]) > 0.01
    np.testing.assert_allclose(np.concatenate(vectors, axis=1), expected, rtol=1e-5, atol=1e-5)


@needs_kernel
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_layers_in_reduced_precision_are_those_of_rounded_weights(variant, precision):
    """AVX512-BF16 rounds the inputs of products, too."""
    bilm = make_bilm(**VARIANTS[variant])
    exact = np.concatenate(bilm.embed(SENTENCES), axis=1)
    vectors = np.concatenate(bilm.set_precision(precision).embed(SENTENCES), axis=1)
    rounded = np.concatenate(bilm.set_precision("float32").embed(SENTENCES), axis=1)
    tolerance = 0.02 * np.abs(exact).max() if kernel.native.INSTRUCTION_SET == "avx512_bf16" else 2e-5
    np.testing.assert_allclose(vectors, rounded, rtol=1e-5, atol=tolerance)
    assert not np.array_equal(exact, rounded)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_forget_gate_keeps_its_share_whatever_the_other_gates_are(engine, monkeypatch):
    """The quotients of a cell share one division, whose denominators must not overflow."""
    force_engine(monkeypatch, engine)
    bilm = make_bilm(n_layers=1, cell_width=8, projection_width=8, cell_clip=None)
    layer = bilm.network.encoder.layers[0]
    biases = torch.tensor(list(itertools.product((-60.0, 0.0, 60.0), (-60.0, 60.0), (-10.2, -6.0, 60.0), (1.0,))))
    state = BiLMState(torch.zeros(1, 1, 16), torch.full((1, 1, 16), 3.0))
    for number in range(0, len(biases) - 7):
        pre = biases[number : number + 8].T.reshape(-1)  # i, j, f, o of eight cells
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.zero_()
            layer.bias.copy_(pre - (full_bias(layer.bias) - layer.bias))
        bilm.clear_caches()
        _, after = bilm.embed([[]], state=state, return_state=True)
        i, j, f, _ = pre.double().view(4, 8)
        cells = torch.full((8,), 3.0).double()
        for _ in range(2):  # BOS and EOS
            cells = f.sigmoid() * cells + i.sigmoid() * j.tanh()
        torch.testing.assert_close(after.c[0, 0, :8].double(), cells, rtol=1e-4, atol=1e-11)


@needs_kernel
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
    bilm = make_bilm(**VARIANTS[variant]).set_precision(precision)
    single = [bilm.embed([sentence], state=state)[0] for sentence in SENTENCES]
    for n_threads, n, batch_tokens in itertools.product((1, 2, 8), (2, 6, 7, 13, 43), (8192, 30)):
        torch.set_num_threads(n_threads)
        for vectors, expected in zip(bilm.embed(SENTENCES[:n], state=state, batch_tokens=batch_tokens), single):
            np.testing.assert_array_equal(vectors, expected)
    for vectors, expected in zip(bilm.embed(SENTENCES[::-1], state=state)[::-1], single):
        np.testing.assert_array_equal(vectors, expected)


@needs_kernel
@pytest.mark.issue(60)
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_vectors_are_bit_identical_with_more_lanes_than_rows_of_a_block(precision):
    """The kernel multiplies 120 or 240 rows at once."""
    bilm, n_sentences = make_bilm(**VARIANTS["odd widths"]).set_precision(precision), 300
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


@needs_kernel
@pytest.mark.issue(60)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no limit of the address space")
def test_tiny_widths_need_little_memory():
    """The number of slots between two checks for signals is not that of the multiply-adds of a tiny biLM."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, env=environment)
    assert process.stdout.strip() == "(3, 2, 2)", process.stderr


LIMITS = [("FEW_LANES", 0), ("FEW_LANES", 99), ("GATE_BYTES", 0), ("CALL_MULTIPLICATIONS", 1)]


@needs_kernel
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name, limit", LIMITS)
def test_no_limit_changes_a_bit(variant, name, limit, monkeypatch):
    bilm = make_bilm(**VARIANTS[variant])
    expected = bilm.embed(SENTENCES)
    monkeypatch.setattr(kernel_stack, name, limit)
    bilm.clear_caches()
    for vectors, others in zip(bilm.embed(SENTENCES), expected):
        np.testing.assert_array_equal(vectors, others)


@pytest.mark.parametrize("n", [1, 2, 30])
@pytest.mark.parametrize("engine", ENGINES)
def test_states_go_in_and_come_out(engine, n, monkeypatch):
    force_engine(monkeypatch, engine)
    bilm, texts = make_bilm(), SENTENCES[:30]
    _, start = bilm.embed(texts[::-1], return_state=True)
    vectors, end = bilm.embed(texts[:n], state=start, return_state=True)
    for k in range(n):
        (single,), state = bilm.embed([texts[k]], state=start.row(k), return_state=True)
        np.testing.assert_allclose(vectors[k], single, rtol=0, atol=0 if engine == "kernel" else 1e-5)
        for name in ("h", "c"):
            row = getattr(end, name)[:, k : k + 1]
            torch.testing.assert_close(row, getattr(state, name), rtol=0, atol=0 if engine == "kernel" else 1e-5)
    assert torch.equal(end.h[:, n:], start.h[:, n:]) and not torch.equal(end.h[:, :n], start.h[:, :n])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("variant", ["plain", "odd widths", "highway, no projection"])
@pytest.mark.parametrize(
    "engine, precision",
    [
        ("torch", "float32"),
        pytest.param("kernel", "float32", marks=needs_kernel),
        pytest.param("kernel", "bfloat16", marks=needs_kernel),
        pytest.param("kernel", "int8", marks=needs_kernel),
    ],
)
def test_nan_and_infinity_stay_in_their_sentence(engine, precision, variant, bad, monkeypatch):
    """Also if another sentence follows in the lane, as the first one here."""
    force_engine(monkeypatch, engine)
    bilm = make_bilm(**VARIANTS[variant]).set_precision(precision)
    sentences = [["mill"], ["the", "bad", "bank"], SENTENCE]
    expected = bilm.embed(sentences)
    vectors = bilm._encoder.words.encode(["<S>", "</S>", "bad"])
    bilm.word_cache._table[bilm.word_cache._slots["bad"]] = bad
    found = bilm.embed(sentences)
    assert vectors.isfinite().all() and not np.isfinite(found[1][1:]).all()
    for k in (0, 2):
        np.testing.assert_allclose(found[k], expected[k], rtol=0, atol=1e-5)


@needs_kernel
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("n_in, n_out", [(24, 96), (128, 640), (7, 5), (1, 1), (2048, 24), (512, 4096), (4096, 512)])
def test_a_row_of_a_product_is_exact_and_identical_in_any_batch(n_in, n_out, precision):
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(1, n_in, n_out, generator=generator) / n_in**0.5
    rows, bias = torch.randn(1, 250, n_in), torch.randn(1, 1, n_out)
    matrix = weight
    if precision != "float32":
        matrix = PackedMatrix(weight, precision)
        weight, rows = matrix.dense(), rows.bfloat16().float()
    product = make_product(matrix, slice(0, 1))
    expected = product(rows, bias)
    exact = rows.double() @ weight.double()
    torch.testing.assert_close(expected.double(), exact + bias, rtol=0, atol=1e-5)
    torch.testing.assert_close(product(rows).double(), exact, rtol=0, atol=1e-5)
    for n_rows, n_threads in itertools.product((0, 1, 2, 3, 5, 6, 7, 11, 12, 13, 31, 241), N_THREADS):
        torch.set_num_threads(n_threads)
        assert torch.equal(product(rows[:, :n_rows], bias), expected[:, :n_rows])


@needs_kernel
def test_threads_can_share_a_bilm():
    bilm, results = make_bilm(), {}
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


SCRIPT = """
import hashlib, torch
torch.set_num_threads(1)
from spacy_elmo import load_bilm
from spacy_elmo.inference.kernel import native
vectors = load_bilm("en_elmo_sm").embed([["The", "bank", "raised", "its", "rates", "."], ["a"], ["b"] * 30])
sums = sum(float(abs(array).sum()) for array in vectors)
print(native.INSTRUCTION_SET, hashlib.sha256(b"".join(array.tobytes() for array in vectors)).hexdigest(), sums)
"""
INSTRUCTION_SETS = ("generic", "avx2", "avx512", "avx512_bf16")


def run_script(name):
    environment = {**os.environ, "SPACY_ELMO_CPU_ISA": name, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment)


@needs_kernel
def test_each_instruction_set_can_be_chosen_and_those_with_fma_round_alike():
    processes = {name: run_script(name) for name in INSTRUCTION_SETS}
    results = {name: run.stdout.split() for name, run in processes.items() if run.returncode == 0}
    assert all(result[0] == name for name, result in results.items()) and "generic" in results
    assert len({digest for name, (_, digest, _) in results.items() if name != "generic"}) <= 1
    sums = [float(total) for *_, total in results.values()]
    assert max(sums) - min(sums) < 1e-5 * max(sums)
    for name in set(INSTRUCTION_SETS) - set(results):
        assert "should be one of those that this processor supports" in processes[name].stderr


@needs_kernel
def test_an_unknown_instruction_set_is_an_error():
    assert "SPACY_ELMO_CPU_ISA is 'avx3'" in run_script("avx3").stderr


@needs_kernel
def test_an_interrupt_ends_a_batch(monkeypatch):
    """And the biLM can be used after it. No garbage is collected, as Python ignores what is raised in the callbacks of
    a collection, as those of Hypothesis."""
    signal = pytest.importorskip("signal")
    bilm = make_bilm()
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


def read_kernel_flags(monkeypatch):
    monkeypatch.setattr("setuptools.setup", lambda **settings: None)
    return runpy.run_path(str(Path(__file__).parents[2] / "setup.py"))["KERNEL_FLAGS"]


def find_tile_loops(assembly, weights_type):
    """The innermost loops with multiply-adds of all `multiply_tile` for an index of `TYPES`: the lines of each."""
    loops, labels, is_tile = [], {}, False
    lines = assembly.splitlines()
    for number, line in enumerate(lines):
        if match := re.match(r"(_Z\w+):", line):
            is_tile = re.search(rf"Recurrence\w+Type{weights_type}E\w*multiply_tile", match[1]) is not None
        elif match := re.match(r"(\.L\w+):", line):
            labels[match[1]] = number
        elif is_tile and (match := re.match(r"\s+j\w+\s+(\.L\w+)", line)) and match[1] in labels:
            loop = lines[labels[match[1]] : number + 1]
            is_innermost = sum(re.match(r"\s+j\w+\s+\.L", other) is not None for other in loop) == 1
            if is_innermost and re.search(r"\tv(fmadd|dpbf16)", "\n".join(loop)):
                loops.append(loop)
    return loops


@pytest.mark.slow
@pytest.mark.issue(60)
@pytest.mark.parametrize("name, types", [("avx2", [0]), ("avx512", [0, 1, 2]), ("avx512_bf16", [0, 1])])
def test_inner_loops_are_fused_and_spill_nothing(name, types, monkeypatch):
    """A sum in memory costs a third of the speed; a product that is not fused rounds in another way. 16 registers are
    too few for weights that are expanded."""
    if not shutil.which("g++") or platform.machine() != "x86_64":
        pytest.skip("no g++ for x86-64")
    source = Path(kernel.__file__).with_name(f"_kernel_{name}.cpp")
    command = ["g++", "-S", "-fPIC", *read_kernel_flags(monkeypatch), "-o", "-", str(source)]
    assembly = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for weights_type in types:
        loops = find_tile_loops(assembly, weights_type)
        assert len(loops) >= 12  # of tiles of one to six rows, for the products of inputs and of previous outputs
        for loop in loops:
            assert not [line for line in loop if re.search(r"\tv.*\(%r[sb]p", line)], "\n".join(loop)
            assert not [line for line in loop if re.search(r"\tv(mul|add)ps", line)], "\n".join(loop)


SANITIZERS = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
COMPILERS = {
    "sanitizers": (["g++", *SANITIZERS.split()], []),
    "avx2, sanitizers": (["g++", "-mavx2", "-mfma", *SANITIZERS.split()], []),
    "avx512, sanitizers": (["g++", "-mavx512f", "-mfma", *SANITIZERS.split()], []),
    "avx512_bf16, sanitizers": (["g++", "-mavx512bf16", "-mfma", "-DPAIR_ROWS=12", *SANITIZERS.split()], []),
    "pairs, emulated": (["g++", "-DPAIR_ROWS=12", "-Wno-psabi", *SANITIZERS.split()], []),
    "clang": (["clang++", "-O2"], []),
    "neon": (["aarch64-linux-gnu-g++", "-O2", "-fno-tree-vectorize", "-static"], ["qemu-aarch64"]),
}
REGISTERS = {
    "avx2, sanitizers": (8, 6),
    "avx512, sanitizers": (16, 6),
    "avx512_bf16, sanitizers": (16, 6),
    "pairs, emulated": (16, 6),
    "neon": (4, 12),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILERS)
def test_kernel_is_exact_and_stays_in_its_memory(name, tmp_path, monkeypatch):
    compiler, runner = COMPILERS[name]
    if not all(shutil.which(program) for program in [compiler[0], *runner]):
        pytest.skip(f"{compiler[0]} is not installed")
    if name.startswith("avx") and name.split(",")[0] not in Path("/proc/cpuinfo").read_text(encoding="utf8"):
        pytest.skip("a processor without these instructions")
    width, n_rows = REGISTERS.get(name, (4, 6))
    flags = [flag for flag in read_kernel_flags(monkeypatch) if flag != "-O3"]
    defined = ["-DKERNEL=checked", '-DNAME="checked"', f"-DW={width}", f"-DMAX_ROWS={n_rows}"]
    program = tmp_path / "check"
    source = Path(__file__).with_name("check_kernel.cpp")
    subprocess.run([*compiler, *flags, *defined, "-o", str(program), str(source)], check=True)
    result = subprocess.run([*runner, str(program)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("identical") == 24 and result.stdout.count("inside") == 36
