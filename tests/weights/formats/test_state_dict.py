"""State dicts of torch as people save them: keys around them, other objects beside them, protocols, names, epochs."""

import collections
import gzip
import io
import json
import pickle
import warnings
import zipfile
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
from reference.allennlp_state import elmo_state, make_config, to_bytes
from reference.seeded_weights import WORDS, make_arrays, make_options, write_model
from safetensors.torch import save_file
from weights.same import assert_same

from spacy_elmo import load_bilm, load_mixes
from spacy_elmo.nn import Elmo
from spacy_elmo.weights.archive import File
from spacy_elmo.weights.formats.state_dict import read_state_dict

OPTIONS = make_options()
STATE = elmo_state(make_arrays(OPTIONS), OPTIONS)
FORMS = [{"_use_new_zipfile_serialization": is_zip} for is_zip in (True, False)]
NAMES = ["elmo.pt", "elmo", "model.zip", "weights.hdf5"]


@pytest.fixture
def options(tmp_path):
    (tmp_path / "options.json").write_text(json.dumps(OPTIONS))
    return tmp_path / "options.json"


@pytest.fixture
def wanted(tmp_path, options):
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "weights.th").write_bytes(to_bytes(STATE))
    return load_bilm(options=options, weights=tmp_path / "plain" / "weights.th")


@pytest.mark.parametrize("settings", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_a_state_dict_is_read_under_any_name(name, settings, options, wanted, tmp_path):
    path = tmp_path / name
    path.write_bytes(to_bytes(STATE, **settings))
    assert_same(load_bilm(options=options, weights=path), wanted)
    assert_same(load_bilm(path), wanted)
    assert_same(load_bilm(tmp_path), wanted)
    assert Elmo.from_allennlp(path) and len(load_mixes(path)) == 1
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert_same(load_bilm(path), wanted)


@pytest.mark.parametrize("name", ["model.safetensors", "elmo.bin", "elmo"])
def test_a_state_dict_may_be_in_safetensors(name, options, wanted, tmp_path):
    save_file({key: tensor.bfloat16() for key, tensor in STATE.items()}, tmp_path / name)
    assert_same(load_bilm(tmp_path / name), wanted, limit=0.2)
    save_file(STATE, tmp_path / name)
    assert_same(load_bilm(tmp_path), wanted)
    assert_same(load_bilm(options=options, weights=tmp_path / name), wanted)


def lightning(state):
    """What a checkpoint of Lightning has beside the state dict."""
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([parameter])
    parameter.sum().backward()
    optimizer.step()
    return {
        "epoch": 3,
        "global_step": 10**9,
        "pytorch-lightning_version": "2.1.0",
        "state_dict": state,
        "loops": {"fit_loop": {"state_dict": {}, "seen": {1, 2}}},
        "callbacks": {"ModelCheckpoint{'monitor': None}": {"best_model_path": "a.ckpt", "score": torch.tensor(1.0)}},
        "optimizer_states": [optimizer.state_dict()],
        "hyper_parameters": {"lr": 0.1, "words": ("a", b"b"), "counts": collections.Counter("abc")},
    }


CHECKPOINTS = {
    "model_state_dict": lambda state: {"epoch": 3, "model_state_dict": state, "loss": 0.5, "optimizer_state_dict": {}},
    "one in another": lambda state: {"model": {"state_dict": state, "config": {}}, "epoch": 3},
    "lightning": lightning,
    "ordered": lambda state: {"state_dict": collections.OrderedDict(state)},
    "parameters": lambda state: {name: torch.nn.Parameter(tensor) for name, tensor in state.items()},
}


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_checkpoints_of_old_and_new_torch_are_read(kind, options, wanted, tmp_path):
    path = tmp_path / "last.ckpt"
    for settings in FORMS:
        path.write_bytes(to_bytes(CHECKPOINTS[kind](STATE), **settings))
        assert_same(load_bilm(path), wanted)


@pytest.mark.parametrize("settings", FORMS)
def test_tensors_are_those_of_torch_bit_for_bit(settings, tmp_path):
    draw = torch.Generator().manual_seed(0)
    table = torch.randn(7, 5, generator=draw)
    state = {
        "view": table[2:5, 1:4],
        "transposed": table.t(),
        "strided": table[::2, ::3],
        "repeated": table[:1].expand(7, 5),
        "number": torch.tensor(3.5),
        "empty": torch.zeros(0, 4),
        "half": table.half(),
        "double": table.double().requires_grad_(),
        "brain": table.bfloat16(),
        "long": torch.arange(5),
        "bool": table > 0,
        "parameter": torch.nn.Parameter(table[3]),
    }
    (tmp_path / "a.pt").write_bytes(to_bytes(state, **settings))
    found = read_state_dict(File(tmp_path / "a.pt"))
    assert list(found) == list(state)
    for name, tensor in state.items():
        values = tensor.detach().float().numpy() if name == "brain" else tensor.detach().numpy()
        np.testing.assert_array_equal(found[name], values, strict=True)


class Attack:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("settings", FORMS)
@pytest.mark.parametrize("protocol", [2, 4])
def test_what_lies_beside_a_state_dict_is_not_run(protocol, settings, tmp_path):
    path, ran = tmp_path / "a.pt", tmp_path / "ran"
    for state in ({"state_dict": STATE, "more": [Attack(ran)]}, {"state_dict": {**STATE, "x": Attack(ran)}}):
        path.write_bytes(to_bytes(state, pickle_protocol=protocol, **settings))
        with pytest.raises(ValueError, match="(?s)EL022.*a.pt.*Unsupported .*no code is run. Save `model.state_dict"):
            load_bilm(path)
        assert not ran.exists()


OTHERS = {
    "module": (torch.nn.Linear(2, 2), "torch.nn.modules.linear.Linear"),
    "namespace": ({"state_dict": STATE, "args": Namespace(lr=0.1)}, "argparse.Namespace"),
    "nested": ({"weights": {"a": torch.ones(2)}, "epoch": 3}, "weights is a dict, .*epoch is a int"),
    "number": (3, "it contains int instead of tensors by name"),
    "empty": ({}, "it contains nothing instead"),
    "sparse": ({"a": torch.ones(2, 2).to_sparse()}, "a is a Tensor, should be"),
}


@pytest.mark.parametrize("settings", FORMS)
@pytest.mark.parametrize("kind", OTHERS)
def test_other_objects_are_named_with_what_to_save(kind, settings, tmp_path):
    value, text = OTHERS[kind]
    path = tmp_path / "a.pt"
    path.write_bytes(to_bytes(value, **settings))
    with pytest.raises(ValueError, match=f"(?s)EL022.*a.pt.*{text}.*under the key state_dict, model_state_dict or mod"):
        load_bilm(path)


def test_a_state_dict_whose_checksums_differ_or_that_expands_too_far_is_named(tmp_path):
    path = tmp_path / "a.pt"
    content = bytearray(to_bytes({"a": torch.zeros(2**25)}))
    content[2**20] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="EL022.*a.pt.*the checksum of archive/data/0 differs"):
        load_bilm(path)
    content[2**20] ^= 1
    with zipfile.ZipFile(io.BytesIO(content)) as stored, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in sorted(stored.namelist(), key=lambda name: not name.endswith("data.pkl")):
            packed.writestr(name, stored.read(name))
    with pytest.raises(ValueError, match="EL036.*a.pt"):
        load_bilm(path)


EPOCHS = [
    (["model_state_epoch_2.th", "model_state_epoch_10.th", "model_state_epoch_9.th"], "model_state_epoch_10.th"),
    (["model_state_e0_b0.th", "model_state_e1_b20.th", "model_state_e1_b3.th"], "model_state_e1_b20.th"),
    (["model_state_epoch_1.2019-02-03-04.th", "model_state_epoch_0.th"], "model_state_epoch_1.2019-02-03-04.th"),
    (["model_state_epoch_3.th", "best.th", "weights.th"], "weights.th"),
]  # fmt: skip


@pytest.mark.parametrize("names, chosen", EPOCHS)
def test_the_best_or_newest_epoch_of_a_training_is_read(names, chosen, options, wanted, tmp_path):
    other = elmo_state(make_arrays(OPTIONS, seed=5), OPTIONS)
    (tmp_path / "config.json").write_text(json.dumps(make_config()))
    for name in names:
        (tmp_path / name).write_bytes(to_bytes(STATE if name == chosen else other))
        (tmp_path / name.replace("model_state", "training_state")).write_bytes(to_bytes({"optimizer": {}}))
        (tmp_path / f"._{name}").write_bytes(b"\0\5\x16\7")
    (tmp_path / chosen).write_bytes(to_bytes(STATE))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(load_bilm(tmp_path), wanted)
        assert_same(load_bilm(tmp_path / chosen), wanted)


def test_several_state_dicts_are_ambiguous(options, wanted, tmp_path):
    (tmp_path / "vocabulary.pkl").write_bytes(pickle.dumps({"a": 1}))
    (tmp_path / "a.bin").write_bytes(to_bytes(STATE))
    assert_same(load_bilm(tmp_path), wanted)  # a pickle is not weights
    (tmp_path / "b.bin").write_bytes(to_bytes(STATE))
    with pytest.raises(ValueError, match="EL021.*2 files with state dicts .a.bin, b.bin."):
        load_bilm(tmp_path)


@pytest.mark.parametrize("kind, protocol", [("tensors", 0), ("arrays", 2), ("checkpoint", 4), ("gzip", 5)])
def test_a_plain_pickle_is_named_with_the_way_to_save_it(kind, protocol, options, tmp_path):
    state = {name: tensor.numpy() for name, tensor in STATE.items()} if kind == "arrays" else STATE
    path = tmp_path / "elmo.pkl"
    content = pickle.dumps({"state_dict": state} if kind == "checkpoint" else state, protocol)
    path.write_bytes(gzip.compress(content) if kind == "gzip" else content)
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "elmo.th").write_bytes(path.read_bytes())
    entries = [
        lambda: load_bilm(options=options, weights=path),
        lambda: load_bilm(path),
        lambda: load_bilm(tmp_path / "alone"),
        lambda: load_mixes(path),
        lambda: Elmo.from_allennlp(path),
    ]
    for load in entries:
        with pytest.raises(ValueError, match=r"Python pickle.*torch\.save\(state_dict, path\)") as error:
            load()
        named = tmp_path / "alone" / "elmo.th" if load is entries[2] else path
        assert str(named) in str(error.value) and "ownload" not in str(error.value)


@pytest.mark.parametrize("name", ["softmax", "token_embeddings"])
def test_a_plain_pickle_in_place_of_hdf5_is_named(name, tmp_path):
    folder = write_model(tmp_path / "model", OPTIONS, make_arrays(OPTIONS), WORDS)
    (folder / "words.pkl").write_bytes(pickle.dumps({"embedding": np.zeros((9, 8))}))
    with pytest.raises(ValueError, match="words.pkl.*Python pickle"):
        load_bilm(folder, **{name: folder / "words.pkl"})
