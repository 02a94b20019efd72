"""Tables and pictures drawn from results: means, standard deviations, numbers of seeds, and the page around them."""

import re
import shutil
from pathlib import Path
from typing import Any, Callable, Dict

import pytest
import srsly

from spacy_elmo.weights.formats import locate
from spacy_elmo.weights.identity import digest_bilm

ROOT = Path(__file__).parents[2]
PNG = b"\x89PNG"
# Pictures of docs that are drawn from many results, where there are any.
EXPERIMENTS = re.compile(r"((shares|choice)_[\w-]+|layer_weights)\.png")
SOURCE = {"kind": "tok2vec", "text": "a.txt", "share": 100, "words": 9000, "elapsed_s": 90.0, "cpu_s": 30.0}


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


def test_gains_are_means_with_deviations_and_seeds(script: Any) -> None:
    table = script.make_gains(GAINS)
    row = "| WNUT-17, NER F | 13.00 ± 3.61 | 23.00 ± 4.24 (n = 2) | +12.00 ± 2.83 (n = 2) | 400 / 400 |"
    assert table.splitlines()[2:] == [row]
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
    assert row == "| WNUT-17, NER F | fine-tuned biLM | 30.00 ± 0.00 | - | 1.5 | 225 | P (2 of 3) |"
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
    assert "| 13.00 ± 3.61 | 26.00 ± 0.00 (n = 2) |" in text
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
def test_alternatives_and_other_bilms_are_those_of_the_newest_result(script: Any, tmp_path: Path) -> None:
    made = [_result("tok2vec", seed, 0.9, source={**SOURCE, "digest": "old"}) for seed in (0, 1, 2)]
    made.append(_result("tok2vec", 0, 0.2, source={**SOURCE, "words": 7000, "share": 5, "digest": "new"}))
    made += [_result("elmo", i, 0.5 + 0.4 * i, bilm="tiny", bilm_digest=str(i)) for i in (1, 0)]
    made = [{**result, "finished_at": f"2026-11-2{day}"} for day, result in enumerate(made)]
    script.draw([*GAINS[:3], *made], tmp_path / "results.md", tmp_path)
    text = (tmp_path / "results.md").read_text(encoding="utf8")
    assert "`tiny` 0; `tok2vec for wnut17` new. Results of other weights, not shown: 4." in text
    assert (
        "| WNUT-17, NER F | without ELMo, tok2vec from `spacy pretrain` | a.txt, 5 % | 7,000 | 1.5 min (0.5) |" in text
    )
    assert "90.00" not in text and "50.00 (n = 1)" in text


def test_table_says_what_the_bilm_was_made_from(script: Any) -> None:
    packaged = {"bilm": "en_elmo_sm", "bilm_digest": digest_bilm("en_elmo_sm")}
    made = [_result("tok2vec", 0, 0.2, source=SOURCE), _result("elmo", 0, 0.2, **packaged)]
    made.append(_result("elmo-finetuned", 0, 0.2, bilm="tiny"))
    table = script.make_alternatives(made)
    meta = srsly.read_json(locate("en_elmo_sm") / "meta.json")
    wanted = f"| with ELMo | {meta['corpus']['name']} | {meta['training']['n_tokens']:,} | "
    assert wanted in table and " h | 20.00" in table
    assert "| with ELMo, fine-tuned |  |  |  | 20.00" in table  # another biLM
    made[1]["settings"]["bilm_digest"] = "0123456789ab"
    assert "| with ELMo |  |  |  | 20.00" in script.make_alternatives(made)  # earlier weights


def test_layers_of_other_weights_say_so(script: Any, tmp_path: Path) -> None:
    found = srsly.read_json(script.PROJECT_DIR / "results" / "layers-pos.json")
    srsly.write_json(tmp_path / "layers-pos.json", {**found, "bilm_digest": "0123456789ab"})
    assert script.draw([], tmp_path / "results.md", tmp_path) == ["weights", "pos"]
    text = (tmp_path / "results.md").read_text(encoding="utf8")
    assert "other weights" not in text
    assert "Measured with earlier weights of `en_elmo_sm` (0123456789ab)." in text


def test_sections_change_and_other_text_stays(script: Any, tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    page.write_text("# Results\n\nBefore.\n\n<!-- results: gains -->\nold\n<!-- end of gains -->\n\nAfter.\n")
    falling = _result("elmo", 0, 0.9, schedule="linear")  # of an earlier version
    for number, result in enumerate([*GAINS, falling]):
        srsly.write_json(tmp_path / f"{number}-seed0.json", result)
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
    with pytest.raises(FileNotFoundError, match="no results"):
        script.read_results(tmp_path)
    (tmp_path / "a-seed0.json").write_text('{"settings": {}}')
    with pytest.raises(ValueError, match="a-seed0"):
        script.read_results(tmp_path)


# Sections from other files


@pytest.fixture
def sections(import_script: Callable[[str], Any]) -> Any:
    return import_script("sections")


def test_tables_of_layers_say_what_the_files_say(sections: Any, tmp_path: Path) -> None:
    assert sections.senses_section(tmp_path) is sections.pos_section(tmp_path) is None
    score = {"value": 70.04, "low": 69.0, "high": 71.0}
    rows = [
        {"layer": "first sense", **score, "ambiguous": None, "gain": None},
        {"layer": 0, **score, "value": 50.0, "ambiguous": score, "gain": {"value": -20.0, "low": -21.0, "high": -19.0}},
        {"layer": 1, "value": 75.0, "low": 74.0, "high": 76.0, "ambiguous": score, "gain": score},
        {"layer": "mean", "value": 80.0, "low": 74.0, "high": 86.0, "ambiguous": score, "gain": score},
    ]
    found = {"bilm": "tiny", "n_train": 1000, "n_test": 10, "n_answered": 9, "rows": rows}
    srsly.write_json(tmp_path / sections.SENSES, found)
    section = sections.senses_section(tmp_path)
    assert "| most frequent training sense | 70.0 (69.0 to 71.0) |  |  |" in section and "1,000 training" in section
    assert "| token layer | 50.0 (69.0 to 71.0) | 70.0 (69.0 to 71.0) | -20.0 (-21.0 to -19.0) |" in section
    for low, high, verdict in ((1.0, 2.0, "better than"), (-2.0, -1.0, "worse than"), (-1.0, 1.0, "not significantly")):
        rows[2]["gain"] = {"value": (low + high) / 2, "low": low, "high": high}
        srsly.write_json(tmp_path / sections.SENSES, found)
        assert f"The best layer, LSTM layer 1, is {verdict}" in sections.senses_section(tmp_path)
    for row in rows:
        row["control"] = None if row["layer"] == "first sense" else 40.0
    srsly.write_json(tmp_path / sections.POS, found)
    assert "| LSTM layer 1 | 75.0 (74.0 to 76.0) | 40.0 | 35.0 |" in sections.pos_section(tmp_path)


def _errors(task: str, kind: str, digest: str, **counts: Any) -> Dict[str, Any]:
    return {"task": task, "seed": 2, "kind": kind, "bilm": "en_elmo_sm", "bilm_digest": digest, **counts}


def test_errors_have_a_table_of_each_kind(sections: Any, tmp_path: Path) -> None:
    digest = digest_bilm("en_elmo_sm")
    rows = [{"kind": "in the training data", "n": 1000, "without": 500, "with": 600}]
    rows += [{"kind": "new", "n": 0, "without": 0, "with": 0}]
    confusions = [{"right": "NOUN", "found": "PROPN", "n": 3, "words": ["Tea", "Oslo"]}]
    errors = [{"kind": "missed", "without": 1200, "with": 1100}, {"kind": "spurious", "without": 0, "with": 20}]
    limits = [{"from": 0, "to": 500}, {"from": 500, "to": 1500}, {"from": 1500, "to": None}]
    sizes = [{**limit, "n": 9, "without": 0.25, "with": 0.5} for limit in limits]
    categories = [
        {"category": name, "without": {"f": 0.5}, "with": {"f": f}} for name, f in (("joy", 0.7), ("love", 0.1))
    ]
    records = [
        _errors("ewt-tags", "words", digest, rows=rows, confusions=confusions),
        _errors("wnut17", "entities", digest, rows=rows, errors=errors),
        _errors("goemotions", "categories", digest, rows=sizes, categories=categories),
    ]
    for record in records:
        srsly.write_json(tmp_path / f"errors-{record['task']}.json", record)
    section = sections.errors_section(tmp_path)
    assert "### WNUT-17, entities, seed 2\n" in section and "| missed | 1,200 | 1,100 |" in section
    assert "| words in the training data | 1,000 | 50.0 | 60.0 |" in section
    assert "| words new | 0 | - | - |" in section and "\n| new |" not in section, "no such entities"
    assert "Predicted entities: 500 without ELMo, 500 of them right; 620 with ELMo, 600 of them right." in section
    assert "| NOUN | PROPN | 3 | *Tea*, *Oslo* |" in section
    for told in ("fewer than 500", "500 to 1,499", "1,500 or more"):
        assert f"| {told} | 9 | 25.0 | 50.0 |" in section
    assert "helps most: joy 50.0, 70.0; love 50.0, 10.0; where it helps least: love 50.0, 10.0; joy" in section


def _speeds(rows: Dict[str, Any], digest: str = "") -> Dict[str, Any]:
    settings = {"bilm": "en_elmo_sm", "bilm_digest": digest}
    made = [
        {"label": label, "score": score, "words_per_s": speed, "lowest": speed, "highest": speed, "settings": settings}
        for label, (score, speed) in rows.items()
    ]
    return {"task": "wnut17", "seed": 0, "n_texts": 9, "repeats": 3, "processor": "P", "rows": made}


def test_speeds_have_a_table_and_a_picture(sections: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = {"tok2vec": (0.15, 9000.0), "frozen ELMo": (0.25, 3000.0), "roberta": (None, 500.0)}
    srsly.write_json(tmp_path / "choice-wnut17.json", _speeds(rows, digest_bilm("en_elmo_sm")))
    section = sections.choice_section(tmp_path, tmp_path / "images")
    assert "| frozen ELMo | 25.00 | 3,000 (3,000 to 3,000) |" in section and "| roberta | - | 500" in section
    finding = "WNUT-17, NER F: frozen ELMo scores highest; tok2vec is 3.0 times as fast"
    assert f"![{finding}](images/choice_wnut17.png)" in section
    assert (tmp_path / "images" / "choice_wnut17.png").read_bytes().startswith(b"\x89PNG")
    best = _speeds({"tok2vec": (0.3, 9000.0), "frozen ELMo": (0.25, 3000.0)})
    assert sections.make_title(best) == "WNUT-17, NER F: tok2vec is best and fastest"


def test_errors_and_speeds_of_other_weights_say_so(sections: Any, tmp_path: Path) -> None:
    old = "0123456789ab"
    srsly.write_json(tmp_path / "errors-wnut17.json", _errors("wnut17", "entities", old, rows=[], errors=[]))
    srsly.write_json(tmp_path / "choice-wnut17.json", _speeds({"frozen ELMo": (0.25, 3000.0)}, old))
    for section in (sections.errors_section(tmp_path), sections.choice_section(tmp_path, tmp_path)):
        assert section.endswith(f"earlier weights of `en_elmo_sm` ({old}).")
    identities = sections.read_identities(tmp_path)
    assert {name: found["bilm_digest"] for name, found in identities.items()} == {
        "errors-wnut17.json": old,
        "choice-wnut17.json": old,
    }


# Pictures


@pytest.mark.issue(18)
def test_pictures_of_the_docs_are_those_of_their_sources_and_shown(script: Any) -> None:
    image = pytest.importorskip("PIL.Image", reason="comes with matplotlib")
    notes = {}  # what each PNG of the docs notes of itself; screenshots note no Matplotlib
    for path in sorted((ROOT / "docs" / "images").glob("*.png")):
        with image.open(path) as picture:
            notes[path.name] = dict(picture.text)
    plots = {name for name, note in notes.items() if "Matplotlib" in note.get("Software", "")}
    by_commands = {"senses-train.png"}  # a command of docs/looking.md draws it
    assert {name for name in plots if not EXPERIMENTS.fullmatch(name)} - by_commands == set(script.PICTURES)
    pages = [page.read_text(encoding="utf8") for page in (ROOT / "docs").glob("*.md")]
    shown = {Path(target).name for page in pages for target in re.findall(r"!\[[^\]]*\]\(images/([^)]+)\)", page)}
    assert set(script.PICTURES) <= shown
    results, _ = script.split_by_weights(script.read_results(script.RESULTS))
    wanted = {name: script.describe_source(script.RESULTS / source) for name, (source, _) in script.PICTURES.items()}
    wanted["layer_weights.png"] = script.describe_mixes(results)
    for name, source in wanted.items():
        assert notes[name]["Source"] == source, f"python project/scripts/results.py pictures draws {name} again"


@pytest.mark.issue(18)
def test_all_pictures_are_drawn(script: Any, invoke: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = invoke(script.app, "pictures", "--images", tmp_path)
    assert result.exit_code == 0, result.output
    assert {*script.PICTURES, "layer_weights.png"} <= {path.name for path in tmp_path.iterdir()}
