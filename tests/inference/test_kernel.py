"""The native kernel: products are exact and bit-identical in every batch, on every instruction set, in their memory."""

import itertools
import platform
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from inference.forcing import needs_kernel
from own_process import run_script

from spacy_elmo.inference import kernel
from spacy_elmo.inference.kernel import PackedMatrix
from spacy_elmo.inference.products import make_product

N_THREADS = (1, 2, 3, 8)


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


SCRIPT = """
import hashlib, numpy, torch
from spacy_elmo import load_bilm
from spacy_elmo.inference.kernel import native
from spacy_elmo.inference.kernel_lstm import PackedLSTM
from spacy_elmo.inference.lstm_sequences import run_lstm
vectors = load_bilm("en_elmo_sm").embed([["The", "bank", "raised", "its", "rates", "."], ["a"], ["b"] * 30])
rng = numpy.random.default_rng(0)
shapes = [(60, 50), *2 * [(4 * 37, 50), (4 * 37, 37), (4 * 37,), (4 * 37,)]]
rows, *weights = (torch.from_numpy(0.3 * rng.normal(size=shape).astype("float32")) for shape in shapes)
vectors.append(run_lstm(rows, [10, 50], weights, PackedLSTM()).numpy())
sums = sum(float(abs(array).sum()) for array in vectors)
print(native.INSTRUCTION_SET, hashlib.sha256(b"".join(array.tobytes() for array in vectors)).hexdigest(), sums)
"""
INSTRUCTION_SETS = ("generic", "avx2", "avx512", "avx512_bf16")


@needs_kernel
def test_each_instruction_set_can_be_chosen_and_those_with_fma_round_alike():
    n_supported = INSTRUCTION_SETS.index(kernel.native.INSTRUCTION_SET) + 1
    results = [run_script(SCRIPT, SPACY_ELMO_CPU_ISA=name).split() for name in INSTRUCTION_SETS[:n_supported]]
    assert [name for name, *_ in results] == list(INSTRUCTION_SETS[:n_supported])
    assert len({digest for name, digest, _ in results if name != "generic"}) <= 1
    np.testing.assert_allclose([float(total) for *_, total in results], float(results[0][2]), rtol=1e-5)


@needs_kernel
def test_an_unknown_instruction_set_is_an_error():
    with pytest.raises(AssertionError, match="SPACY_ELMO_CPU_ISA is 'avx3', but should be one of those"):
        run_script("import spacy_elmo.inference.kernel", SPACY_ELMO_CPU_ISA="avx3")


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
