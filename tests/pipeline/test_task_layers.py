"""The task encoder: [x; ELMo] -> dropout -> encoder -> [h; ELMo'], in spaCy's components, and its layers."""

import pickle

import numpy
import pytest
import spacy
import torch
from inference.forcing import needs_kernel
from spacy.util import registry
from thinc.api import Adam, Model, fix_random_seed
from torch.nn.utils import vector_to_parameters

from spacy_elmo.pipeline.mix import mix_layers
from spacy_elmo.pipeline.task_layers import BiLSTMEncoder, BiLSTMLayer, Tok2VecWithElmo

from .tiny import (
    BILSTM,
    CNN,
    EMBED,
    INPUT,
    PLACEMENTS,
    TEXTS,
    WINDOW,
    loader_block,
    make_examples,
    make_tagger,
    task_encoder,
    train,
)

TEXT = "She sat on the bank of the river."


def tok2vec_of(nlp, name="tagger"):
    return nlp.get_pipe(name).model.get_ref("tok2vec")


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
        is_word = numpy.array([not token.is_space for token in doc])
        encoded = tok2vec.get_ref("encode").predict([joined.astype("f")[is_word]])[0]
        wanted = numpy.zeros((len(doc), encoded.shape[1]))
        wanted[is_word] = encoded
        if "elmo_output" in PLACEMENTS[placement]:
            wanted = numpy.hstack([wanted, mix_by_hand(doc, tok2vec.get_ref("elmo_output"))])
        numpy.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("encode", [BILSTM, WINDOW], ids=["bilstm", "window"])
def test_white_space_changes_no_vector_of_a_word(encode):
    nlp = make_tagger(task_encoder("input", encode))
    train(nlp)
    spaced, plain = list(nlp.pipe(["She  sat\non the bank. ", "She sat on the bank."]))
    found, wanted = tok2vec_of(nlp).predict([spaced, plain])
    is_space = numpy.array([token.is_space for token in spaced])
    assert is_space.sum() == 2 and len(found) == len(spaced)
    assert not found[is_space].any()
    numpy.testing.assert_allclose(found[~is_space], wanted, atol=1e-6)
    only_spaces, empty = tok2vec_of(nlp).predict([nlp.make_doc(" \n "), nlp.make_doc("")])
    assert not only_spaces.any() and len(only_spaces) == 1 and len(empty) == 0


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
    paths = ["model.tok2vec.elmo_input", "model.tok2vec.elmo_output"]
    nlp.replace_listeners("elmo", "tagger", paths[:: -1 if is_reversed else 1])
    nlp.remove_pipe("elmo")
    nlp.to_disk(tmp_path)
    found = spacy.load(tmp_path)
    numpy.testing.assert_allclose(tok2vec_of(found).predict([found(TEXT)])[0], wanted, atol=1e-5)


WRONG_NUMBER = r"initial_weights of 'tagger' has 2 weights \(\[1.0, 2.0\]\).*3 layers"


@pytest.mark.parametrize(
    "settings, problem",
    [
        ({"embed": BILSTM, "elmo_input": BILSTM}, "embed is the encoder '.*', should read Docs.*; elmo_input is the"),
        ({"encode": EMBED}, "encode is '.*', which reads Docs, should be an encoder of vectors"),
        ({"elmo_input": None, "elmo_output": None}, "elmo_input and elmo_output are both null"),
        ({"elmo_input": {**INPUT, "initial_weights": [1.0, 2.0]}}, WRONG_NUMBER),
        ({"dropout": 1.0}, "dropout.*1.0"),
        ({"encode": {**BILSTM, "width": 5}}, "width.*5"),
    ],
)
def test_blocks_in_the_wrong_place_are_an_error(settings, problem):
    with pytest.raises(ValueError, match=f"(?s){problem}"):
        make_tagger(task_encoder(**settings))


@pytest.mark.parametrize("is_replaced", [False, True])
def test_word_features_stand_beside_any_listener(is_replaced, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec", config={"model": CNN})
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": CNN["width"], "upstream": "*"}
    block = {"@architectures": "spacy-elmo.Tok2VecWithElmo.v1", "embed": EMBED, "elmo": listener, "encode": WINDOW}
    nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": block}})
    nlp.initialize(lambda: make_examples(nlp))
    losses = [train(nlp, 5)["tagger"] for _ in range(3)]
    assert losses[-1] < losses[0]
    if is_replaced:
        nlp.replace_listeners("tok2vec", "tagger", ["model.tok2vec.elmo"])
    nlp.to_disk(tmp_path)
    assert [token.tag_ for token in spacy.load(tmp_path)(TEXT)] == [token.tag_ for token in nlp(TEXT)]


def test_listener_of_spacy_transformers_without_a_gradient_of_its_input_is_trained_beside_others():
    def forward(model, docs, is_train):  # as its TransformerListener, unless it is the last one
        return [model.ops.alloc2f(len(doc), 4) for doc in docs], gradients.append

    gradients = []
    listener = Model("transformer-listener", forward, dims={"nO": 4})
    embed = registry.resolve({"embed": EMBED})["embed"]
    layer = Tok2VecWithElmo(embed, listener)
    docs = list(spacy.blank("en").pipe(TEXTS))
    layer.initialize(X=docs)
    vectors, backprop = layer.begin_update(docs)
    backprop(vectors)
    assert [gradient.shape for gradient in gradients[0]] == [(len(doc), 4) for doc in docs]


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


def torch_parameters(module):
    """In the order of the weights that Thinc keeps."""
    kinds = ["weight_ih", "weight_hh"], ["bias_ih", "bias_hh"]
    names = [f"{kind}_l0{direction}" for group in kinds for direction in ("", "_reverse") for kind in group]
    return [getattr(module, name) for name in names]


def test_layer_equals_torch_and_so_do_its_gradients():
    layer, sequences = BiLSTMLayer(ENCODER_WIDTH), make_sequences()
    layer.initialize(X=sequences)
    twin = torch.nn.LSTM(N_INPUTS, ENCODER_WIDTH // 2, bidirectional=True)
    vector_to_parameters(torch.from_numpy(layer.get_param("W")), torch_parameters(twin))
    inputs = [torch.from_numpy(sequence).requires_grad_() for sequence in sequences]
    wanted = [twin(tensor)[0] if len(tensor) else tensor.new_zeros(0, ENCODER_WIDTH) for tensor in inputs]
    found, backprop = layer(sequences, is_train=True)
    d_outputs = make_sequences(width=ENCODER_WIDTH, seed=1)
    sum((a * torch.from_numpy(b)).sum() for a, b in zip(wanted, d_outputs)).backward()
    for ours, torchs, d_ours, tensor in zip(found, wanted, backprop(d_outputs), inputs):
        numpy.testing.assert_allclose(ours, torchs.detach(), atol=1e-6)
        numpy.testing.assert_allclose(d_ours, 0 if tensor.grad is None else tensor.grad, atol=1e-6)
    d_weights = torch.cat([parameter.grad.ravel() for parameter in torch_parameters(twin)])
    numpy.testing.assert_allclose(layer.get_grad("W"), d_weights, atol=1e-5)


def predict_in_training(encoder, sequences):
    """The same by torch; the encoder has no dropout."""
    return encoder(sequences, is_train=True)[0]


def assert_all_close(outputs, expected, atol=1e-5):
    assert len(outputs) == len(expected)
    for one, other in zip(outputs, expected):
        numpy.testing.assert_allclose(one, other, atol=atol, rtol=0)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("width", [2, 6, 50])
def test_predictions_are_those_of_torch_within_rounding(width, depth):
    encoder, sequences = BiLSTMEncoder(width, depth, dropout=0.0), make_sequences([*LENGTHS, 300, 0, 1])
    encoder.initialize(X=sequences)
    for batch in (sequences, sequences[:1], sequences[1:2], []):
        assert_all_close(encoder.predict(batch), predict_in_training(encoder, batch))


@needs_kernel
def test_predictions_are_bit_identical_in_every_batch():
    encoder, sequences = BiLSTMEncoder(50, 2), make_sequences([*LENGTHS, *range(40), 300])
    encoder.initialize(X=sequences)
    single = [encoder.predict([sequence])[0] for sequence in sequences]
    for order in (range(len(sequences)), range(len(sequences))[::-1], range(3, 9)):
        for number, rows in zip(order, encoder.predict([sequences[number] for number in order])):
            numpy.testing.assert_array_equal(rows, single[number])


def change_in_place(encoder):
    for layer in (encoder.layers[0], encoder.layers[2]):
        layer.get_param("W")[::3] += 0.5
    return encoder


def change_by_update(encoder):
    outputs, backprop = encoder.begin_update(make_sequences())
    backprop(outputs)
    encoder.finish_update(Adam(0.1))
    return encoder


def change_by_reading(encoder):
    return encoder.from_bytes(make_encoder(seed=1, depth=2, dropout=0.0).to_bytes())


@pytest.mark.parametrize("change", [change_in_place, change_by_update, change_by_reading])
def test_predictions_follow_every_change_of_the_weights(change):
    encoder, sequences = make_encoder(depth=2, dropout=0.0), make_sequences()
    before = encoder.predict(sequences)
    other = change(encoder)
    after = other.predict(sequences)
    assert abs(after[0] - before[0]).max() > 1e-3
    assert_all_close(after, predict_in_training(other, sequences))


def test_averages_of_weights_are_used_inside_of_their_block_only():
    encoder, sequences = make_encoder(depth=2, dropout=0.0), make_sequences()
    before, layer = encoder.predict(sequences), encoder.layers[0]
    with encoder.use_params({(layer.id, "W"): 2.0 * layer.get_param("W")}):
        inside = encoder.predict(sequences)
        assert_all_close(inside, predict_in_training(encoder, sequences))
    assert abs(inside[0] - before[0]).max() > 1e-3
    for one, other in zip(encoder.predict(sequences), before):
        numpy.testing.assert_array_equal(one, other)


def read_bytes(encoder):
    return make_encoder(seed=1, depth=2, dropout=0.0).from_bytes(encoder.to_bytes())


def unpickle(encoder):
    return pickle.loads(pickle.dumps(encoder))


@pytest.mark.parametrize("make", [read_bytes, unpickle, Model.copy])
def test_copies_predict_the_same_and_are_saved_without_packed_weights(make):
    encoder, sequences = make_encoder(depth=2, dropout=0.0), make_sequences()
    n_bytes, n_pickled = len(encoder.to_bytes()), len(pickle.dumps(encoder))
    expected = encoder.predict(sequences)
    assert len(encoder.to_bytes()) == n_bytes and len(pickle.dumps(encoder)) == n_pickled
    other = make(encoder)
    for one, rows in zip(other.predict(sequences), expected):
        numpy.testing.assert_array_equal(one, rows)
    change_in_place(other)
    assert_all_close(other.predict(sequences), predict_in_training(other, sequences))
    assert_all_close(encoder.predict(sequences), expected, atol=0)


def test_a_pipeline_has_the_same_vectors_in_batches_and_processes_and_after_saving(tmp_path):
    nlp = spacy.blank("en")
    model = {"@architectures": "spacy.Tok2Vec.v2", "embed": EMBED, "encode": {**BILSTM, "width": 6, "depth": 2}}
    nlp.add_pipe("tok2vec", config={"model": model})  # which sets `doc.tensor`
    nlp.initialize()
    nlp.to_disk(tmp_path)
    texts = [TEXT, "", "A bank.", TEXT * 3, "Rivers"] * 4
    expected = [nlp(text).tensor for text in texts]
    loaded, rebuilt = spacy.load(tmp_path), spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    runs = [(nlp, {"batch_size": 3}), (nlp, {"n_process": 2}), (loaded, {}), (rebuilt, {})]
    for pipeline, settings in runs:
        assert_all_close([doc.tensor for doc in pipeline.pipe(texts, **settings)], expected, atol=1e-6)


@pytest.mark.parametrize("is_train", [False, True])
def test_encoding_does_not_depend_on_the_batch(is_train):
    encoder, sequences = make_encoder(depth=2), make_sequences()
    together = encoder(sequences, is_train)[0]
    for sequence, found in zip(sequences, together):
        assert found.shape == (len(sequence), ENCODER_WIDTH)
        numpy.testing.assert_allclose(encoder.predict([sequence])[0], found, atol=1e-6)
