"""The table shows what the score files say."""

import srsly

SCRIPT = "compare"
SCORES = {"elmo-0": 0.5, "elmo-1": 0.6, "baseline-0": 0.3, "baseline-1": 0.4}


def _write(folder, scores):
    for stem, score in scores.items():
        (folder / stem).mkdir()
        srsly.write_json(folder / stem / "timing.json", {"elapsed_s": score * 100})
        srsly.write_json(folder / stem / "metrics.json", {"ents_f": score, "tag_acc": None, "speed": 1.0})


def test_table_has_seeds_means_deviations_and_difference(script, invoke, tmp_path):
    result = invoke(script.compare_cli, "sample", tmp_path, code=1)
    assert "project run all" in result.output
    _write(tmp_path, SCORES)
    rows = script.make_rows(script.read_runs(tmp_path), ["NER F", "Seconds"])
    assert {label: list(row.values()) for label, row in rows.items()} == {
        "with ELMo, seed 0": ["50.00", "50.00"],
        "with ELMo, seed 1": ["60.00", "60.00"],
        "without ELMo, seed 0": ["30.00", "30.00"],
        "without ELMo, seed 1": ["40.00", "40.00"],
        "with ELMo, mean ± std. dev.": ["55.00 ± 7.07"] * 2,
        "without ELMo, mean ± std. dev.": ["35.00 ± 7.07"] * 2,
        "difference": ["20.00 ± 0.00"] * 2,
    }
    result = invoke(script.compare_cli, "sample", tmp_path)
    assert "55.00" in result.output and "Tag acc" not in result.output
