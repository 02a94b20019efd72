"""A listener uses the layers of its own training batch, and no other."""

import numpy
import pytest

from spacy_elmo.ml.listener import get_listeners

from .tiny import make_examples


@pytest.mark.parametrize("change", [lambda examples: examples[:1], lambda examples: examples[::-1]])
def test_other_docs_than_the_batch_are_an_error(make_pipeline, change):
    nlp = make_pipeline()
    examples = make_examples(nlp)
    nlp.get_pipe("elmo").update(examples)
    with pytest.raises(ValueError, match="EL072"):
        nlp.get_pipe("tagger").update(change(examples))


def test_changed_tokens_of_a_batch_are_an_error(make_pipeline):
    nlp = make_pipeline()
    examples = make_examples(nlp)
    nlp.get_pipe("elmo").update(examples)
    with examples[0].predicted.retokenize() as retokenizer:
        retokenizer.merge(examples[0].predicted[0:2])
    with pytest.raises(ValueError, match="EL070"):
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
    with pytest.raises(ValueError, match="EL072"):
        nlp.update(make_examples(nlp), exclude=["elmo"])
