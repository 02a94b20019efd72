"""Workers of `nlp.pipe`: by fork after the parent has computed with several threads, by spawn and by forkserver."""

import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap

import numpy
import pytest
import torch
from spacy.language import Language

from .tiny import BILM, TEXTS, make_tagger, train

SCRIPT = """
import multiprocessing
import sys

import numpy
import spacy
import torch
from spacy.language import Language

import spacy_elmo.pipeline.model as elmo_model
from tests.pipeline.tiny import BILM, TEXTS

BIG = {**BILM, "cell_width": 256, "projection_width": 64}


@Language.component("tell_threads")
def tell_threads(doc):
    doc.user_data["n_threads"] = torch.get_num_threads()
    return doc


def packaged(name):
    return elmo_model.make_random_bilm(BIG, 1)


def main():
    multiprocessing.set_start_method(sys.argv[1])
    torch.set_num_threads(2)
    nlp = spacy.blank("en")
    elmo_model.load_bilm = packaged
    nlp.add_pipe("elmo", config={"set_vectors": True})
    nlp.add_pipe("tell_threads")
    texts = TEXTS * 2
    elmo = nlp.get_pipe("elmo")
    found = list(nlp.pipe(texts, n_process=2, batch_size=4))
    assert elmo.sizes  # filled in the parent, whatever the start method
    assert {doc.user_data["n_threads"] for doc in found} == {1}
    for doc, text in zip(found, texts):
        alone = nlp(text)
        assert doc.text == text
        numpy.testing.assert_allclose(doc._.elmo_layers, alone._.elmo_layers, atol=1e-5)
        numpy.testing.assert_allclose(doc._.elmo, alone._.elmo, atol=1e-5)
        for token, other in zip(doc, alone):
            numpy.testing.assert_allclose(token._.elmo, other._.elmo, atol=1e-5)
            numpy.testing.assert_array_equal(token.vector, token._.elmo)
    print("equal")


if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in multiprocessing.get_all_start_methods() if name != "fork"])
def test_new_workers_give_equal_vectors_of_weights_that_the_parent_loads(tmp_path, pytestconfig, method):
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(tmp_path / "script.py"), method]
    paths = os.pathsep.join(map(str, (pytestconfig.rootpath, pytestconfig.rootpath / "tests")))
    environment = {"PYTHONPATH": paths, "OMP_NUM_THREADS": "2"}
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert result.returncode == 0 and result.stdout.strip() == "equal", result.stderr


# In this process: data from the parent, and effects of a fork


def forks(test):
    """Mark a test that forks this process."""
    test = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")(test)
    return pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")(test)


@Language.component("tell")
def tell(doc):
    doc.user_data["n_threads"] = torch.get_num_threads()
    return doc


@forks
@pytest.mark.filterwarnings("ignore:.*W109:UserWarning")  # spaCy does not send hooks
def test_forked_workers_have_one_thread_each_and_give_the_same():
    n_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        nlp = make_tagger(bilm={**BILM, "cell_width": 256, "projection_width": 64}, set_vectors=True)
        nlp.add_pipe("tell", first=True)
        elmo = nlp.get_pipe("elmo")
        # The parent's thread pool is busy before the workers exist.
        list(nlp.pipe([" ".join(TEXTS)] * 10))
        train(nlp, 1)
        docs = list(nlp.pipe(TEXTS * 2, n_process=2, batch_size=3))
        assert {doc.user_data["n_threads"] for doc in docs} == {1}
        assert pickle.loads(pickle.dumps(elmo)).sizes == elmo.sizes and torch.get_num_threads() == 2
        for doc, text in zip(docs, TEXTS * 2, strict=True):
            alone = nlp(text)
            numpy.testing.assert_allclose(doc._.elmo, alone._.elmo, atol=1e-5)
            assert [token.tag_ for token in doc] == [token.tag_ for token in alone]
            for token in doc:  # the first read of `._.elmo` has set hooks again
                numpy.testing.assert_array_equal(token.vector, token._.elmo)
    finally:
        torch.set_num_threads(n_threads)
