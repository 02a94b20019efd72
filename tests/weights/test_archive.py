"""`Listing` reads files as people have them: byte order marks, compression, any name, files of macOS and Windows."""

import bz2
import errno
import gzip
import json
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from reference.allennlp_state import elmo_state, make_config, to_bytes, write_archive
from reference.seeded_manylangs import make_architecture, write_manylangs
from reference.seeded_weights import WORDS, make_arrays, make_options, make_softmax, write_model
from reference.tensorflow_files import write_checkpoint
from weights.opened_files import count_opened
from weights.packing import zip_hdf5
from weights.same import assert_same

from spacy_elmo import load_bilm, save_bilm
from spacy_elmo.compat.allennlp import Elmo
from spacy_elmo.compat.bilm import Vocabulary
from spacy_elmo.compat.simple_elmo import ElmoModel
from spacy_elmo.weights.archive import File

OPTIONS = make_options()
ARRAYS = {**make_arrays(OPTIONS), **make_softmax(OPTIONS)}
RESOURCE_FORK = b"\0\5\x16\7\0\2\0\0Mac OS X        "
FORMATS = ("bilm-tf", "native", "manylangs", "allennlp", "tf-checkpoint")
TEXTS = [
    *(("bilm-tf", name) for name in ("options.json", "vocab.txt")),
    *(("allennlp", name) for name in ("config.json", "options.json")),
    *(("native", name) for name in ("config.json", "meta.json", "vocab.txt", "lexicon.json")),
    *(("manylangs", name) for name in ("config.json", "network.json", "char.dic", "word.dic")),
]


def make(kind: str, folder: Path) -> Path:
    """A folder with a biLM in a format. The native one has a lexicon."""
    if kind == "bilm-tf":
        return write_model(folder, OPTIONS, ARRAYS, WORDS)
    if kind == "tf-checkpoint":
        return write_checkpoint(folder, OPTIONS, ARRAYS, WORDS)
    if kind == "manylangs":
        write_manylangs(folder, make_architecture())
        return folder
    if kind == "native":
        return save_bilm(load_bilm(make("bilm-tf", folder.with_name("source"))), folder) or folder
    folder.mkdir()
    (folder / "weights.th").write_bytes(to_bytes(elmo_state(ARRAYS, OPTIONS)))
    (folder / "config.json").write_text(json.dumps(make_config()))
    (folder / "options.json").write_text(json.dumps(OPTIONS))
    return folder


# Of each format the file that names the biLM, and how often it is opened: to read its first bytes, and its content.
OPENED = {
    "bilm-tf": ("weights.hdf5", 2),
    "native": ("weights.safetensors", 1),
    "manylangs": ("encoder.pkl", 2),
    "allennlp": ("weights.th", 2),
    "tf-checkpoint": ("model.ckpt-7.index", 2),
}


@pytest.mark.issue(60)
@pytest.mark.parametrize("kind", OPENED)
def test_the_first_bytes_and_the_content_of_weights_are_read_once(kind, tmp_path):
    folder = make(kind, tmp_path / "model")
    name, n_opened = OPENED[kind]
    load_bilm(folder)  # what is loaded once for each process
    with count_opened() as opened:
        load_bilm(folder)
    assert opened[name] == n_opened
    with count_opened() as opened:
        load_bilm(folder / name)
    assert opened[name] == 2
    if kind == "bilm-tf":
        with count_opened() as opened:
            load_bilm(options=folder / "options.json", weights=folder / name)
        assert opened[name] == 2


def check(path, expected, **settings):
    """What is loaded is the same, with the same meta data."""
    bilm = load_bilm(path, **settings)
    assert_same(bilm, expected)
    assert bilm.meta == expected.meta


@pytest.mark.parametrize("kind, name", TEXTS)
def test_texts_with_a_byte_order_mark_are_read(kind, name, tmp_path):
    folder = make(kind, tmp_path / "model")
    if name == "lexicon.json":
        save_bilm(load_bilm(make("manylangs", tmp_path / "zh")), folder, force=True)
    wanted = load_bilm(folder)
    text = (folder / name).read_text(encoding="utf8")
    for encoding in ("utf-16", "utf-32", "utf-8-sig"):
        (folder / name).write_bytes(text.encode(encoding))
        check(folder, wanted)
    if kind == "bilm-tf":
        assert Elmo(folder / "options.json", folder / "weights.hdf5", 1) and ElmoModel().load(folder)
        assert Vocabulary(folder / "vocab.txt", validate_file=True).word_to_id("<S>") == 0


@pytest.mark.parametrize("kind, name", [text for text in TEXTS if text[1].endswith(".json")])
def test_bad_json_says_where(kind, name, tmp_path):
    folder = make(kind, tmp_path / "model")
    for content, where in (
        (b'{\n  "a": 1,\n  "b" 2\n}', "line 3 column 7"),
        (b"", "it is empty"),
        (b'{"a":\n "\xe9"}', "line 2 .*0xe9"),
    ):
        (folder / name).write_bytes(content)
        with pytest.raises(ValueError, match=rf"(?s){name}.*{where}") as error:
            load_bilm(folder)
        assert "download" not in str(error.value)


@pytest.mark.parametrize("kind", FORMATS)
def test_every_file_may_be_in_gzip(kind, tmp_path):
    folder = make(kind, tmp_path / "model")
    wanted = load_bilm(folder)
    for file in list(folder.iterdir()):
        if file.name == "checkpoint" or ".ckpt" in file.name:  # tables of TensorFlow are read in places
            continue
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        if len(file.name) % 2:  # of a file and its copy in gzip the file is read
            file.unlink()
    check(folder, wanted)
    for file in [file for file in folder.glob("*.gz") if file.with_suffix("").is_file()]:
        file.with_suffix("").unlink()
    check(folder, wanted)
    if kind == "bilm-tf":
        named = {name: folder / file for name, file in (("options", "options.json.gz"), ("weights", "weights.hdf5.gz"))}
        check(None, wanted, **named, vocab=folder / "vocab.txt.gz")
        for file in list(folder.iterdir()):
            file.rename(file.with_suffix(""))  # gzip by its first bytes
        check(folder / "weights.hdf5", wanted)


@pytest.mark.parametrize("kind", FORMATS)
def test_hidden_files_are_not_data(kind, tmp_path):
    folder = make(kind, tmp_path / "model")
    wanted = load_bilm(folder)
    for file in [file for file in folder.rglob("*") if file.is_file()]:
        (file.parent / f"._{file.name}").write_bytes(RESOURCE_FORK)
    (folder / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    check(folder, wanted)
    files = {"bilm-tf": ["options.json", "weights.hdf5"], "manylangs": ["encoder.pkl", "token_embedder.pkl"]}
    for name in files.get(kind, []):
        check(folder / name, wanted)
    if kind == "bilm-tf":
        assert ElmoModel().load(folder)
        (folder / "options.json").rename(folder / "big_options.json")
        check(folder / "weights.hdf5", wanted)
    if kind == "allennlp":
        with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
            archive.add(folder, ".")
        check(tmp_path / "model.tar.gz", wanted)


@pytest.mark.parametrize("kind", ["bilm-tf", "manylangs"])
def test_zips_of_windows_and_of_macos_are_read(kind, tmp_path):
    folder = make(kind, tmp_path / "model")
    wanted = load_bilm(folder)
    for name, inner in (("144.zip", ""), ("elmo.bin", "elmo\\"), ("elmo", ".\\a\\b\\"), ("144.zip", "a\\b/")):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr(inner or "elmo/", b"")
            for file in folder.iterdir():
                archive.write(file, inner + file.name)
                archive.writestr(f"{inner}._{file.name}", RESOURCE_FORK)
                archive.writestr(f"__MACOSX/{inner}{file.name}", RESOURCE_FORK)
        check(tmp_path / name, wanted)


def pack(folder: Path, path: Path, mode: str = "zip", separator: str = "/") -> Path:
    """The files of a folder in an archive, with its name before each; `separator` as in zips of Windows."""
    if mode == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for file in folder.iterdir():
                archive.writestr(f"{folder.name}{separator}{file.name}", file.read_bytes())
    else:
        with tarfile.open(path, f"w:{mode}") as archive:  # type: ignore[call-overload]
            archive.add(folder, folder.name)
    return path


@pytest.mark.parametrize("separator", ["/", "\\"])
def test_a_zip_of_a_native_folder_is_read_in_place(separator, tmp_path):
    folder = make("native", tmp_path / "model")
    (tmp_path / "downloaded").mkdir()
    path = pack(folder, tmp_path / "downloaded" / "model.bin", separator=separator)
    check(path, load_bilm(folder))
    path = path.rename(path.with_suffix(".zip"))
    check(path, load_bilm(folder))
    check(path.parent, load_bilm(folder))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"second{separator}config.json", (folder / "config.json").read_bytes())
    check(path, load_bilm(folder))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"second{separator}weights.safetensors", (folder / "weights.safetensors").read_bytes())
    with pytest.raises(ValueError, match="2 biLMs.*model, second"):
        load_bilm(path)


@pytest.mark.parametrize(
    "kind, name, mode",
    [("allennlp", "it's packed.zip", "zip"), ("native", "model.tar", ""), ("manylangs", "model.tar.bz2", "bz2")],
)
def test_the_command_in_the_error_for_an_archive_unpacks_it(kind, name, mode, tmp_path):
    folder = make(kind, tmp_path / "a model")
    with pytest.raises(ValueError, match=f"is an archive with the files of .*{kind}.* Unpack it") as error:
        load_bilm(pack(folder, tmp_path / name, mode))
    command = shlex.split(str(error.value).partition("`")[2].partition("`")[0])
    subprocess.run([sys.executable, *command[1:]], check=True, capture_output=True)
    check(Path(command[-1]) / "a model", load_bilm(folder))


@pytest.mark.issue(59)
@pytest.mark.parametrize("name", ["MODEL.ZIP", "MODEL.TAR", "MODEL.TGZ"])
def test_suffixes_of_archives_may_be_in_capitals(name, tmp_path):
    folder = make("native" if name == "MODEL.ZIP" else "allennlp", tmp_path / "model-1")
    mode = {"ZIP": "zip", "TGZ": "gz"}.get(name.rpartition(".")[2], "")
    check(pack(folder, tmp_path / name, mode), load_bilm(folder))


@pytest.mark.parametrize("name", ["model.tar", "model.tgz", "model.tar.bz2", "model.txz"])
def test_tars_of_allennlp_are_read_in_place(name, tmp_path):
    folder = make("allennlp", tmp_path / "model-1")
    mode = {"tgz": "gz", "bz2": "bz2", "txz": "xz"}.get(name.rpartition(".")[2], "")
    check(pack(folder, tmp_path / name, mode), load_bilm(folder))


@pytest.mark.parametrize("library", [gzip, bz2, lzma])
def test_damage_in_a_further_compressed_stream_is_an_error(library, tmp_path):
    content = "".join(f"{word}\n" for word in WORDS).encode()
    first, second = library.compress(content[:20]), library.compress(content[20:])
    file = File(tmp_path / "vocab.txt")
    file.path.write_bytes(first + second)
    assert file.read_bytes() == content
    for damaged in (b"x" + second[1:], b"x" * 50, second[:-9]):
        file.path.write_bytes(first + damaged)
        with pytest.raises(ValueError, match=r"EL022.*vocab\.txt"):
            file.read_bytes()


@pytest.mark.issue(48)
@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.EMFILE])
@pytest.mark.parametrize("library", ["h5py.File", "zipfile.ZipFile", "pathlib.Path.open"])
def test_errors_of_the_system_are_not_called_damage(library, number, folder, tmp_path, monkeypatch):
    if "zip" in library:
        folder = Path(shutil.make_archive(str(tmp_path / "zipped"), "zip", folder))

    def fail(*args, **settings):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(library, fail)
    with pytest.raises(OSError, match=f"EL037.*{os.strerror(number)}"):
        load_bilm(folder)


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.fixture
def native(folder):
    return save_native(folder)


def make_archive(folder, mode):
    options = make_options()
    config = make_config(options_file=options)
    return write_archive(folder.with_name("model.tar"), elmo_state(make_arrays(options), options), config, mode=mode)


CUT = {
    "HDF5": (lambda folder: folder / "weights.hdf5", "cannot be read as HDF5"),
    "safetensors": (lambda folder: save_native(folder) / "weights.safetensors", "cannot be read as safetensors"),
    "zip": (zip_hdf5, "cannot be read as zip: .*truncated"),
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


def test_a_member_of_a_zip_expands_to_a_few_times_its_size(folder):
    path = zip_hdf5(folder)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("options.json", bytes(2**27))
        archive.write(folder / "weights.hdf5", "weights.hdf5")
    with pytest.raises(ValueError, match="EL036.*model.zip:options.json. would expand from [0-9,]+ bytes to"):
        load_bilm(path)


def test_a_member_that_declares_more_than_the_zip_has_takes_no_memory(folder):
    path = zip_hdf5(folder)
    content = bytearray(path.read_bytes())
    at = content.find(b"PK\x01\x02") + 20
    content[at : at + 4] = (2**32 - 2).to_bytes(4, "little")
    path.write_bytes(content)
    try:
        load_bilm(path)
    except ValueError as error:  # newer versions of zipfile compare the sizes
        assert re.search(r"EL022.*model\.zip:options\.json.*Overlapped", str(error))
