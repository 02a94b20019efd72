"""Threads of the kernel: the same numbers, with as many threads as torch has."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from inference.forcing import ENGINES, force_engine
from own_process import run_script

from spacy_elmo import load_bilm
from spacy_elmo.inference import kernel_stack, runtime
from spacy_elmo.inference.runtime import run_parallel

SENTENCES = [
    ["She", "sat", "on", "the", "bank"],
    ["Oslo"],
    ["The", "bank", "raised", "its", "rates", "."],
    ["a", "b"],
] * 16


@pytest.fixture
def set_threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_an_error_in_a_thread_reaches_the_caller_who_can_go_on(set_threads):
    set_threads(2)

    def fail(item):
        raise RuntimeError(f"no {item}")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="no (forward|backward)"):
            run_parallel(fail, ["forward", "backward"])
    assert run_parallel(abs, [1, -2]) == [1, 2]


@pytest.mark.parametrize("has_busy_thread", [False, True])
def test_what_no_thread_takes_is_computed_by_the_caller(has_busy_thread, set_threads, monkeypatch):
    """Nothing of it is kept, and what a thread of an earlier call takes meanwhile is waited for."""
    set_threads(3)
    monkeypatch.setattr(runtime, "_pool", ThreadPoolExecutor(8))
    started = threading.Event()
    if has_busy_thread:
        runtime._pool.submit(lambda: started.set() or time.sleep(0.1))
        started.wait()

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for _ in range(3):
        assert run_parallel(lambda item: time.sleep(0.1) or item, [1, 2, 3]) == [1, 2, 3]
    assert runtime._pool._work_queue.empty()


@pytest.mark.issue(60)
def test_threads_that_compute_after_an_interrupt_are_the_only_ones(set_threads):
    """Nothing computes beside them until they have finished; then all threads are used again."""
    set_threads(2)
    started, can_finish, caller = threading.Event(), threading.Event(), threading.current_thread()
    finished = []

    def interrupt_caller(item):
        if threading.current_thread() is caller:
            started.wait()
            raise KeyboardInterrupt
        started.set()
        can_finish.wait()
        finished.append(item)

    with pytest.raises(KeyboardInterrupt):
        run_parallel(interrupt_caller, range(9))
    assert run_parallel(lambda item: threading.current_thread(), [1, 2]) == [caller, caller] and not finished
    can_finish.set()
    assert any(
        len({*run_parallel(lambda item: time.sleep(0.01) or threading.get_ident(), [1, 2])}) == 2 for _ in range(500)
    )
    assert len(finished) == 1


SCRIPT = """
import threading, time, torch
from spacy_elmo.inference.runtime import run_parallel
torch.set_num_threads(2)

def work():
    threading.main_thread().join()
    time.sleep(0.2)
    print(run_parallel(lambda item: item + 1, [1, 2]))

threading.Thread(target=work).start()
"""


@pytest.mark.parametrize("is_warm", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_thread_that_outlives_the_main_thread_can_compute(is_warm):
    assert run_script(SCRIPT + ("run_parallel(int, [1, 2])\n" if is_warm else "")) == "[2, 3]\n"


@pytest.fixture(scope="module")
def of_one_thread():
    """Vectors of the packaged biLM, computed once, with one thread as in all tests."""
    assert torch.get_num_threads() == 1
    return load_bilm("en_elmo_sm").embed(SENTENCES, state="steady")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_vectors_are_the_same_with_one_thread_and_with_two(of_one_thread, set_threads, monkeypatch, mode, engine):
    calls = []

    def count(function, items, **options):
        calls.append(len(items))
        return run_parallel(function, items, **options)

    force_engine(monkeypatch, engine)
    monkeypatch.setattr(kernel_stack, "run_parallel", count)
    bilm = load_bilm("en_elmo_sm")
    set_threads(2)
    with mode():
        found = bilm.embed(SENTENCES, state="steady")
    assert set(calls) == ({2} if engine == "kernel" else set())  # torch computes both directions in each product
    later = bilm.embed([["words", "of", "later"], *SENTENCES], state="steady")[1:]
    atol = 0.0 if engine == "kernel" else 2e-6
    for one, two, other in zip(of_one_thread, found, later):
        np.testing.assert_allclose(one, two, atol=atol, rtol=0.0)
        np.testing.assert_allclose(one, other, atol=atol, rtol=0.0)
