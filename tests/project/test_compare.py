"""The table shows what the score files say."""

import pytest
import srsly

SCRIPT = "compare"
SCORES = {"elmo-0": 0.5, "elmo-1": 0.6, "baseline-0": 0.3, "baseline-1": 0.4}


def _write(folder, scores):
    for stem, score in scores.items():
        (folder / stem).mkdir()
        srsly.write_json(folder / stem / "timing.json", {"elapsed_s": score * 100})
        srsly.write_json(folder / stem / "metrics.json", {"ents_f": score, "tag_acc": None, "speed": 1.0})


def test_compare_shows_seeds_means_spread_and_difference(script, tmp_path):
    _write(tmp_path, SCORES)
    rows = script.with_means(script.read_results(tmp_path))
    assert list(rows) == [
        "with ELMo, seed 0",
        "with ELMo, seed 1",
        "without ELMo, seed 0",
        "without ELMo, seed 1",
        "with ELMo, mean of 2",
        "with ELMo, std. dev.",
        "without ELMo, mean of 2",
        "without ELMo, std. dev.",
        "difference",
    ]
    assert rows["with ELMo, seed 1"] == pytest.approx({"NER F": 60.0, "Seconds": 60.0})
    assert rows["without ELMo, mean of 2"] == pytest.approx({"NER F": 35.0, "Seconds": 35.0})
    assert rows["with ELMo, std. dev."] == pytest.approx({"NER F": 50**0.5, "Seconds": 50**0.5})
    assert rows["difference"] == pytest.approx({"NER F": 20.0, "Seconds": 20.0})


def test_command_prints_one_table_or_fails(script, invoke, tmp_path):
    result = invoke(script.compare_cli, "sample", tmp_path, code=1)
    assert "project run all" in result.output
    _write(tmp_path, SCORES)
    result = invoke(script.compare_cli, "sample", tmp_path)
    assert "55.00" in result.output and "Tag acc" not in result.output
