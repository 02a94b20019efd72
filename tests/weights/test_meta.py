"""Name, language, licence and attribution of a biLM stay with it, whatever is made of it."""

import json
from pathlib import Path
from typing import Any, Callable, Dict

import pytest
import spacy
from inference.forcing import needs_kernel
from nn.tiny import make_language_model

from spacy_elmo import BiLM, load_bilm, save_bilm
from spacy_elmo.export import export_onnx
from spacy_elmo.export.package import package_bilm
from spacy_elmo.pipeline.model import ensure_bilm
from spacy_elmo.weights.meta import list_training_texts

pytestmark = pytest.mark.issue(48)

TEXTS = [{"name": "Old novels", "license": "CC BY 4.0"}, {"name": "News", "license": "CC BY-SA 3.0"}]
META = {"name": "tiny", "lang": "nb", "license": "CC BY-SA 4.0; Müller", "corpus": {"name": "c", "sources": TEXTS}}


@pytest.fixture
def bilm() -> BiLM:
    return make_language_model(["<S>", "</S>", "<UNK>", "the"], **META)


def stated(bilm: BiLM) -> Dict[str, Any]:
    return {key: value for key, value in bilm.meta.items() if key in META}


def save_as(format: str, dtype: str = "float32") -> Callable[[BiLM, Path], BiLM]:
    def convert(bilm: BiLM, path: Path) -> BiLM:
        save_bilm(bilm, path / format, format=format, dtype=dtype)
        return load_bilm(path / format)

    return convert


def load_the_files(bilm: BiLM, path: Path) -> BiLM:
    save_bilm(bilm, path, format="bilm-tf")
    assert stated(load_bilm(path / "weights.hdf5")) == stated(load_bilm(path / "options.json")) == META
    return load_bilm(options=path / "options.json", weights=path / "weights.hdf5")


def read_pipeline(path: Path) -> BiLM:
    elmo: Any = spacy.load(path).get_pipe("elmo")
    return ensure_bilm(elmo.model)


def through_a_pipeline(bilm: BiLM, path: Path) -> BiLM:
    nlp = spacy.blank("nb")
    save_bilm(bilm, path / "bilm", format="bilm-tf")
    nlp.add_pipe("elmo", config={"weights": str(path / "bilm")})
    nlp.to_disk(path / "nlp")
    return read_pipeline(path / "nlp")


WAYS: Dict[str, Callable[[BiLM, Path], BiLM]] = {
    "native": save_as("native"),
    "int8 on disk": save_as("native", "int8"),
    "bilm-tf": save_as("bilm-tf"),
    "bilm-tf in float16": save_as("bilm-tf", "float16"),
    "bilm-tf by its files": load_the_files,
    "pipeline": through_a_pipeline,
    "bfloat16": lambda bilm, path: bilm.set_precision("bfloat16"),
}


@pytest.mark.parametrize("way", [pytest.param(way, marks=needs_kernel) if way == "bfloat16" else way for way in WAYS])
def test_meta_data_stay(way: str, bilm: BiLM, tmp_path: Path) -> None:
    assert stated(WAYS[way](bilm, tmp_path)) == META


def test_a_package_and_an_onnx_file_of_old_weights_name_licence_and_texts(bilm: BiLM, tmp_path: Path) -> None:
    onnx: Any = pytest.importorskip("onnx")
    bilm = WAYS["bilm-tf"](bilm, tmp_path)
    bilm.meta = {"license": "CC BY-SA 4.0", "init": {"path": "old", "meta": bilm.meta}}  # trained further
    folder = package_bilm(bilm, tmp_path, name="tiny", lang="nb", build="none")
    assert json.loads((folder / "meta.json").read_text(encoding="utf8"))["sources"] == TEXTS
    assert read_pipeline(next(folder.glob("nb_elmo_tiny/nb_*"))).meta == bilm.meta
    export_onnx(bilm, tmp_path / "elmo.onnx")
    entries = {entry.key: entry.value for entry in onnx.load(tmp_path / "elmo.onnx").metadata_props}
    assert entries["license"] == "CC BY-SA 4.0" and json.loads(entries["source"]) == TEXTS


@pytest.mark.parametrize("content", ["[1]", "{", '"CC BY"'])
def test_a_foreign_meta_json_that_cannot_be_read_does_not_matter_to_vectors(
    content: str, folder: Path, tmp_path: Path
) -> None:
    (folder / "meta.json").write_text(content)
    with pytest.warns(UserWarning, match="meta.json.*loaded without these meta data"):
        assert load_bilm(folder).meta == {"source_format": "bilm-tf"}


@pytest.mark.parametrize(
    "meta, names",
    [
        ({}, []),
        ({"sources": ["a", {"name": "b", "tokens": 3}, 4]}, ["a", "b"]),
        ({"sources": 5, "corpus": [{"language": "eng"}]}, []),  # as in zips of NLPL
        ({"corpus": {"sources": ["a"]}, "init": {"meta": {"sources": ["a", "b"], "init": {"meta": None}}}}, ["a", "b"]),
    ],
)
def test_texts_to_attribute(meta: Dict[str, Any], names: "list[str]") -> None:
    assert [text["name"] for text in list_training_texts(meta)] == names
