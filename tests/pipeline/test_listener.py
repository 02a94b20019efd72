"""Listeners: widths, mixes, gradients, in every kind of tok2vec."""

import pickle

import numpy
import pytest
import spacy
from reference.numpy_bilm import mix as reference_mix
from spacy.cli.debug_model import debug_model
from spacy.kb import InMemoryLookupKB
from spacy.schemas import ConfigSchemaTraining
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.util import registry
from thinc.api import Adam

from spacy_elmo.pipeline.listener import get_listeners
from spacy_elmo.pipeline.model import make_random_bilm

from .placements import task_encoder
from .tiny import BILM, LISTENER, WIDTH, add_elmo, listening, make_examples

CNN = {
    "@architectures": "spacy.HashEmbedCNN.v2",
    "pretrained_vectors": None,
    "width": 8,
    "depth": 1,
    "embed_size": 50,
    "window_size": 1,
    "maxout_pieces": 2,
    "subword_features": True,
}
ENCODER = {
    "@architectures": "spacy.MaxoutWindowEncoder.v2",
    "width": 8,
    "window_size": 1,
    "maxout_pieces": 2,
    "depth": 1,
}
REDUCE = {
    "@architectures": "spacy.TextCatReduce.v1",
    "exclusive_classes": True,
    "use_reduce_first": False,
    "use_reduce_last": False,
    "use_reduce_max": False,
    "use_reduce_mean": True,
}
ENSEMBLE = {
    "@architectures": "spacy.TextCatEnsemble.v2",
    "linear_model": {
        "@architectures": "spacy.TextCatBOW.v3",
        "exclusive_classes": True,
        "length": 262144,
        "ngram_size": 1,
        "no_output_layer": False,
    },
}
COMPONENTS = {
    "tagger": {"model": {"tok2vec": LISTENER}},
    "morphologizer": {"model": {"tok2vec": LISTENER}},
    "senter": {"model": {"tok2vec": LISTENER}},
    "ner": {"model": {"tok2vec": LISTENER}},
    "parser": {"model": {"tok2vec": LISTENER}, "min_action_freq": 1},
    "spancat": {"model": {"tok2vec": LISTENER}},
    "textcat": {"model": {**REDUCE, "tok2vec": LISTENER}},
    "textcat_multilabel": {"model": {**ENSEMBLE, "tok2vec": LISTENER}},
}
TOK2VECS = {
    "listener": LISTENER,
    "projection": {**LISTENER, "projection_width": 5},
    "concatenate": {"@layers": "concatenate.v1", "*": {"own": CNN, "elmo": LISTENER}},
    "twice": {"@layers": "concatenate.v1", "*": {"one": LISTENER, "two": {**LISTENER, "projection_width": 3}}},
    "with elmo": {"@architectures": "spacy-elmo.Tok2VecWithElmo.v1", "embed": CNN, "elmo": LISTENER},
    "encoded": {"@architectures": "spacy-elmo.Tok2VecWithElmo.v1", "embed": CNN, "elmo": LISTENER, "encode": ENCODER},
    "embed": {
        "@architectures": "spacy.Tok2Vec.v2",
        "embed": {**LISTENER, "projection_width": 8},
        "encode": ENCODER,
    },
}


def tagger_with(tok2vec, **elmo):
    nlp = spacy.blank("en")
    add_elmo(nlp, **elmo)
    nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}})
    nlp.initialize(lambda: make_examples(nlp))
    return nlp


def train(nlp, n_steps=3, **kwargs):
    examples = make_examples(nlp)
    for _ in range(n_steps):
        losses = nlp.update(examples, **kwargs)
    return losses


def get_bilm_weights(nlp, name="elmo"):
    network = nlp.get_pipe(name).model.shims[0].bilm.network
    return {key: value.detach().clone().numpy() for key, value in network.state_dict().items()}


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("name", list(COMPONENTS))
def test_every_component_can_listen(name, frozen):
    nlp = spacy.blank("en")
    add_elmo(nlp, model={"frozen": frozen})
    nlp.add_pipe(name, config=COMPONENTS[name])
    examples = make_examples(nlp)
    for eg in examples:
        eg.reference[0].set_morph("A=B")
        eg.reference[1].set_morph("A=C")
    nlp.initialize(lambda: examples)
    (listener,) = nlp.get_pipe("elmo").listener_map[name]
    assert listener.get_dim("nO") == WIDTH
    weights, before = listener.mix.get_param("w").copy(), get_bilm_weights(nlp)
    for _ in range(3):
        losses = nlp.update(examples)
    assert numpy.isfinite(list(losses.values())).all()
    assert abs(listener.mix.get_param("w") - weights).max() > 0
    after = get_bilm_weights(nlp)
    changed = [key for key in before if abs(before[key] - after[key]).max() > 0]
    assert not changed if frozen else len(changed) > 5
    list(nlp.pipe(["She sat.", "", "  "]))


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("tok2vec", list(TOK2VECS))
def test_listener_works_in_every_tok2vec(tok2vec, frozen, tmp_path):
    nlp = tagger_with(TOK2VECS[tok2vec], model={"frozen": frozen})
    listeners = nlp.get_pipe("elmo").listener_map["tagger"]
    assert len(listeners) == (2 if tok2vec == "twice" else 1)
    nodes = [node for listener in listeners for node in listener.mix.walk()]  # the mixes and their projections
    before = [[node.get_param(name).copy() for name in node.param_names] for node in nodes]
    train(nlp)
    for node, arrays in zip(nodes, before):
        assert all((node.get_param(name) != array).any() for name, array in zip(node.param_names, arrays))
    doc = nlp("She sat on the bank")
    scores = nlp.get_pipe("tagger").model.predict([doc])[0]
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    again = loaded("She sat on the bank")
    numpy.testing.assert_allclose(loaded.get_pipe("tagger").model.predict([again])[0], scores, atol=1e-5)


def norm_of_allennlp(docs, state):
    """Rows of all Docs after AllenNLP's layer norm and mix, from the layers with the boundaries."""
    bilm = make_random_bilm(BILM, 1)
    stacks = []
    for doc in docs:
        sents = doc.sents if doc.has_annotation("SENT_START") else [doc[:]]
        runs = [[token.text for token in sent if not token.is_space] for sent in sents]
        runs = [run for run in runs if run]
        stacks += bilm.embed(runs, state=state, boundaries=True) if runs else []
    is_mark = numpy.concatenate([[True, *[False] * (stack.shape[1] - 2), True] for stack in stacks])
    return reference_mix(numpy.concatenate(stacks, axis=1), [0.5, -0.5, 1.0], 1.5, "allennlp", is_mark)[~is_mark]


@pytest.mark.parametrize("state", ["reset", "steady", "carry"])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_allennlp_norm_includes_bos_and_eos(state, is_replaced):
    mix = {"layer_norm": "allennlp", "initial_weights": [0.5, -0.5, 1.0], "initial_gamma": 1.5}
    nlp = tagger_with({**LISTENER, **mix}, model={"state": state})
    nlp.add_pipe("sentencizer", first=True)
    docs = list(nlp.pipe(["She sat. It was  late.", "", "  ", "Rivers flow"]))
    wanted = norm_of_allennlp(docs, state)
    is_word = numpy.asarray([not token.is_space for doc in docs for token in doc])
    elmo, (listener,) = nlp.get_pipe("elmo"), nlp.get_pipe("elmo").listener_map["tagger"]
    if is_replaced:
        nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
        listener = nlp.get_pipe("tagger").model.get_ref("tok2vec")
        found = [listener.predict(docs)]
    else:
        elmo.update([spacy.training.Example(doc, doc) for doc in docs])
        copied = [Doc(nlp.vocab).from_bytes(doc.to_bytes()) for doc in docs]
        found = [listener.predict(docs), listener.predict(copied), listener(docs, is_train=True)[0]]
    for outputs in found:
        rows = numpy.concatenate(outputs)
        numpy.testing.assert_allclose(rows[is_word], wanted, atol=1e-5)
        assert not rows[~is_word].any()


def test_allennlp_norm_without_bos_and_eos_is_an_error():
    nlp = tagger_with({**LISTENER, "layer_norm": "allennlp"})
    doc = nlp("She sat on the bank")
    with pytest.raises(ValueError, match="no vectors of BOS and EOS"):
        nlp.get_pipe("tagger").predict([doc[1:3].as_doc(copy_user_data=True)])
    for frozen in (LISTENER, {**LISTENER, "layer_norm": "bilm-tf"}):
        tagger_with(frozen, model={"frozen": False})
    with pytest.raises(ValueError, match="but the biLM is trained"):
        tagger_with({**LISTENER, "layer_norm": "allennlp"}, model={"frozen": False})


def test_gradient_of_two_listeners_is_their_sum():
    nlp = spacy.blank("en")
    elmo = add_elmo(nlp, model={"frozen": False})
    nlp.add_pipe("tagger", config=listening(learn_gamma=False))
    nlp.add_pipe("tagger", name="other", config=listening(learn_gamma=False))
    nlp.initialize(lambda: make_examples(nlp))
    grads = []
    rng = numpy.random.default_rng(0)
    for names in (["tagger"], ["other"], ["tagger", "other"]):
        rng = numpy.random.default_rng(0)
        examples = make_examples(nlp)
        docs = [eg.predicted for eg in examples]
        elmo.update(examples)
        for name in ("tagger", "other"):
            outputs, backprop = nlp.get_pipe("elmo").listener_map[name][0](docs, is_train=True)
            d_outputs = [rng.normal(size=output.shape).astype("f") for output in outputs]
            if name in names:
                backprop(d_outputs)
        elmo._flush(None)
        parameters = dict(elmo.model.shims[0].bilm.network.named_parameters())
        grads.append({key: parameter.grad.clone().numpy() for key, parameter in parameters.items()})
        for parameter in parameters.values():
            parameter.grad = None
    for key in grads[0]:
        numpy.testing.assert_allclose(grads[0][key] + grads[1][key], grads[2][key], atol=1e-5)


def test_upstream_gradient_matches_finite_differences():
    nlp = tagger_with({**LISTENER, "initial_weights": [0.5, -0.5, 1.0]}, model={"frozen": False})
    elmo, (listener,) = nlp.get_pipe("elmo"), nlp.get_pipe("elmo").listener_map["tagger"]
    examples = make_examples(nlp)
    docs = [eg.predicted for eg in examples]
    rng = numpy.random.default_rng(0)
    d_outputs = [rng.normal(size=(len(doc), WIDTH)).astype("f") for doc in docs]

    def loss():
        elmo.update(examples)
        outputs, backprop = listener(docs, is_train=True)
        return sum(float((a * b).sum(dtype="float64")) for a, b in zip(outputs, d_outputs)), backprop

    loss()[1](d_outputs)
    elmo._flush(None)
    bilm = elmo.model.shims[0].bilm
    for name, parameter in bilm.network.named_parameters():
        gradient, direction = parameter.grad.numpy(), parameter.grad.clone()
        size = float(direction.norm())
        ends = []
        for step in (2e-3, -2e-3):
            parameter.data += step * direction / size
            bilm.refresh()
            ends.append(loss()[0])
            parameter.data -= step * direction / size
        bilm.refresh()
        assert (ends[0] - ends[1]) / 4e-3 == pytest.approx(numpy.linalg.norm(gradient), rel=2e-2), name


# Links


def test_listener_finds_its_upstream_by_name_and_else_the_nearest():
    nlp = spacy.blank("en")
    add_elmo(nlp)
    nlp.add_pipe("tagger", name="first", config=listening())
    add_elmo(nlp, name="wide", prefix="wide", bilm={**BILM, "projection_width": 12})
    nlp.add_pipe("tagger", name="nearest", config=listening())
    nlp.add_pipe("tagger", name="named", config=listening(upstream="elmo"))
    nlp.initialize(lambda: make_examples(nlp))
    assert nlp.get_pipe("elmo").listening_components == ["first", "named"]
    assert nlp.get_pipe("wide").listening_components == ["nearest"]
    assert nlp.get_pipe("wide").listeners[0].get_dim("nO") == 24
    train(nlp)
    assert len(nlp("She sat")) == 2


def test_empty_batches_and_docs_can_be_trained():
    nlp = tagger_with(LISTENER, model={"frozen": False})
    empty = [spacy.training.Example.from_dict(nlp.make_doc(text), {}) for text in ("", "  ")]
    for examples in (empty[:1], empty, [*make_examples(nlp), *empty]):
        nlp.update(examples)
    ner = spacy.blank("en")
    add_elmo(ner, model={"frozen": False})
    ner.add_pipe("ner", config={"model": {"tok2vec": LISTENER}})
    ner.initialize(lambda: make_examples(ner))
    ner.update([empty[0], *make_examples(ner), empty[0]])


def test_averages_of_the_optimizer_can_be_used():
    nlp = tagger_with(LISTENER, model={"frozen": False})
    optimizer = Adam(0.01, use_averages=True)
    train(nlp, sgd=optimizer)
    text = "She sat"
    plain = nlp(text)._.elmo.copy()
    with nlp.use_params(optimizer.averages):
        averaged = nlp(text)._.elmo.copy()
    assert abs(plain - averaged).max() > 0
    numpy.testing.assert_allclose(nlp(text)._.elmo, plain, atol=1e-6)


# A listener uses the layers of its own training batch, and no other


def check_rows(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        numpy.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("change", [lambda examples: examples[:1], lambda examples: examples[::-1]])
def test_layers_of_other_docs_than_the_batch_are_computed_or_an_error(make_pipeline, change, frozen):
    """An error where the biLM is trained."""
    nlp = make_pipeline(elmo={"model": {"frozen": frozen}})
    examples = make_examples(nlp)
    nlp.get_pipe("elmo").update(examples)
    if not frozen:
        with pytest.raises(ValueError, match="gradient would not reach the biLM"):
            nlp.get_pipe("tagger").update(change(examples))
        return
    (listener,) = get_listeners(nlp.get_pipe("tagger").model)
    docs = [eg.predicted for eg in change(examples)]
    found, _ = listener.begin_update(docs)
    check_rows(found, listener.predict([nlp.get_pipe("elmo")(doc) for doc in docs]))


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
    [(NORMED, True), (NORMED, False), (TOK2VECS["with elmo"], False), (task_encoder(), False), (CNN, True)],
    ids=["listener, frozen", "listener", "joined", "task encoder", "own"],
)
def test_entity_linker_learns(tok2vec, frozen):
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    add_elmo(nlp, model={"frozen": frozen})
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
    assert (tok2vec is CNN or frozen) == all((get_bilm_weights(nlp)[key] == old).all() for key, old in before.items())
    for eg, wanted in zip(make_links(nlp), ("Q1", "Q2")):
        doc = eg.predicted
        doc.ents = [doc.char_span(ent.start_char, ent.end_char, label="THING") for ent in eg.reference.ents]
        assert nlp(doc).ents[0].kb_id_ == wanted


@pytest.mark.parametrize("norm, frozen", [("token", True), (None, False)])
def test_rehearsal(frozen, norm):
    nlp = tagger_with({**LISTENER, "layer_norm": norm}, model={"frozen": frozen})
    train(nlp)
    optimizer = nlp.resume_training()
    train(nlp, sgd=optimizer)
    bilm = get_bilm_weights(nlp)
    raw = [Example.from_dict(nlp.make_doc(text), {}) for text in ("Rivers rise", "She left the bank")]
    for _ in range(3):
        losses = nlp.rehearse(raw, sgd=optimizer)
    assert numpy.isfinite(losses["tagger"]) and losses["tagger"] > 0
    assert all((bilm[key] == value).all() for key, value in get_bilm_weights(nlp).items())
    train(nlp, sgd=optimizer)


@pytest.mark.parametrize(
    "tok2vec, frozen", [(LISTENER, True), (task_encoder(), False)], ids=["listener", "task encoder"]
)
def test_debug_model(frozen, tok2vec, tmp_path, capsys):
    nlp = tagger_with(tok2vec, model={"frozen": frozen})
    DocBin(docs=[eg.reference for eg in make_examples(nlp)]).to_disk(tmp_path / "train.spacy")
    nlp.config["corpora"]["train"]["path"] = str(tmp_path / "train.spacy")
    config = nlp.config.interpolate()
    training = registry.resolve(config["training"], schema=ConfigSchemaTraining)
    debug_model(config, training, nlp, nlp.get_pipe("tagger"))
    assert "model looks good" in capsys.readouterr().out


@pytest.mark.parametrize("norm", ["token", "allennlp"])
def test_missing_layers_are_computed_by_the_component(norm):
    nlp = tagger_with({**LISTENER, "layer_norm": norm})
    (listener,) = nlp.get_pipe("elmo").listener_map["tagger"]
    docs = [nlp.make_doc("She sat"), nlp("on the bank"), nlp.make_doc("")]
    found = listener.predict(docs)
    for one, other in zip(found, listener.predict([nlp(doc.text) for doc in docs]), strict=True):
        numpy.testing.assert_allclose(one, other, atol=1e-5)
    with nlp.select_pipes(disable=["elmo"]):
        nlp.update(make_examples(nlp))
        assert nlp("She sat")[0].tag_


def test_layers_without_a_component_are_zeros_and_a_warning_or_an_error_in_training():
    nlp = tagger_with(LISTENER)
    tagger = pickle.loads(pickle.dumps(nlp.get_pipe("tagger")))  # its ELMo component is gone
    with pytest.warns(UserWarning, match="WL060"):
        doc = tagger(nlp.make_doc("She sat"))
    assert doc[0].tag_ and doc[0].tag_ == doc[1].tag_
    with pytest.raises(ValueError, match="EL071.*no ELMo component"):
        tagger.update(make_examples(nlp))
