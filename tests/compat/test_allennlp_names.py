"""AllenNLP's API: keywords, attributes, forms of arguments, widths of ids, `ElmoLstm.load_weights`."""

from types import MappingProxyType

import h5py
import numpy as np
import pytest
import torch
from compat.tiny import CONFIG, make_bilm, save_files

from spacy_elmo import BiLMConfig
from spacy_elmo.compat.allennlp import (
    ConfigurationError,
    Elmo,
    ElmoBiLm,
    ElmoCharacterEncoder,
    ELMoCharacterMapper,
    ElmoEmbedder,
    ElmoLstm,
    ELMoTokenCharactersIndexer,
    ElmoTokenEmbedder,
    batch_to_ids,
)

SETTINGS = {"memory_cell_clip_value": 0.5, "state_projection_clip_value": 0.3}


def make_lstm(hidden_size=8, num_layers=2, **settings):
    return ElmoLstm(hidden_size, hidden_size, 16, num_layers, **SETTINGS, **settings)


def test_the_attributes_of_the_character_mapper():
    mapper = ELMoCharacterMapper
    assert (mapper.beginning_of_sentence_character, mapper.end_of_sentence_character) == (256, 257)
    assert (mapper.beginning_of_word_character, mapper.end_of_word_character) == (258, 259)
    assert (mapper.padding_character, mapper.max_word_length) == (260, 50)
    assert mapper.beginning_of_sentence_characters == [258, 256, 259, *[260] * 47]
    assert mapper.end_of_sentence_characters == [258, 257, 259, *[260] * 47]
    for token, ids in (("<S>", "beginning_of_sentence_characters"), ("</S>", "end_of_sentence_characters")):
        assert mapper().convert_word_to_char_ids(token) == [number + 1 for number in getattr(mapper, ids)]
    assert mapper().convert_word_to_char_ids(chr(256) + "t")[:6] == [259, 197, 129, 117, 260, 261]
    assert mapper({"<first>": 1}).convert_word_to_char_ids("<first>")[:4] == [259, 2, 260, 261]
    assert mapper() == mapper() and mapper() != mapper({"a": 1})
    with pytest.raises(ConfigurationError, match="300.*0 to 260"):
        mapper({"<first>": 300})


@pytest.mark.parametrize("requires_grad", [False, True])
def test_load_weights_gives_the_lstm_of_the_file(files, requires_grad):
    lstm, wanted = make_lstm(requires_grad=requires_grad), ElmoBiLm(files.options, files.weights)._elmo_lstm
    inputs, mask = torch.randn(3, 5, 8), torch.tensor([[1] * 5, [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]]).bool()
    lstm(inputs, mask)  # what is derived from the old weights must not be used
    lstm.reset_states()
    lstm.load_weights(files.weights)
    for name, value in wanted.state_dict().items():
        torch.testing.assert_close(lstm.state_dict()[name], value, atol=1e-6, rtol=0.0)
    assert all(parameter.requires_grad == requires_grad for parameter in lstm.parameters())
    torch.testing.assert_close(lstm(inputs, mask).detach(), wanted(inputs, mask), atol=1e-5, rtol=0.0)


def test_load_weights_refuses_what_does_not_fit(files, tmp_path):
    for lstm, problem in (
        (make_lstm(hidden_size=4), r"EL026.*ElmoLstm\(4, 4, 16, 2\)(.|\n)*wrong shape: .*W_0 is \[16, 64\]"),
        (make_lstm(num_layers=1), "EL026(.|\n)*unexpected: .*Cell1"),
        (make_lstm(num_layers=3), "EL026(.|\n)*missing: .*Cell2"),
    ):
        before = {name: value.clone() for name, value in lstm.state_dict().items()}
        with pytest.raises(ValueError, match=problem):
            lstm.load_weights(files.weights)
        assert all(torch.equal(value, before[name]) for name, value in lstm.state_dict().items())
    with pytest.raises(ValueError, match="on the web"):
        make_lstm().load_weights("https://host/weights.hdf5")
    with pytest.raises(ValueError, match="weight_file"):
        make_lstm().load_weights(weight_file=tmp_path / "nowhere.hdf5")
    (tmp_path / "text.hdf5").write_text("not HDF5")
    with pytest.raises(ValueError, match="EL022"):
        make_lstm().load_weights(tmp_path / "text.hdf5")


def test_load_weights_reads_inputs_of_another_width(files, tmp_path):
    lstm = ElmoLstm(5, 8, 16, 2, **SETTINGS)
    path = tmp_path / "wide.hdf5"
    path.write_bytes(files.weights.read_bytes())
    with h5py.File(path, "r+") as file:
        for d in range(2):
            group = file[f"RNN_{d}/RNN/MultiRNNCell/Cell0/LSTMCell"]
            weight = group["W_0"][3:]  # three rows of the inputs less
            del group["W_0"]
            group["W_0"] = weight
    lstm.load_weights(path)
    wanted = ElmoBiLm(files.options, files.weights)._elmo_lstm
    inputs, mask = torch.randn(2, 4, 5), torch.ones(2, 4).bool()
    padded = torch.cat([torch.zeros(2, 4, 3), inputs], dim=2)
    torch.testing.assert_close(lstm(inputs, mask).detach(), wanted(padded, mask), atol=1e-5, rtol=0.0)


class AllenNLPVocabulary:
    """The one method of AllenNLP's class that is used."""

    def get_token_to_index_vocabulary(self, namespace):
        return {"tokens": {"@@PADDING@@": 0, "@@UNKNOWN@@": 1, "bank": 2}}[namespace]


@pytest.mark.parametrize("cls", [Elmo, ElmoTokenEmbedder])
def test_from_params_takes_the_forms_of_all_versions(files, cls):
    params = {"type": "elmo_token_embedder", "options_file": str(files.options), "weight_file": str(files.weights)}
    params.update({"num_output_representations": 1} if cls is Elmo else {"projection_dim": 5})
    width = 16 if cls is Elmo else 5
    vocab, before = AllenNLPVocabulary(), dict(params)
    for call in (
        lambda: cls.from_params(params),
        lambda: cls.from_params(params=params),
        lambda: cls.from_params(None, params),
        lambda: cls.from_params(vocab, params),
        lambda: cls.from_params(vocab=vocab, params=params),
        lambda: cls.from_params(params, vocab=vocab),
        lambda: cls.from_params(MappingProxyType(params), extra=1),
    ):
        assert call().get_output_dim() == width
    assert params == before
    cached = {**params, "namespace_to_cache": "tokens"}
    for module in (cls.from_params(vocab, cached), cls.from_params(cached, vocab=vocab)):
        found = module(torch.zeros(1, 1, 50, dtype=torch.long), torch.tensor([[2]]))
        wanted = module(batch_to_ids([["bank"]]))
        assert type(found) is type(wanted)
    for bad in (lambda: cls.from_params(vocab), lambda: cls.from_params(None, cached)):
        with pytest.raises(ConfigurationError, match="params|vocabulary"):
            bad()


@pytest.fixture(scope="module")
def of_width(files, tmp_path_factory):
    """Make a biLM that reads another number of characters for each word, as many biLMs for Chinese do."""

    def make(width):
        characters = {**CONFIG.to_dict()["char_cnn"], "max_characters": width}
        bilm = make_bilm(BiLMConfig.from_dict({**CONFIG.to_dict(), "char_cnn": characters}))
        return save_files(bilm, tmp_path_factory.mktemp("width"))

    return make


LONG = [["a", "cat", "internationalization", "\u570b\u969b\u5316" * 3, "", "<S>"], [], ["\u6578" * 14]]


@pytest.mark.parametrize("width", [4, 64])
def test_words_are_spelled_in_the_width_of_the_bilm(of_width, width):
    files = of_width(width)
    wanted = files.bilm.embed(LONG, state=None)
    for rows, layers in zip(ElmoEmbedder(files.options, files.weights).embed_batch(LONG), wanted, strict=True):
        np.testing.assert_allclose(rows, layers, atol=1e-5)
    indices = ELMoTokenCharactersIndexer().tokens_to_indices(LONG[0])
    by_indexer = ELMoTokenCharactersIndexer().as_padded_tensor_dict(indices, {"elmo_tokens": 6})["elmo_tokens"]
    for ids, mine in (
        (batch_to_ids(LONG), wanted),
        (batch_to_ids(LONG, width), wanted),
        (batch_to_ids(LONG, max_characters=70), wanted),
        (by_indexer[None], wanted[:1]),
    ):
        output = Elmo(files.options, files.weights, 1, dropout=0.0)(ids)
        rows, mask = output["elmo_representations"][0].detach(), output["mask"]
        np.testing.assert_allclose(rows[mask], np.concatenate([part.mean(axis=0) for part in mine]), atol=1e-5)
        assert ElmoTokenEmbedder(files.options, files.weights)(ids).shape == rows.shape
        vectors = ElmoCharacterEncoder(files.options, files.weights)(ids)["token_embedding"]
        assert vectors.shape == (len(mine), ids.shape[1] + 2, 8)


def test_ids_that_cannot_be_read_in_another_width_say_what_to_pass(of_width):
    wide, narrow = of_width(64), of_width(10)
    for files, ids, width in (
        (wide, batch_to_ids([["a" * 60]]), 64),  # truncated: what comes behind is not known
        (narrow, torch.full((1, 2, 50), 5), 10),  # no words
    ):
        with pytest.raises(ValueError, match=f"max_characters_per_token.*batch_to_ids.*max_characters={width}"):
            Elmo(files.options, files.weights, 1)(ids)
    assert wide.bilm.embed([["a" * 60]])[0].shape == (3, 1, 16)
    Elmo(wide.options, wide.weights, 1)(batch_to_ids([["a" * 60]], max_characters=64))
