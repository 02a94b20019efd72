"""Layers of spaCy that multiply by the native kernel."""

import pickle

import numpy
import pytest
import spacy
from inference.forcing import needs_kernel
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import NumpyOps, fix_random_seed

from spacy_elmo.pipeline.kernel_ops import KERNEL_PRODUCTS, KernelOps, use_kernel

pytestmark = [pytest.mark.issue(61), needs_kernel]
TEXTS = ["The bank raised its rates.", "", "We walked along the bank, and it rained.", "Rivers"] * 3
CALLBACK = {"nlp": {"after_pipeline_creation": {"@callbacks": KERNEL_PRODUCTS}}}


def make_examples(nlp):
    """Tags and entities by the case of a word."""
    docs = [nlp.make_doc(text) for text in TEXTS if text]
    return [
        Example.from_dict(
            doc,
            {
                "tags": ["UPPER" if token.is_title else "LOWER" for token in doc],
                "entities": ["U-NAME" if token.is_title else "O" for token in doc],
            },
        )
        for doc in docs
    ]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A trained pipeline, with the operations of Thinc."""
    nlp = spacy.blank("en")
    for name in ("tok2vec", "tagger", "ner"):
        nlp.add_pipe(name)
    optimizer = nlp.initialize(lambda: make_examples(nlp))
    for _ in range(3):
        nlp.update(make_examples(nlp), sgd=optimizer)
    nlp.to_disk(tmp_path_factory.mktemp("nlp"))
    return nlp.path or tmp_path_factory.getbasetemp() / "nlp0"


def find_ops(nlp):
    return {type(node.ops) for _, pipe in nlp.components for node in pipe.model.walk()}


def annotate(nlp, **settings):
    docs = list(nlp.pipe(TEXTS, **settings))
    return [([token.tag_ for token in doc], [str(ent) for ent in doc.ents]) for doc in docs], [d.tensor for d in docs]


def test_predictions_are_those_of_thinc_and_vectors_have_the_same_bits_in_any_batch(path, tmp_path):
    plain, nlp = spacy.load(path), spacy.load(path, config=CALLBACK)
    assert find_ops(plain) == {NumpyOps} and find_ops(nlp) == {KernelOps}
    expected, vectors = annotate(plain)
    nlp.to_disk(tmp_path)
    copies = [spacy.load(tmp_path), use_kernel(pickle.loads(pickle.dumps(plain)))]
    runs = [(nlp, {}), (nlp, {"batch_size": 1}), (nlp, {"batch_size": 3}), *((other, {}) for other in copies)]
    _, first = annotate(nlp)
    for pipeline, settings in runs:
        annotation, found = annotate(pipeline, **settings)
        assert annotation == expected and find_ops(pipeline) == {KernelOps}
        for rows, expected_rows, first_rows in zip(found, vectors, first):
            numpy.testing.assert_allclose(rows, expected_rows, atol=1e-5)
            numpy.testing.assert_array_equal(rows, first_rows)
    assert annotate(nlp, n_process=2)[0] == expected


def test_training_gives_what_it_gives_with_thinc(path):
    losses = []
    for config in ({}, CALLBACK):
        nlp = spacy.load(path, config=config)
        fix_random_seed()  # the recognizer cuts sentences at random
        optimizer = nlp.resume_training()
        losses.append([nlp.update(make_examples(nlp), sgd=optimizer, losses={}) for _ in range(3)])
        assert nlp("The rates")[0].tag_ == "UPPER"
    for plain, kernel in zip(*losses):
        assert kernel == pytest.approx(plain, rel=1e-2)


@pytest.mark.parametrize("settings", [{}, {"trans1": True}, {"trans2": True}, {"trans1": True, "trans2": True}])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_product_is_that_of_numpy(settings, dtype):
    x, y = numpy.arange(12.0, dtype=dtype).reshape(3, 4), numpy.arange(20.0, dtype=dtype).reshape(4, 5)
    shapes = [
        (rows.T.copy() if is_transposed else rows)
        for rows, is_transposed in zip((x, y), (settings.get("trans1"), settings.get("trans2")))
    ]
    numpy.testing.assert_allclose(KernelOps(use_blis=False).gemm(*shapes, **settings), x @ y)
    out = numpy.empty((3, 5), dtype=dtype)
    assert KernelOps(use_blis=False).gemm(*shapes, out=out, **settings) is out
    numpy.testing.assert_allclose(out, x @ y)


def test_empty_docs_and_none_are_no_error(path):
    nlp = spacy.load(path, config=CALLBACK)
    assert list(nlp.pipe([])) == [] and len(nlp(Doc(nlp.vocab))) == 0
