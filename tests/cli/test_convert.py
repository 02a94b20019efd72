"""`elmo convert`: the same biLM in another format, and what is refused."""

import numpy as np
import pytest
from cli.calls import call, call_json, refused, told
from export.running import needs_onnx

from spacy_elmo.bilm.network import AdaptiveHead
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.weights import load_bilm, save_bilm


@pytest.mark.filterwarnings("default")
def test_warnings_are_shown_without_source_lines(bilm, tmp_path):
    head = AdaptiveHead(9, 8, [3], 2.0).eval()
    save_bilm(BiLM(bilm.network, vocabulary=bilm.vocabulary, head=head), tmp_path / "bilm")
    shown = call("convert", tmp_path / "bilm", tmp_path / "out", "--to", "bilm-tf").stderr
    assert "is not saved" in " ".join(shown.split()) and 'format "native"' in " ".join(shown.split())
    assert "UserWarning" not in shown and ".py" not in shown


@pytest.mark.issue(17)
def test_what_is_read_is_not_replaced(bilm_path, tmp_path):
    folder = tmp_path / "run#2" / "model"
    call("convert", bilm_path, folder, "--to", "bilm-tf")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    for source in (folder, folder / "weights.hdf5"):
        for kind in ("native", "bilm-tf"):
            assert str(folder) in "".join(refused("convert", source, folder, "--to", kind, "--force").split())
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


@pytest.mark.parametrize("options", [("--to", "native"), ("--to", "bilm-tf", "--dtype", "float16"), ("--to", "onnx")])
def test_a_bilm_is_written_in_another_format_once(bilm_path, tmp_path, options):
    """What is in the files is tested in tests/weights and tests/export."""
    name = "out"
    if "onnx" in options:
        needs_onnx()
        name = "elmo.onnx"
    shown = told("convert", bilm_path, tmp_path / name, *options)
    assert f"{call_json('inspect', bilm_path)['n_parameters']['biLM']:,} parameters" in shown
    assert "--force" in refused("convert", bilm_path, tmp_path / name, *options)
    call("convert", bilm_path, tmp_path / name, *options, "--force")
    if name == "out":
        before, after = (load_bilm(path).embed([["the", "cat"]])[0] for path in (bilm_path, tmp_path / name))
        assert np.abs(before - after).max() <= (2e-3 if "float16" in options else 0)
