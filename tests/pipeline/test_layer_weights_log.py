"""The logger writes the weights that the mixes have at each evaluation."""

import io
from pathlib import Path
from typing import Any, Dict

import pytest
import spacy
import srsly
from spacy.util import registry

from spacy_elmo.analysis.layer_weights import name_mixes
from spacy_elmo.pipeline.layer_weights import LayerWeightsLogger, find_task_mixes

from .tiny import LISTENER, add_elmo, listening, make_examples

BOTH = {"one": LISTENER, "two": {**LISTENER, "initial_weights": [0.0, 1.0, 2.0]}}
MIXES = [("tagger", 1), ("ner", 1), ("ner", 2)]


@pytest.fixture
def nlp() -> Any:
    """Two components that listen, the second with two mixes."""
    nlp = spacy.blank("en")
    add_elmo(nlp)
    nlp.add_pipe("tagger", config=listening())
    nlp.add_pipe("ner", config={"model": {"tok2vec": {"@layers": "concatenate.v1", "*": BOTH}}})
    nlp.initialize(lambda: make_examples(nlp))
    return nlp


def _info(step: int) -> Dict[str, Any]:
    """What the training loop of spaCy passes at an evaluation, shortened."""
    return {"step": step, "epoch": 0, "score": 0.5, "losses": {}, "other_scores": {}}


def _log_a_training(nlp: Any, logger: Any) -> str:
    """Three evaluations with an update before each but the first. RETURNS (str): What was printed."""
    stdout = io.StringIO()
    optimizer = nlp.create_optimizer()
    log_step, finalize = logger(nlp, stdout, io.StringIO())
    for step in range(3):
        log_step(_info(step))
        log_step(None)
        nlp.update(make_examples(nlp), sgd=optimizer)
    finalize()
    return stdout.getvalue()


@pytest.mark.issue(16)
def test_logger_writes_each_mix_at_each_evaluation(nlp: Any, tmp_path: Path) -> None:
    path = tmp_path / "weights" / "log.jsonl"
    before = find_task_mixes(nlp)
    assert _log_a_training(nlp, LayerWeightsLogger(path)) == ""
    rows = list(srsly.read_jsonl(path))
    assert [(row["step"], row["component"], row["number"]) for row in rows] == [
        (step, *mix) for step in range(3) for mix in MIXES
    ]
    for row, mix in zip(rows, before):
        assert row["shares"] == pytest.approx(mix.shares, abs=1e-6)
        assert row["gamma"] == mix.gamma
    assert rows[2]["shares"] == pytest.approx([0.0900, 0.2447, 0.6652], abs=1e-4)
    assert rows[0]["weights"] != rows[-3]["weights"]


@pytest.mark.issue(16)
def test_logger_without_a_path_prints(nlp: Any) -> None:
    lines = _log_a_training(nlp, LayerWeightsLogger()).splitlines()
    assert len(lines) == 9
    assert lines[2] == "Layer weights of ner (2): 9.0%  24.5%  66.5%, gamma 1.000"


@pytest.mark.issue(16)
def test_logger_is_registered_and_can_be_chained(nlp: Any) -> None:
    chained = {"@loggers": "spacy.ChainLogger.v1", "logger1": {"@loggers": "spacy-elmo.LayerWeightsLogger.v1"}}
    assert "tagger (1)" in _log_a_training(nlp, registry.resolve({"logger": chained})["logger"])


@pytest.mark.issue(16)
def test_mixes_are_those_of_the_listeners(nlp: Any) -> None:
    mixes = find_task_mixes(nlp)
    assert [(mix.component, mix.number) for mix in mixes] == MIXES
    node = next(node for node in nlp.get_pipe("tagger").model.walk() if node.name == "scalar_mix")
    node.set_param("w", node.ops.asarray1f([1.0, 2.0, 3.0]))
    node.set_param("gamma", node.ops.asarray1f([0.25]))
    (changed, *_) = find_task_mixes(nlp)
    assert changed.weights == (1.0, 2.0, 3.0) and changed.gamma == 0.25
    assert sum(changed.shares) == pytest.approx(1.0)


@pytest.mark.issue(16)
def test_mixes_of_a_task_encoder_have_their_place() -> None:
    nlp = spacy.blank("en")
    add_elmo(nlp)
    embed = {"@architectures": "spacy.MultiHashEmbed.v2", "width": 16, "attrs": ["NORM"], "rows": [50]}
    encode = {"@architectures": "spacy-elmo.BiLSTMEncoder.v1", "width": 16}
    encoder = {"@architectures": "spacy-elmo.ElmoTaskEncoder.v1", "embed": {**embed, "include_static_vectors": False}}
    both = {**encoder, "encode": encode, "elmo_input": LISTENER, "elmo_output": LISTENER}
    nlp.add_pipe("tagger", config={"model": {"tok2vec": both}})
    nlp.add_pipe("tagger", name="second", config={"model": {"tok2vec": {**both, "elmo_input": None}}})
    nlp.initialize(lambda: make_examples(nlp))
    mixes = find_task_mixes(nlp)
    assert [(mix.component, mix.place) for mix in mixes] == [
        ("tagger", "input"),
        ("tagger", "output"),
        ("second", "output"),
    ]
    assert name_mixes(mixes) == ["tagger (input)", "tagger (output)", "second (output)"]
    assert "Layer weights of tagger (output): " in _log_a_training(nlp, LayerWeightsLogger())


@pytest.mark.issue(16)
def test_mix_of_a_disabled_component_is_found(nlp: Any) -> None:
    nlp.disable_pipe("tagger")
    assert [(mix.component, mix.number) for mix in find_task_mixes(nlp)] == MIXES


@pytest.mark.issue(16)
def test_existing_log_is_kept(nlp: Any, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("kept", encoding="utf8")
    with pytest.raises(ValueError, match="exists"):
        LayerWeightsLogger(path)(nlp)
    assert path.read_text(encoding="utf8") == "kept"


@pytest.mark.issue(16)
def test_pipeline_without_a_mix_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mix"):
        LayerWeightsLogger(tmp_path / "log.jsonl")(spacy.blank("en"))
    assert not (tmp_path / "log.jsonl").exists()
