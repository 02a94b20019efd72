"""What the workers of `nlp.pipe` get from the parent, and when more of them are too many.

That they give equal vectors, and do not hang, is in `test_workers.py`.
"""

import os
import pickle
import warnings
from dataclasses import dataclass

import pytest
import spacy
import srsly
import torch
from catalogue import REGISTRY, Registry
from spacy.language import Language

from spacy_elmo.encoding.encoder import MAX_LANES
from spacy_elmo.encoding.fork import share_threads
from spacy_elmo.ml import workers
from spacy_elmo.pipeline import callbacks
from spacy_elmo.pipeline.callbacks import find_pipe_call
from spacy_elmo.pipeline.registries import RememberingRegistry, remember_encoders

from .tiny import BILM, TEXTS, add_elmo

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
            for number, layer in enumerate(stack.layers)
            for product in (layer._from_input, layer._from_both if number else layer._from_output, layer._project)
        )
        doc.user_data["remembers"] = type(srsly.msgpack_encoders) is RememberingRegistry
        return doc

    return tell


@pytest.fixture
def telling(monkeypatch):
    """A pipeline that has computed nothing yet; afterwards this process has the threads that it had."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    nlp = spacy.blank("en")
    nlp.add_pipe("tell")
    config = add_elmo(nlp).model.shims[0].bilm.config
    full = MAX_LANES * config.projection_width * 4 * config.cell_width
    monkeypatch.setattr("spacy_elmo.encoding.runner.AT_ONCE", full)  # the way of many lanes for all lanes at least
    yield nlp
    torch.set_num_threads(n_threads)
    share_threads(1)


def set_cores(monkeypatch, n_cores):
    for module in (workers, callbacks):
        monkeypatch.setattr(module, "available_cores", lambda: n_cores)


@pytest.mark.parametrize("n_cores,n_threads", [(1, 1), (2, 1), (4, 2), (64, 2)])
def test_forked_workers_share_cores_and_packed_weights(telling, monkeypatch, n_cores, n_threads):
    """Each has its share of the cores, but no more threads than the user gave the parent."""
    set_cores(monkeypatch, n_cores)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of one core; tested below
        docs = list(telling.pipe(TEXTS * 2, n_process=2, batch_size=3))
    assert {doc.user_data["n_threads"] for doc in docs} == {n_threads}
    assert all(doc.user_data["is_packed"] and doc.user_data["remembers"] for doc in docs)


def test_other_forks_get_one_thread_and_pack_nothing(telling):
    list(telling.pipe(TEXTS, n_process=2))
    del telling
    other = spacy.blank("en")
    elmo = add_elmo(other)
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(write, bytes([torch.get_num_threads(), elmo.model.shims[0].bilm._encoder._runner is None]))
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(read, 2) == bytes([1, True])


def test_without_a_way_to_drop_the_pool_a_worker_has_one_thread(telling, monkeypatch):
    set_cores(monkeypatch, 64)
    monkeypatch.setattr("spacy_elmo.encoding.fork._drop_pool", lambda: False)
    assert {doc.user_data["n_threads"] for doc in telling.pipe(TEXTS, n_process=2)} == {1}


def told(nlp, **kwargs):
    """Warnings of a call. Those of a fork cannot become errors."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        list(nlp.pipe(TEXTS * 3, batch_size=2, **kwargs))
    return [str(one.message) for one in found if issubclass(one.category, UserWarning)]


def test_more_processes_than_cores_warn_once_a_call(telling, monkeypatch):
    set_cores(monkeypatch, 2)
    for _ in range(2):
        (message,) = told(telling, n_process=3)
        assert "3 processes on 2 cores" in message and "n_process to 2" in message
    assert not told(telling, n_process=2)
    assert not told(telling)
    assert not told(telling, n_process=3, disable=["elmo", "tell"])


def test_two_processes_on_two_cores_warn_if_only_elmo_runs(telling, monkeypatch):
    set_cores(monkeypatch, 2)
    (message,) = told(telling, n_process=2, disable=["tell"])
    assert "2 processes on 2 cores" in message and "n_process at 1" in message
    set_cores(monkeypatch, 4)
    assert not told(telling, n_process=2, disable=["tell"])
    set_cores(monkeypatch, 2)
    torch.set_num_threads(1)  # one process leaves a core idle
    assert not told(telling, n_process=2, disable=["tell"])


def test_components_without_a_hash_are_not_ours(telling, monkeypatch):
    @dataclass
    class Plain:
        name: str = "plain"

        def __call__(self, doc):
            return doc

    Language.factory("plain", func=lambda nlp, name: Plain())
    set_cores(monkeypatch, 2)
    telling.add_pipe("plain")
    assert not told(telling, n_process=2, disable=["tell"])


def test_a_biLM_of_one_direction_has_no_use_for_two_cores(telling, monkeypatch):
    set_cores(monkeypatch, 2)
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm={**BILM, "directions": "forward"})
    assert not told(nlp, n_process=2)


def test_pickling_without_workers_is_not_a_call_of_pipe(telling):
    assert find_pipe_call() is None
    torch.set_num_threads(1)
    assert pickle.loads(pickle.dumps(telling.get_pipe("elmo"))).sizes == telling.get_pipe("elmo").sizes
    assert torch.get_num_threads() == 1


@pytest.fixture
def registry():
    registry = Registry(("spacy_elmo_test", "encoders"), entry_points=True)
    registry.register("first", func=len)
    yield registry
    for key in [key for key in REGISTRY if key[0] == "spacy_elmo_test"]:
        del REGISTRY[key]


def test_registry_remembers_until_something_is_registered(registry, monkeypatch):
    registry.__class__ = RememberingRegistry
    assert registry.get_all() == registry.get_all() == {"first": len}
    with monkeypatch.context() as patch:
        patch.setattr(Registry, "get_all", None)  # it does not look again
        assert registry.get_all() == {"first": len}
    Registry(registry.namespace).register("second", func=max)  # by another way
    assert registry.get_all() == {"first": len, "second": max}
    registry("second", func=min)
    assert registry.get_all()["second"] is min
    registry("second")(sum)
    assert registry.get_all()["second"] is sum


def test_encoders_stay_the_same_and_foreign_registries_are_left_alone(monkeypatch):
    class Other(Registry):
        pass

    registries = (srsly.msgpack_encoders, srsly.msgpack_decoders)
    before = [Registry.get_all(registry) for registry in registries]
    remember_encoders()
    remember_encoders()
    assert [registry.get_all() for registry in registries] == before
    assert all(type(registry) is RememberingRegistry for registry in registries)
    other = Other(("spacy_elmo_test", "others"))
    monkeypatch.setattr(srsly, "msgpack_encoders", other)
    remember_encoders()
    assert type(other) is Other


def test_a_fork_that_is_told_nothing_has_one_thread_whatever_an_older_one_had(telling, monkeypatch):
    """Python only prints what goes wrong before a fork, and forks."""

    def fail(call):
        raise UserWarning("made an error by a filter")

    shared = []
    monkeypatch.setattr(callbacks, "find_pipe_call", lambda: callbacks.PipeCall(2, (telling.get_pipe("elmo"),), True))
    monkeypatch.setattr(callbacks, "meet_pipe_call", fail)
    monkeypatch.setattr(callbacks, "share_threads", shared.append)
    with pytest.raises(UserWarning):
        callbacks._before_fork()
    assert shared == [1]
