"""configs/elmo_crf_ner.cfg through spaCy's commands: train, evaluate, package, and load what was packaged."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import spacy
import srsly

import spacy_elmo

CONFIG = Path(__file__).parents[2] / "configs" / "elmo_crf_ner.cfg"
PACKAGE_PARENT = Path(spacy_elmo.__file__).parents[1]


@pytest.fixture(autouse=True)
def needs_entry_points() -> None:
    """Subprocesses find the factory only through the entry point."""
    if "crf_ner" not in entry_points(group="spacy_factories").names:
        pytest.skip("the package is not installed: pip install -e .")


def _spacy(*arguments: object, cwd: Path) -> None:
    path = os.pathsep.join([str(PACKAGE_PARENT), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    command = [sys.executable, "-m", "spacy", *map(str, arguments)]
    result = subprocess.run(
        command, cwd=cwd, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
def test_config_trains_and_the_pipeline_is_packaged(import_script: Any, tiny_bilm: Path, tmp_path: Path) -> None:
    import_script("data").prepare("sample", tmp_path)
    paths = ("--paths.train", "train.spacy", "--paths.dev", "dev.spacy", "--paths.bilm", tiny_bilm)
    steps = ("--training.max_steps", 2, "--training.eval_frequency", 1)
    _spacy("train", CONFIG, "--output", "training", *paths, *steps, cwd=tmp_path)
    _spacy("evaluate", "training/model-last", "test.spacy", "--output", "metrics.json", cwd=tmp_path)
    assert set(srsly.read_json(tmp_path / "metrics.json")) >= {"ents_p", "ents_r", "ents_f", "ents_per_type"}
    (tmp_path / "packages").mkdir()
    package = ("packages", "--name", "crf", "--version", "0.1.0", "--build", "none")
    _spacy("package", "training/model-last", *package, cwd=tmp_path)
    nlp = spacy.load(tmp_path / "packages" / "en_crf-0.1.0" / "en_crf" / "en_crf-0.1.0")
    assert nlp.pipe_names == ["elmo", "crf_ner"] and nlp.get_pipe("crf_ner").labels
    assert nlp("Ada Lovelace met Charles Babbage in London.").has_annotation("ENT_IOB")
