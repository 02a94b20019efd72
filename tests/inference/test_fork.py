"""Forked children of a process that has computed with several threads."""

import os

import pytest
from own_process import run_script

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
@pytest.mark.issue(48)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("place", list(PLACES))
def test_forked_child_does_not_hang(place):
    """What computes with threads of torch is the first of ours to do so in its process."""
    prepare, act = PLACES[place]
    assert run_script(SCRIPT.format(prepare=prepare, act=act), n_threads=2) == "done\n"
