"""Bad files of ELMoForManyLangs: one error of ours that lists everything."""

import json
import shutil
import zipfile

import pytest
import torch
from reference.seeded_manylangs import (
    make_architecture,
    write_manylangs,
    write_zip,
)

from spacy_elmo import load_bilm
from spacy_elmo.weights.files import File, Listing
from spacy_elmo.weights.manylangs import detect_manylangs, make_config, read_architecture, read_sizes, read_symbols


@pytest.fixture
def folder(tmp_path):
    write_manylangs(tmp_path / "model", make_architecture())
    return tmp_path / "model"


def change_state(path, **changes):
    """None takes a tensor away."""
    state = torch.load(path, weights_only=True)
    for name, value in changes.items():
        state.pop(name) if value is None else state.update({name: value})
    torch.save(state, path)


def test_missing_files_are_listed_together(folder):
    for name in ("char.dic", "word.dic", "encoder.pkl"):
        (folder / name).unlink()
    with pytest.raises(ValueError, match="encoder.pkl, char.dic, word.dic missing"):
        load_bilm(folder)
    (folder / "config.json").unlink()
    with pytest.raises(ValueError, match="config.json, encoder.pkl missing"):
        load_bilm(folder)


def test_wrong_tensors_of_both_files_are_listed_together(folder):
    change_state(folder / "token_embedder.pkl", **{"projection.bias": torch.zeros(9), "more": torch.zeros(1)})
    change_state(
        folder / "encoder.pkl",
        **{
            "forward_layer_0.input_linearity.weight": None,
            "backward_layer_1.state_linearity.bias": torch.ones(24).long(),
        },
    )
    with pytest.raises(ValueError, match="4 problem") as error:
        load_bilm(folder)
    for part in (
        "wrong shape: token_embedder.pkl/projection.bias is [9], should be [4]",
        "unexpected: token_embedder.pkl/more",
        "missing: encoder.pkl/forward_layer_0.input_linearity.weight [24, 4]",
        "wrong type: encoder.pkl/backward_layer_1.state_linearity.bias is int64",
    ):
        assert part in str(error.value)


@pytest.mark.parametrize(
    "lines, wanted",
    [
        ("<oov>\t0\n<pad>\t5\n", "line 2 has the id 5, should be 0 to 1"),
        ("<oov>\t0\n<pad>\t0\n", "line 2 has the id 0 of '<oov>' again"),
        ("<oov>\t0\n<pad>\t1\n<pad>\t2\n", "line 3 has '<pad>' again"),
        ("<oov>\t0\n<pad>\t-1\n", "line 2 has the id '-1'"),
        ("<oov>\t0\n\n<pad>\t1\n", "line 2 is empty"),
        ("<oov>\t0\na\tb\t1\n", "line 2 has more than one tab"),
        ("<oov>\t0\n<pad>\t" + "9" * 5000, "line 2 has the id '9999"),
        ("", "<oov> is missing"),
        ("\udcff\t0\n", "not UTF-8"),
    ],
)
def test_bad_tables_of_symbols(lines, wanted, tmp_path):
    path = tmp_path / "word.dic"
    path.write_bytes(lines.encode("utf8", "surrogateescape"))
    with pytest.raises(ValueError, match="cannot be used as a table of symbols, one") as error:
        read_symbols(File(path), ("<oov>", "<pad>"))
    assert wanted in str(error.value)


def test_blank_symbols_are_the_ideographic_space_and_the_last_one_counts(tmp_path):
    path = tmp_path / "char.dic"
    path.write_text("<oov>\t1\n \t0\n\u3000\t2\n\u00a0\t3\r\n", encoding="utf8")
    assert read_symbols(File(path), ()) == (None, "<oov>", None, "\u3000")


@pytest.mark.parametrize(
    "changes, wanted",
    [
        ({"encoder": {"n_layers": True}}, "encoder.n_layers is True"),
        ({"encoder": {"n_layers": 5000}}, "n_layers is 5000, should be at most 1000"),
        ({"encoder": {"cell_clip": ...}}, "encoder.cell_clip is missing"),
        ({"encoder": {"proj_clip": float("nan")}}, "encoder.proj_clip is nan"),
        ({"token_embedder": {"name": None}}, "token_embedder.name is null"),
        ({"token_embedder": {"activation": "gelu"}}, "activation is 'gelu'"),
        ({"token_embedder": {"filters": [[20, 4]]}}, r"filter [20, 4] should be 1 to 10 characters wide"),
        ({"token_embedder": {"filters": [[1, 2**40]]}}, "filters in all"),
        ({"token_embedder": {"char_dim": 0, "word_dim": 0}}, "neither characters nor words"),
        ({"token_embedder": ...}, "token_embedder is missing"),
    ],
)
def test_bad_architectures(changes, wanted, folder):
    (folder / "network.json").write_text(json.dumps(make_architecture(**changes)))
    with pytest.raises(ValueError, match="Use the file that came with the model, as a rule") as error:
        load_bilm(folder)
    assert wanted in str(error.value)


def test_architecture_is_found_within_the_folder_alone(folder, tmp_path):
    shutil.copy(folder / "network.json", tmp_path / "secret.json")
    (folder / "network.json").rename(folder / "odd.json")
    files = detect_manylangs(Listing(folder))
    for path in (str(tmp_path / "secret.json"), "../secret.json", "a/../../secret.json", None, 5, "", "."):
        (folder / "config.json").write_text(json.dumps({"config_path": path}))
        assert read_architecture(files)[1] == str(folder / "odd.json")
    (folder / "configs").mkdir()
    (folder / "odd.json").rename(folder / "configs" / "net.json")
    files = detect_manylangs(Listing(folder))
    (folder / "config.json").write_text(json.dumps({"config_path": "configs/net.json"}))
    assert read_architecture(files)[1] == str(folder / "configs" / "net.json")
    (folder / "config.json").write_text(json.dumps({"config_path": "../../secret.json"}))
    with pytest.raises(ValueError, match="there is no such file in the folder"):
        load_bilm(folder)


def test_architecture_of_the_published_models_is_known(folder):
    (folder / "network.json").unlink()
    path = "/users4/conll18st/elmo/configs/cnn_50_100_512_4096_sample.json"
    (folder / "config.json").write_text(json.dumps({"config_path": path}))
    record, where = read_architecture(detect_manylangs(Listing(folder)))
    config = make_config(*read_sizes(record, where), where, 6000, 150_000)
    assert (config.cell_width, config.projection_width, config.token_embedder.feature_width) == (4096, 512, 2148)
    with pytest.raises(ValueError, match="do not fit its architecture and its tables of"):
        load_bilm(folder)


def test_zip_with_two_models_or_damage(folder, tmp_path):
    path = write_zip(tmp_path / "two.zip", folder, "a/")
    with zipfile.ZipFile(path, "a") as archive:
        archive.write(folder / "encoder.pkl", "b/encoder.pkl")
    with pytest.raises(ValueError, match=r"two.zip' has 2 biLMs \(a, b\)"):
        load_bilm(path)
    content = bytearray(write_zip(tmp_path / "one.zip", folder).read_bytes())
    content[len(content) // 3] ^= 0xFF
    (tmp_path / "one.zip").write_bytes(content)
    with pytest.raises(ValueError, match="EL022"):
        load_bilm(tmp_path / "one.zip")


TABLE = torch.ones(50_000)
HOSTILE = {
    "no tensors": ({"x": [1]}, "x is a list, should be a tensor"),
    "a tensor": (torch.ones(2), "instead of tensors by name"),
    "nothing": ({}, "contains nothing"),
    "expanded": ({"x": torch.ones(1).expand(2**30)}, "does not lie within its 1 numbers"),
    "another model": ({"weight": torch.ones(5000)}, ""),
    "shared": ({str(i): TABLE for i in range(500)}, "its tensors declare 100,000,000 bytes"),
    "no file of torch": (None, "not a file of `torch.save`"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_state_dicts(kind, folder):
    value, wanted = HOSTILE[kind]
    (folder / "encoder.pkl").write_bytes(b"\0" * 500)
    if value is not None:
        torch.save(value, folder / "encoder.pkl")
    with pytest.raises(ValueError, match="encoder.pkl|do not fit") as error:
        load_bilm(folder)
    assert wanted in str(error.value)
