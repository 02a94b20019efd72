"""Forked children of a process that has computed with several threads."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import os, torch
from spacy_elmo.bilm.config import BiLMConfig, CharCNNConfig
from spacy_elmo.bilm.lm_head import SoftmaxHead
from spacy_elmo.bilm.model import BiLMNetwork
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.text.words import Vocabulary

torch.set_num_threads(2)
characters = CharCNNConfig(embedding_width=16, filters=((1, 64), (2, 128)), n_highway=1)
config = BiLMConfig(char_cnn=characters, n_layers=2, cell_width=512, projection_width=128)
vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "a", "b"])
bilm = BiLM(BiLMNetwork(config), vocabulary=vocabulary, head=SoftmaxHead(5, 128))
sentences = [["a", "b"] * 25] * 20
ACTIONS = {"embed": bilm.embed, "encode": bilm.encode, "perplexity": bilm.perplexity}
for name, act in ACTIONS.items():
    act(sentences)
    child = os.fork()
    if child == 0:
        act(sentences)
        if name == "encode":  # threads of Python stay in the parent, too
            from spacy_elmo.inference.runtime import run_parallel
            torch.set_num_threads(2)
            run_parallel(int, [1, 2])
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0 and torch.get_num_threads() == 2
print("done")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_child_does_not_hang(pytestconfig):
    environment = {**os.environ, "PYTHONPATH": str(pytestconfig.rootpath), "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT]
    # In a session of its own, so that a child that hangs can be ended with its parent.
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    try:
        output, errors = process.communicate(timeout=200)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        pytest.fail("the child hangs")
    assert process.returncode == 0 and output.strip() == "done", errors
