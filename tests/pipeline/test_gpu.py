"""On a GPU: the same numbers as on the CPU, training, and moving between devices."""

import numpy
import pytest
import spacy
import torch
from thinc.api import NumpyOps, get_current_ops, require_cpu, require_gpu
from thinc.util import to_numpy

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.model import BiLMNetwork, SoftmaxHead
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.inference.lanes import LaneRun
from spacy_elmo.nn import BiLSTM
from spacy_elmo.text.words import Vocabulary
from spacy_elmo.util import has_cupy

from .placements import task_encoder
from .tiny import BILM, LISTENER, TEXTS, add_elmo, make_examples, make_tagger

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU"),
]
needs_cupy = pytest.mark.skipif(not has_cupy, reason="thinc computes on a GPU through cupy")
LIMIT = 1e-4
SENTENCES = [["She", "sat", "on", "the", "bank"], [], ["Rivers", "flow"], ["sea"] * 30]


@pytest.fixture
def gpu():
    """Thinc on the GPU for one test."""
    require_gpu()
    yield
    require_cpu()


@needs_cupy
def test_component_gives_the_vectors_of_the_cpu(gpu):
    require_cpu()
    wanted = [doc._.elmo_layers for doc in make_tagger().pipe(TEXTS)]
    require_gpu()
    nlp = make_tagger()
    assert nlp.get_pipe("elmo").model.shims[0].bilm.device.type == "cuda"
    for doc, layers in zip(nlp.pipe(TEXTS), wanted):
        assert not isinstance(doc._.elmo_layers, numpy.ndarray)
        numpy.testing.assert_allclose(to_numpy(doc._.elmo_layers), layers, atol=LIMIT)
        numpy.testing.assert_allclose(to_numpy(doc._.elmo), layers.mean(axis=0), atol=LIMIT)
        if len(doc):
            numpy.testing.assert_allclose(to_numpy(doc[:1]._.elmo), layers[:, 0].mean(axis=0), atol=LIMIT)


@needs_cupy
@pytest.mark.parametrize("frozen,norm", [(True, None), (False, "token"), (False, "bilm-tf")])
def test_training_step_with_a_listener(gpu, frozen, norm):
    nlp = make_tagger({**LISTENER, "layer_norm": norm}, model={"frozen": frozen})
    (listener,) = nlp.get_pipe("elmo").listeners
    before = to_numpy(listener.mix.get_param("w")).copy()
    losses = [nlp.update(make_examples(nlp))["tagger"] for _ in range(5)]
    assert numpy.isfinite(losses).all() and losses[-1] < losses[0]
    assert abs(to_numpy(listener.mix.get_param("w")) - before).max() > 0
    assert len(nlp("She sat")) == 2


@needs_cupy
def test_pipeline_that_was_trained_on_the_gpu_runs_on_the_cpu(gpu, tmp_path):
    nlp = make_tagger()
    nlp.update(make_examples(nlp))
    wanted = to_numpy(nlp(TEXTS[0])._.elmo)
    nlp.to_disk(tmp_path / "pipeline")
    require_cpu()
    assert isinstance(get_current_ops(), NumpyOps)
    doc = spacy.load(tmp_path / "pipeline")(TEXTS[0])
    numpy.testing.assert_allclose(doc._.elmo, wanted, atol=LIMIT)


def make_bilm():
    words = ["<S>", "</S>", "<UNK>", "She", "sat", "on", "the", "bank", "sea"]
    torch.manual_seed(0)
    config = BiLMConfig.from_dict(BILM)
    head = SoftmaxHead(len(words), config.projection_width)
    torch.nn.init.normal_(head.weight, std=0.3)
    return BiLM(BiLMNetwork(config), vocabulary=Vocabulary(words), head=head)


@pytest.mark.parametrize("state", ["reset", "steady", "carry"])
def test_embed_gives_the_vectors_of_the_cpu(state):
    bilm = make_bilm()
    wanted = bilm.embed(SENTENCES, state=state)
    for found, layers in zip(bilm.to("cuda").embed(SENTENCES, state=state), wanted):
        assert isinstance(found, numpy.ndarray)
        numpy.testing.assert_allclose(found, layers, atol=LIMIT)
    assert bilm.word_cache._table.is_cuda


def test_steps_do_not_wait_for_the_device(monkeypatch):
    def watch(run):
        def watched(*arguments):
            torch.cuda.set_sync_debug_mode("error")
            try:
                return run(*arguments)
            finally:
                torch.cuda.set_sync_debug_mode("default")

        return watched

    monkeypatch.setenv("SPACY_ELMO_CUDA_GRAPHS", "0")
    monkeypatch.setattr(LaneRun, "run", watch(LaneRun.run))
    bilm = make_bilm()
    wanted = bilm.embed(SENTENCES)
    for found, layers in zip(bilm.to("cuda").embed(SENTENCES), wanted):
        numpy.testing.assert_allclose(found, layers, atol=LIMIT)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_fewer_bits_are_near(precision):
    bilm = make_bilm()
    wanted = bilm.embed(SENTENCES)
    for found, layers in zip(bilm.to("cuda").set_precision(precision).embed(SENTENCES), wanted):
        numpy.testing.assert_allclose(found, layers, atol=0.05)


@pytest.mark.parametrize("state", ["reset", "carry"])
def test_perplexity_is_that_of_the_cpu(state):
    bilm = make_bilm()
    wanted = bilm.perplexity(SENTENCES, state=state)
    found = bilm.to("cuda").perplexity(SENTENCES, state=state)
    assert found.n_tokens == wanted.n_tokens
    assert found.mean == pytest.approx(wanted.mean, rel=LIMIT)


@needs_cupy
def test_task_encoder_gives_the_vectors_of_the_cpu_and_learns(gpu):
    require_cpu()
    nlp = make_tagger(task_encoder())
    wanted = nlp.get_pipe("tagger").model.get_ref("tok2vec").predict(list(nlp.pipe(TEXTS)))
    data = nlp.to_bytes()
    require_gpu()
    nlp = make_tagger(task_encoder()).from_bytes(data)
    found = nlp.get_pipe("tagger").model.get_ref("tok2vec").predict(list(nlp.pipe(TEXTS)))
    for one, other in zip(found, wanted, strict=True):
        numpy.testing.assert_allclose(to_numpy(one), other, atol=LIMIT)
    for _ in range(3):
        losses = nlp.update(make_examples(nlp))
    assert numpy.isfinite(losses["tagger"])


def test_task_encoders_use_no_tf32_and_keep_the_flags_of_the_caller():
    """Forward and backward pass; TF32 has errors of 1e-3 of the largest value here."""
    torch.manual_seed(0)
    module, rows, mask = BiLSTM(256, 256), torch.randn(8, 40, 256), torch.ones(8, 40, dtype=torch.bool)
    d_rows = torch.randn(8, 40, 512)
    found = []
    for device in ("cpu", "cuda"):
        module.to(device).zero_grad()
        inputs = rows.detach().to(device, copy=True).requires_grad_()
        before = torch.backends.cudnn.allow_tf32
        outputs = module(inputs, mask.to(device))
        outputs.backward(d_rows.to(device))
        assert torch.backends.cudnn.allow_tf32 == before
        gradients = [inputs.grad, *(parameter.grad for parameter in module.parameters())]
        found.append([tensor.detach().cpu().clone() for tensor in (outputs, *gradients)])
    for one, other in zip(*found, strict=True):
        assert (one - other).abs().max() < 1e-5 * other.abs().max()


def test_crf_finds_the_entities_of_the_cpu(gpu):
    def train():
        nlp = spacy.blank("en")
        add_elmo(nlp)
        nlp.add_pipe("crf_ner", config={"model": {"tok2vec": LISTENER}})
        optimizer = nlp.initialize(lambda: make_examples(nlp))
        losses = [nlp.update(make_examples(nlp), sgd=optimizer)["crf_ner"] for _ in range(3)]
        return losses, [[(ent.text, ent.label_) for ent in doc.ents] for doc in nlp.pipe(TEXTS)]

    require_cpu()
    wanted_losses, wanted = train()
    require_gpu()
    losses, found = train()
    numpy.testing.assert_allclose(losses, wanted_losses, rtol=1e-3)
    assert found == wanted
