"""HDF5 files that are not plain datasets of numbers, and files that cannot be opened."""

import subprocess
import sys
from subprocess import PIPE

import h5py
import numpy as np
import pytest
from weights.packing import zip_hdf5

from spacy_elmo import load_bilm


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
    for path in (folder, zip_hdf5(folder)):
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


WRITER = "import h5py, sys; file = h5py.File(sys.argv[1], 'a'); print('open', flush=True); sys.stdin.read()"


@pytest.mark.issue(48)
def test_a_file_that_another_program_writes_is_not_called_damaged(folder):
    path = folder / "weights.hdf5"
    with subprocess.Popen([sys.executable, "-c", WRITER, path], stdin=PIPE, stdout=PIPE) as writer:
        writer.stdout.readline()
        with pytest.raises(OSError, match="EL037.*unable to lock file.*wait until it is closed") as caught:
            load_bilm(path.parent)
    assert "damaged" not in str(caught.value)
    load_bilm(path.parent)
