"""`ElmoLstm` of AllenNLP: state, padding, sizes, weights of files."""

import h5py
import pytest
import torch
from compat.tiny import BATCHES, assert_close

from spacy_elmo.compat.allennlp import ConfigurationError, ElmoBiLm, ElmoLstm, batch_to_ids

SETTINGS = {"memory_cell_clip_value": 0.5, "state_projection_clip_value": 0.3}


def make_lstm(hidden_size=8, num_layers=2, **settings):
    return ElmoLstm(hidden_size, hidden_size, 16, num_layers, **SETTINGS, **settings)


def test_states_are_reset_wholly_or_by_row_and_kept_only_while_stateful(files):
    module = ElmoBiLm(files.options, files.weights)
    ids = batch_to_ids(BATCHES[0])
    first, second = (module(ids)["activations"][2] for _ in range(2))
    assert (first - second).abs().max() > 0.01
    module._elmo_lstm.reset_states(torch.tensor([True, False, True]))
    third = module(ids)["activations"][2]
    assert_close(third[[0, 2]], first[[0, 2]])
    assert (third[1, :2] - first[1, :2]).abs().max() > 1e-3
    with pytest.raises(ConfigurationError, match="\\(2,\\).*\\(3,\\)"):
        module._elmo_lstm.reset_states(torch.tensor([True, False]))
    module._elmo_lstm.stateful = False
    for _ in range(2):
        module._elmo_lstm.reset_states()
        assert_close(module(ids)["activations"][2], first)
        assert module._elmo_lstm._states is None


def test_lstm_takes_padded_rows_without_elements(files):
    module = ElmoBiLm(files.options, files.weights)._elmo_lstm
    inputs, mask = torch.randn(3, 4, 8), torch.tensor([[1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 0, 0]])
    outputs = module(inputs, mask)
    assert outputs.shape == (2, 3, 4, 16)
    assert not outputs[:, 1].any() and not outputs[:, 2, 2:].any() and outputs[:, 2, 1].any()
    assert not module._states[0][:, 1].any() and module._states[0][:, 2].any()
    module.reset_states()
    assert_close(module(inputs[2:, :2], mask[2:, :2])[:, 0], outputs[:, 2, :2])
    assert not module(inputs, torch.zeros(3, 4)).any()


def test_lstm_is_made_from_sizes():
    lstm = ElmoLstm(3, 5, 7, 2, memory_cell_clip_value=2, state_projection_clip_value=1)
    mask = torch.tensor([[1, 1, 1], [1, 0, 0]])
    assert lstm(torch.randn(2, 3, 3), mask).shape == (2, 2, 3, 10)
    assert [state.shape for state in lstm._states] == [(2, 2, 10), (2, 2, 14)]
    same = ElmoLstm(5, 5, 7, 2)
    inputs, mask = torch.randn(2, 3, 5), mask.bool()
    by_engine = same(inputs, mask)
    same.reset_states()
    assert_close(same(inputs.requires_grad_(), mask).detach(), by_engine)
    with pytest.raises(ConfigurationError, match="recurrent_dropout"):
        ElmoLstm(5, 5, 7, 2, recurrent_dropout_probability=0.1)


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
