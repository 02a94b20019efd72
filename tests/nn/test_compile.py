"""`torch.compile` of models with ELMo: a graph break around the biLM, and the numbers of eager mode."""

import os
import shutil

import pytest
import torch
from compat.tiny import files  # noqa: F401  a fixture
from nn.tiny import SENTENCES, WIDTH, make_bilm

from spacy_elmo.compat import allennlp
from spacy_elmo.nn import Elmo, batch_to_ids

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of the compiler itself
]
BACKENDS = ["eager", "inductor"]


@pytest.fixture(autouse=True)
def forget_graphs():
    torch._dynamo.reset()


class Tagger(torch.nn.Module):
    def __init__(self, **settings):
        super().__init__()
        self.elmo = Elmo(make_bilm(), dropout=0.0, **settings)
        self.lstm = torch.nn.LSTM(WIDTH, 4, batch_first=True)
        self.scores = torch.nn.Linear(4, 3)

    def forward(self, inputs):
        (vectors,), mask = self.elmo(inputs)
        return self.scores(self.lstm(vectors)[0]).masked_fill(~mask.unsqueeze(-1), 0.0)


def compile_or_skip(model, backend):
    if backend == "inductor" and not shutil.which(os.environ.get("CXX", "g++")):
        pytest.skip("torch.compile needs a C++ compiler")
    return torch.compile(model, backend=backend)


def get_gradients(model, inputs):
    model.zero_grad()
    model(inputs).square().sum().backward()
    return [parameter.grad for parameter in model.parameters() if parameter.requires_grad]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("is_trained", [False, True])
def test_a_compiled_tagger_has_the_scores_and_gradients_of_eager_mode(backend, is_trained):
    model = Tagger(trainable=is_trained)
    compiled = compile_or_skip(model, backend)
    for inputs in (SENTENCES, batch_to_ids(SENTENCES), [["the"] * 9, ["bank"]], SENTENCES[:1]):
        torch.testing.assert_close(compiled(inputs), model(inputs), atol=1e-5, rtol=0.0)
    for one, other in zip(get_gradients(compiled, SENTENCES), get_gradients(model, SENTENCES), strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    with torch.no_grad():
        before = compiled(SENTENCES)
        model.elmo.bilm.network.char_cnn.embedding.mul_(2.0)  # compiled code notices it, too
        assert not torch.allclose(compiled(SENTENCES), before)
        torch.testing.assert_close(compiled(SENTENCES), model(SENTENCES), atol=1e-5, rtol=0.0)


def test_replacements_can_be_compiled(files):  # noqa: F811  the fixture
    """The state is carried, so that each side has its own module."""
    inputs = batch_to_ids(SENTENCES)
    for make in (allennlp.Elmo, allennlp.ElmoTokenEmbedder, allennlp.ElmoBiLm):
        settings = {"num_output_representations": 1} if make is allennlp.Elmo else {}
        modules = [make(files.options, files.weights, **settings).eval() for _ in range(2)]
        compiled = torch.compile(modules[0], backend="eager")
        for _ in range(2):
            found, wanted = compiled(inputs), modules[1](inputs)
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0.0)
