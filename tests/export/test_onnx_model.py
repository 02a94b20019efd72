"""The file of a graph: its meta data, the program of the docs, what cannot be exported."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import List

import numpy as np
import pytest
import torch
from export.running import VOCABULARY, export_graph, largest_difference, make_bilm, needs_onnx

from spacy_elmo import BiLM, save_bilm
from spacy_elmo.bilm.network import BiLMNetwork
from spacy_elmo.compat.allennlp.characters import check_fit
from spacy_elmo.export import export_onnx, onnx_model

FORMATS_PAGE = Path(__file__).parent.parent.parent / "docs" / "formats.md"
SENTENCES: List[List[str]] = [["the", "cat", "sat", "é\U0001f600"], ["the"], [], ["x" * 60, "", "cat", "the", "cat"]]


def test_program_of_the_docs_needs_no_torch(tmp_path: Path) -> None:
    needs_onnx()
    pytest.importorskip("onnxruntime")
    bilm = make_bilm()
    export_onnx(bilm, tmp_path / "elmo_small.onnx")
    blocks = re.findall(r"^```python\n(.*?)^```$", FORMATS_PAGE.read_text(encoding="utf8"), flags=re.M | re.S)
    (program,) = (block for block in blocks if "import onnxruntime" in block)
    end = "import sys; assert not {'torch', 'spacy_elmo'} & set(sys.modules); np.savez('out.npz', *vectors)"
    subprocess.run([sys.executable, "-c", f"{program}\n{end}"], cwd=tmp_path, check=True, capture_output=True)
    sentences = ["She sat on the bank .".split(), ["Hello", "!"]]
    with np.load(tmp_path / "out.npz") as found:
        assert largest_difference([found[name] for name in found], bilm.embed(sentences)) < 2e-5


def test_metadata_say_what_the_graph_needs_and_where_it_comes_from(tmp_path: Path) -> None:
    bilm = make_bilm()
    bilm.meta.update({"name": "tiny", "license": "MIT", "lang": "en", "corpus": {"name": "none"}, "training": {}})
    meta = export_graph(bilm, tmp_path).get_modelmeta().custom_metadata_map
    assert json.loads(meta.pop("source")) == {"name": "none"}
    sizes = {"n_layers": "2", "width": "16", "n_characters": "261", "max_characters": "50"}
    known = {"name": "tiny", "license": "MIT", "lang": "en"}
    assert meta == {**sizes, **known, "input": "characters", "vocabulary": "none"}
    meta = export_graph(make_bilm("words"), tmp_path).get_modelmeta().custom_metadata_map
    assert meta["input"] == "words" and json.loads(meta["vocabulary"]) == VOCABULARY


def test_export_replaces_a_file_only_with_force(tmp_path: Path) -> None:
    needs_onnx()
    path = tmp_path / "new" / "elmo.onnx"
    export_onnx(make_bilm(), path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="EL025"):
        export_onnx(make_bilm("tanh"), path)
    assert path.read_bytes() == before
    export_onnx(make_bilm("tanh"), path, force=True)
    assert path.read_bytes() != before and [file.name for file in path.parent.iterdir()] == ["elmo.onnx"]
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(ValueError, match="EL025"):
        export_onnx(make_bilm(), tmp_path / "folder.onnx", force=True)


def test_what_has_no_onnx_form_and_a_full_disk_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_onnx()
    other = make_bilm()
    other.network.encoder.norm = torch.nn.LayerNorm(8)  # type: ignore[attr-defined]
    for change, bilm, name, problem in (
        ((onnx_model, "has_onnx", True), make_bilm(), "elmo", "does not end in .onnx"),
        ((onnx_model, "has_onnx", True), other, "elmo.onnx", r"encoder\.norm\.bias, encoder\.norm\.weight"),
        ((onnx_model, "has_onnx", False), make_bilm(), "elmo.onnx", "needs onnx, .*pip install"),
        ((BiLM, "precision", "int8"), make_bilm(), "elmo.onnx", "precision is int8, should be float32"),
    ):
        with monkeypatch.context() as patch, pytest.raises(ValueError, match=problem):
            patch.setattr(*change)
            export_onnx(bilm, tmp_path / name)
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        export_onnx(make_bilm(), tmp_path / "elmo.onnx")
    assert list(tmp_path.iterdir()) == []


def test_other_character_cnns_are_refused_by_other_formats(tmp_path: Path) -> None:
    config = make_bilm().config
    for name, value in (("projection", "after_cnn"), ("has_layer_norm", True)):
        bilm = BiLM(BiLMNetwork(replace(config, char_cnn=replace(config.char_cnn, **{name: value}))).eval())
        with pytest.raises(ValueError, match=f"(?s)char_cnn.{name}"):
            save_bilm(bilm, tmp_path / "archive", format="bilm-tf")
        with pytest.raises(ValueError, match=f"char_cnn.{name}"):
            check_fit(bilm)
