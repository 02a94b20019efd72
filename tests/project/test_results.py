"""Tables drawn from results: means, standard deviations, numbers of seeds, and the page around them."""

import shutil
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
import srsly

from spacy_elmo.weights.identity import digest_bilm

PNG = b"\x89PNG"


def _result(
    condition: str, seed: int, score: float, *, task: str = "wnut17", share: int = 100, **others: Any
) -> Dict[str, Any]:
    settings = {"task": task, "condition": condition, "seed": seed, "share": share, **others}
    curve = [[0, 0.0], [200, score / 2], [400, score]]
    best = {"best_dev_score": score, "best_step": 400}
    cost = {"train_words": 10 * share, "cpu_seconds": 60.0, "last_step": 400, "processor": "P"}
    return {"settings": settings, "test": {"ents_f": score}, "curve": curve, **cost, **best}


GAINS = [
    *(_result("baseline", seed, score) for seed, score in enumerate((0.10, 0.12, 0.17))),
    *(_result("elmo", seed, score) for seed, score in enumerate((0.20, 0.26))),
]


@pytest.fixture
def script(import_script: Callable[[str], Any]) -> Any:
    return import_script("results")


def _write(folder: Path, results: List[Dict[str, Any]]) -> None:
    for number, result in enumerate(results):
        srsly.write_json(folder / f"{number}-seed0.json", result)


def test_gains_are_means_with_deviations_and_seeds(script: Any) -> None:
    table = script.make_gains(GAINS)
    row = "| WNUT-17, NER F | 13.00 ± 3.61 (n = 3) | 23.00 ± 4.24 (n = 2) | +12.00 ± 2.83 (n = 2) | 400 / 400 |"
    assert table.splitlines()[2:] == [row]


def test_one_seed_has_no_deviation(script: Any) -> None:
    assert "| 10.00 (n = 1) | - | - | 400 / - |" in script.make_gains(GAINS[:1])


def test_ablations_have_a_row_per_variant(script: Any) -> None:
    assert script.make_mixes(GAINS) is None and script.make_placements(GAINS) is None
    mixes = script.make_mixes([*GAINS, _result("mix-top", 0, 0.15)])
    assert "| top layer | 15.00 (n = 1) |" in mixes and "| learned, no L2 | 23.00" in mixes
    mixed = [{**result, "mixes": [{"shares": [share, 1 - share]}]} for result, share in zip(GAINS[3:], (0.2, 0.4))]
    mixes = script.make_mixes([GAINS[0], *mixed, _result("mix-top", 0, 0.15)])
    assert "| learned, no L2 | 23.00 ± 4.24 (n = 2) | 0.30 / 0.70 |" in mixes and "| 15.00 (n = 1) |  |" in mixes
    assert "| output of the BiLSTM | 30.00 (n = 1) |" in script.make_placements([_result("bilstm-output", 0, 0.3)])


@pytest.mark.issue(16)
def test_layer_weights_are_means_over_seeds_in_the_order_of_the_gains(script: Any) -> None:
    assert script.make_layer_weights(GAINS) is None  # no mixes stored
    mixes = [
        {"component": "parser", "place": place, "shares": [share, 0.1, 0.9 - share], "gamma": gamma}
        for place, share, gamma in (("input", 0.2, 1.0), ("output", 0.4, 2.0))
    ]
    parsers = [{**_result("elmo", seed, 0.5, task="ewt-parser"), "mixes": mixes} for seed in (0, 1)]
    parsers[1] = {**parsers[1], "mixes": [{**mixes[0], "shares": [0.4, 0.1, 0.5], "gamma": 1.5}, mixes[1]]}
    ner = {**GAINS[3], "mixes": [{"component": "ner", "place": None, "shares": [0.5, 0.25, 0.25], "gamma": 1.0}]}
    assert script.make_layer_weights([*parsers, ner]).splitlines()[2:] == [
        "| WNUT-17, NER | 50.0 | 25.0 | 25.0 | 1.00 | 1 |",
        "| UD EWT, parser (input) | 30.0 | 10.0 | 60.0 | 1.25 | 2 |",
        "| UD EWT, parser (output) | 40.0 | 10.0 | 50.0 | 2.00 | 2 |",
    ]


def test_fine_tuning_has_gain_and_cost(script: Any) -> None:
    assert script.make_finetuned(GAINS) is None
    tuned = _result("elmo-finetuned", 1, 0.3, task="wikigold")
    tags = [_result(name, 1, 0.1, task="ewt-tags") for name in ("elmo", "elmo-finetuned")]
    tags = [{**result, "test": {"pos_acc": 0.1}} for result in tags]
    rows = script.make_finetuned([_result("elmo", 1, 0.2, task="wikigold"), tuned, *tags]).splitlines()[2:]
    assert rows == [
        "| Wikigold, NER F | frozen biLM | 20.00 (n = 1) |  | 1.0 | 150 | P |",
        "| Wikigold, NER F | fine-tuned biLM | 30.00 (n = 1) | +10.00 (n = 1) | 1.0 | 150 | P |",
        "| UD EWT, UPOS | frozen biLM | 10.00 (n = 1) |  | 1.0 | 150 | P |",
        "| UD EWT, UPOS | fine-tuned biLM | 10.00 (n = 1) | +0.00 (n = 1) | 1.0 | 150 | P |",
    ]


@pytest.mark.issue(16)
def test_cpu_times_are_those_of_one_processor(script: Any) -> None:
    tuned = [_result("elmo-finetuned", seed, 0.3) for seed in (0, 1, 2)]
    tuned[0].update(processor="Q", cpu_seconds=900.0)
    tuned[2].update(cpu_seconds=120.0)
    header, _, row = script.make_finetuned(tuned).splitlines()
    assert header.endswith("| CPU minutes | CPU seconds per 1,000 updates | processor |")
    assert row == "| WNUT-17, NER F | fine-tuned biLM | 30.00 ± 0.00 (n = 3) | - | 1.5 | 225 | P (2 of 3) |"
    for result in tuned[1:]:
        del result["processor"]  # as results of the first version
    assert "| 1.5 | 225 | not recorded (2 of 3) |" in script.make_finetuned(tuned)


def test_only_results_of_the_packaged_weights_are_drawn(script: Any, tmp_path: Path) -> None:
    now = digest_bilm("en_elmo_sm")
    older = _result("elmo", 2, 0.9, bilm="en_elmo_sm", bilm_digest="0123456789ab")
    unknown = _result("elmo", 3, 0.9, bilm="en_elmo_sm")
    parser = _result("elmo", 0, 0.5, task="ewt-parser", bilm="en_elmo_sm", bilm_digest="0123456789ab")
    same = [_result("elmo", seed, 0.26, bilm="en_elmo_sm", bilm_digest=now) for seed in (0, 1)]
    script.draw([*GAINS[:3], *same, older, unknown, parser], tmp_path / "results.md", tmp_path)
    text = (tmp_path / "results.md").read_text(encoding="utf8")
    assert "| 13.00 ± 3.61 (n = 3) | 26.00 ± 0.00 (n = 2) |" in text
    assert f"`en_elmo_sm` {now}" in text
    assert "Results of other weights, not shown: 3." in text
    assert "90.00" not in text and "UD EWT" not in text and "earlier weights" not in text


@pytest.mark.issue(16)
def test_no_table_mixes_weights(script: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    now = {"bilm": "en_elmo_sm", "bilm_digest": digest_bilm("en_elmo_sm")}
    older = {"bilm": "en_elmo_sm", "bilm_digest": "0123456789ab"}
    results = [
        *GAINS[:3],
        _result("baseline", 0, 0.05, share=10),
        *(_result(name, 0, 0.9, **older) for name in ("elmo", "mix-mean", "mix-top", "elmo-finetuned")),
        *(_result("elmo", 0, 0.9, share=share, **older) for share in (1, 3, 10)),
        *(_result(name, 0, 0.3, **now) for name in ("elmo", "mix-mean")),
    ]
    names = script.draw(results, tmp_path / "results.md", tmp_path)
    text = (tmp_path / "results.md").read_text(encoding="utf8")
    assert names == ["weights", "gains", "mixes", "shares"] and "90.00" not in text
    assert "| mean of the layers | 30.00 (n = 1) |" in text and "top layer" not in text
    assert "| WNUT-17, NER F | 10 % | 100 | 5.00 (n = 1) | - |" in text and "3 %" not in text
    assert not list(tmp_path.glob("images/*"))  # with ELMo one share is left, and a line needs two


@pytest.mark.issue(16)
def test_alternatives_are_of_the_newest_source(script: Any, tmp_path: Path) -> None:
    source = {"kind": "tok2vec", "text": "a.txt", "share": 100, "words": 9000, "elapsed_s": 90.0, "cpu_s": 30.0}
    made = [_result("tok2vec", seed, 0.9, source={**source, "digest": "old"}) for seed in (0, 1, 2)]
    made.append(_result("tok2vec", 0, 0.2, source={**source, "words": 7000, "digest": "new"}))
    made = [{**result, "finished_at": f"2026-11-2{day}"} for day, result in enumerate(made)]
    script.draw([*GAINS[:3], *made], tmp_path / "results.md", tmp_path)
    text = (tmp_path / "results.md").read_text(encoding="utf8")
    assert "`tok2vec for wnut17` new. Results of other weights, not shown: 3." in text
    assert "| a.txt | 7,000 | 1.5 min (0.5) | 20.00 (n = 1) |" in text and "90.00" not in text


def test_other_bilms_are_drawn_by_their_newest_result(import_script: Callable[[str], Any]) -> None:
    script = import_script("weights_in_use")
    old, new = (_result("elmo", i, 0.5, bilm="tiny", bilm_digest=str(i)) for i in (0, 1))
    old["finished_at"], new["finished_at"] = "2026-11-22T08:00:00+00:00", "2026-11-23T08:00:00+00:00"
    assert script.split_by_weights([new, old, GAINS[0]]) == ([new, GAINS[0]], [old])


def test_layers_of_other_weights_say_so(script: Any, tmp_path: Path) -> None:
    found = srsly.read_json(script.PROJECT_DIR / "results" / "layers-pos.json")
    srsly.write_json(tmp_path / "layers-pos.json", {**found, "bilm_digest": "0123456789ab"})
    assert script.draw([], tmp_path / "results.md", tmp_path) == ["weights", "pos"]
    text = (tmp_path / "results.md").read_text(encoding="utf8")
    assert "other weights" not in text
    assert "Measured with earlier weights of `en_elmo_sm` (0123456789ab)." in text


def test_results_with_a_falling_rate_have_a_table_of_their_own(script: Any, tmp_path: Path) -> None:
    falling = _result("elmo", 0, 0.5, schedule="linear")
    script.draw([*GAINS, falling], tmp_path / "results.md", tmp_path)
    text = (tmp_path / "results.md").read_text(encoding="utf8")
    gains, linear = text.split("## Gains with a falling learning rate")
    assert "50.00" not in gains and "| WNUT-17, NER F | - | 50.00 (n = 1) |" in linear


@pytest.mark.issue(16)
def test_both_schedules_are_drawn_with_the_same_weights(script: Any, tmp_path: Path) -> None:
    older = {**_result("elmo", 0, 0.9, bilm="tiny", bilm_digest="a"), "finished_at": "2026-11-22"}
    newer = {**_result("elmo", 0, 0.5, bilm="tiny", bilm_digest="b", schedule="linear"), "finished_at": "2026-11-23"}
    assert script.draw([older, newer], tmp_path / "results.md", tmp_path) == ["weights", "linear"]


def test_sections_change_and_other_text_stays(script: Any, tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    page.write_text("# Results\n\nBefore.\n\n<!-- results: gains -->\nold\n<!-- end of gains -->\n\nAfter.\n")
    _write(tmp_path, GAINS)
    assert script.draw(script.read_results(tmp_path), page, tmp_path) == ["gains"]
    text = page.read_text(encoding="utf8")
    assert "Before." in text and "After." in text and "old" not in text and "13.00 ± 3.61" in text
    assert "## Placement" not in text and "## Sample efficiency" not in text
    script.draw(script.read_results(tmp_path), page, tmp_path)
    assert page.read_text(encoding="utf8") == text


def test_scores_of_layers_are_drawn_without_trainings(script: Any, tmp_path: Path) -> None:
    """From the files of this repository, as if the packaged weights had made them."""
    folder, page = tmp_path / "results", tmp_path / "results.md"
    folder.mkdir()
    for path in (script.PROJECT_DIR / "results").glob("layers-*.json"):
        srsly.write_json(folder / path.name, {**srsly.read_json(path), "bilm": "tiny"})
    assert script.draw([], page, folder) == ["weights", "senses", "pos"]
    text = page.read_text(encoding="utf8")
    assert "## Word senses by layer" in text and "| LSTM layer 2 |" in text
    shutil.copy(folder / "layers-pos.json", tmp_path)
    assert script.read_results(tmp_path) == []


def test_shares_are_drawn(script: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    shares = [_result(name, 0, score, share=10) for name, score in (("baseline", 0.05), ("elmo", 0.15))]
    script.draw([*GAINS, *shares], tmp_path / "results.md", tmp_path)
    text = (tmp_path / "results.md").read_text(encoding="utf8")
    assert "| WNUT-17, NER F | 10 % | 100 | 5.00 (n = 1) | 15.00 (n = 1) |" in text
    assert "![WNUT-17, NER F: higher with ELMo at every measured share](images/shares_wnut17.png)" in text
    assert (tmp_path / "images" / "shares_wnut17.png").read_bytes().startswith(PNG)


def test_missing_and_broken_results_are_named(script: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="P024"):
        script.read_results(tmp_path)
    (tmp_path / "a-seed0.json").write_text('{"settings": {}}')
    with pytest.raises(ValueError, match="P023.*a-seed0"):
        script.read_results(tmp_path)
