"""Hostile and damaged AllenNLP files: tar members that lead elsewhere, pickles that name other things."""

import gzip
import io
import json
import lzma
import tarfile

import pytest
from reference.allennlp_state import elmo_state, make_config, to_bytes, write_archive
from reference.seeded_weights import make_arrays, make_options

from spacy_elmo import load_bilm
from spacy_elmo.weights.allennlp_options import to_json
from spacy_elmo.weights.files import MAX_MEMBERS

OPTIONS = make_options(
    lstm={"dim": 4, "projection_dim": 3, "n_layers": 1}, char_cnn={"filters": [[1, 2]], "n_highway": 1}
)
STATE = elmo_state(make_arrays(OPTIONS), OPTIONS, mixes=[((0, 1), 2)])
CONFIG = make_config(options_file=OPTIONS)


def member(name, content=b"", **settings):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in settings.items():
        setattr(info, key, value)
    return info, content


def pack(path, *members, **settings):
    """A good archive with more members."""
    good = [member("config.json", json.dumps(CONFIG).encode()), member("weights.th", to_bytes(STATE))]
    with tarfile.open(path, "w:gz", **settings) as archive:
        for info, content in [*members, *good]:
            archive.addfile(info, io.BytesIO(content))
    return path


SPARSE = {"GNU.sparse.size": str(2**50), "GNU.sparse.map": "0,1"}


@pytest.mark.parametrize(
    "bad",
    [
        member("/etc/passwd", b"x"),
        member("../config.json", b"{}"),
        member("config.json", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("weights.th", type=tarfile.LNKTYPE, linkname="config.json"),
        member("pipe", type=tarfile.FIFOTYPE),
        member("hole", b"x", pax_headers=SPARSE),
    ],
    ids=range(6),
)
def test_members_that_lead_elsewhere_are_not_read(bad, tmp_path):
    wanted = load_bilm(pack(tmp_path / "good.tar.gz")).embed([["a"]])[0]
    assert (load_bilm(pack(tmp_path / "model.tar.gz", bad)).embed([["a"]])[0] == wanted).all()


TOO_MUCH = {
    "many": lambda path: pack(path, *(member(f"file{i}") for i in range(MAX_MEMBERS))),
    "long": lambda path: path.write_bytes(gzip.compress(member("weights.th", size=2**40)[0].tobuf() + bytes(2**12))),
    "zeros": lambda path: path.write_bytes(gzip.compress(member("zeros")[0].tobuf() + bytes(2**27))),
    "xz": lambda path: path.write_bytes(lzma.compress(member("weights.th", size=2**27)[0].tobuf() + bytes(2**27))),
    "pax": lambda path: path.write_bytes(gzip.compress(member("x", type=tarfile.XHDTYPE)[0].tobuf() * 4000)),
}


@pytest.mark.parametrize("kind", TOO_MUCH)
def test_archives_that_declare_or_expand_to_too_much_are_refused(kind, tmp_path):
    TOO_MUCH[kind](tmp_path / "model.tar.gz")
    message = "EL0(36|22)" if kind in ("zeros", "pax", "xz") else "model.tar.gz.*more than 1,000, or declare more bytes"
    with pytest.raises(ValueError, match=message):
        load_bilm(tmp_path / "model.tar.gz")


def test_a_damaged_header_is_not_the_end(tmp_path):
    """Python's tarfile stops there, and options after it would be missing without notice."""
    path = write_archive(tmp_path / "model.tar", STATE, CONFIG, {"options.json": b"{}"}, mode="w")
    content = bytearray(path.read_bytes())
    at = content.rindex(b"options.json")
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="EL022.*a header is damaged"):
        load_bilm(path)


@pytest.mark.parametrize(
    "text, wanted",
    [
        (r'{"a": [1, 2, ], "b": "c,]", }', r'{"a": [1, 2 ], "b": "c,]" }'),
        ('{"a": std.strReplace(std.thisFile, "config.json", "o.json")}', '{"a": "o.json"}'),  # of older versions
        (r'{"a": "\\", "b\"": "\", }",}', r'{"a": "\\", "b\"": "\", }"}'),
    ],
)
def test_jsonnet_becomes_json(text, wanted):
    assert to_json(text.encode()).decode() == wanted
