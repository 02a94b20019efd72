"""A word has the same vector, to the last bit, whatever it is computed with; the cache is bounded and never wrong."""

import copy
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from inference.forcing import needs_kernel
from nn.tiny import make_bilm, make_language_model
from own_process import run_script
from reference.seeded_manylangs import MANYLANGS_KINDS, make_architecture, write_manylangs
from unicode_texts import random_words

from spacy_elmo import load_bilm
from spacy_elmo.bilm.char_cnn import CharCNN
from spacy_elmo.bilm.config import CharCNNConfig
from spacy_elmo.inference import word_encoder as word_encoder
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.inference.word_encoder import ConstantWords
from spacy_elmo.text.words import Utf8Codec, Vocabulary

# Sums over 1,024 features: BLAS splits these.
WIDE_CONFIG = CharCNNConfig(filters=((1, 64), (3, 192), (7, 768)), n_highway=1)
MIXED = [*"abcdefgh", "the", "", *random_words(40)]


def encode(char_cnn, words):
    ids, lengths = Utf8Codec(50).encode(words)
    return char_cnn(torch.from_numpy(ids), lengths.tolist())


@pytest.fixture(scope="module")
def char_cnn():
    torch.manual_seed(0)
    return CharCNN(WIDE_CONFIG, 32)


@needs_kernel
@pytest.mark.parametrize("n_words", [1, 2, 3, 9, 20])
def test_vectors_are_bit_identical_in_every_batch(char_cnn, n_words):
    constant = ConstantWords(char_cnn)
    whole = encode(constant, MIXED)
    parts = [encode(constant, MIXED[i : i + n_words]) for i in range(0, len(MIXED), n_words)]
    assert torch.equal(torch.cat(parts), whole)


@needs_kernel
@pytest.mark.parametrize("kind", ["characters and words", "LSTM over characters", "LSTM over characters alone"])
def test_vectors_of_elmo_for_many_langs_are_bit_identical_in_every_batch(kind, tmp_path):
    write_manylangs(tmp_path / "model", make_architecture(**MANYLANGS_KINDS[kind]))
    bilm = load_bilm(tmp_path / "model")
    words = [*"abcdefgh", "the", *("lamp" * (i % 9) + "xyz"[: i % 4] + "a" for i in range(40))]
    in_company = bilm.embed([words])[0][0]  # the lowest layer
    for i, word in enumerate(words):
        bilm.clear_caches()
        assert np.array_equal(bilm.embed([[word]])[0][0, 0], in_company[i]), word


@torch.no_grad()
def test_vectors_are_those_of_the_network(char_cnn):
    constant = ConstantWords(char_cnn)
    torch.testing.assert_close(encode(constant, MIXED), encode(char_cnn, MIXED), atol=1e-5, rtol=0)


WIDTH = 8
BYTES_PER_WORD = 4 * WIDTH
WORDS = [f"w{i}" for i in range(500)]


@pytest.fixture
def encoder():
    return make_bilm()._encoder.words


@pytest.mark.parametrize("n_kept", [500, 3])
def test_after_an_error_no_word_is_without_its_vector(encoder, n_kept):
    encoder.cache.max_bytes = n_kept * BYTES_PER_WORD
    encoder.encode(WORDS[:3])
    with pytest.raises(RuntimeError):
        encoder.cache.add(["new", "words"], torch.zeros(2, WIDTH + 1))
    for words in (["new", "words"], WORDS[:3], ["words", WORDS[1]]):
        torch.testing.assert_close(encoder.encode(words), encoder.compute(words))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_waits_for_a_thread_that_is_within_the_cache(encoder):
    wanted = encoder.encode(WORDS[:3])
    inside, left = threading.Event(), threading.Event()

    def stay_inside():
        with word_encoder.CACHE_LOCK:
            inside.set()
            left.wait(timeout=0.3)

    def others_get_the_lock():
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(word_encoder.CACHE_LOCK.acquire, timeout=5.0).result()

    thread = threading.Thread(target=stay_inside)
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that hangs is ended
        is_right = torch.equal(encoder.encode(WORDS[:3]), wanted) and others_get_the_lock()
        os._exit(0 if is_right and not thread.is_alive() else 1)
    left.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(encoder.encode, WORDS[:3]).result(timeout=20).shape == wanted.shape


SENTENCES = [["She", "sat", "on", "the", "bank"], ["Oslo"]]
VOCABULARY_WORDS = ["<S>", "</S>", "<UNK>", "She", "bank"]
FUSED = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad)


def step_optimizer(make, keeps_last=False, **settings):
    def change(bilm, other):
        optimizer = make(bilm.network.parameters(), lr=0.1, **settings)
        bilm.encode(SENTENCES, with_grad=True).sum().backward()
        for weight in bilm.network.parameters() if keeps_last else ():
            weight.grad[(-1,) * weight.dim()] = 0.0
        optimizer.step()

    return change


def replace_network(bilm, other):
    bilm.network = other


def replace_encoder(bilm, other):
    bilm.network.encoder = other.encoder


def change_in_place(bilm, other):
    with torch.no_grad():
        bilm.network.char_cnn.embedding.mul_(0.5)


def replace_data(bilm, other):
    for weight, new in zip(bilm.network.parameters(), other.parameters()):
        weight.data = new.detach().clone()


CHANGES = {
    "optimizer.step": step_optimizer(torch.optim.Adam),
    **{f"fused {make.__name__}": step_optimizer(make, fused=True) for make in FUSED},
    "fused SGD that keeps the last values": step_optimizer(torch.optim.SGD, keeps_last=True, fused=True),
    "network": replace_network,
    "module": replace_encoder,
    "in place": change_in_place,
    "load_state_dict": lambda bilm, other: bilm.network.load_state_dict(other.state_dict()),
    "load_state_dict, assign": lambda bilm, other: bilm.network.load_state_dict(other.state_dict(), assign=True),
    "data": replace_data,
    "values of data": lambda bilm, other: [weight.data.mul_(0.5) for weight in bilm.network.parameters()],
}


CALLS = {
    "embed": lambda bilm: np.concatenate(bilm.embed(SENTENCES), axis=1),
    "encode": lambda bilm: bilm.encode(SENTENCES).numpy(),
    "iter_encode": lambda bilm: torch.cat([rows for _, _, rows in bilm.iter_encode(SENTENCES)], dim=1).numpy(),
    "steady_state": lambda bilm: bilm.steady_state.h.numpy(),
    "perplexity": lambda bilm: bilm.perplexity(SENTENCES, state="reset").mean,
}


def check_change(call, change, device="cpu"):
    bilm = make_language_model(VOCABULARY_WORDS).to(device)
    other = copy.deepcopy(bilm.network)
    for weight in other.parameters():
        weight.data = weight.data * 0.7
    before = np.array(CALLS[call](bilm))
    CHANGES[change](bilm, other)
    after = np.array(CALLS[call](bilm))
    fresh = CALLS[call](BiLM(copy.deepcopy(bilm.network), vocabulary=bilm.vocabulary, head=bilm.head))
    assert not np.allclose(before, after, atol=1e-4)
    np.testing.assert_allclose(after, fresh, atol=1e-6)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("call", CALLS)
def test_changed_weights_are_noticed(change, call):
    check_change(call, change)


@pytest.mark.gpu
@pytest.mark.parametrize("make", FUSED[:3])
def test_steps_of_fused_optimizers_are_noticed_on_a_gpu(make):
    check_change("embed", f"fused {make.__name__}", "cuda")


@pytest.mark.parametrize("is_replaced", [False, True])
def test_changed_token_embeddings_are_noticed(is_replaced):
    words = ["<S>", "</S>", "<UNK>", *SENTENCES[0]]
    network, table = make_language_model(VOCABULARY_WORDS).network, torch.rand(len(words), 8)
    bilm = BiLM(network, vocabulary=Vocabulary(words), token_embeddings=table)
    bilm.embed(SENTENCES)
    if is_replaced:
        bilm.token_embeddings = table * 2
    else:
        table *= 2  # those of <S> and </S>, too, with which states begin
    fresh = BiLM(network, vocabulary=Vocabulary(words), token_embeddings=table * (2 if is_replaced else 1))
    np.testing.assert_array_equal(bilm.embed(SENTENCES)[0], fresh.embed(SENTENCES)[0])


@pytest.mark.slow
def test_the_first_vector_does_not_import_the_compiler_of_torch():
    """`torch.nn.init` on meta tensors does, which takes longer than reading the weights."""
    code = "import sys, spacy; nlp = spacy.blank('en'); nlp.add_pipe('elmo'); nlp('Oslo sleeps.')[0]._.elmo;"
    assert run_script(code + "print('torch._dynamo' in sys.modules)") == "False\n"
