"""A listener uses the layers of its own training batch, and no other."""

import numpy
import pytest

from spacy_elmo.pipeline.listener import get_listeners

from .tiny import make_examples


@pytest.mark.parametrize("change", [lambda examples: examples[:1], lambda examples: examples[::-1]])
def test_other_docs_than_the_batch_are_an_error_where_the_bilm_is_trained(make_pipeline, change):
    nlp = make_pipeline(elmo={"model": {"frozen": False}})
    examples = make_examples(nlp)
    nlp.get_pipe("elmo").update(examples)
    with pytest.raises(ValueError, match="gradient would not reach the biLM"):
        nlp.get_pipe("tagger").update(change(examples))


@pytest.mark.parametrize("change", [lambda examples: examples[:1], lambda examples: examples[::-1]])
def test_layers_of_other_docs_than_the_batch_are_computed(make_pipeline, change):
    nlp = make_pipeline()
    examples = make_examples(nlp)
    nlp.get_pipe("elmo").update(examples)
    (listener,) = get_listeners(nlp.get_pipe("tagger").model)
    docs = [eg.predicted for eg in change(examples)]
    found, _ = listener.begin_update(docs)
    check_same(found, listener.predict([nlp.get_pipe("elmo")(doc) for doc in docs]))


@pytest.mark.parametrize("frozen", [True, False])
def test_copies_of_the_batch_get_its_layers_and_return_its_gradient(make_pipeline, frozen):
    """The entity linker trains on copies."""
    nlp = make_pipeline(elmo={"model": {"frozen": frozen}})
    elmo, examples = nlp.get_pipe("elmo"), make_examples(nlp)
    elmo.update(examples)
    (listener,) = get_listeners(nlp.get_pipe("tagger").model)
    docs = [eg.predicted for eg in examples]
    wanted, _ = listener.begin_update(docs)
    found, backprop = listener.begin_update([doc.copy() for doc in docs])
    check_same(found, wanted)
    backprop(found)
    gradients = [parameter.grad for parameter in elmo.model.shims[0].bilm.network.parameters()]
    assert all(gradient is None for gradient in gradients)
    elmo._flush(None)
    gradients = [parameter.grad for parameter in elmo.model.shims[0].bilm.network.parameters()]
    assert all((gradient is None) == frozen for gradient in gradients)


def test_later_docs_of_the_same_words_are_no_copies(make_pipeline):
    nlp = make_pipeline()
    (listener,) = get_listeners(nlp.get_pipe("tagger").model)
    nlp.get_pipe("elmo").update(make_examples(nlp))
    docs = [eg.predicted for eg in make_examples(nlp)]
    assert listener.received(docs) is not None
    nlp.update(make_examples(nlp))
    assert listener.received(docs) is None


def check_same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        numpy.testing.assert_allclose(one, other, atol=1e-6)


def test_changed_tokens_of_a_batch_are_an_error(make_pipeline):
    nlp = make_pipeline()
    examples = make_examples(nlp)
    nlp.get_pipe("elmo").update(examples)
    with examples[0].predicted.retokenize() as retokenizer:
        retokenizer.merge(examples[0].predicted[0:2])
    with pytest.raises(ValueError, match="tokens of a training batch have changed"):
        nlp.get_pipe("tagger").update(examples)


def test_a_component_that_is_frozen_later_annotates_each_batch(make_pipeline):
    """What the listener received while the component was active is of no use any more, whatever the words."""
    nlp = make_pipeline()
    (listener,) = get_listeners(nlp.get_pipe("tagger").model)
    examples = make_examples(nlp)
    nlp.update(examples)
    docs = [eg.predicted for eg in make_examples(nlp)][::-1]
    for doc in docs:
        nlp.get_pipe("elmo")(doc)
    trained, _ = listener.begin_update(docs)
    for found, wanted in zip(trained, listener.predict(docs)):
        numpy.testing.assert_array_equal(found, wanted)
    nlp.update(make_examples(nlp), exclude=["elmo"])
