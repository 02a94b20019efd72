"""Listeners: widths, mixes, gradients, in every kind of tok2vec."""

import pickle

import numpy
import pytest
import spacy
from spacy.cli.debug_model import debug_model
from spacy.kb import InMemoryLookupKB
from spacy.schemas import ConfigSchemaTraining
from spacy.tokens import DocBin
from spacy.training import Example
from spacy.util import registry
from thinc.api import Adam

from spacy_elmo.pipeline.listener import get_listeners

from .tiny import (
    CNN,
    COMPONENTS,
    LISTENER,
    TEXTS,
    TOK2VECS,
    WIDE,
    WIDTH,
    add_elmo,
    are_equal,
    configure,
    get_bilm_weights,
    listening,
    make_examples,
    make_tagger,
    task_encoder,
    train,
    with_elmo,
)


@pytest.mark.parametrize(
    "tok2vec, frozen",
    [(LISTENER, True), (LISTENER, False), (task_encoder(), True)],
    ids=["frozen", "trained", "task encoder"],
)
@pytest.mark.parametrize("name", list(COMPONENTS))
def test_every_component_can_listen(name, tok2vec, frozen):
    nlp = with_elmo(model={"frozen": frozen})
    nlp.add_pipe(name, config=configure(name, tok2vec))
    nlp.initialize(lambda: make_examples(nlp))
    listeners = nlp.get_pipe("elmo").listener_map[name]
    assert {listener.get_dim("nO") for listener in listeners} == ({WIDTH} if tok2vec is LISTENER else {WIDTH, 5})
    weights, before = [listener.mix.get_param("w").copy() for listener in listeners], get_bilm_weights(nlp)
    optimizer = Adam(0.05)
    for _ in range(3):
        losses = nlp.update([*make_examples(nlp), Example.from_dict(nlp.make_doc(""), {})], sgd=optimizer)
    assert numpy.isfinite(list(losses.values())).all() and (losses["elmo"] > 0) == (not frozen)
    changes = [listener.mix.get_param("w") - old for listener, old in zip(listeners, weights)]
    assert all(abs(change).max() > 0 for change in changes)
    assert len(changes) == 1 or abs(changes[0] - changes[1]).max() > 0, "the mixes are separate"
    after = get_bilm_weights(nlp)
    changed = [key for key in before if abs(before[key] - after[key]).max() > 0]
    assert not changed if frozen else len(changed) > 5
    list(nlp.pipe(TEXTS))


def test_upstream_gradient_of_two_listeners_matches_finite_differences():
    nlp = make_tagger({**LISTENER, "initial_weights": [0.5, -0.5, 1.0]}, model={"frozen": False})
    nlp.add_pipe("tagger", name="other", config=listening(initial_gamma=2.0))
    nlp.initialize(lambda: make_examples(nlp))
    elmo, examples, rng = nlp.get_pipe("elmo"), make_examples(nlp), numpy.random.default_rng(0)
    docs = [eg.predicted for eg in examples]
    gradients = [[rng.normal(size=(len(doc), WIDTH)).astype("f") for doc in docs] for _ in elmo.listeners]

    def loss():
        elmo.update(examples)
        calls = [listener(docs, is_train=True) for listener in elmo.listeners]
        pairs = [pair for (outputs, _), own in zip(calls, gradients) for pair in zip(outputs, own)]
        return sum(float((a * b).sum(dtype="float64")) for a, b in pairs), [backprop for _, backprop in calls]

    assert len(gradients) == 2
    for backprop, d_outputs in zip(loss()[1], gradients):
        backprop(d_outputs)
    bilm = elmo.model.shims[0].bilm
    for name, parameter in bilm.network.named_parameters():
        gradient, direction = parameter.grad.numpy(), parameter.grad.clone()
        size = float(direction.norm())
        values = []
        for step in (2e-3, 0.0, -2e-3):
            parameter.data += step * direction / size
            bilm.clear_caches()
            values.append(loss()[0])
            parameter.data -= step * direction / size
        bilm.clear_caches()
        slopes = (values[0] - values[1]) / 2e-3, (values[1] - values[2]) / 2e-3
        # A maximum over characters may have a kink on one side.
        assert min(abs(slope / numpy.linalg.norm(gradient) - 1.0) for slope in slopes) < 2e-2, name


@pytest.mark.parametrize("is_accumulated", [True, False], ids=["as spacy train", "with an optimizer"])
@pytest.mark.parametrize("silent", [[], ["other"], ["tagger", "other"]])
def test_listeners_that_return_no_gradient_do_not_stop_the_others(silent, is_accumulated):
    nlp = make_tagger(model={"frozen": False})
    nlp.add_pipe("tagger", name="other", config=listening())
    nlp.initialize(lambda: make_examples(nlp))
    optimizer, before = Adam(0.05), get_bilm_weights(nlp)
    for _ in range(
        4
    ):  # the output layer begins with zeros, and with a silent listener a step comes with the next batch
        nlp.update(make_examples(nlp), sgd=False if is_accumulated else optimizer, exclude=silent)
        for _, component in nlp.pipeline if is_accumulated else []:
            component.finish_update(optimizer)
    assert are_equal(get_bilm_weights(nlp), before) == (len(silent) == 2)


# Links


def test_listener_finds_its_upstream_by_name_and_else_the_nearest():
    nlp = with_elmo()
    nlp.add_pipe("tagger", name="first", config=listening())
    add_elmo(nlp, name="wide", prefix="wide", bilm=WIDE)
    nlp.add_pipe("tagger", name="nearest", config=listening())
    nlp.add_pipe("tagger", name="named", config=listening(upstream="elmo"))
    nlp.initialize(lambda: make_examples(nlp))
    assert nlp.get_pipe("elmo").listening_components == ["first", "named"]
    assert nlp.get_pipe("wide").listening_components == ["nearest"]
    assert nlp.get_pipe("wide").listeners[0].get_dim("nO") == 24
    train(nlp)
    assert len(nlp("She sat")) == 2


@pytest.mark.parametrize("name", ["tagger", "ner"])
def test_empty_batches_and_docs_can_be_trained(name):
    nlp = with_elmo(model={"frozen": False})
    nlp.add_pipe(name, config=configure(name))
    nlp.initialize(lambda: make_examples(nlp))
    empty = [Example.from_dict(nlp.make_doc(text), {}) for text in ("", "  ")]
    nlp.update([Example.from_dict(nlp.make_doc("one two"), {})])
    for examples in (empty[:1], empty if name == "tagger" else empty[:1], [empty[0], *make_examples(nlp), empty[-1]]):
        assert numpy.isfinite(list(nlp.update(examples).values())).all()


def test_averages_of_the_optimizer_can_be_used():
    nlp = make_tagger(LISTENER, model={"frozen": False})
    optimizer = Adam(0.01, use_averages=True)
    train(nlp, sgd=optimizer)
    text = "She sat"
    plain = nlp(text)._.elmo.copy()
    with nlp.use_params(optimizer.averages):
        averaged = nlp(text)._.elmo.copy()
    assert abs(plain - averaged).max() > 0
    numpy.testing.assert_allclose(nlp(text)._.elmo, plain, atol=1e-6)


# A listener uses the layers of its own training batch, and no other


def merge_words(examples):
    with examples[0].predicted.retokenize() as retokenizer:
        retokenizer.merge(examples[0].predicted[0:2])
    return examples


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("change", [lambda examples: examples[:1], lambda examples: examples[::-1], merge_words])
def test_layers_of_other_docs_than_the_batch_are_computed_or_an_error(change, frozen):
    """An error where the biLM is trained."""
    nlp = make_tagger(model={"frozen": frozen})
    examples = make_examples(nlp)
    nlp.get_pipe("elmo").update(examples)
    (listener,) = get_listeners(nlp.get_pipe("tagger").model)
    docs = [eg.predicted for eg in change(examples)]
    if not frozen:
        with pytest.raises(ValueError, match="of 'tagger'.*gradient would not reach the biLM"):
            listener.begin_update(docs)
        return
    trained, _ = listener.begin_update(docs)
    for rows, wanted in zip(trained, listener.predict([nlp.get_pipe("elmo")(doc) for doc in docs]), strict=True):
        numpy.testing.assert_allclose(rows, wanted, atol=1e-6)


def test_a_component_that_is_frozen_later_annotates_each_batch():
    """What the listener received while the component was active is of no use any more, whatever the words."""
    nlp = make_tagger()
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


# spaCy's functions that pass Docs which no ELMo component has read: entity linker, rehearsal, `debug model`


NORMED = {**LISTENER, "layer_norm": "token"}


def make_kb(vocab):
    kb = InMemoryLookupKB(vocab, entity_vector_length=3)
    for entity, vector in (("Q1", [1, 0, 0]), ("Q2", [0, 1, 0])):
        kb.add_entity(entity=entity, freq=10, entity_vector=vector)
    kb.add_alias(alias="bank", entities=["Q1", "Q2"], probabilities=[0.5, 0.5])
    return kb


def make_links(nlp):
    texts = [("She sat on the bank of the river. It was late.", "Q1"), ("The bank raised its rates. We paid.", "Q2")]
    examples = []
    for text, entity in texts:
        doc = nlp.make_doc(text)
        start = text.index("bank")
        links = {(start, start + 4): {entity: 1.0, "Q1" if entity == "Q2" else "Q2": 0.0}}
        starts = [1 if i == 0 or doc[i - 1].text == "." else -1 for i in range(len(doc))]
        record = {"entities": [(start, start + 4, "THING")], "links": links, "sent_starts": starts}
        examples.append(Example.from_dict(doc, record))
    return examples


@pytest.mark.parametrize(
    "tok2vec, frozen",
    [(NORMED, True), (TOK2VECS["with elmo"][0], False), (task_encoder(), False), (CNN, True)],
    ids=["listener", "joined", "task encoder", "own"],
)
def test_entity_linker_learns(tok2vec, frozen):
    spacy.util.fix_random_seed(0)
    nlp = with_elmo(model={"frozen": frozen})
    nlp.config["training"]["annotating_components"] = ["elmo"] if tok2vec is CNN else []
    nlp.add_pipe("sentencizer", first=True)
    linker = nlp.add_pipe("entity_linker", config={"model": {"tok2vec": tok2vec}, "incl_prior": False})
    linker.set_kb(make_kb)
    optimizer = nlp.initialize(lambda: make_links(nlp))
    optimizer.learn_rate = 0.02
    before = get_bilm_weights(nlp)
    for _ in range(150):
        loss = nlp.update(make_links(nlp), sgd=optimizer, annotates=["sentencizer"])["entity_linker"]
        if loss < 0.05:
            break
    assert loss < 0.05
    assert (tok2vec is CNN or frozen) == are_equal(get_bilm_weights(nlp), before)
    for eg, wanted in zip(make_links(nlp), ("Q1", "Q2")):
        doc = eg.predicted
        doc.ents = [doc.char_span(ent.start_char, ent.end_char, label="THING") for ent in eg.reference.ents]
        assert nlp(doc).ents[0].kb_id_ == wanted


@pytest.mark.parametrize("norm, frozen, left_out", [("token", True, []), (None, False, []), (None, False, ["tagger"])])
def test_rehearsal(frozen, norm, left_out):
    """Also after an update that a component did not answer."""
    nlp = make_tagger({**LISTENER, "layer_norm": norm}, model={"frozen": frozen})
    train(nlp)
    optimizer = nlp.resume_training()
    train(nlp, sgd=optimizer, exclude=left_out)
    bilm = get_bilm_weights(nlp)
    raw = [Example.from_dict(nlp.make_doc(text), {}) for text in ("Rivers rise", "She left the bank")]
    for _ in range(3):
        losses = nlp.rehearse(raw, sgd=optimizer)
    assert numpy.isfinite(losses["tagger"]) and losses["tagger"] > 0
    assert left_out or are_equal(get_bilm_weights(nlp), bilm)
    train(nlp, sgd=optimizer)


@pytest.mark.parametrize(
    "tok2vec, frozen", [(LISTENER, True), (task_encoder(), False)], ids=["listener", "task encoder"]
)
def test_debug_model(frozen, tok2vec, tmp_path, capsys):
    nlp = make_tagger(tok2vec, model={"frozen": frozen})
    DocBin(docs=[eg.reference for eg in make_examples(nlp)]).to_disk(tmp_path / "train.spacy")
    nlp.config["corpora"]["train"]["path"] = str(tmp_path / "train.spacy")
    config = nlp.config.interpolate()
    training = registry.resolve(config["training"], schema=ConfigSchemaTraining)
    debug_model(config, training, nlp, nlp.get_pipe("tagger"))
    assert "model looks good" in capsys.readouterr().out


def test_missing_layers_are_computed_by_the_component():
    nlp = make_tagger(NORMED)
    (listener,) = nlp.get_pipe("elmo").listener_map["tagger"]
    docs = [nlp.make_doc("She sat"), nlp("on the bank"), nlp.make_doc("")]
    found = listener.predict(docs)
    for one, other in zip(found, listener.predict([nlp(doc.text) for doc in docs]), strict=True):
        numpy.testing.assert_allclose(one, other, atol=1e-5)
    with nlp.select_pipes(disable=["elmo"]):
        nlp.update(make_examples(nlp))
        assert nlp("She sat")[0].tag_


def test_layers_without_a_component_are_zeros_and_a_warning_or_an_error_in_training():
    nlp = make_tagger()
    tagger = pickle.loads(pickle.dumps(nlp.get_pipe("tagger")))  # its ELMo component is gone
    with pytest.warns(UserWarning, match="WL060"):
        doc = tagger(nlp.make_doc("She sat"))
    assert doc[0].tag_ and doc[0].tag_ == doc[1].tag_
    with pytest.raises(ValueError, match="EL071.*no ELMo component"):
        tagger.update(make_examples(nlp))
