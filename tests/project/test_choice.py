"""What to choose: what is measured, what the table has, and what it lacks."""

import pytest
import spacy
import srsly

SCRIPT = "choice"


def _keep(folder, condition, finished_at="today"):
    path = folder / f"wnut17-{condition}-100pct-seed0"
    spacy.blank("en").to_disk(path)
    srsly.write_json(path / "result.json", {"finished_at": finished_at, "last_step": 3})


@pytest.fixture
def wnut17(tmp_path):
    """Assets with the three parts, a sentence each."""
    folder = tmp_path / "assets" / "wnut17"
    folder.mkdir(parents=True)
    for name in ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"):
        (folder / name).write_text("Turin\tB-location\nis\tO\nfar\tO\n\n", encoding="utf8")
    return folder.parent


@pytest.mark.issue(51)
def test_kept_pipelines_are_measured_once(script, invoke, wnut17, tmp_path):
    arguments = ("--pipelines", tmp_path, "--results", tmp_path, "--repeats", 1, "--assets-dir", wnut17)
    assert "choice-wnut17 --seed 0 --keep" in " ".join(invoke(script.measure_cli, *arguments, code=1).output.split())
    for condition in ("baseline", "minilm-frozen"):
        _keep(tmp_path, condition)
    invoke(script.measure_cli, *arguments)
    rows = {row["condition"]: row for row in srsly.read_jsonl(tmp_path / "choice.jsonl")}
    assert set(rows) == {"baseline", "minilm-frozen"} and str(tmp_path) not in str(rows)
    assert all(row["words_per_s"] > 0 and row["memory_mb"] > 50 and row["size_mb"] > 0 for row in rows.values())
    _keep(tmp_path, "baseline", finished_at="tomorrow")
    output = invoke(script.measure_cli, *arguments).output
    assert "minilm-frozen-100pct-seed0 is measured" in output and "baseline-100pct-seed0 is measured" not in output


def _result(task, condition, dev, test, *, seed=0, key="ents_f"):
    settings = {"task": task, "condition": condition, "seed": seed, "share": 100}
    return {"settings": settings, "best_dev_score": dev, "test": {key: test}, "cpu_seconds": 90.0, "processor": "P"}


@pytest.mark.issue(51)
def test_table_has_the_settings_that_are_best_on_the_development_data(import_script):
    tables = import_script("tables")
    results = [
        *(_result("wnut17", "minilm-finetuned-0.0001", 0.5, 0.4, seed=seed) for seed in range(3)),
        _result("wnut17", "minilm-spacy", 0.4, 0.9),
        _result("wnut17-crf", "elmo", 0.3, 0.2),
        _result("wnut17", "elmo", 0.2, 0.3),
        _result("hwu64", "elmo-gamma-0.2", 0.8, 0.7, key="cats_micro_f"),
    ]
    costs = {"words_per_s": 1234.5, "memory_mb": 600.0, "size_mb": 30.0, "processor": "P"}
    measured = [{"task": "wnut17-crf", "condition": "elmo", **costs}]
    lines = tables.make_choice(results, measured).splitlines()
    assert "| `en_elmo_sm`, frozen | 20.00 (n = 1) | - | - | 70.00 (n = 1) | 1,234 | 600 | 1.5 | 30 |" in lines
    assert "| MiniLM, fine-tuned | 40.00 ± 0.00 | - | - | - | - | - | 1.5 | - |" in lines
    assert "| tok2vec | - | - | - | - | - | - | - | - |" in lines
    missing = tables.list_missing(results, measured)
    assert "`en_elmo_sm`, frozen: WNUT-17, F, 1 of 3 seeds" in missing
    assert not [text for text in missing if text.startswith("MiniLM, fine-tuned: WNUT-17")]
    assert "MiniLM, fine-tuned: speed, memory and size" in missing


@pytest.mark.issue(51)
def test_every_condition_of_the_choice_is_in_the_table(import_script):
    tables, experiments = import_script("tables"), import_script("paper_experiments")
    runs = {(run.task, run.condition) for run in experiments.find_experiment("choice")}
    conditions = {name for names in tables.SYSTEMS.values() for name in names}
    assert {task for task, _ in runs} == {task for tasks, _ in tables.COLUMNS.values() for task in tasks}
    assert {condition for _, condition in runs} == conditions


@pytest.mark.issue(51)
def test_one_condition_can_be_trained(import_script, invoke, tmp_path):
    output = invoke(import_script("paper").paper_cli, "choice", "--condition", "glove", "--results", tmp_path, code=1)
    assert "no run of the condition glove" in " ".join(output.output.split()) and "minilm-frozen" in output.output
