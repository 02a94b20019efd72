"""Comparisons of two biLMs: settings, tensors, layers, and the first layer that differs."""

import hashlib
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from reference.seeded_weights import SENTENCES as SOME
from reference.seeded_weights import make_arrays, make_options, write_model

from spacy_elmo import load_bilm, save_bilm
from spacy_elmo.weights.contents import COMPARED_SENTENCES, compare_bilms, hash_weights, read_origin


@pytest.mark.parametrize("format", ["native", "bilm-tf"])
def test_copies_are_equal(format: str, folder: Path, tmp_path: Path) -> None:
    save_bilm(load_bilm(folder), tmp_path / "copy", format=format)
    found = compare_bilms(load_bilm(folder), load_bilm(tmp_path / "copy"))
    assert found.is_equal(0.0) and found.settings == {} and {tensor.status for tensor in found.tensors} == {"same"}
    assert [layer.layer for layer in found.layers] == [0, 1, 2]
    assert all(layer.max_difference == 0 and abs(layer.mean_cosine - 1) < 1e-6 for layer in found.layers)
    assert found.n_tokens == sum(map(len, COMPARED_SENTENCES))


@pytest.mark.parametrize("value", [0.5, float("nan")])
@pytest.mark.parametrize("layer", [0, 1])
def test_first_layer_that_differs_is_found(layer: int, value: float, folder: Path) -> None:
    a, b = load_bilm(folder), load_bilm(folder)
    with torch.no_grad():
        b.network.encoder.layers[layer].bias[1, 0] += value
    b.clear_caches()
    found = compare_bilms(a, b, SOME)
    assert found.first_different() == layer + 1 and not found.is_equal()
    assert [item.max_difference == 0 for item in found.layers] == [number <= layer for number in range(3)]
    changed = {tensor.name: tensor for tensor in found.tensors if tensor.status != "same"}
    assert set(changed) == {f"encoder.layers.{layer}.bias"}
    largest = max(item.max_difference for item in found.layers)
    if value == 0.5:
        assert changed[f"encoder.layers.{layer}.bias"].max_difference == pytest.approx(0.5)
        assert found.is_equal(largest) and not found.is_equal(0.99 * largest)
    else:
        assert not found.is_equal(1e9)


def test_largest_difference_is_that_of_its_token(folder: Path) -> None:
    a, b = load_bilm(folder), load_bilm(folder)
    with torch.no_grad():
        rows = b.network.char_cnn.embedding
        rows[ord("3") + 1], rows[ord("4") + 1] = a.network.char_cnn.embedding[[ord("4") + 1, ord("3") + 1]]
    b.clear_caches()
    sentences = [["the", "bank"], ["the", "3", "bank"], []]  # only the word "3" has one of the bytes
    found = compare_bilms(a, b, sentences)
    assert {tensor.name: tensor.status for tensor in found.tensors}["char_cnn.embedding"] == "permuted"
    assert (found.layers[0].token, found.layers[0].sentence, found.layers[0].position) == ("3", 1, 2)
    for layer, item in enumerate(found.layers):
        both = [bilm.embed(sentences, boundaries=True)[1][layer] for bilm in (a, b)]
        assert item.max_difference == pytest.approx(float(np.abs(both[0] - both[1]).max()))
    assert found.layers[0].mean_cosine < 1 - 1e-6


def test_missing_tensors_and_other_shapes_are_named(folder: Path, tmp_path: Path) -> None:
    options = make_options(lstm={"n_layers": 1}, char_cnn={"filters": [[1, 3], [2, 5], [4, 7]]})
    b = load_bilm(write_model(tmp_path / "b", options, make_arrays(options)))
    found = compare_bilms(load_bilm(folder), b)
    by_name = {tensor.name: tensor.status for tensor in found.tensors}
    assert by_name["encoder.layers.1.bias"] == "only A" and by_name["char_cnn.filters.2.bias"] == "other shape"
    reverse = {tensor.name: tensor.status for tensor in compare_bilms(b, load_bilm(folder)).tensors}
    assert reverse["encoder.layers.1.bias"] == "only B"
    assert found.settings["n_layers"] == (2, 1) and found.settings["vocabulary"][1] == "none"
    assert [layer.layer for layer in found.layers] == [0, 1] and not found.has_same_shape
    assert not found.is_equal(1e9), "a layer is missing"
    options = make_options(lstm={"projection_dim": 6})
    found = compare_bilms(load_bilm(folder), load_bilm(write_model(tmp_path / "c", options, make_arrays(options))))
    assert found.layers == () and not found.is_equal(1e9), "other widths"


CONTENT = b"weights"


def test_digest_is_that_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "weights.hdf5").write_bytes(CONTENT)
    (tmp_path / "options.json").write_text("{}")
    wanted = hashlib.sha256(CONTENT).hexdigest()[:12]
    assert hash_weights(tmp_path) == hash_weights(str(tmp_path / "weights.hdf5")) == wanted
    (tmp_path / "options.json").write_text('{"changed": true}')
    assert hash_weights(tmp_path) == wanted


def test_digest_of_several_files_depends_on_their_names_and_contents(tmp_path: Path) -> None:
    for name in ("a.pkl", "b.pkl"):
        (tmp_path / name).write_bytes(CONTENT)
    first = hash_weights(tmp_path)
    (tmp_path / "b.pkl").rename(tmp_path / "c.pkl")
    renamed = hash_weights(tmp_path)
    (tmp_path / "c.pkl").write_bytes(b"other")
    assert len({first, renamed, hash_weights(tmp_path)}) == 3


@pytest.mark.issue(59)
def test_weights_behind_links_count_once(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.pkl").write_bytes(CONTENT)
    (tmp_path / "bilm").mkdir()
    for name in ("link", "again"):
        (tmp_path / "bilm" / name).symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "elsewhere" / "loop").symlink_to(tmp_path / "bilm", target_is_directory=True)
    before = hash_weights(tmp_path / "bilm")
    assert before == hashlib.sha256(CONTENT).hexdigest()[:12]
    (tmp_path / "elsewhere" / "a.pkl").write_bytes(b"other")
    assert hash_weights(tmp_path / "bilm") == hashlib.sha256(b"other").hexdigest()[:12] != before


def test_missing_weights_are_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match="Give the name of a packaged biLM, or the path of"):
            hash_weights(path)


def test_a_zip_is_one_file(folder: Path, tmp_path: Path) -> None:
    (folder / "options.json.part").write_text("incomplete")
    (folder / ".hidden").write_text("hidden")
    names = [Path(file.name).name for file in read_origin(folder).files]
    assert names == ["options.json", "vocab.txt", "weights.hdf5"]
    with zipfile.ZipFile(tmp_path / "144.zip", "w") as archive:
        for name in ("options.json", "weights.hdf5"):
            archive.write(folder / name, name)
    found = read_origin(tmp_path / "144.zip")
    assert [file.name for file in found.files] == [str(tmp_path / "144.zip")]
    assert found.format == "bilm-tf" and found.download is None
    content = (tmp_path / "144.zip").read_bytes()
    assert found.files[0].sha256 == hashlib.sha256(content).hexdigest() and found.n_bytes == len(content)
