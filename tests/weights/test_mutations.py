"""Files with seeded random damage: they load, or there is an error of ours with its code."""

import json
import random
import warnings
import zipfile
from pathlib import Path

import pytest
from reference.seeded_weights import WORDS, make_arrays, make_options, make_softmax, write_arrays, write_model

from spacy_elmo import load_bilm, save_bilm
from spacy_elmo.weights import bilm_from_bytes, bilm_to_bytes

STRANGE = [None, True, -1, 0, 1.5, 2**31, 10**30, 1e308, float("nan"), "", "text", [], {}, [[]], ["x", None]]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model in every format, tiny."""
    folder = tmp_path_factory.mktemp("mutations")
    sizes = {"lstm": {"dim": 4, "projection_dim": 3, "n_layers": 1}, "char_cnn": {"filters": [[1, 2]], "n_highway": 1}}
    options = make_options(**sizes)
    write_model(folder / "tf", options, {**make_arrays(options), **make_softmax(options)}, WORDS)
    bilm = load_bilm(folder / "tf")
    save_bilm(bilm, folder / "native")
    (folder / "native.bytes").write_bytes(bilm_to_bytes(bilm))
    with zipfile.ZipFile(folder / "tf.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("options.json", "weights.hdf5", "vocab.txt"):
            archive.write(folder / "tf" / name, name)
    write_arrays(folder / "softmax.hdf5", make_softmax(options))
    return folder


def load(folder, name):
    if name == "native.bytes":
        return bilm_from_bytes((folder / name).read_bytes())
    if name == "softmax.hdf5":
        return load_bilm(folder / "tf", softmax=folder / name)
    return load_bilm(folder / Path(name).parts[0])


def damage(content: bytes, draw: random.Random) -> bytes:
    """Flip, overwrite, cut, repeat or insert some bytes."""
    changed, start = bytearray(content), draw.randrange(len(content))
    stop = min(len(content), start + draw.choice([1, 1, 4, 8, 64]))
    kind = draw.randrange(6)
    if kind == 0:
        changed[start] ^= 1 << draw.randrange(8)
    elif kind == 1:
        changed[start:stop] = draw.randbytes(stop - start)
    elif kind == 2:
        changed[start:stop] = draw.choice([b"\xff", b"\0"]) * (stop - start)
    elif kind == 3:
        del changed[start : draw.choice([stop, len(content)])]
    elif kind == 4:
        changed[start:start] = changed[start:stop]
    else:
        other = draw.randrange(len(content))
        changed[start:stop] = content[other : other + stop - start]
    return bytes(changed)


def damage_json(content: bytes, draw: random.Random) -> bytes:
    """Put a strange value into some place of the tree, or take the place away."""
    tree = json.loads(content)
    places = [(tree, key) for key in tree]
    for node, key in places:
        inner = node[key]
        places += [(inner, below) for below in inner] if isinstance(inner, dict) else []
        places += [(inner, i) for i in range(len(inner))] if isinstance(inner, list) else []
    node, key = draw.choice(places)
    if draw.random() < 0.2:
        del node[key]
    else:
        node[key] = draw.choice(STRANGE)
    return json.dumps(tree).encode()


NAMES = [
    "tf/weights.hdf5",
    "tf/options.json",
    "tf/vocab.txt",
    "tf.zip",
    "softmax.hdf5",
    "native/config.json",
    "native/weights.safetensors",
    "native/meta.json",
    "native/vocab.txt",
    "native.bytes",
]


def check(model, name, n_mutations):
    path = model / name
    content, draw, n_errors = path.read_bytes(), random.Random(name), 0
    try:
        for _ in range(n_mutations):
            is_tree = name.endswith(".json") and content != b"{}" and draw.random() < 0.7
            path.write_bytes((damage_json if is_tree else damage)(content, draw))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    load(model, name)
            except (ValueError, OSError) as error:
                n_errors += 1
                assert str(error).startswith("[EL"), (name, error)
    finally:
        path.write_bytes(content)
    return n_errors


@pytest.mark.issue(15)
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_loads_or_gives_an_error_of_ours(model, name):
    load(model, name)
    check(model, name, 30)


@pytest.mark.slow
@pytest.mark.issue(15)
@pytest.mark.parametrize("name", NAMES)
def test_many_damaged_files_load_or_give_an_error_of_ours(model, name):
    assert check(model, name, 2000) > 10
