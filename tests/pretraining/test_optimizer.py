"""Updates against the formulas of the papers, dense and sparse; unfreezing of layers."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from pretraining.small_run import TRANSFORMER, make_run

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.network import BiLMNetwork, SoftmaxHead
from spacy_elmo.pretraining.optimizer import PretrainOptimizer, layer_groups, rate_factor
from spacy_elmo.pretraining.run_config import OptimizerConfig, ScheduleConfig

BILM = BiLMConfig(n_words=9, n_layers=2, cell_width=6, projection_width=4)
CONSTANT = ScheduleConfig(name="constant", warmup_steps=0)
ADAGRAD = OptimizerConfig(name="adagrad", learn_rate=0.2, grad_clip=1e9)
ADAM = replace(ADAGRAD, name="adam", learn_rate=0.01)
ADAMW = replace(ADAM, name="adamw", weight_decay=0.1)
CASES = [(ADAGRAD, False), (ADAGRAD, True), (ADAM, False), (ADAM, True), (ADAMW, False)]  # settings, sparse or not
ROW_NAMES = ("network.word_embedding", "head.weight", "head.bias")  # what can have sparse gradients


class Training:
    """A network and a head whose gradients are drawn at random."""

    def __init__(self, settings, *, tied=False, schedule=CONSTANT, sparse=False):
        torch.manual_seed(0)
        self.network = BiLMNetwork(BILM)
        self.head = SoftmaxHead.tied(self.network.word_embedding) if tied else SoftmaxHead(9, 4)
        self.optimizer = PretrainOptimizer(self.network, self.head, settings, schedule, max_tokens=1000)
        self.sparse = sparse
        self.generator = torch.Generator().manual_seed(1)

    def draw(self):
        """Give every trained parameter a gradient, zero in most rows of a table."""
        for name, parameter in self.optimizer.named.items():
            grad = torch.randn(parameter.shape, generator=self.generator)
            if name in ROW_NAMES:
                rows = torch.randint(0, 9, (3,), generator=self.generator)  # may hold a row twice
                values = torch.randn(3, *parameter.shape[1:], generator=self.generator)
                grad = torch.sparse_coo_tensor(rows[None], values, parameter.shape, check_invariants=True)
                grad = grad if self.sparse else grad.to_dense()
            if parameter.requires_grad:
                parameter.grad = grad

    def update(self, step=0, n_tokens=0):
        self.optimizer.zero_grad()
        self.draw()
        return self.optimizer.step(step=step, n_tokens=n_tokens)

    def weights(self):
        return {name: parameter.detach().clone() for name, parameter in self.optimizer.named.items()}

    def changed(self, *arguments):
        """Names of the layers that an update changes."""
        before = self.weights()
        self.update(*arguments)
        after = self.weights()
        groups = self.optimizer.groups
        return [name for name, group in groups.items() if any(not torch.equal(before[k], after[k]) for k in group)]


@pytest.fixture(params=["adagrad", "adam", "adamw"])
def settings(request):
    return {"adagrad": ADAGRAD, "adam": ADAM, "adamw": ADAMW}[request.param]


def test_adagrad_follows_duchi_with_sums_that_start_at_one():
    training = Training(ADAGRAD)
    weights, sums = training.weights(), dict.fromkeys(training.optimizer.named, 1.0)
    for _ in range(3):
        training.optimizer.zero_grad()
        training.draw()
        grads = {name: part.grad.clone() for name, part in training.optimizer.named.items()}
        training.optimizer.step(step=0, n_tokens=0)
        for name, grad in grads.items():
            sums[name] = sums[name] + grad**2
            weights[name] = weights[name] - 0.2 * grad / sums[name] ** 0.5
    for name, part in training.optimizer.named.items():
        torch.testing.assert_close(part.detach(), weights[name])


def test_sparse_adam_changes_the_rows_of_the_gradient_as_adam_and_no_others():
    dense, sparse = Training(ADAM), Training(ADAM, sparse=True)
    start = sparse.weights()
    for training in (dense, sparse):
        training.update()
    for name in ROW_NAMES:
        torch.testing.assert_close(sparse.optimizer.named[name], dense.optimizer.named[name])
    met = sparse.optimizer.state_dict()[0]["head.weight.exp_avg_sq"].sum(1) > 0
    assert 0 < int(met.sum()) < 9
    assert torch.equal(sparse.head.weight[~met].detach(), start["head.weight"][~met])


def test_dense_and_sparse_gradients_are_clipped_by_one_norm():
    for sparse in (False, True):
        training = Training(replace(ADAGRAD, grad_clip=1.5), sparse=sparse)
        training.draw()
        dense = [part.grad.to_dense().clone() for part in training.optimizer.parameters]
        norm = float(torch.cat([part.flatten() for part in dense]).norm())
        before = training.weights()
        info = training.optimizer.step(step=0, n_tokens=0)
        assert info.grad_norm == pytest.approx(norm, rel=1e-6) and norm > 1.5
        for (name, part), grad in zip(training.optimizer.named.items(), dense):
            scaled = grad * 1.5 / norm
            torch.testing.assert_close(part.detach(), before[name] - 0.2 * scaled / (1 + scaled**2).sqrt())


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_changes_nothing(settings, bad):
    training = Training(settings)
    training.update()
    before, moments = training.weights(), {k: v.clone() for k, v in training.optimizer.state_dict()[0].items()}
    training.draw()
    training.network.encoder.layers[0].bias.grad[0, 0] = bad
    info = training.optimizer.step(step=1, n_tokens=10)
    assert info.grad_norm != info.grad_norm or info.grad_norm == float("inf")
    assert all(torch.equal(part, before[name]) for name, part in training.optimizer.named.items())
    assert all(torch.equal(part, moments[name]) for name, part in training.optimizer.state_dict()[0].items())


def test_rates_fall_from_layer_to_layer_and_weights_decay_but_no_bias():
    training = Training(ADAMW)
    for part in training.optimizer.parameters:
        torch.nn.init.ones_(part)
        part.grad = torch.zeros_like(part)
    training.optimizer.step(step=0, n_tokens=0)
    for name, part in training.optimizer.named.items():
        wanted = 1.0 if name.endswith("bias") else 1.0 - 0.01 * 0.1
        assert float(part.detach().flatten()[0]) == pytest.approx(wanted), name
    # Adam's first update is the learning rate, whatever the gradient.
    training = Training(replace(ADAM, layer_decay=0.5))
    before = training.weights()
    info = training.update()
    assert info.learn_rate == 0.01
    for depth, group in enumerate(training.optimizer.groups.values()):
        for name, part in group.items():
            change = float((part.detach() - before[name]).abs().max())
            assert change == pytest.approx(0.01 * 0.5**depth, rel=1e-3), name


@pytest.mark.parametrize("settings, sparse", CASES)
def test_layers_are_unfrozen_from_the_top_by_the_optimizer(settings, sparse):
    training = Training(replace(settings, unfreeze_tokens=100), sparse=sparse)
    order = ["head", "layers.1", "layers.0", "words"]
    assert training.changed(0, 0) == training.changed(1, 99) == order[:1]
    assert training.changed(2, 100) == order[:1]  # the update that finds the tokens are over
    assert training.changed(3, 110) == order[:2]
    training.update(4, 250)
    assert training.changed(5, 250) == order[:3]
    training.update(6, 900)
    assert training.changed(7, 900) == order


MAX_TOKENS = 1000


def _factors(name, **settings):
    """Factor of 100 updates of 10 tokens each."""
    config = ScheduleConfig(name=name, **settings)
    return [rate_factor(config, step=k, n_tokens=10 * k, max_tokens=MAX_TOKENS) for k in range(100)]


def test_learning_rates_follow_their_formulas():
    """Slanted triangles as in Howard and Ruder (2018)."""
    for name, settings, wanted in (
        ("constant", {"warmup_steps": 0}, {50: 1.0, 99: 1.0}),
        ("linear", {"warmup_steps": 0}, {50: 0.5, 99: 0.01}),
        ("cosine", {"warmup_steps": 0}, {50: 0.5, 99: 0.000247}),
        ("inverse_sqrt", {"warmup_steps": 0}, {50: (1 / 51) ** 0.5, 99: 0.1}),
        (
            "slanted_triangular",
            {"cut_frac": 0.1, "ratio": 32.0},
            {0: 1 / 32, 5: (1 + 0.5 * 31) / 32, 10: 1.0, 55: (1 + 0.5 * 31) / 32, 99: (1 + 31 / 90) / 32},
        ),
    ):
        factors = _factors(name, **settings)
        assert {step: factors[step] for step in wanted} == pytest.approx(wanted, rel=1e-2), name
        assert max(factors) == pytest.approx(1.0)


WORDS = {"char_cnn": None, "n_words": 16}
ADAGRAD_WORDS = {"name": "adagrad", "learn_rate": 0.2, "grad_clip": 1.0}


def _train(text, n_updates, *, tied, optimizer, **settings):
    run = make_run(Path("unused"), text, bilm=WORDS, tied=tied, optimizer=optimizer, **settings)
    trainer = run.trainer
    torch.manual_seed(0)
    losses = [float(trainer.update().loss) for _ in range(n_updates)]
    return losses, trainer


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("settings", [{}, {"accumulate": 2}, {"precision": "float16"}], ids=["", "two", "float16"])
def test_sparse_words_give_the_losses_of_dense_ones(text, monkeypatch, tied, settings):
    dense, _ = _train(text, 8, tied=tied, optimizer=ADAGRAD_WORDS, **settings)
    seen, step = {}, PretrainOptimizer.step

    def watched(self, **arguments):
        seen.update({name: part.grad.is_sparse for name, part in self.named.items() if part.grad is not None})
        return step(self, **arguments)

    monkeypatch.setattr(PretrainOptimizer, "step", watched)
    sparse, trainer = _train(text, 8, tied=tied, optimizer={**ADAGRAD_WORDS, "sparse": True}, **settings)
    tables = {"network.word_embedding", "head.bias"} | (set() if tied else {"head.weight"})
    assert {name for name, is_sparse in seen.items() if is_sparse} == tables
    assert sparse == pytest.approx(dense, rel=1e-3 if settings.get("precision") else 1e-5)
    assert trainer.optimizer.settings.sparse


LAYOUT = {"unroll_steps": 16, "max_sentence_tokens": 15, "max_tokens": 16 * 4 * 20, "eval_every": 10}


@pytest.mark.usefixtures("one_thread")
def test_discriminative_rates_and_unfreezing_know_the_layers_of_a_transformer(text, tmp_path):
    optimizer = {"learn_rate": 0.02, "layer_decay": 0.5, "unfreeze_tokens": 300}
    run = make_run(tmp_path / "out", text, bilm=TRANSFORMER, optimizer=optimizer, **LAYOUT)
    groups = layer_groups(run.trainer.network, run.trainer.head)
    assert list(groups) == ["head", "layers.1", "layers.0", "words"]
    assert "network.encoder.norm.weight" in groups["layers.1"]
    before = {name: weight.clone() for name, weight in run.trainer.network.state_dict().items()}
    run.begin()
    run.trainer.update()
    assert all(torch.equal(weight, before[name]) for name, weight in run.trainer.network.state_dict().items())
    while run.trainer.n_tokens < 1200:
        run.trainer.update()
    after = run.trainer.network.state_dict()
    unchanged = {name for name, weight in after.items() if torch.equal(weight, before[name])}
    assert not unchanged
