"""Listeners: widths, mixes, gradients, in every kind of tok2vec."""

import numpy
import pytest
import spacy
from reference.numpy_bilm import mix as reference_mix
from spacy.tokens import Doc
from thinc.api import Adam

from spacy_elmo.pipeline.model import make_random_bilm

from .tiny import BILM, LISTENER, N_LAYERS, TAGGED, WIDTH, add_elmo, listening, make_examples

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
    "elmo first": {"@layers": "concatenate.v1", "*": {"elmo": LISTENER, "own": CNN}},
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


def listeners_of(nlp, name):
    return nlp.get_pipe("elmo").listener_map[name]


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
    (listener,) = listeners_of(nlp, name)
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
    listeners = listeners_of(nlp, "tagger")
    assert len(listeners) == (2 if tok2vec == "twice" else 1)
    weights = [listener.mix.get_param("w").copy() for listener in listeners]
    train(nlp)
    for listener, before in zip(listeners, weights):
        assert abs(listener.mix.get_param("w") - before).max() > 0
    doc = nlp("She sat on the bank")
    scores = nlp.get_pipe("tagger").model.predict([doc])[0]
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    again = loaded("She sat on the bank")
    numpy.testing.assert_allclose(loaded.get_pipe("tagger").model.predict([again])[0], scores, atol=1e-5)


def test_trained_tagger_learns_its_examples():
    nlp = tagger_with({**LISTENER, "layer_norm": "token"})
    optimizer = nlp.create_optimizer()
    optimizer.learn_rate = 0.02
    train(nlp, 60, sgd=optimizer)
    for words, tags in TAGGED:
        assert [token.tag_ for token in nlp(Doc(nlp.vocab, words=words))] == tags


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
    elmo, (listener,) = nlp.get_pipe("elmo"), listeners_of(nlp, "tagger")
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


def test_fine_tuning_changes_what_is_predicted():
    nlp = tagger_with(LISTENER, model={"frozen": False})
    before = nlp("She sat")._.elmo.copy()
    train(nlp)
    assert abs(nlp("She sat")._.elmo - before).max() > 1e-5


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
            outputs, backprop = listeners_of(nlp, name)[0](docs, is_train=True)
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
    elmo, (listener,) = nlp.get_pipe("elmo"), listeners_of(nlp, "tagger")
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


def test_listener_that_never_answers_does_not_stop_the_others():
    nlp = spacy.blank("en")
    add_elmo(nlp, model={"frozen": False})
    nlp.add_pipe("tagger", config=listening())
    nlp.add_pipe("ner", config={"model": {"tok2vec": LISTENER}})
    nlp.initialize(lambda: make_examples(nlp))
    before = get_bilm_weights(nlp)
    train(nlp, exclude=["ner"])
    assert any(abs(value - before[key]).max() > 0 for key, value in get_bilm_weights(nlp).items())


# Links


def test_listener_has_no_width_before_and_the_upstream_width_after_linking():
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    nlp.add_pipe("tagger", config=listening())
    (listener,) = listeners_of(nlp, "tagger")
    assert listener.has_dim("nO") is None
    full = spacy.blank("en")
    add_elmo(full)
    full.add_pipe("tagger", config=listening())
    assert listeners_of(full, "tagger")[0].get_dim("nO") == WIDTH


def test_listener_without_upstream_is_an_error():
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger", config=listening())
    with pytest.raises(ValueError, match="EL071"):
        nlp.initialize(lambda: make_examples(nlp))


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


def test_removed_listener_is_forgotten():
    nlp = tagger_with(LISTENER)
    elmo, (listener,) = nlp.get_pipe("elmo"), listeners_of(nlp, "tagger")
    elmo.add_listener(listener, "tagger")
    assert elmo.listeners == [listener]
    assert elmo.remove_listener(listener, "tagger") and not elmo.listener_map
    assert not elmo.remove_listener(listener, "tagger")


def test_layers_are_kept_while_components_listen():
    nlp = tagger_with(LISTENER, store="mixed")
    assert nlp("She sat")._.elmo_layers.shape == (N_LAYERS, 2, WIDTH)
    nlp.remove_pipe("tagger")
    with pytest.raises(ValueError, match="only the mixed vectors"):
        _ = nlp("She sat")._.elmo_layers


def test_frozen_and_annotating_component_feeds_the_listener():
    nlp = tagger_with(LISTENER)
    (listener,) = listeners_of(nlp, "tagger")
    before, bilm = listener.mix.get_param("w").copy(), get_bilm_weights(nlp)
    train(nlp, exclude=["elmo"], annotates=["elmo"])
    assert abs(listener.mix.get_param("w") - before).max() > 0
    for key, value in get_bilm_weights(nlp).items():
        numpy.testing.assert_array_equal(value, bilm[key])


def test_listener_of_other_sizes_is_an_error(tmp_path):
    nlp = tagger_with(LISTENER)
    wide = spacy.blank("en")
    add_elmo(wide, bilm={**BILM, "projection_width": 12})
    wide.add_pipe("tagger", source=nlp)
    with pytest.raises(ValueError, match="EL068.*3 layers of width 16, but found 3 layers of width 24"):
        wide("She sat")


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


def test_projection_is_trained():
    nlp = tagger_with({**LISTENER, "projection_width": 5})
    (listener,) = listeners_of(nlp, "tagger")
    before = listener.mix.layers[0].get_param("W").copy()
    train(nlp)
    assert abs(listener.mix.layers[0].get_param("W") - before).max() > 0


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
