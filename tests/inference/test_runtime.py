"""Reused working memory, threads and forked processes: never part of a result, and no process hangs."""

import os
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
from spacy_elmo.inference.runtime import map_pages, run_parallel


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a fork beside threads, from Python 3.12 on
def test_a_forked_process_has_pages_of_its_own():
    pages = map_pages(8)
    assert pages[:] == b"\0" * 8
    child = os.fork()
    if not child:
        pages[:4] = b"mine"
        os._exit(0)
    os.waitpid(child, 0)
    assert pages[:] == b"\0" * 8


SENTENCES = [f"the river runs past mill {n} and the bank".split()[: 3 + n % 6] for n in range(40)]


@pytest.fixture(scope="module")
def bilm():
    return load_bilm("en_elmo_sm")


def test_slices_share_memory_only_when_asked_to(bilm):
    def pointers(**options):
        found = [rows for _, _, rows in bilm.iter_encode(SENTENCES, batch_tokens=30, **options)]
        return found, {rows.data_ptr() for rows in found}

    kept, places = pointers()
    assert len(kept) > 3 and len(places) == len(kept)
    reused, places = pointers(reuse_memory=True)
    assert len(reused) == len(kept) and len(places) == 1
    assert torch.equal(kept[-1], reused[-1]) and not torch.equal(kept[0], reused[0])
    whole = bilm.embed(SENTENCES, batch_tokens=30)
    np.testing.assert_array_equal(np.concatenate(whole, axis=1), torch.cat(kept, dim=1).numpy())


@pytest.mark.parametrize("state", ["reset", "carry"])
def test_two_interleaved_readers_do_not_disturb_each_other(bilm, state):
    settings = {"state": state, "batch_tokens": 30, "group_lengths": [20, 20], "reuse_memory": True}
    expected = [rows.clone() for _, _, rows in bilm.iter_encode(SENTENCES, **settings)]
    other = bilm.iter_encode(SENTENCES[::-1], **settings)
    for number, (_, _, rows) in enumerate(bilm.iter_encode(SENTENCES, **settings)):
        if number < 3:
            next(other)
        elif number == 3:
            other.close()  # a reader that goes no further
        bilm.embed(SENTENCES[5:9])
        assert torch.equal(rows, expected[number])
    assert number > 3


def test_memory_that_is_not_there_is_told_with_the_setting():
    with pytest.raises(MemoryError, match="There is no memory for .* MB .*batch_tokens"):
        map_pages(2**62)


TEXTS = [
    ["She", "sat", "on", "the", "bank"],
    ["Oslo"],
    ["The", "bank", "raised", "its", "rates", "."],
    ["a", "b"],
] * 16


def test_an_error_in_a_thread_reaches_the_caller_who_can_go_on():
    torch.set_num_threads(2)

    def fail(item):
        raise RuntimeError(f"no {item}")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="no (forward|backward)"):
            run_parallel(fail, ["forward", "backward"])
    assert run_parallel(abs, [1, -2]) == [1, 2]


@pytest.mark.parametrize("has_busy_thread", [False, True])
def test_what_no_thread_takes_is_computed_by_the_caller(has_busy_thread, monkeypatch):
    """Nothing of it is kept, and what a thread of an earlier call takes meanwhile is waited for."""
    torch.set_num_threads(3)
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


def test_threads_that_compute_after_an_interrupt_are_the_only_ones():
    """Nothing computes beside them until they have finished; then all threads are used again."""
    torch.set_num_threads(2)
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


OUTLIVING = """
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
    assert run_script(OUTLIVING + ("run_parallel(int, [1, 2])\n" if is_warm else "")) == "[2, 3]\n"


@pytest.fixture(scope="module")
def of_one_thread():
    """Vectors of the packaged biLM, computed once, with one thread as in all tests."""
    assert torch.get_num_threads() == 1
    return load_bilm("en_elmo_sm").embed(TEXTS, state="steady")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_vectors_are_the_same_with_one_thread_and_with_two(of_one_thread, monkeypatch, mode, engine):
    calls = []

    def count(function, items, **options):
        calls.append(len(items))
        return run_parallel(function, items, **options)

    force_engine(monkeypatch, engine)
    monkeypatch.setattr(kernel_stack, "run_parallel", count)
    bilm = load_bilm("en_elmo_sm")
    torch.set_num_threads(2)
    with mode():
        found = bilm.embed(TEXTS, state="steady")
    assert set(calls) == ({2} if engine == "kernel" else set())  # torch computes both directions in each product
    later = bilm.embed([["words", "of", "later"], *TEXTS], state="steady")[1:]
    atol = 0.0 if engine == "kernel" else 2e-6
    for one, two, other in zip(of_one_thread, found, later):
        np.testing.assert_allclose(one, two, atol=atol, rtol=0.0)
        np.testing.assert_allclose(one, other, atol=atol, rtol=0.0)


BILM = """
from nn.tiny import make_network
from spacy_elmo.bilm.network import SoftmaxHead
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.text.words import Vocabulary

characters = {"embedding_width": 16, "filters": [[1, 64], [2, 128]], "n_highway": 1}
network = make_network(char_cnn=characters, cell_width=512, projection_width=128)
bilm = BiLM(network, vocabulary=Vocabulary(["<S>", "</S>", "<UNK>", "a", "b"]), head=SoftmaxHead(5, 128))
sentences = [["a", "b"] * 25] * 20
"""
PARALLEL = """
def act():
    bilm.encode(sentences)
    if os.getpid() != PARENT:  # threads of Python stay in the parent, too
        from spacy_elmo.inference.runtime import run_parallel
        torch.set_num_threads(2)
        run_parallel(int, [1, 2])
"""
NGRAMS = """
import spacy
from spacy_elmo.pipeline.text_classifier import TextCatNgrams
nlp = spacy.blank("en")
docs = [nlp.make_doc(f"text {i}") for i in range(20)]
model = TextCatNgrams(None, True, nO=2)
model.initialize(docs)
"""
MODULES = "rows, mask = torch.rand(40, 50, 64), torch.ones(40, 50, dtype=bool)\n"
ENCODER = """
import numpy
from spacy_elmo.pipeline.task_layers import BiLSTMEncoder
sequences = [numpy.ones((50, 64), dtype="float32")] * 40
encoder = BiLSTMEncoder(64, 2)
encoder.initialize(X=sequences)
"""
LSTM = "from spacy_elmo.compat.allennlp import ElmoLstm; m = ElmoLstm(64, 64, 128, 1); act = lambda: m(rows, mask)"
PLACES = {
    "encode": (BILM, PARALLEL),
    "perplexity": (BILM, "act = lambda: bilm.perplexity(sentences)"),
    "unpickled n-grams": (NGRAMS, "act = lambda: pickle.loads(pickle.dumps(model)).predict(docs)"),
    "nn.BiLSTM": (MODULES, "from spacy_elmo.nn import BiLSTM; m = BiLSTM(64, 64); act = lambda: m(rows, mask)"),
    "nn.BiLSTM without gradients": (
        MODULES,
        "from spacy_elmo.nn import BiLSTM; m = BiLSTM(64, 64).requires_grad_(False); act = lambda: m(rows, mask)",
    ),
    "BiLSTMEncoder": (ENCODER, "act = lambda: encoder.predict(sequences)"),
    "nn.ScalarMix": (MODULES, "from spacy_elmo.nn import ScalarMix; m = ScalarMix(3); act = lambda: m([rows] * 3)"),
    "AllenNLP's LSTM": (MODULES, LSTM),
}
SCRIPT = """
import os, pickle, signal, torch
torch.set_num_threads(2)
PARENT = os.getpid()
{prepare}
{act}
act()
child = os.fork()
if child == 0:
    signal.alarm(60)  # a child that hangs is ended
    act()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0 and torch.get_num_threads() == 2
print("done")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("place", list(PLACES))
def test_forked_child_does_not_hang(place):
    """What computes with threads of torch is the first of ours to do so in its process."""
    prepare, act = PLACES[place]
    assert run_script(SCRIPT.format(prepare=prepare, act=act), n_threads=2) == "done\n"
