import numpy as np
import pytest
from reference.seeded_weights import VARIANTS, make_arrays, make_options

from spacy_elmo.weights.bilm_tf import read_options, regular_name, tf_datasets
from spacy_elmo.weights.parts import network_shapes
from spacy_elmo.weights.tensor_map import UNCHANGED, export_arrays, import_arrays, permute


@pytest.mark.parametrize("variant", VARIANTS)
def test_layout_covers_the_file(variant):
    options = make_options(**VARIANTS[variant])
    arrays = make_arrays(options)
    config = read_options(options, "options.json", n_words=len(arrays.get("embedding", ())) or None)
    assert {dataset.name: dataset.shape for dataset in tf_datasets(config)} == {k: v.shape for k, v in arrays.items()}


@pytest.mark.parametrize("variant", VARIANTS)
def test_layout_moves_every_value_once(variant):
    options = make_options(**VARIANTS[variant])
    arrays = make_arrays(options)
    config = read_options(options, "options.json", n_words=len(arrays.get("embedding", ())) or None)
    state = import_arrays(tf_datasets(config), arrays, network_shapes(config))
    n_mask = 0 if config.char_cnn is None else config.char_cnn.embedding_width
    assert sum(array.size for array in state.values()) == sum(array.size for array in arrays.values()) + n_mask
    back = export_arrays(tf_datasets(config), state)
    assert all(np.array_equal(back[name], arrays[name]) for name in arrays)


@pytest.mark.parametrize(
    "name, regular",
    [
        ("RNN_0/RNN/LSTMCell/B", "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/B"),
        ("RNN_1/RNN/LSTMCell/W_P_0", "RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0"),
        ("RNN_1/RNN/MultiRNNCell/Cell3/LSTMCell/W_0", "RNN_1/RNN/MultiRNNCell/Cell3/LSTMCell/W_0"),
        ("rnn/MultiRNNCell/Cell1/LSTMCell/kernel", "RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell/W_0"),
        ("rnn/MultiRNNCell/Cell1/LSTMCell/bias", "RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell/B"),
        ("rnn/MultiRNNCell/Cell0/LSTMCell/projection/kernel", "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0"),
        ("rnn/LSTMCell/projection/kernel", "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0"),
        ("char_embed", "char_embed"),
    ],
)
def test_layout_knows_odd_names(name, regular):
    assert regular_name(name) == regular


@pytest.mark.parametrize("transform", [UNCHANGED, permute(1, 0, 2), permute(2, 0, 1)])
def test_transforms_are_invertible_bit_for_bit(transform):
    array = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    ours = transform.to_ours(array)
    assert transform.to_theirs(ours).tobytes() == array.tobytes()
    assert transform.to_ours(transform.to_theirs(array)).tobytes() == array.tobytes()


def test_permute_puts_axes_into_the_order_of_the_state_dict():
    assert permute(2, 0, 1).to_ours(np.zeros((2, 3, 4))).shape == (4, 2, 3)
