"""Files with seeded random damage: they load, or there is an error of ours that names what is wrong."""

import gzip
import json
import random
import struct
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from reference.allennlp_state import elmo_state, make_config, to_bytes, write_archive
from reference.seeded_manylangs import make_architecture, write_manylangs, write_zip
from reference.seeded_weights import WORDS, make_arrays, make_options, make_softmax, write_arrays, write_model
from reference.tensorflow_files import masked_crc, write_checkpoint, write_module
from weights.fuzzing import fuzz, mutate_bytes

from spacy_elmo import load_bilm, save_bilm
from spacy_elmo.weights import bilm_from_bytes, bilm_to_bytes


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model in every format, tiny."""
    folder = tmp_path_factory.mktemp("mutations")
    sizes = {"lstm": {"dim": 4, "projection_dim": 3, "n_layers": 1}, "char_cnn": {"filters": [[1, 2]], "n_highway": 1}}
    options = make_options(**sizes)
    write_model(folder / "tf", options, {**make_arrays(options), **make_softmax(options)}, WORDS)
    bilm = load_bilm(folder / "tf")
    bilm.meta = {"corpus": {"name": "made up", "n_tokens": 12, "files": ["a", "b"]}, "epochs": [1.5, None]}
    save_bilm(bilm, folder / "native")
    save_bilm(bilm, folder / "int8", dtype="int8")
    (folder / "native.bytes").write_bytes(bilm_to_bytes(bilm))
    (folder / "int8.bytes").write_bytes(bilm_to_bytes(bilm, dtype="int8"))
    (folder / "tf" / "packed.txt.gz").write_bytes(gzip.compress((folder / "tf" / "vocab.txt").read_bytes()))
    with zipfile.ZipFile(folder / "nlpl.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in (("options.json",) * 2, ("model.hdf5", "weights.hdf5"), ("vocab.txt.gz", "packed.txt.gz")):
            archive.write(folder / "tf" / member, name)
        archive.writestr("meta.json", '{"id": 1, "corpora": [{"language": "eng"}]}')
    write_arrays(folder / "softmax.hdf5", make_softmax(options))
    write_arrays(folder / "token_embeddings.hdf5", {"embedding": np.ones((len(WORDS), 3), "float32")})
    write_checkpoint(folder / "v2", options, make_arrays(options), WORDS, n_shards=2)
    write_checkpoint(folder / "plain", options, make_arrays(options), WORDS)
    write_module(folder / "hub", make_arrays(options), {"weights": np.zeros(2, "f4"), "scaling": np.array(1, "f4")})
    for kind in ("new", "old"):
        write_manylangs(folder / kind, make_architecture(**SMALL), legacy=kind == "old")
        write_zip(folder / f"{kind}.zip", folder / kind)
    state, config = elmo_state(make_arrays(options), options, mixes=[((0, 1), 2)]), make_config(options_file=options)
    write_archive(folder / "model.tar", state, config, mode="w")
    write_archive(folder / "model.tar.gz", state, config)
    (folder / "lm").mkdir()
    (folder / "lm" / "config.json").write_text(json.dumps(config))
    (folder / "lm" / "weights.th").write_bytes(to_bytes(state))
    (folder / "lm" / "old.th").write_bytes(to_bytes(state, _use_new_zipfile_serialization=False))
    return folder


SMALL = {"encoder": {"n_layers": 1, "dim": 3}, "token_embedder": {"filters": [[1, 2]]}}


def damage_header(content, draw):
    """Put another value into a field of a tar header, with a valid checksum."""
    changed = bytearray(content)
    start = draw.choice([i for i in range(0, len(content), 512) if content[i + 257 : i + 262] == b"ustar"])
    field, size = draw.choice([(0, 100), (100, 8), (124, 12), (156, 1), (157, 100), (257, 8), (345, 155)])
    kinds = [b"/etc/passwd", b"../x", b"\x80" + b"\xff" * 11, b"77777777777\0", b"-1", *(bytes([c]) for c in b"02xSLg")]
    value = draw.choice([draw.randbytes(size), *kinds])[:size]
    changed[start + field : start + field + len(value)] = value
    changed[start + 148 : start + 156] = b"        "
    changed[start + 148 : start + 156] = b"%06o\0 " % (sum(changed[start : start + 512]) & 0o777777)
    return bytes(changed)


def reseal(content: bytes, draw: random.Random) -> bytes:
    """Damage the first block of a TensorFlow table, and correct its checksum: the damage reaches the parsers."""
    size = first_block_size(content)
    block = mutate_bytes(content[:size], draw)[:size].ljust(size, b"\0") + b"\0"
    return block + struct.pack("<I", masked_crc(block)) + content[size + 5 :]


@cache
def first_block_size(content: bytes) -> int:
    crc = (struct.pack("<I", masked_crc(content[: size + 1])) for size in range(len(content)))
    return next(
        size for size, sealed in enumerate(crc) if content[size] == 0 and content[size + 1 : size + 5] == sealed
    )


READERS = {
    **dict.fromkeys(["nlpl.zip", "new.zip", "old.zip", "model.tar", "model.tar.gz"], load_bilm),
    **dict.fromkeys(["lm/weights.th", "lm/old.th"], load_bilm),
    **dict.fromkeys(
        [
            *(f"tf/{name}" for name in ("weights.hdf5", "options.json", "vocab.txt")),
            *(f"native/{name}" for name in ("config.json", "weights.safetensors", "meta.json", "vocab.txt")),
            *(f"{kind}/{name}" for kind in ("new", "old") for name in ("encoder.pkl", "token_embedder.pkl")),
            *(f"new/{name}" for name in ("char.dic", "word.dic", "config.json", "network.json")),
            *(f"v2/{name}" for name in ("model.ckpt-7.index", "model.ckpt-7.data-00000-of-00002", "checkpoint")),
            *("int8/weights.safetensors", "v2/options.json", "plain/model.ckpt-7.index", "lm/config.json"),
        ],
        lambda path: load_bilm(path.parent),
    ),
    **dict.fromkeys(
        [f"hub/variables/variables.{name}" for name in ("index", "data-00000-of-00001")],
        lambda path: load_bilm(path.parent.parent),
    ),
    **dict.fromkeys(["native.bytes", "int8.bytes"], lambda path: bilm_from_bytes(path.read_bytes(), str(path))),
    "tf/packed.txt.gz": lambda path: load_bilm(path.parent, vocab=path),
    "softmax.hdf5": lambda path: load_bilm(path.parent / "tf", softmax=path),
    "token_embeddings.hdf5": lambda path: load_bilm(path.parent / "tf", token_embeddings=path),
}
# Damage that keeps checksums valid, so that it reaches the parsers.
SEALED = {
    "model.tar": damage_header,
    "model.tar.gz": lambda content, draw: gzip.compress(damage_header(gzip.decompress(content), draw), 1),
    "plain/model.ckpt-7.index": reseal,
    "hub/variables/variables.index": reseal,
}


@pytest.mark.parametrize("n", [12, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_loads_or_gives_an_error_of_ours(model: Path, name: str, n: int) -> None:
    READERS[name](model / name)
    assert fuzz(READERS[name], model / name, n=n) >= n // 100


@pytest.mark.parametrize("name", SEALED)
def test_damage_under_valid_checksums_loads_or_gives_an_error_of_ours(model: Path, name: str) -> None:
    assert fuzz(READERS[name], model / name, n=30, mutate=SEALED[name]) > 3
