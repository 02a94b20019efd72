"""`elmo inspect`: what a biLM contains, and what can be done with it."""

import hashlib
import re
import shutil
from pathlib import Path

import pytest
import srsly
from cli.calls import call, call_json, refused
from reference.allennlp_state import GAMMA, WEIGHTS, elmo_state, make_config, write_archive
from reference.seeded_weights import make_arrays, make_options
from safetensors.numpy import load_file, save_file

from spacy_elmo import load_mixes
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.inference.products import is_supported_on_cpu
from spacy_elmo.util import PRECISIONS, has_onnx, has_pyarrow
from spacy_elmo.weights import save_bilm
from spacy_elmo.weights.contents import read_contents

OPTIONS = make_options()


@pytest.fixture
def archive(tmp_path):
    """An archive of AllenNLP, with a mix."""
    state = elmo_state(make_arrays(OPTIONS), OPTIONS)
    return Path(write_archive(tmp_path / "model.tar.gz", state, make_config(options_file=OPTIONS)))


@pytest.mark.issue(15)
def test_problems_of_weights_are_listed(bilm_path):
    arrays = load_file(bilm_path / "weights.safetensors")
    del arrays["bilm.lstm.0.bias"], arrays["softmax.bias"]
    save_file(arrays, bilm_path / "weights.safetensors")
    shown = call("inspect", bilm_path, code=1).stderr
    assert "- missing: bilm.lstm.0.bias [2, 64]\n" in shown and "- missing: softmax.bias [9]\n" in shown
    (bilm_path / "weights.safetensors").write_bytes(b"nothing")
    assert "weights.safetensors" in refused("inspect", bilm_path)


def test_sizes_parameters_and_gates_are_shown(bilm, bilm_path, tmp_path):
    """Results on stdout, statements on stderr; every parameter is counted once."""
    shown = call("inspect", bilm_path).stdout
    for text in ("projection_width", "LSTM layer 2", "highway 1", "characters: filters", "9 words", "forget"):
        assert text in shown
    save_bilm(BiLM(bilm.network), tmp_path / "bare")
    result = call("inspect", tmp_path / "bare")
    for text in ("perplexity is not possible", "can be used"):
        assert text in result.stderr and text not in result.stdout
    report = call_json("inspect", bilm_path)
    counts = report["n_parameters"]
    # The mask row of the character table is no parameter of the paper.
    assert counts["biLM"] == sum(parameter.numel() for parameter in bilm.network.parameters()) - 4
    assert counts["softmax (not needed for vectors)"] == 9 * 8 + 9 and counts["characters: embedding"] == 261 * 4
    assert report["settings"]["char_cnn.embedding_width"] == 4
    forget = [activation for _, gate, activation in report["gates"] if gate == "forget"]
    assert forget == pytest.approx([0.731] * 4, abs=1e-3), "bias 0 in the file means 1"


@pytest.mark.issue(17)
def test_uses_are_those_of_the_model(bilm, bilm_path):
    uses = {use["name"]: use for use in call_json("inspect", bilm_path)["capabilities"]}
    refused = {
        f"computation in {name}" for name in PRECISIONS[1:] if name == "float16" or not is_supported_on_cpu(name)
    }
    assert {name for name, use in uses.items() if not use["is_possible"]} == refused
    assert uses["export to native"]["reason"] == "float32, float16, int8" and "export to onnx" in uses
    assert "slower than float32" in uses["computation in float16"]["reason"]
    assert uses["contextual vectors"]["reason"] == "3 layers of 16 dimensions"
    bare = {use.name: use for use in read_contents(BiLM(bilm.network)).capabilities}
    assert not bare["perplexity"].is_possible and bare["perplexity"].reason == "it lacks: softmax, vocabulary"
    assert bare["further training"].reason == "with a new vocabulary and a new softmax"


@pytest.mark.issue(17)
def test_files_are_shown_with_checksums_and_origin(bilm, tmp_path):
    folder = tmp_path / "tf"
    save_bilm(bilm, folder, format="bilm-tf")
    record = call_json("inspect", folder)["origin"]
    files = {Path(file["name"]).name: file for file in record["files"]}
    assert record["format"] == "bilm-tf" and set(files) == {path.name for path in folder.iterdir()}
    for path in folder.iterdir():
        assert files[path.name]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert files[path.name]["n_bytes"] == path.stat().st_size
    srsly.write_json(folder / "origin.json", {"name": "small", "licence": "a licence of its own"})
    shown = call("inspect", folder).stdout
    assert "Format: bilm-tf" in shown and all(file["sha256"] in shown for file in files.values())
    assert "a licence of its own" in shown
    (folder / "options.json").rename(tmp_path / "settings.json")
    record = call_json("inspect", folder / "weights.hdf5", "--options", tmp_path / "settings.json")
    names = {Path(file["name"]).name for file in record["origin"]["files"]}
    assert names == {"meta.json", "weights.hdf5", "settings.json"}


@pytest.mark.issue(60)
def test_long_meta_data_are_shortened(bilm, tmp_path):
    history = [{"step": step, "loss": 1.5} for step in range(99)]
    meta = {"name": "tiny", "training": {"history": history}, "notes": "one\ntwo"}
    save_bilm(BiLM(bilm.network, meta=meta), tmp_path / "bilm")
    shown = call("inspect", tmp_path / "bilm").stdout.partition("Meta data")[2]
    assert len(shown.splitlines()) < 12 and '{"history":[{"step":0,' in shown and "one two" in shown
    assert "Entries that are shortened: 1. --json prints them whole" in shown
    assert call_json("inspect", tmp_path / "bilm")["meta"]["training"]["history"] == history


@pytest.fixture(scope="module")
def outputs(bilm, tmp_path_factory):
    """What other commands write."""
    folder = tmp_path_factory.mktemp("outputs")
    save_bilm(bilm, folder / "bilm")
    (folder / "text.txt").write_text("the cat sat .\n", encoding="utf8")
    for name in ("v.npz", "v.hdf5", "v.spacy", *(["v.parquet", "vectors"] if has_pyarrow else [])):
        call("embed", folder / "bilm", folder / "text.txt", folder / name)
    call("index", folder / "text.txt", folder / "index", "--bilm", folder / "bilm")
    if has_onnx:
        call("convert", folder / "bilm", folder / "elmo.onnx", "--to", "onnx")
        shutil.copy(folder / "elmo.onnx", folder / "elmo.bin")
    (folder / "en_elmo-1.0.0-py3-none-any.whl").write_bytes((folder / "v.npz").read_bytes())
    return folder


@pytest.mark.issue(48)
@pytest.mark.parametrize(
    "name, kind",
    [
        *((name, "a file of vectors.* Give the biLM that computes them") for name in ("v.npz", "v.hdf5", "v.parquet")),
        ("v.spacy", "a file of spaCy Docs"),
        ("vectors", "a folder of vectors"),
        ("index", "an index of tokens.* Give the biLM that it was built with"),
        *((name, "an ONNX graph.* Give the weights it was made from") for name in ("elmo.onnx", "elmo.bin")),
        ("en_elmo-1.0.0-py3-none-any.whl", "a package.*`spacy.load`"),
        ("text.txt", "a file in no known format"),
    ],
)
def test_an_output_of_another_command_is_recognized(name, kind, outputs, tmp_path):
    if not (outputs / name).exists():
        pytest.skip("needs pyarrow or onnx")
    for command in (("inspect",), ("convert", tmp_path / "out")):
        assert re.search(f"EL020.*it is {kind}", refused(command[0], outputs / name, *command[1:]))
    assert re.search(f"EL020.*it is {kind}", refused("compare", outputs / name, outputs / "bilm", code=2))


def test_mixes_of_an_archive_are_shown_and_converted(archive, tmp_path):
    (mix,) = call_json("inspect", archive)["mixes"]
    assert mix["weights"] == pytest.approx(WEIGHTS) and mix["gamma"] == pytest.approx(GAMMA)
    assert sum(mix["shares"]) == pytest.approx(1.0)
    rows = [line.split() for line in call("inspect", archive).stdout.splitlines()]
    assert ["Mix", "0", "1.700", "0.348", "0.078", "0.574"] in rows
    call("convert", archive, tmp_path / "native")
    call("convert", tmp_path / "native", tmp_path / "out", "--to", "bilm-tf")
    assert load_mixes(tmp_path / "out") == load_mixes(archive)
    assert "other" in refused("inspect", f"{archive}#other")
