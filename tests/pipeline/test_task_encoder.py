"""The task encoder: [x; ELMo] -> dropout -> encoder -> [h; ELMo'], in spaCy's components."""

import numpy
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import fix_random_seed, noop

from spacy_elmo.pipeline.listener import build_listener, get_listeners
from spacy_elmo.pipeline.mix import mix_layers
from spacy_elmo.pipeline.task_layers import ElmoTaskEncoder

from .placements import BILSTM, EMBED, INPUT, OUTPUT, PLACEMENTS, WINDOW, make_full_examples, make_tagger, task_encoder
from .test_listener import REDUCE, get_bilm_weights
from .tiny import LISTENER, TEXTS, WIDTH, add_elmo, loader_block, make_examples

TEXT = "She sat on the bank of the river."
PATHS = {name: [f"model.tok2vec.{key}" for key in blocks] for name, blocks in PLACEMENTS.items()}


def tok2vec_of(nlp, name="tagger"):
    return nlp.get_pipe(name).model.get_ref("tok2vec")


def train(nlp, n_steps=3, **kwargs):
    for _ in range(n_steps):
        losses = nlp.update(make_examples(nlp), **kwargs)
    return losses


def mix_by_hand(doc, listener):
    """Peters et al. (2018), eq. 1, from the layers on a Doc."""
    mix = listener.mix
    weights, gamma = mix.get_param("w"), float(mix.get_param("gamma")[0])
    mixed = mix_layers(doc._.elmo_layers, weights, gamma, mix.attrs["mix"].layer_norm)
    for projection in mix.layers:
        mixed = mixed @ projection.get_param("W").T + projection.get_param("b")
    return mixed


@pytest.mark.parametrize("encode", [BILSTM, WINDOW], ids=["bilstm", "window"])
@pytest.mark.parametrize("placement", list(PLACEMENTS))
def test_vectors_are_the_concatenations_of_the_paper(placement, encode):
    nlp = make_tagger(task_encoder(placement, encode))
    train(nlp)
    tok2vec, docs = tok2vec_of(nlp), list(nlp.pipe(TEXTS))
    for doc, found in zip(docs, tok2vec.predict(docs)):
        if not len(doc):
            assert found.shape == (0, tok2vec.get_dim("nO"))
            continue
        joined = tok2vec.get_ref("embed").predict([doc])[0]
        if "elmo_input" in PLACEMENTS[placement]:
            joined = numpy.hstack([joined, mix_by_hand(doc, tok2vec.get_ref("elmo_input"))])
        if encode is WINDOW:
            (projection,) = [node for node in tok2vec.walk() if node.name == "linear" and node.get_dim("nO") == 8]
            joined = joined @ projection.get_param("W").T + projection.get_param("b")
        wanted = tok2vec.get_ref("encode").predict([joined.astype("f")])[0]
        if "elmo_output" in PLACEMENTS[placement]:
            wanted = numpy.hstack([wanted, mix_by_hand(doc, tok2vec.get_ref("elmo_output"))])
        numpy.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("placement", list(PLACEMENTS))
def test_gradients_reach_every_mix_and_a_bilm_that_is_trained(placement, frozen):
    nlp = make_tagger(task_encoder(placement), model={"frozen": frozen})
    listeners, bilm = get_listeners(nlp.get_pipe("tagger").model), get_bilm_weights(nlp)
    assert nlp.get_pipe("elmo").listener_map == {"tagger": listeners} and len(listeners) == len(PLACEMENTS[placement])
    before = [listener.mix.get_param("w").copy() for listener in listeners]
    losses = train(nlp)
    changes = [listener.mix.get_param("w") - weights for listener, weights in zip(listeners, before)]
    assert all(abs(change).max() > 0 for change in changes)
    assert len(changes) == 1 or abs(changes[0] - changes[1]).max() > 0, "the mixes are separate"
    is_same = [(get_bilm_weights(nlp)[key] == value).all() for key, value in bilm.items()]
    assert all(is_same) if frozen else not all(is_same)
    assert numpy.isfinite(losses["tagger"]) and (losses["elmo"] > 0) == (not frozen)


def test_dropout_of_the_input_acts_in_training_only():
    nlp = make_tagger(task_encoder("input", dropout=0.9))
    tok2vec, docs = tok2vec_of(nlp), [nlp(TEXT)]
    numpy.testing.assert_array_equal(tok2vec.predict(docs)[0], tok2vec.predict(docs)[0])
    assert abs(tok2vec(docs, is_train=True)[0][0] - tok2vec.predict(docs)[0]).max() > 0.01


@pytest.mark.parametrize("encode", [BILSTM, WINDOW], ids=["bilstm", "window"])
def test_pipeline_is_restored_into_other_weights(encode, tmp_path):
    fix_random_seed(0)
    nlp = make_tagger(task_encoder(encode=encode))
    train(nlp)
    wanted = tok2vec_of(nlp).predict([nlp(TEXT)])[0]
    fix_random_seed(1)
    other = make_tagger(task_encoder(encode=encode), seed=2)
    assert abs(tok2vec_of(other).predict([other(TEXT)])[0] - wanted).max() > 1e-3
    other.from_bytes(nlp.to_bytes())
    nlp.to_disk(tmp_path / "pipeline")
    for restored in (other, spacy.load(tmp_path / "pipeline")):
        numpy.testing.assert_allclose(tok2vec_of(restored).predict([restored(TEXT)])[0], wanted, atol=1e-6)
        train(restored)


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("placement", list(PLACEMENTS))
def test_replaced_listeners_give_the_same_vectors(placement, is_reversed, tmp_path):
    nlp = make_tagger(task_encoder(placement))
    train(nlp)
    wanted = tok2vec_of(nlp).predict([nlp(TEXT)])[0]
    nlp.replace_listeners("elmo", "tagger", PATHS[placement][:: -1 if is_reversed else 1])
    assert not nlp.get_pipe("elmo").listeners
    nlp.remove_pipe("elmo")
    nlp.to_disk(tmp_path / "pipeline")
    for replaced in (nlp, spacy.load(tmp_path / "pipeline")):
        numpy.testing.assert_allclose(tok2vec_of(replaced).predict([replaced(TEXT)])[0], wanted, atol=1e-5)
    block = nlp.get_pipe_config("tagger")["model"]["tok2vec"]
    for key, given in PLACEMENTS[placement].items():
        assert block[key]["@architectures"] == "spacy-elmo.ElmoTok2Vec.v1"
        assert {name: block[key][name] for name in given if name[0] != "@"} == {
            name: value for name, value in given.items() if name[0] != "@"
        }
    train(nlp)


@pytest.mark.issue(16)
@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_replaced_listener_may_refer_to_another(is_reversed, tmp_path):
    """As in `configs/task_*.cfg`: the second of two equal blocks is a reference to the first."""
    config = spacy.blank("en").config.copy()
    tok2vec = {**task_encoder("input"), "elmo_output": "${components.tagger.model.tok2vec.elmo_input}"}
    model = {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}
    config["nlp"]["pipeline"] = ["elmo", "tagger"]
    config["components"] = {"elmo": {"factory": "elmo"}, "tagger": {"factory": "tagger", "model": model}}
    config["initialize"]["components"]["elmo"] = loader_block()
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    nlp.initialize(lambda: make_examples(nlp))
    wanted = tok2vec_of(nlp).predict([nlp(TEXT)])[0]
    nlp.replace_listeners("elmo", "tagger", PATHS["both"][:: -1 if is_reversed else 1])
    nlp.remove_pipe("elmo")
    nlp.to_disk(tmp_path)
    found = spacy.load(tmp_path)
    numpy.testing.assert_allclose(tok2vec_of(found).predict([found(TEXT)])[0], wanted, atol=1e-5)


def test_taglm_is_an_encoder_above_an_encoder():
    """Peters et al. (2017): the top layer beside the output of the first RNN, read by the second."""
    first = {"@architectures": "spacy.Tok2Vec.v2", "embed": EMBED, "encode": BILSTM}
    tok2vec = task_encoder("input", {**BILSTM, "width": 4}, embed=first, elmo_input={**LISTENER, "mix": "top"})
    nlp = make_tagger(tok2vec)
    train(nlp)
    taglm, doc = tok2vec_of(nlp), nlp(TEXT)
    below = taglm.get_ref("embed").get_ref("encode").predict(taglm.get_ref("embed").get_ref("embed").predict([doc]))
    gamma = taglm.get_ref("elmo_input").mix.get_param("gamma")
    joined = numpy.hstack([below[0], gamma * doc._.elmo_layers[-1]])
    wanted = taglm.get_ref("encode").predict([joined])[0]
    numpy.testing.assert_allclose(taglm.predict([doc])[0], wanted, atol=1e-5)
    assert below[0].shape[1] == 10 and wanted.shape[1] == 4


COMPONENTS = {
    **{name: {"model": {}} for name in ("tagger", "morphologizer", "trainable_lemmatizer", "senter", "ner", "spancat")},
    "parser": {"model": {}, "min_action_freq": 1},
    "textcat": {"model": REDUCE},
}


@pytest.mark.parametrize("name", list(COMPONENTS))
def test_component_trains_and_reads_anything(name):
    nlp = spacy.blank("en")
    add_elmo(nlp)
    config = COMPONENTS[name]
    nlp.add_pipe(name, config={**config, "model": {**config["model"], "tok2vec": task_encoder()}})
    nlp.initialize(lambda: make_full_examples(nlp))
    (encoder,) = [node for node in nlp.get_pipe(name).model.walk() if node.has_ref("elmo_output")]
    assert encoder.get_dim("nO") == 10 + 5
    for _ in range(2):
        losses = nlp.update([*make_full_examples(nlp), Example.from_dict(nlp.make_doc(""), {})], drop=0.2)
    assert numpy.isfinite(losses[name])
    list(nlp.pipe(TEXTS))


def test_output_alone_needs_no_known_width_of_elmo():
    nlp = make_tagger(task_encoder("output", elmo_output=LISTENER))
    assert tok2vec_of(nlp).get_dim("nO") == 10 + WIDTH


@pytest.mark.parametrize("frozen", [True, False])
def test_rehearsal_frozen_components_and_other_docs(frozen):
    nlp = make_tagger(task_encoder(), model={"frozen": frozen})
    train(nlp)
    optimizer = nlp.resume_training()
    raw = [Example.from_dict(nlp.make_doc(text), {}) for text in ("Rivers rise", "She left the bank")]
    losses = nlp.rehearse(raw, sgd=optimizer)
    assert losses["tagger"] >= 0
    before = tok2vec_of(nlp).to_bytes()
    train(nlp, exclude=["tagger"])
    assert tok2vec_of(nlp).to_bytes() == before
    train(nlp, exclude=["elmo"], annotates=["elmo"])
    assert tok2vec_of(nlp).to_bytes() != before


def test_workers_give_the_vectors_of_one_process():
    nlp = make_tagger(task_encoder())
    train(nlp, 20)
    wanted = [[token.tag_ for token in doc] for doc in nlp.pipe(TEXTS)]
    found = [[token.tag_ for token in doc] for doc in nlp.pipe(TEXTS, n_process=2, batch_size=3)]
    assert found == wanted


def test_trained_tagger_learns_its_examples():
    nlp = make_tagger(task_encoder())
    optimizer = nlp.create_optimizer()
    optimizer.learn_rate = 0.02
    train(nlp, 60, sgd=optimizer)
    for eg in make_examples(nlp):
        doc = nlp(Doc(nlp.vocab, words=[token.text for token in eg.reference]))
        assert [token.tag_ for token in doc] == [token.tag_ for token in eg.reference]


def test_placement_without_elmo_is_an_error():
    nlp = spacy.blank("en")
    add_elmo(nlp)
    tok2vec = task_encoder(elmo_input=None, elmo_output=None)
    with pytest.raises(ValueError, match="encoder places.*elmo_input and elmo_output are both null"):
        nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}})


def test_settings_that_make_no_sense_are_an_error():
    with pytest.raises(ValueError, match="encode is 'noop' of unknown width"):
        ElmoTaskEncoder(noop(), noop(), elmo_input=build_listener(), dropout=1.0)


@pytest.mark.parametrize(
    "settings, problem",
    [
        ({"elmo_input": EMBED}, r"elmo_input is '.*', which has no ELMo, should be spacy-elmo.ElmoListener.v1"),
        ({"elmo_input": None, "elmo_output": BILSTM}, "elmo_output is '.*', which has no ELMo"),
        ({"embed": BILSTM}, "embed is the encoder '.*', should embed words"),
        ({"encode": EMBED}, "encode is '.*', which reads Docs, should be an encoder of vectors"),
        ({"dropout": "0.5"}, "dropout.*'0.5'"),
        ({"encode": {**BILSTM, "width": "10"}}, "width.*'10'"),
        ({"elmo_input": {**LISTENER, "projection_width": "5"}}, "projection_width.*'5'"),
    ],
)
def test_blocks_in_the_wrong_place_are_an_error(settings, problem):
    with pytest.raises(ValueError, match=f"(?s){problem}"):
        make_tagger(task_encoder(**settings))


def test_wrong_number_of_weights_is_an_error_before_training():
    for block, name in ((INPUT, "elmo_input"), (OUTPUT, "elmo_output")):
        nlp = spacy.blank("en")
        add_elmo(nlp)
        wrong = {**block, "initial_weights": [1.0, 2.0]}
        tok2vec = task_encoder(**{name: wrong})
        message = r"initial_weights of 'tagger' has 2 weights \(\[1.0, 2.0\]\).*3 layers"
        with pytest.raises(ValueError, match=message):
            nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}})
