"""Checkpoints of bilm-tf and TF-Hub modules: read bit for bit, the same biLM as their HDF5 files; damaged and hostile
ones give an error that names them, before memory is taken."""

import json
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from reference.seeded_weights import VARIANTS, WORDS, make_arrays, make_options, make_softmax, write_model
from reference.tensorflow_files import (
    fixed32,
    hub_names,
    masked_crc,
    message,
    shape_message,
    table,
    training_names,
    write_bundle,
    write_checkpoint,
    write_module,
)
from weights.same import assert_same

from spacy_elmo import load_bilm, load_mixes
from spacy_elmo.weights.formats import TF_CHECKPOINT, TF_HUB
from spacy_elmo.weights.formats.tensorflow import find_checkpoint, open_checkpoint
from spacy_elmo.weights.formats.tf_bundle import Bundle, crc32c
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


def test_an_old_checkpoint_says_how_to_convert_it(checkpoint):
    name = "model.ckpt-9-00000-of-00002"
    (checkpoint / "model.ckpt-7.index").rename(checkpoint / name)  # format V1 is a sorted table, too
    (checkpoint / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-9"')
    for path in (checkpoint, checkpoint / "model.ckpt-9", checkpoint / name):
        with pytest.raises(ValueError, match=rf"(?s){name}' is .*format V1.*tf.train.load_checkpoint.*ckpt-9-v2"):
            load_bilm(path)


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
    with pytest.raises(ValueError, match="no 'model.ckpt-11.index'"):
        load_bilm(checkpoint)
    (checkpoint / "checkpoint").write_text('model_checkpoint_path: "../"')
    with pytest.raises(
        ValueError, match="EL022.*checkpoint' cannot be read.* the name of the newest checkpoint is empty"
    ):
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
    with pytest.raises(ValueError, match=r"none of its 1 variables.*\n- dense/kernel"):
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
    checkpoint = open_checkpoint(find_checkpoint(FIXTURES / "v2"))
    whole = [name for name in checkpoint.variables if not name.startswith("lm/softmax/W")]
    values = checkpoint.read(whole)
    assert len(values) == 2 * len(arrays) and values["global_step"] == 7.0
    named = training_names(arrays, options["lstm"]["n_layers"])
    for name in set(named).intersection(whole):
        assert (values[name] == named[name]).all()
        assert values[f"{name}/Adagrad"] == pytest.approx(1 + named[name] ** 2, rel=1e-6)


def test_partitioned_variables_are_not_read():
    """`lm/softmax/W` has three partitions there."""
    with pytest.raises(ValueError, match=r"index.*lm/softmax/W \[12, 3\] has 0 bytes, .*: save it whole"):
        load_bilm(options=FIXTURES / "options.json", weights=FIXTURES / "v2")


# The files


DRAW = np.random.default_rng(0)
ARRAYS = {
    "lm/char_embed": DRAW.normal(size=(9, 4)).astype("float32"),
    "lm/char_embed/Adagrad": DRAW.normal(size=(9, 4)).astype("float32"),
    "lm/half": DRAW.normal(size=(3, 2)).astype("float16"),
    "lm/double": DRAW.normal(size=(2, 3, 2)),
    "lm/large": DRAW.normal(size=(70, 40)).astype("float32"),
    "lm/empty": np.zeros((0, 3), dtype="float32"),
    "step": np.array(7.0, dtype="float32"),
    "counts": DRAW.integers(-9, 9, size=4).astype("int32"),
    "long": DRAW.integers(-9, 9, size=(2, 2)),
}


def test_crc32c_equals_published_values():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4
    assert crc32c(bytes(range(32))) == 0x46DD794E


@pytest.mark.parametrize("settings", [{}, {"n_shards": 3}])
def test_format_v2_is_read_bit_for_bit(settings, tmp_path):
    found = open_checkpoint(write_bundle(tmp_path / "model.ckpt-7", ARRAYS, **settings)).read(ARRAYS)
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array, strict=True)


ONES = np.ones((2, 3), dtype="float32")
MANY = 2**40


def entry(dtype=1, shape=(2, 3), place=(0, 0, 24)):
    """A BundleEntryProto. place: Data file, offset, size."""
    fields = [(1, dtype), (2, shape_message(shape)), (3, place[0]), (4, place[1]), (5, place[2])]
    return message(fields) + fixed32(6, masked_crc(ONES.tobytes()))


@pytest.mark.parametrize(
    "change, reason",
    [
        (entry(shape=(MANY, 3)), "has 24 bytes, which do not fit it"),
        (entry(shape=(MANY, 3), place=(0, 0, MANY * 12)), "declares 13,194,139,533,312 bytes in data file 0"),
        (entry(shape=(2, -3)), "has negative sizes"),
        (entry(place=(0, 8, 24)), "is at 8 to 32 of 24 bytes"),
        (entry(place=(1, 0, 24)), "no 'model.ckpt.data-00001-of-00001'"),
        (entry(dtype=7), "has the data type 7"),
        (entry(place=(0, 0, 0)), "has 0 bytes, which do not fit it .partitioned variables are not read"),
        (entry()[:-4] + b"abcd", "checksum of W differs"),
    ],
)
def test_entries_of_format_v2(change, reason, tmp_path):
    index = write_bundle(tmp_path / "model.ckpt", {"W": ONES}, change={"W": change})
    tracemalloc.start()
    with pytest.raises(ValueError, match=f"model.ckpt.*({reason})"):
        Bundle(index).read(["W"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**24


@pytest.mark.parametrize(
    "records, reason",
    [
        ({b"": message([(1, 1), (2, 1)])}, "big-endian"),
        ({b"": message([(1, 1)]), b"\xff\xfe": entry()}, "can't decode byte 0xff"),
        ({b"W": entry()}, "has no header"),
        (None, "does not end like a table"),
    ],
)
def test_tables_of_another_kind(records, reason, tmp_path):
    index = write_bundle(tmp_path / "model.ckpt", {"W": ONES})
    index.write_bytes(b"" if records is None else table(records))
    with pytest.raises(ValueError, match=f"EL022.*model.ckpt.index.*{reason}"):
        Bundle(index)


def test_the_same_bytes_are_not_read_many_times(tmp_path):
    """Otherwise a small index could fill the memory with copies of one array."""
    names = {f"W{i}": entry() for i in range(50)}
    index = write_bundle(tmp_path / "model.ckpt", {"W": ONES}, change=names)
    bundle = Bundle(index)
    assert (bundle.read(["W7"])["W7"] == ONES).all()
    with pytest.raises(ValueError, match="EL022.*declares 1,200 bytes in data file 0, which has 24"):
        bundle.read(names)
