"""On a GPU: the same numbers as on the CPU, training, and moving between devices."""

import numpy
import pytest
import spacy
import torch
from nn.tiny import make_language_model
from thinc.api import NumpyOps, get_current_ops, require_cpu, require_gpu
from thinc.util import to_numpy

from spacy_elmo.nn import BiLSTM
from spacy_elmo.util import has_cupy

from .tiny import LISTENER, TEXTS, make_examples, make_tagger, task_encoder, with_elmo

pytestmark = pytest.mark.gpu
needs_cupy = pytest.mark.skipif(not has_cupy, reason="thinc computes on a GPU through cupy")
LIMIT = 1e-4
SENTENCES = [["She", "sat", "on", "the", "bank"], [], ["Rivers", "flow"], ["sea"] * 30]


@pytest.fixture
def gpu():
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
    return make_language_model(["<S>", "</S>", "<UNK>", "She", "sat", "on", "the", "bank", "sea"], std=0.3)


@pytest.mark.parametrize(
    "state, precision, limit",
    [
        *((state, "float32", LIMIT) for state in ("reset", "steady", "carry")),
        ("reset", "bfloat16", 0.05),
        ("reset", "float16", 0.05),
    ],
)
def test_vectors_and_perplexity_are_those_of_the_cpu(state, precision, limit):
    bilm = make_bilm()
    wanted, perplexity = bilm.embed(SENTENCES, state=state), bilm.perplexity(SENTENCES, state=state)
    on_gpu = bilm.to("cuda").set_precision(precision)
    for found, layers in zip(on_gpu.embed(SENTENCES, state=state), wanted):
        assert isinstance(found, numpy.ndarray)
        numpy.testing.assert_allclose(found, layers, atol=limit)
    assert on_gpu.word_cache._table.is_cuda
    if precision == "float32":
        found = on_gpu.perplexity(SENTENCES, state=state)
        assert found.n_tokens == perplexity.n_tokens and found.mean == pytest.approx(perplexity.mean, rel=LIMIT)


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
        nlp = with_elmo()
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


def test_biaffine_parser_finds_the_trees_of_the_cpu(gpu):
    def train():
        nlp = with_elmo()
        model = {"tok2vec": LISTENER, "arc_width": 16, "label_width": 16, "dropout": 0.0}
        nlp.add_pipe("biaffine_parser", config={"model": model})
        optimizer = nlp.initialize(lambda: make_examples(nlp))
        losses = [nlp.update(make_examples(nlp), sgd=optimizer)["biaffine_parser"] for _ in range(3)]
        return losses, [[(token.head.i, token.dep_) for token in doc] for doc in nlp.pipe(TEXTS)]

    require_cpu()
    wanted_losses, wanted = train()
    require_gpu()
    losses, found = train()
    numpy.testing.assert_allclose(losses, wanted_losses, rtol=1e-3)
    assert found == wanted
