"""Names of AllenNLP's API: keywords, attributes, `ElmoLstm.load_weights`."""

import h5py
import pytest
import torch
from compat.tiny import BATCHES

from spacy_elmo.compat.allennlp import ElmoBiLm, ELMoCharacterMapper, ElmoLstm, batch_to_ids
from spacy_elmo.nn import batch_to_ids as own_batch_to_ids

SETTINGS = {"memory_cell_clip_value": 0.5, "state_projection_clip_value": 0.3}


def make_lstm(hidden_size=8, num_layers=2, **settings):
    return ElmoLstm(hidden_size, hidden_size, 16, num_layers, **SETTINGS, **settings)


@pytest.mark.issue(17)
def test_batch_to_ids_has_the_keyword_of_allennlp():
    assert torch.equal(batch_to_ids(batch=BATCHES[0]), own_batch_to_ids(sentences=BATCHES[0]))
    with pytest.raises(ValueError, match="EL011"):
        batch_to_ids(batch=["not tokenized"])


@pytest.mark.issue(17)
def test_the_attributes_of_the_character_mapper():
    mapper = ELMoCharacterMapper
    assert (mapper.beginning_of_sentence_character, mapper.end_of_sentence_character) == (256, 257)
    assert (mapper.beginning_of_word_character, mapper.end_of_word_character) == (258, 259)
    assert (mapper.padding_character, mapper.max_word_length) == (260, 50)
    assert mapper.beginning_of_sentence_characters == [258, 256, 259, *[260] * 47]
    assert mapper.end_of_sentence_characters == [258, 257, 259, *[260] * 47]
    for token, ids in (("<S>", "beginning_of_sentence_characters"), ("</S>", "end_of_sentence_characters")):
        assert mapper().convert_word_to_char_ids(token) == [number + 1 for number in getattr(mapper, ids)]


@pytest.mark.issue(17)
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


@pytest.mark.issue(17)
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
    with pytest.raises(ValueError, match="EL330"):
        make_lstm().load_weights("https://host/weights.hdf5")
    with pytest.raises(ValueError, match="EL333.*weight_file"):
        make_lstm().load_weights(weight_file=tmp_path / "nowhere.hdf5")
    (tmp_path / "text.hdf5").write_text("not HDF5")
    with pytest.raises(ValueError, match="EL022"):
        make_lstm().load_weights(tmp_path / "text.hdf5")


@pytest.mark.issue(17)
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
