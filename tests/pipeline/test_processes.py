"""Workers of `nlp.pipe`: data from the parent, and effects of a fork.

`test_workers.py` tests that vectors are equal and workers do not hang.
"""

import os
import pickle

import pytest
import spacy
import srsly
import torch
from catalogue import REGISTRY, Registry
from spacy.language import Language

from spacy_elmo.pipeline.multiprocessing import load_encoders_once

from .tiny import TEXTS, add_elmo

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system"),
    pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning"),
]


@Language.factory("tell")
def make_tell(nlp, name):
    """A component that runs before ELMo and writes down what a worker has from its parent."""

    def tell(doc):
        encoder = nlp.get_pipe("elmo").model.shims[0].bilm._encoder
        doc.user_data["n_threads"] = torch.get_num_threads()
        doc.user_data["is_packed"] = encoder._runner is not None and all(
            product._packed is not None
            for stack in encoder._runner._stacks
            for layer in stack.layers
            for product in layer._products
        )
        doc.user_data["has_start"] = "reset" in encoder._after_boundary
        doc.user_data["searches"] = srsly.msgpack_encoders.entry_points
        return doc

    return tell


@pytest.fixture
def telling():
    """A pipeline that has computed nothing yet; afterwards this process has the threads that it had."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    nlp = spacy.blank("en")
    nlp.add_pipe("tell")
    add_elmo(nlp)
    yield nlp
    torch.set_num_threads(n_threads)


def test_forked_workers_have_one_thread_each_and_share_packed_weights(telling):
    docs = list(telling.pipe(TEXTS * 2, n_process=2, batch_size=3))
    assert {doc.user_data["n_threads"] for doc in docs} == {1}
    assert all(doc.user_data["is_packed"] and doc.user_data["has_start"] for doc in docs)
    assert not any(doc.user_data["searches"] for doc in docs)
    assert torch.get_num_threads() == 2


def test_a_fork_continues_if_a_component_cannot_be_prepared():
    nlp = spacy.blank("en")
    elmo = nlp.add_pipe("elmo")
    nlp.config["initialize"]["components"]["elmo"] = {"loader": {"@misc": "spacy-elmo.BiLMLoader.v1", "path": "none"}}
    pid = os.fork()
    if not pid:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert elmo.sizes is None


def test_pickling_in_the_main_process_does_not_change_threads(telling):
    torch.set_num_threads(2)
    assert pickle.loads(pickle.dumps(telling.get_pipe("elmo"))).sizes == telling.get_pipe("elmo").sizes
    assert torch.get_num_threads() == 2


@pytest.fixture
def registry():
    registry = Registry(("spacy_elmo_test", "encoders"), entry_points=True)
    registry.register("first", func=len)
    yield registry
    for key in [key for key in REGISTRY if key[0] == "spacy_elmo_test"]:
        del REGISTRY[key]


def test_entry_points_are_searched_once_and_what_is_registered_later_is_found(registry, monkeypatch):
    monkeypatch.setattr(Registry, "get_entry_points", lambda self: {"of a package": max} if self is registry else {})
    monkeypatch.setattr(srsly, "msgpack_encoders", registry)
    for _ in range(2):
        load_encoders_once()
    assert not registry.entry_points
    assert registry.get_all() == {"first": len, "of a package": max}
    registry.register("second", func=sum)
    assert registry.get_all()["second"] is sum
