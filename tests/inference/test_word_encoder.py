"""A word has the same vector, to the last bit, whatever it is computed with; the cache is bounded and never wrong."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from inference.forcing import needs_kernel
from nn.tiny import make_bilm
from unicode_texts import random_words

from spacy_elmo.bilm.char_cnn import CharCNN
from spacy_elmo.bilm.config import CharCNNConfig
from spacy_elmo.inference import word_encoder as word_encoder
from spacy_elmo.inference.word_encoder import ConstantWords
from spacy_elmo.text.words import Utf8Codec

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


@pytest.mark.issue(37)
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
