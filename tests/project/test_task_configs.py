"""Configs with the task encoder, one per component: complete, and trained for two updates."""

from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest
import spacy
from annotated_docs import KB_WIDTH, make_docs, write_kb
from spacy.cli.debug_config import debug_config
from spacy.cli.init_config import fill_config
from spacy.cli.train import train
from spacy.tokens import DocBin
from thinc.api import Config
from trained import MIX, find_changed

from spacy_elmo.cli.init_config import init_config
from spacy_elmo.ml.listener import get_listeners

CONFIG_DIR = Path(__file__).parents[2] / "configs"
TASKS = (
    *("tagger", "morphologizer", "trainable_lemmatizer", "senter", "parser", "ner", "spancat", "textcat"),
    "entity_linker",
)
FILES = {f"task_{name}.cfg": name for name in TASKS} | {"taglm_ner.cfg": "ner"}
LSTM = "bilstm"  # in the names of its parameters
every_config = pytest.mark.parametrize("file_name", FILES)


def _read(path: Path) -> Config:
    return Config().from_disk(path, interpolate=False)


def test_every_config_is_tested() -> None:
    found = {path.name for pattern in ("task_*.cfg", "taglm_*.cfg") for path in CONFIG_DIR.glob(pattern)}
    assert found == set(FILES)


@every_config
def test_config_equals_filled_config(file_name: str, tmp_path: Path) -> None:
    fill_config(tmp_path / "filled.cfg", CONFIG_DIR / file_name, silent=True)
    assert _read(CONFIG_DIR / file_name) == _read(tmp_path / "filled.cfg")


@pytest.mark.parametrize("name", TASKS)
def test_network_is_that_of_init_config(name: str) -> None:
    config = _read(CONFIG_DIR / f"task_{name}.cfg")
    written = Config().from_str(init_config(pipeline=name, placement="both"), interpolate=False)
    model = config["components"][name]["model"]
    tok2vec = model["tok2vec"]
    assert tok2vec["elmo_output"] == f"${{components.{name}.model.tok2vec.elmo_input}}"
    tok2vec["elmo_output"] = tok2vec["elmo_input"]
    assert model == written["components"][name]["model"]
    assert config["components"]["elmo"] == written["components"]["elmo"]
    assert config["training"]["optimizer"] == written["training"]["optimizer"]
    assert config["training"]["annotating_components"] == written["training"]["annotating_components"]
    assert config["nlp"]["pipeline"] == written["nlp"]["pipeline"]
    assert config["paths"].keys() == written["paths"].keys()
    kb, written_kb = (one["initialize"]["components"].get("entity_linker") for one in (config, written))
    assert kb == written_kb


def test_categorizer_of_several_categories_differs_in_that_only() -> None:
    model = _read(CONFIG_DIR / "task_textcat.cfg")["components"]["textcat"]["model"]
    written = Config().from_str(init_config(pipeline="textcat_multilabel", placement="input"), interpolate=False)
    found = written["components"]["textcat_multilabel"]["model"]
    assert found["tok2vec"]["@architectures"] == "spacy-elmo.ElmoTaskEncoder.v1"
    assert {**found, "tok2vec": None} == {**model, "tok2vec": None, "exclusive_classes": False}


@pytest.fixture
def overrides(tiny_bilm: Path, tmp_path: Path) -> Dict[str, Any]:
    """What a user must supply."""
    DocBin(docs=make_docs(), store_user_data=True).to_disk(tmp_path / "docs.spacy")
    write_kb(tmp_path / "kb")
    corpus = str(tmp_path / "docs.spacy")
    return {"paths.train": corpus, "paths.dev": corpus, "paths.bilm": str(tiny_bilm), "paths.kb": str(tmp_path / "kb")}


def _fitting(file_name: str, overrides: Dict[str, Any]) -> Dict[str, Any]:
    if FILES[file_name] == "entity_linker":
        return {**overrides, "components.entity_linker.entity_vector_length": KB_WIDTH}
    return {key: value for key, value in overrides.items() if key != "paths.kb"}


@every_config
def test_debug_config_is_clean(file_name: str, overrides: Dict[str, Any], capsys: Any) -> None:
    debug_config(CONFIG_DIR / file_name, overrides=_fitting(file_name, overrides))  # exits with 1 if there is a fault
    assert "Config is valid" in capsys.readouterr().out


@pytest.mark.slow
@every_config
def test_config_trains(file_name: str, overrides: Dict[str, Any], tmp_path: Path) -> None:
    given = {**_fitting(file_name, overrides), "training.max_steps": 2, "training.eval_frequency": 2}
    train(CONFIG_DIR / file_name, tmp_path / "out", overrides=given)
    nlp = spacy.load(tmp_path / "out" / "model-last")
    name = FILES[file_name]
    listeners = get_listeners(nlp.get_pipe(name).model)  # type: ignore[attr-defined]
    assert len(listeners) == (1 if file_name == "taglm_ner.cfg" else 2)
    changed = find_changed(CONFIG_DIR / file_name, given, name, nlp.get_pipe(name).model)  # type: ignore[attr-defined]
    assert [key for key in changed if LSTM in key], "the gradient has reached the BiLSTM"
    n_mixes = sum(key.endswith(f"{MIX} w") for key in changed)
    assert n_mixes == (0 if file_name == "taglm_ner.cfg" else 2), "and all mixes but that of the top layer"
    nlp("Ada sings songs.")
    doc = nlp.get_pipe("elmo")(nlp.make_doc("Ada sings songs."))  # without the boundaries that some components set
    wanted = nlp.get_pipe(name).model.get_ref("tok2vec").predict([doc])[0]  # type: ignore[attr-defined]
    paths = [f"model.tok2vec.elmo_{place}" for place in ("input", "output")][: len(listeners)]
    nlp.replace_listeners("elmo", name, paths)
    nlp.remove_pipe("elmo")
    nlp.to_disk(tmp_path / "replaced")
    replaced = spacy.load(tmp_path / "replaced")
    replaced("Ada sings songs.")
    found = replaced.get_pipe(name).model.get_ref("tok2vec").predict([nlp.make_doc(doc.text)])[0]  # type: ignore[attr-defined]
    np.testing.assert_allclose(found, wanted, atol=1e-5)
