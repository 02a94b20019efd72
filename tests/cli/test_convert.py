"""`elmo convert`: the same biLM in another format, and what is refused."""

import numpy as np
import pytest
from cli.calls import call, call_json, refused
from export.running import largest_difference, needs_onnx, open_graph, run_graph

from spacy_elmo.bilm.lm_head import AdaptiveHead
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.weights import load_bilm, save_bilm


@pytest.mark.parametrize("to", ["native", "bilm-tf"])
def test_vectors_are_kept(bilm_path, tmp_path, to):
    shown = " ".join(call("convert", bilm_path, tmp_path / "out", "--to", to).stderr.split())
    assert f"{call_json('inspect', bilm_path)['n_parameters']['biLM']:,} parameters as float32 ({to})" in shown
    before, after = (load_bilm(path).embed([["the", "cat"]])[0] for path in (bilm_path, tmp_path / "out"))
    assert np.array_equal(before, after)


@pytest.mark.filterwarnings("default")
def test_warnings_are_shown_without_source_lines(bilm, tmp_path):
    head = AdaptiveHead(9, 8, [3], 2.0).eval()
    save_bilm(BiLM(bilm.network, vocabulary=bilm.vocabulary, head=head), tmp_path / "bilm")
    shown = call("convert", tmp_path / "bilm", tmp_path / "out", "--to", "bilm-tf").stderr
    assert "is not saved" in " ".join(shown.split()) and "`--to native`" in " ".join(shown.split())
    assert "UserWarning" not in shown and ".py" not in shown


@pytest.mark.parametrize("dtype, size", [("float16", 0.7), ("int8", 0.9)])
def test_weights_are_rounded(dtype, size, bilm_path, tmp_path):
    call("convert", bilm_path, tmp_path / "out", "--dtype", dtype)
    sizes = [(path / "weights.safetensors").stat().st_size for path in (bilm_path, tmp_path / "out")]
    assert sizes[1] < size * sizes[0]
    weight, rounded = (load_bilm(path).network.encoder.layers[0].input_weight for path in (bilm_path, tmp_path / "out"))
    assert 0 < (weight - rounded).abs().max() <= weight.abs().max() / 200


def test_other_files_of_a_folder_stay(bilm_path, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("keep", encoding="utf8")
    shown = refused("convert", bilm_path, tmp_path / "out")
    assert "already" in shown and "--force" in shown
    call("convert", bilm_path, tmp_path / "out", "--force")
    assert (tmp_path / "out" / "notes.txt").is_file()


@pytest.mark.issue(17)
def test_what_is_read_is_not_replaced(bilm_path, tmp_path):
    folder = tmp_path / "model"
    call("convert", bilm_path, folder, "--to", "bilm-tf")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    for source in (folder, folder / "weights.hdf5"):
        for kind in ("native", "bilm-tf"):
            assert str(folder) in "".join(refused("convert", source, folder, "--to", kind, "--force").split())
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_onnx_graph_gives_the_same_vectors(bilm_path, tmp_path):
    needs_onnx()
    arguments = ("convert", bilm_path, tmp_path / "elmo.onnx", "--to", "onnx")
    call(*arguments)
    bilm = load_bilm(bilm_path)
    found = run_graph(open_graph(tmp_path / "elmo.onnx"), bilm, [["the", "cat"], ["sat"]])
    assert largest_difference(found, bilm.embed([["the", "cat"], ["sat"]])) < 2e-5
    assert "--force" in refused(*arguments)
    call(*arguments, "--force")
