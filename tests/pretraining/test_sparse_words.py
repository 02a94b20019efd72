"""Sparse gradients of word input: only the rows of words in the batch change; losses equal those of dense gradients."""

from pathlib import Path

import pytest
import torch
from pretraining.small_run import make_run, write_text

from spacy_elmo.pretraining.optimizer import PretrainOptimizer

WORDS = {"char_cnn": None, "n_words": 16}
ADAGRAD = {"name": "adagrad", "learn_rate": 0.2, "grad_clip": 1.0}


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path / "text.txt")


def _train(text, n_updates, *, tied, optimizer, **settings):
    run = make_run(Path("unused"), text, bilm=WORDS, tied=tied, optimizer=optimizer, **settings)
    trainer = run.trainer
    torch.manual_seed(0)
    losses = [float(trainer.update().loss) for _ in range(n_updates)]
    return losses, trainer


def _seen_gradients(monkeypatch):
    """Layout of each gradient when the optimizer gets it."""
    seen = {}
    step = PretrainOptimizer.step

    def watched(self, **arguments):
        seen.update({name: part.grad.is_sparse for name, part in self.named.items() if part.grad is not None})
        return step(self, **arguments)

    monkeypatch.setattr(PretrainOptimizer, "step", watched)
    return seen


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("settings", [{}, {"accumulate": 2}, {"precision": "float16"}], ids=["", "two", "float16"])
def test_sparse_words_give_the_losses_of_dense_ones(text, monkeypatch, tied, settings):
    dense, _ = _train(text, 8, tied=tied, optimizer=ADAGRAD, **settings)
    seen = _seen_gradients(monkeypatch)
    sparse, trainer = _train(text, 8, tied=tied, optimizer={**ADAGRAD, "sparse": True}, **settings)
    tables = {"network.word_embedding", "head.bias"} | (set() if tied else {"head.weight"})
    assert {name for name, is_sparse in seen.items() if is_sparse} == tables
    assert sparse == pytest.approx(dense, rel=1e-3 if settings.get("precision") else 1e-5)
    assert trainer.optimizer.settings.sparse


@pytest.mark.parametrize("name", ["adagrad", "adam"])
def test_unused_words_do_not_change(text, name):
    run = make_run(Path("unused"), text, bilm=WORDS, optimizer={"name": name, "sparse": True})
    table = run.trainer.network.word_embedding
    before = table.detach().clone()
    run.trainer.update()
    run.trainer.update()
    ids = run.vocabulary.ids(["<S>", "</S>", "the", "river"])
    changed = (table.detach() != before).any(dim=1)
    assert changed[ids].any() and not changed[run.vocabulary.unk_id]


def test_sparse_words_beside_a_full_softmax(text, monkeypatch):
    """Only the table of words is sparse then; shared with the softmax it has a gradient in every row."""
    for tied in (False, True):
        seen = _seen_gradients(monkeypatch)
        _train(text, 2, tied=tied, optimizer={**ADAGRAD, "sparse": True}, softmax={"kind": "full"})
        assert seen["network.word_embedding"] is not tied and not seen["head.bias"]
