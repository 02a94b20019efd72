"""The logger writes the weights that the mixes have at each evaluation."""

import io
from pathlib import Path
from typing import Any

import pytest
import srsly

from spacy_elmo.analysis.layer_weight_plots import name_mixes
from spacy_elmo.pipeline.layer_weights import LayerWeightsLogger, find_task_mixes

from .tiny import LISTENER, make_examples, make_tagger, task_encoder

TWO_MIXES = {"one": LISTENER, "two": {**LISTENER, "initial_weights": [0.0, 1.0, 2.0]}}
MIX_NAMES = [("tagger", 1), ("ner", 1), ("ner", 2)]


@pytest.fixture
def two_mixes() -> Any:
    """Two components that listen, the second with two mixes."""
    nlp = make_tagger()
    nlp.add_pipe("ner", config={"model": {"tok2vec": {"@layers": "concatenate.v1", "*": TWO_MIXES}}})
    nlp.initialize(lambda: make_examples(nlp))
    return nlp


def _log_a_training(nlp: Any, logger: Any) -> str:
    """Three evaluations with an update before each but the first. RETURNS (str): What was printed."""
    stdout, optimizer = io.StringIO(), nlp.create_optimizer()
    log_step, finalize = logger(nlp, stdout, io.StringIO())
    for step in range(3):
        log_step({"step": step, "epoch": 0, "score": 0.5, "losses": {}, "other_scores": {}})  # as spaCy does
        log_step(None)
        nlp.update(make_examples(nlp), sgd=optimizer)
    finalize()
    return stdout.getvalue()


def test_logger_writes_each_mix_at_each_evaluation(two_mixes: Any, tmp_path: Path) -> None:
    path = tmp_path / "weights" / "log.jsonl"
    before = find_task_mixes(two_mixes)
    assert _log_a_training(two_mixes, LayerWeightsLogger(path)) == ""
    rows = list(srsly.read_jsonl(path))
    assert [(row["step"], row["component"], row["number"]) for row in rows] == [
        (step, *mix) for step in range(3) for mix in MIX_NAMES
    ]
    assert rows[-3]["weights"] == pytest.approx(find_task_mixes(two_mixes)[0].weights, abs=0.01)
    for row, mix in zip(rows, before):
        assert row["shares"] == pytest.approx(mix.shares, abs=1e-6)
        assert row["gamma"] == mix.gamma
    assert rows[2]["shares"] == pytest.approx([0.0900, 0.2447, 0.6652], abs=1e-4)
    assert rows[0]["weights"] != rows[-3]["weights"]


def test_mixes_of_a_task_encoder_have_their_place() -> None:
    nlp = make_tagger(task_encoder("both"))
    nlp.add_pipe("tagger", name="second", config={"model": {"tok2vec": task_encoder("output")}})
    nlp.initialize(lambda: make_examples(nlp))
    mixes = find_task_mixes(nlp)
    assert [(mix.component, mix.place) for mix in mixes] == [
        ("tagger", "input"),
        ("tagger", "output"),
        ("second", "output"),
    ]
    assert name_mixes(mixes) == ["tagger (input)", "tagger (output)", "second (output)"]
    assert "Layer weights of tagger (output): " in _log_a_training(nlp, LayerWeightsLogger())


def test_existing_log_is_kept(two_mixes: Any, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("kept", encoding="utf8")
    with pytest.raises(ValueError, match="exists"):
        LayerWeightsLogger(path)(two_mixes)
    assert path.read_text(encoding="utf8") == "kept"
