"""Damaged and hostile files: one error with a code, before anything is allocated, built or read from elsewhere."""

import bz2
import gzip
import json
import lzma
import re
import zipfile

import h5py
import numpy as np
import pytest
from reference.allennlp_state import elmo_state, make_config, write_archive
from reference.seeded_weights import make_arrays, make_options, make_softmax
from safetensors.numpy import load, save

from spacy_elmo import load_bilm, save_bilm
from spacy_elmo.weights import bilm_from_bytes, bilm_to_bytes

DEEP = "[" * 100_000 + "]" * 100_000


@pytest.fixture
def native(folder):
    return save_native(folder)


def pack(folder):
    path = folder.with_name("model.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("options.json", "weights.hdf5"):
            archive.write(folder / name, name)
    return path


def make_archive(folder, mode):
    options = make_options()
    config = make_config(options_file=options)
    return write_archive(folder.with_name("model.tar"), elmo_state(make_arrays(options), options), config, mode=mode)


CUT = {
    "HDF5": (lambda folder: folder / "weights.hdf5", "cannot be read as HDF5"),
    "safetensors": (lambda folder: save_native(folder) / "weights.safetensors", "cannot be read as safetensors"),
    "zip": (pack, "cannot be read as zip: .*truncated"),
    "tar.gz": (lambda folder: make_archive(folder, "w:gz"), "cannot be read as .*end-of-stream"),
    "tar.xz": (lambda folder: make_archive(folder, "w:xz"), "cannot be read as .*ends within a stream"),
}


@pytest.mark.parametrize("kind", CUT)
def test_a_truncated_file_is_named(kind, folder):
    make, text = CUT[kind]
    path = make(folder)
    content = path.read_bytes()
    for size in (len(content) // 2, 200, *([0, len(content) - 7] if kind == "HDF5" else [])):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match=f"EL022.*{path.name}.*{text}"):
            load_bilm(path if path.parent == folder.parent else path.parent)


def save_native(folder):
    save_bilm(load_bilm(folder), folder.with_name("native"))
    return folder.with_name("native")


def make_virtual(file):
    layout = h5py.VirtualLayout(shape=(10,), dtype="f4")
    layout[:] = h5py.VirtualSource(".", "bad", shape=(10,))
    file.create_virtual_dataset("bad", layout)


def make_bad_name(file):
    file.create_dataset("char_embed_2", data=np.ones(3, "f4"))
    file.id.links.move(b"char_embed_2", file.id, b"caf\xe9")


def make_endless(file):
    group = file.create_group("bad")
    group["again"] = group


HDF5 = {
    "virtual": (make_virtual, "bad is a virtual dataset"),
    "external": (lambda file: file.create_dataset("bad", (3,), "f4", external=[("other", 0, 12)]), "another file"),
    "shape": (
        lambda file: file.create_dataset("bad", (2**40,), "f4"),
        r"EL036.* would expand from [\d,]+ bytes to more",
    ),
    "text": (lambda file: file.create_dataset("bad", data="text"), "bad is object, should be floating point"),
    "name": (make_bad_name, r"unexpected: caf\\xe9"),
    "empty": (lambda file: file.create_dataset("bad", data=h5py.Empty("f4")), "bad is empty"),
}


@pytest.mark.parametrize("kind", HDF5)
def test_hdf5_that_is_not_plain_is_not_read(kind, folder):
    make, text = HDF5[kind]
    with h5py.File(folder / "weights.hdf5", "a") as file:
        make(file)
    for path in (folder, pack(folder)):
        with pytest.raises(ValueError, match=f"(?s){text}"):
            load_bilm(path)


LINKS = {
    "soft": lambda file: file.update({"bad": h5py.SoftLink("/other")}),
    "external": lambda file: file.update({"bad": h5py.ExternalLink("other.hdf5", "/")}),
    "endless": make_endless,
    "name": lambda file: h5py.h5g.create(file.id, b"caf\xe9"),
}


@pytest.mark.parametrize("kind", LINKS)
def test_links_in_hdf5_are_not_followed(kind, folder):
    wanted = load_bilm(folder).embed([["a"]])[0]
    with h5py.File(folder / "weights.hdf5", "a") as file:
        LINKS[kind](file)
    assert (load_bilm(folder).embed([["a"]])[0] == wanted).all()


OPTIONS = {
    "lstm.n_layers": 2_000_000_000,
    "lstm.cell_clip": 1e308,
    "char_cnn.max_characters_per_token": 2**31,
    "char_cnn.filters": [[1, 2**40]],
}


@pytest.mark.parametrize("name", OPTIONS)
def test_sizes_of_options_have_limits(name, folder):
    block, key = name.split(".")
    options = make_options(**{block: {key: OPTIONS[name]}})
    (folder / "options.json").write_text(json.dumps(options))
    with pytest.raises(ValueError, match=f"EL023.*{name}.* should (be|have) at most"):
        load_bilm(folder)


@pytest.mark.parametrize("name", ["options.json", "config.json", "meta.json"])
def test_json_that_is_nested_too_deep(name, folder, native):
    place = folder if name == "options.json" else native
    (place / name).write_text(DEEP)
    with pytest.raises(ValueError, match=f"EL022.*{name}"):
        load_bilm(place)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_file_expands_to_a_few_times_its_size(compress, native):
    (native / "config.json").write_bytes(compress(bytes(2**27)))
    with pytest.raises(ValueError, match="EL036.*config.json.* would expand from [0-9,]+ bytes to more than 6"):
        load_bilm(native)


def with_header(content, **changes):
    """Bytes of a biLM with other settings in the header."""
    length = int.from_bytes(content[:8], "little")
    record = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["spacy_elmo"])
    return save(load(content), metadata={"spacy_elmo": json.dumps({**record, **changes})})


@pytest.mark.parametrize(
    "header, text",
    [
        ({"vocabulary": [1, None]}, "vocabulary is not a list of strings"),
        ({"vocabulary": ["a"]}, "missing special words"),
        ({"config": None, "meta": 3}, "config is missing.*meta is a int"),
        ({"config": {"bilm": {"n_layers": 0}}}, "EL023.*format_version is missing"),
        *((header, "EL022|does not describe a biLM") for header in ("null", "{", DEEP)),
    ],
)
def test_header_of_bytes_is_checked(header, text, folder):
    content = bilm_to_bytes(load_bilm(folder))
    assert bilm_from_bytes(with_header(content, meta=None)).meta == {}
    is_record = isinstance(header, dict)
    changed = with_header(content, **header) if is_record else save(load(content), metadata={"spacy_elmo": header})
    with pytest.raises(ValueError, match=text):
        bilm_from_bytes(changed)


@pytest.mark.parametrize("value, text", [(3.4e38, "too large"), (np.nan, "not finite")])
@pytest.mark.parametrize("name", ["softmax/W", "char_embed", "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/B"])
def test_values_whose_products_are_not_finite_are_refused(name, value, text, folder):
    arrays = {**make_arrays(make_options()), **make_softmax(make_options())}
    arrays[name].flat[3] = value
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for key, array in arrays.items():
            file.create_dataset(key, data=array)
    with pytest.raises(ValueError, match=f"(?s)EL026.*{text}: {name} has 1 of"):
        load_bilm(folder)


def test_a_member_of_a_zip_expands_to_a_few_times_its_size(folder):
    path = pack(folder)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("options.json", bytes(2**27))
        archive.write(folder / "weights.hdf5", "weights.hdf5")
    with pytest.raises(ValueError, match="EL036.*model.zip:options.json. would expand from [0-9,]+ bytes to"):
        load_bilm(path)


def test_a_member_that_declares_more_than_the_zip_has_takes_no_memory(folder):
    path = pack(folder)
    content = bytearray(path.read_bytes())
    at = content.find(b"PK\x01\x02") + 20
    content[at : at + 4] = (2**32 - 2).to_bytes(4, "little")
    path.write_bytes(content)
    try:
        load_bilm(path)
    except ValueError as error:  # newer versions of zipfile compare the sizes
        assert re.search(r"EL022.*model\.zip:options\.json.*Overlapped", str(error))
