"""The training configs are complete, explained, clean, and differ in nothing but ELMo."""

from pathlib import Path
from typing import Any, Dict

import pytest
import spacy
from annotated_docs import make_docs
from spacy.cli.debug_config import debug_config
from spacy.cli.debug_data import debug_data
from spacy.cli.init_config import fill_config
from spacy.cli.train import train
from spacy.tokens import DocBin
from thinc.api import Config
from trained import MIX, find_changed

import spacy_elmo.pipeline.component  # noqa: F401  registers the factory
from spacy_elmo import load_bilm
from spacy_elmo.pipeline.starter_config import make_pipeline_config

CONFIG_DIR = Path(__file__).parents[2] / "configs"
CONFIGS = sorted(path for path in CONFIG_DIR.glob("*.cfg") if path.name.startswith(("elmo_", "baseline_")))
NAMES = [path.name for path in CONFIGS]
PIPELINES = ("tagger_ner", "ner", "crf_ner", "tagger_morphologizer")
every_config = pytest.mark.parametrize("path", CONFIGS, ids=NAMES)


def _read(path: Path) -> Dict[str, Any]:
    return dict(Config().from_disk(path, interpolate=False))


@every_config
def test_config_equals_filled_config(path: Path, tmp_path: Path) -> None:
    fill_config(tmp_path / "filled.cfg", path)
    assert _read(path) == _read(tmp_path / "filled.cfg")


@pytest.mark.parametrize("path", sorted(CONFIG_DIR.glob("*.cfg")), ids=lambda path: path.name)
def test_every_setting_is_explained_above_it(path: Path) -> None:
    lines = path.read_text(encoding="utf8").splitlines()
    assert [line[:2] for line in lines[:3]] == ["# ", "# ", "# "], "source, what differs, scores or cost"
    assert "" in lines[3:5], "after these, a command at most"
    settings = [i for i, line in enumerate(lines) if " = " in line and not line.startswith("#")]
    assert [lines[i] for i in settings if not lines[i - 1].startswith("# ")] == []
    assert [line for line in lines if len(line) > 120 and not line.startswith("# python -m ")] == []


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_baseline_differs_only_in_elmo(import_script: Any, pipeline: str) -> None:
    script = import_script("named_configs")
    baseline, with_elmo = (script.read_any_config(f"{variant}_{pipeline}.cfg") for variant in ("baseline", "elmo"))
    assert with_elmo["nlp"]["pipeline"] == ["elmo", *baseline["nlp"]["pipeline"]]
    text = baseline.to_str(interpolate=False)
    assert "ElmoListener" not in text and "components.elmo" not in text and "bilm" not in text
    if pipeline == "crf_ner":
        tuned = _read(CONFIG_DIR / "elmo_ner_finetune.cfg")  # differs in training the biLM, and in averages
        tuned["components"]["elmo"]["model"].update(frozen=True, fine_tuning=None)
        tuned["training"]["optimizer"]["use_averages"] = False
        assert tuned == with_elmo
    if pipeline == "ner":
        assert baseline == _read(CONFIG_DIR / "baseline_ner.cfg")
        for component in ("parser", "textcat_multilabel"):
            other = script.read_any_config(f"init-config:{component}")
            assert other["nlp"]["pipeline"] == ["elmo", component]


@pytest.fixture
def overrides(import_script: Any, tiny_bilm: Path, tmp_path: Path) -> Dict[str, Any]:
    """What a user must supply: the sample, and a biLM with random weights."""
    import_script("data").prepare("sample", tmp_path)
    corpus = {f"paths.{split}": str(tmp_path / f"{split}.spacy") for split in ("train", "dev")}
    return {**corpus, "paths.bilm": str(tiny_bilm)}


def _fitting(path: Path, overrides: Dict[str, Any]) -> Dict[str, Any]:
    """The sample, or Docs with morphology and categories, which it lacks; a biLM with ELMo."""
    if path.name in ("elmo_tagger_morphologizer.cfg", "elmo_textcat.cfg"):
        docs = Path(overrides["paths.train"]).with_name("docs.spacy")
        DocBin(docs=make_docs() * 3).to_disk(docs)
        overrides = {**overrides, "paths.train": str(docs), "paths.dev": str(docs)}
    if path.name == "elmo_textcat.cfg":
        overrides = {**overrides, "training.optimizer.learn_rate.num_steps": 2}
    return {key: value for key, value in overrides.items() if path.name.startswith("elmo") or key != "paths.bilm"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [path for path in CONFIGS if path.name.startswith("elmo_")], ids=lambda path: path.name
)
def test_debug_config_and_debug_data_find_no_fault(path: Path, overrides: Dict[str, Any]) -> None:
    debug_config(path, overrides=_fitting(path, overrides))
    debug_data(path, config_overrides=_fitting(path, overrides), silent=True)  # exits with 1 if there is one


@pytest.mark.slow
@every_config
def test_config_trains(path: Path, overrides: Dict[str, Any], tmp_path: Path) -> None:
    """In two steps."""
    given = {**_fitting(path, overrides), "training.max_steps": 2, "training.eval_frequency": 2}
    train(path, tmp_path / "out", overrides=given)
    nlp = spacy.load(tmp_path / "out" / "model-last")
    doc = nlp("Ada Lovelace met Charles Babbage in London.")
    changed = {
        name: find_changed(path, given, name, nlp.get_pipe(name).model)  # type: ignore[attr-defined]
        for name in nlp.pipe_names
        if name != "elmo"
    }
    for name, keys in changed.items():
        assert [key for key in keys if MIX not in key], f"training has changed {name}"
        attribute = {"tagger": "TAG", "morphologizer": "MORPH"}.get(name, "ENT_IOB")
        assert name == "tok2vec" or doc.cats or doc.has_annotation(attribute)
    has_learned = any(MIX in key for keys in changed.values() for key in keys)
    is_mixed = path.name.startswith("elmo_") and path.name != "elmo_textcat.cfg"  # which keeps the layers apart
    assert has_learned == is_mixed, "the mix is that of a component, or of a shared tok2vec"


@pytest.mark.slow
def test_fine_tuning_config_trains_the_bilm(overrides: Dict[str, Any], tiny_bilm: Path, tmp_path: Path) -> None:
    """Two steps, which are three updates of spaCy, with the top layer unfrozen after the second one."""
    changed = {"training.max_steps": 2, "training.eval_frequency": 1, "training.logger.progress_bar": None}
    unfreeze = {"components.elmo.model.fine_tuning.unfreeze_every": 2}
    with pytest.warns(UserWarning, match="Layers 0, 1 of the biLM"):
        train(CONFIG_DIR / "elmo_ner_finetune.cfg", tmp_path / "out", overrides={**overrides, **changed, **unfreeze})
    trained = spacy.load(tmp_path / "out" / "model-last").get_pipe("elmo").model.shims[0].bilm.network.state_dict()
    changed_names = [
        name for name, weights in load_bilm(tiny_bilm).network.state_dict().items() if not weights.equal(trained[name])
    ]
    assert changed_names and all(name.startswith("encoder.layers.1.") for name in changed_names)


@pytest.mark.issue(62)
def test_the_config_of_text_categories_is_that_of_init_config():
    written = Config().from_str(make_pipeline_config("textcat", bilm="en_elmo_sm"), interpolate=False)
    assert dict(written) == _read(CONFIG_DIR / "elmo_textcat.cfg")
