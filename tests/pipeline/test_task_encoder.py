"""The task encoder: [x; ELMo] -> dropout -> encoder -> [h; ELMo'], in spaCy's components, and its layers."""

import numpy
import pytest
import spacy
import torch
from spacy.training import Example
from thinc.api import fix_random_seed

from spacy_elmo.pipeline.listener import get_listeners
from spacy_elmo.pipeline.mix import mix_layers
from spacy_elmo.pipeline.task_layers import (
    BiLSTM,
    BiLSTMEncoder,
)

from .placements import BILSTM, EMBED, INPUT, PLACEMENTS, WINDOW, make_full_examples, make_tagger, task_encoder
from .test_listener import REDUCE, get_bilm_weights
from .tiny import LISTENER, TEXTS, add_elmo, loader_block, make_examples

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


WRONG_NUMBER = r"initial_weights of 'tagger' has 2 weights \(\[1.0, 2.0\]\).*3 layers"
COMPONENTS = {
    **{name: {"model": {}} for name in ("trainable_lemmatizer", "ner", "spancat")},
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


@pytest.mark.parametrize(
    "settings, problem",
    [
        ({"elmo_input": EMBED}, r"elmo_input is '.*', which has no ELMo, should be spacy-elmo.ElmoListener.v1"),
        ({"embed": BILSTM}, "embed is the encoder '.*', should embed words"),
        ({"encode": EMBED}, "encode is '.*', which reads Docs, should be an encoder of vectors"),
        ({"elmo_input": None, "elmo_output": None}, "encoder places.*elmo_input and elmo_output are both null"),
        ({"elmo_input": {**INPUT, "initial_weights": [1.0, 2.0]}}, WRONG_NUMBER),
        ({"dropout": 1.0}, "dropout.*1.0"),
        ({"encode": {**BILSTM, "width": 5}}, "width.*5"),
    ],
)
def test_blocks_in_the_wrong_place_are_an_error(settings, problem):
    with pytest.raises(ValueError, match=f"(?s){problem}"):
        make_tagger(task_encoder(**settings))


# The BiLSTM encoder: torch's LSTM over each sequence, with weights that Thinc keeps


LENGTHS = [3, 0, 5, 1, 5]
N_INPUTS, ENCODER_WIDTH = 7, 6


def make_sequences(lengths=LENGTHS, width=N_INPUTS, seed=0):
    rng = numpy.random.default_rng(seed)
    return [rng.normal(size=(length, width)).astype("float32") for length in lengths]


def make_encoder(seed=0, **settings):
    fix_random_seed(seed)
    encoder = BiLSTMEncoder(ENCODER_WIDTH, **settings)
    encoder.initialize(X=make_sequences())
    return encoder


def torch_twin(layer):
    """torch's own module with the weights of a layer."""
    twin = torch.nn.LSTM(layer.get_dim("nI"), layer.get_dim("nO") // 2, bidirectional=True)
    flat = torch.from_numpy(layer.get_param("W"))
    kinds = ["weight_ih", "weight_hh"], ["bias_ih", "bias_hh"]
    names = [f"{kind}_l0{direction}" for group in kinds for direction in ("", "_reverse") for kind in group]
    start = 0
    for name in names:
        parameter = getattr(twin, name)
        parameter.data = flat[start : start + parameter.numel()].view(parameter.shape).clone()
        start += parameter.numel()
    assert start == len(flat)
    return twin


def test_layer_equals_torch_and_so_do_its_gradients():
    layer, sequences = BiLSTM(ENCODER_WIDTH), make_sequences()
    layer.initialize(X=sequences)
    twin = torch_twin(layer)
    inputs = [torch.from_numpy(sequence).requires_grad_() for sequence in sequences]
    wanted = [twin(tensor)[0] if len(tensor) else tensor.new_zeros(0, ENCODER_WIDTH) for tensor in inputs]
    found, backprop = layer(sequences, is_train=True)
    d_outputs = make_sequences(width=ENCODER_WIDTH, seed=1)
    sum((a * torch.from_numpy(b)).sum() for a, b in zip(wanted, d_outputs)).backward()
    d_inputs = backprop(d_outputs)
    for ours, torchs, d_ours, tensor in zip(found, wanted, d_inputs, inputs):
        numpy.testing.assert_allclose(ours, torchs.detach(), atol=1e-6)
        numpy.testing.assert_allclose(d_ours, 0 if tensor.grad is None else tensor.grad, atol=1e-6)
    order = ("weight_ih_l0", "weight_hh_l0", "weight_ih_l0_reverse", "weight_hh_l0_reverse")
    order += ("bias_ih_l0", "bias_hh_l0", "bias_ih_l0_reverse", "bias_hh_l0_reverse")
    d_weights = torch.cat([getattr(twin, name).grad.ravel() for name in order])
    numpy.testing.assert_allclose(layer.get_grad("W"), d_weights, atol=1e-5)


@pytest.mark.parametrize("is_train", [False, True])
def test_encoding_does_not_depend_on_the_batch(is_train):
    encoder, sequences = make_encoder(depth=2), make_sequences()
    together = encoder(sequences, is_train)[0]
    for sequence, found in zip(sequences, together):
        assert found.shape == (len(sequence), ENCODER_WIDTH)
        numpy.testing.assert_allclose(encoder.predict([sequence])[0], found, atol=1e-6)


# A text classifier that pools vectors by their maximum: Docs without tokens score 0, all others as with spaCy


SENTENCES = ["She sat on the bank", "It rains", "The bank lends money"]
CATS = [{"A": 1.0, "B": 0.0}, {"A": 0.0, "B": 1.0}, {"A": 1.0, "B": 0.0}]
ALL = {f"use_reduce_{kind}": True for kind in ("first", "last", "max", "mean")}


def make_textcat(library="spacy-elmo", texts=SENTENCES, factory="textcat", tok2vec=LISTENER):
    fix_random_seed(0)
    nlp = spacy.blank("en")
    add_elmo(nlp)
    model = {"@architectures": f"{library}.TextCatReduce.v1", "tok2vec": tok2vec, **ALL}
    nlp.add_pipe(factory, config={"model": {**model, "exclusive_classes": factory == "textcat"}})
    examples = [Example.from_dict(nlp.make_doc(text), {"cats": cats}) for text, cats in zip(texts, CATS)]
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(3):
        nlp.update(examples, sgd=optimizer)
    return nlp


def scores(nlp, texts):
    return numpy.array([[doc.cats["A"], doc.cats["B"]] for doc in nlp.pipe(texts)])


@pytest.mark.parametrize("factory", ["textcat", "textcat_multilabel"])
def test_docs_with_tokens_score_as_with_spacy(factory):
    numpy.testing.assert_allclose(
        scores(make_textcat(factory=factory), SENTENCES), scores(make_textcat("spacy", factory=factory), SENTENCES)
    )


@pytest.mark.parametrize("tok2vec", [LISTENER, task_encoder()], ids=["listener", "task encoder"])
def test_a_doc_without_tokens_scores_zero_and_changes_no_other(tok2vec):
    nlp = make_textcat(tok2vec=tok2vec)
    found = scores(nlp, ["", SENTENCES[0], "", SENTENCES[1]])
    assert not found[[0, 2]].any()
    numpy.testing.assert_allclose(found[[1, 3]], scores(nlp, SENTENCES[:2]), atol=1e-5)
    assert not scores(nlp, ["", ""]).any()
    with pytest.raises(ValueError, match="sequence lengths must be > 0"):  # what this is for
        scores(make_textcat("spacy"), ["", SENTENCES[0]])


def test_a_label_added_later_is_scored_and_saved():
    nlp = make_textcat()
    nlp.get_pipe("textcat").add_label("C")
    copied = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    found = copied(SENTENCES[0]).cats
    assert list(found) == ["A", "B", "C"] and found == nlp(SENTENCES[0]).cats
