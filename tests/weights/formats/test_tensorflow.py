"""Checkpoints of bilm-tf and TF-Hub modules: read bit for bit, the same biLM as their HDF5 files; damaged and hostile
ones give an error that names them, before memory is taken."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from reference.seeded_weights import VARIANTS, WORDS, make_arrays, make_options, make_softmax, write_model
from reference.tensorflow_files import (
    hub_names,
    training_names,
    write_bundle,
    write_checkpoint,
    write_module,
)
from weights.same import assert_same

from spacy_elmo import load_bilm, load_mixes
from spacy_elmo.weights.formats import TF_CHECKPOINT, TF_HUB
from spacy_elmo.weights.formats.tensorflow import find_checkpoint
from spacy_elmo.weights.formats.tf_bundle import Bundle
from spacy_elmo.weights.load import detect_format
from spacy_elmo.weights.meta import MIXES_KEY, LoadedMix

MIX = {"weights": np.array([0.5, -1.0, 0.25], dtype="float32"), "scaling": np.array(1.5, dtype="float32")}


def make(**changes):
    options = make_options(**changes)
    return options, {**make_arrays(options), **make_softmax(options)}


@pytest.fixture
def checkpoint(tmp_path):
    options, arrays = make()
    return write_checkpoint(tmp_path / "checkpoint", options, arrays, WORDS, accumulators=arrays)


@pytest.mark.parametrize("variant", ["plain", "noproj", "nohighway", "nocnnproj", "1layer", "n261", "wordsforward"])
def test_checkpoint_equals_the_weights_file(variant, tmp_path):
    options, arrays = make(**VARIANTS[variant])
    wanted = load_bilm(write_model(tmp_path / "hdf5", options, arrays, WORDS))
    found = load_bilm(write_checkpoint(tmp_path / "tf", options, arrays, WORDS, accumulators=arrays))
    assert_same(found, wanted)
    assert found.meta["source_format"] == "tf-checkpoint" and found.meta["n_updates"] == 7


def test_checkpoint_with_a_shared_softmax(tmp_path):
    options, arrays = make(char_cnn=..., share_embedding_softmax=True)
    del arrays["softmax/W"]
    bilm = load_bilm(write_checkpoint(tmp_path / "tf", options, arrays, WORDS))
    assert bilm.head.weight is bilm.network.word_embedding


def test_every_path_of_a_checkpoint_is_found(checkpoint):
    (checkpoint / "model.ckpt-7.meta").write_bytes(b"a graph")
    for end in ("", "checkpoint", *(f"model.ckpt-7{end}" for end in ("", ".index", ".data-00000-of-00001", ".meta"))):
        format, files = detect_format(checkpoint / end)
        assert format is TF_CHECKPOINT
        assert files.weights.path == checkpoint / "model.ckpt-7.index"
        assert files.vocab.path == checkpoint / "vocab.txt"


def test_options_and_vocabulary_may_be_elsewhere(checkpoint, tmp_path):
    wanted = load_bilm(checkpoint)
    for name in ("options.json", "vocab.txt"):
        shutil.move(checkpoint / name, tmp_path / name)
    given = {"options": tmp_path / "options.json", "vocab": tmp_path / "vocab.txt"}
    for name in ("model.ckpt-7", "model.ckpt-7.index", ""):
        assert_same(load_bilm(weights=checkpoint / name, **given), wanted)


def test_the_newest_of_several_checkpoints_is_read(checkpoint):
    options, arrays = make(lstm={"n_layers": 1})
    write_checkpoint(checkpoint, options, arrays, WORDS, n_updates=20)
    assert load_bilm(checkpoint).config.n_layers == 1
    (checkpoint / "options.json").write_text(json.dumps(make_options()))
    assert load_bilm(checkpoint / "model.ckpt-7").config.n_layers == 2
    write_model(checkpoint, *make(), WORDS)  # a dump of its weights
    assert load_bilm(checkpoint).meta["source_format"] == "bilm-tf"


@pytest.mark.parametrize(
    "rename",
    [
        lambda name: name.replace("lm/", "model/lm/", 1),
        lambda name: name.removeprefix("lm/"),
        lambda name: name.replace("/kernel", "/weights").replace("/bias", "/biases"),
        lambda name: name.replace("rnn/multi_rnn_cell/cell_", "RNN/MultiRNNCell/Cell").replace("lstm_cell", "LSTMCell"),
    ],
    ids=["deeper scope", "no scope", "TensorFlow 1.0", "older scopes"],
)
def test_other_names_of_variables(rename, tmp_path):
    options, arrays = make()
    wanted = load_bilm(write_model(tmp_path / "hdf5", options, arrays, WORDS))
    folder = write_checkpoint(tmp_path / "tf", options, arrays, WORDS)
    names = {rename(name): array for name, array in training_names(arrays, 2).items()}
    slots = {f"{name}/Adagrad": array for name, array in names.items()}
    others = {"global_step": np.array(3.0, "float32"), "beta1_power": np.array(0.9, "float32")}
    write_bundle(folder / "model.ckpt-7", {**names, **slots, **others})
    assert_same(load_bilm(folder), wanted)


@pytest.mark.parametrize("scope", ["", "module/"])
def test_module_of_tf_hub(scope, tmp_path):
    options, arrays = make_options(), make_arrays(make_options())
    wanted = load_bilm(write_model(tmp_path / "hdf5", options, arrays))
    folder = write_module(tmp_path / "elmo", arrays, MIX, scope)
    for path in (folder, folder / "variables" / "variables.index"):
        assert detect_format(path)[0] is TF_HUB
        bilm = load_bilm(path)
        assert_same(bilm, wanted)
        assert load_mixes(path) == [LoadedMix((0.5, -1.0, 0.25), 1.5)]
        mix = {"weights": [0.5, -1.0, 0.25], "gamma": 1.5, "layer_norm": None}
        assert bilm.meta == {"source_format": "tf-hub", MIXES_KEY: [mix]}


def test_errors_of_modules(tmp_path):
    arrays = make_arrays(make_options())
    folder = write_module(tmp_path / "elmo", arrays, {**MIX, "weights": MIX["weights"][:2]})
    with pytest.raises(ValueError, match=r"EL026.*\n- wrong shape: aggregation/weights is \[2\], should be \[3\]"):
        load_bilm(folder)
    names = hub_names({name: array for name, array in arrays.items() if name != "CNN/W_cnn_0"})
    names["bilm/char_embed"] = names["bilm/char_embed"].reshape(-1)
    write_bundle(folder / "variables" / "variables", names)
    with pytest.raises(ValueError, match="CNN/W_cnn_0 is missing.*char_embed is .*should have 2 dimensions"):
        load_bilm(folder)
    shutil.rmtree(folder / "variables")
    with pytest.raises(ValueError, match="EL020.*variables/variables.index is missing"):
        load_bilm(folder)


def test_errors_of_checkpoints(checkpoint, tmp_path):
    index = checkpoint / "model.ckpt-7.index"
    (checkpoint / "options.json").rename(tmp_path / "options.json")
    with pytest.raises(ValueError, match="EL020.*without options in the same folder.*options.json"):
        load_bilm(checkpoint)
    for name in ("a_options.json", "b_options.json"):
        shutil.copy(tmp_path / "options.json", checkpoint / name)
    with pytest.raises(ValueError, match="EL021.*2 files with options"):
        load_bilm(checkpoint)
    (checkpoint / "b_options.json").unlink()
    shutil.copy(index, checkpoint / "model.ckpt-9.index")
    shutil.copy(checkpoint / "model.ckpt-7.data-00000-of-00001", checkpoint / "model.ckpt-9.data-00000-of-00001")
    (checkpoint / "checkpoint").unlink()
    with pytest.raises(ValueError, match=r"2 TensorFlow checkpoints \(model.ckpt-7.index, model.ckpt-9.index\)"):
        load_bilm(checkpoint)
    (checkpoint / "model.ckpt-9.data-00000-of-00001").unlink()
    with pytest.raises(ValueError, match="no 'model.ckpt-9.data-00000-of-00001'"):
        load_bilm(checkpoint / "model.ckpt-9.index")
    (checkpoint / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-11"')
    with pytest.raises(ValueError, match="model.ckpt-11.index': there is no such file"):
        load_bilm(checkpoint)
    (checkpoint / "checkpoint").write_text('model_checkpoint_path: "../"')
    with pytest.raises(ValueError, match="/.index': there is no such file"):
        load_bilm(checkpoint)


def test_a_checkpoint_names_no_file_outside_its_folder(checkpoint, tmp_path):
    (checkpoint / "checkpoint").write_text('model_checkpoint_path: "../other/model.ckpt-7"')
    assert detect_format(checkpoint)[1].weights.path == checkpoint / "model.ckpt-7.index"
    (checkpoint / "checkpoint").write_text('model_checkpoint_path: "C:\\\\work\\\\model.ckpt-7"')
    assert detect_format(checkpoint)[1].weights.path == checkpoint / "model.ckpt-7.index"


def test_a_checkpoint_of_another_model(tmp_path):
    folder, (options, arrays) = tmp_path / "tf", make()
    write_checkpoint(folder, options, arrays)
    write_bundle(folder / "model.ckpt-7", {"dense/kernel": np.zeros((2, 2), "float32")})
    with pytest.raises(ValueError, match=r"(?s)has no biLM.*1 variables.*\n- dense/kernel"):
        load_bilm(folder)
    write_bundle(folder / "model.ckpt-7", {**training_names(arrays, 2), **training_names(arrays, 2, "other/")})
    with pytest.raises(ValueError, match="2 biLMs, in the scopes 'lm/', 'other/'"):
        load_bilm(folder)
    names = training_names(arrays, 2)
    names["lm/dense/kernel"] = np.zeros((2, 2), "float32")
    del names["lm/CNN_proj/b_proj"]
    write_bundle(folder / "model.ckpt-7", names)
    with pytest.raises(ValueError, match=r"EL026.*\n- missing: CNN_proj/b_proj \[8\]\n- unexpected: dense/kernel"):
        load_bilm(folder)


# Checkpoints that TensorFlow itself wrote, see tests/fixtures/tensorflow/README.md


FIXTURES = Path(__file__).parents[2] / "fixtures" / "tensorflow"


def test_checkpoints_of_tensorflow_itself_have_every_value():
    options = json.loads((FIXTURES / "options.json").read_text())
    arrays = {**make_arrays(options), **make_softmax(options)}
    checkpoint = Bundle(find_checkpoint(FIXTURES / "v2"))
    whole = [name for name in checkpoint.variables if not name.startswith("lm/softmax/W")]
    values = checkpoint.read(whole)
    assert len(values) == 2 * len(arrays) and values["global_step"] == 7.0
    named = training_names(arrays, options["lstm"]["n_layers"])
    for name in set(named).intersection(whole):
        assert (values[name] == named[name]).all()
        assert values[f"{name}/Adagrad"] == pytest.approx(1 + named[name] ** 2, rel=1e-6)


def test_partitioned_variables_are_not_read():
    """`lm/softmax/W` has three partitions there."""
    with pytest.raises(ValueError, match=r"index.*lm/softmax/W \[12, 3\], .* has 0 bytes, .*: save it whole"):
        load_bilm(options=FIXTURES / "options.json", weights=FIXTURES / "v2")
