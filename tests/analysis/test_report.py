"""What is read from the folder of a training, what is refused, and means over seeds."""

import re
import shutil

import pytest
import spacy
import srsly
from report_outputs import write_logs

from spacy_elmo.analysis.report import SeedScores, compare_scores, read_output


@pytest.fixture
def folder(tmp_path):
    """A training with a pipeline, no scores and no logs."""
    (tmp_path / "out-0").mkdir()
    spacy.blank("en").to_disk(tmp_path / "out-0" / "model-best")
    return tmp_path / "out-0"


def test_best_pipeline_is_taken_then_last_then_the_folder(folder):
    spacy.blank("en").to_disk(folder / "model-last")
    assert read_output(folder).pipeline.name == "model-best"
    assert read_output(folder / "model-last").pipeline == folder / "model-last"
    (folder / "model-best" / "meta.json").unlink()
    assert read_output(folder).pipeline.name == "model-last"


def test_seeds_are_the_folders_beside_and_logs_are_known_by_their_rows(folder):
    for number, score in ((0, 0.5), (3, 0.7), (12, 0.9)):
        (folder.parent / f"out-{number}").mkdir(exist_ok=True)
        metrics = {"tag_acc": score, "token_acc": 1.0, "speed": 9000.0, "ents_per_type": {}, "ents_f": None}
        srsly.write_json(folder.parent / f"out-{number}" / "metrics.json", metrics)
    for name in ("out-x", "other-1", "out-5"):
        (folder.parent / name).mkdir()
    (folder.parent / "out-7").write_text("a file", encoding="utf8")
    srsly.write_json(folder / "timing.json", {"elapsed_s": 2.5})
    output = read_output(folder)
    assert [seed.name for seed in output.seeds] == ["out-0", "out-3", "out-12"]
    assert output.seeds[0].scores == {"tag_acc": 0.5} and output.seeds[0].elapsed_s == 2.5 and output.has_metrics
    for number, (name, before, after) in enumerate(
        [
            ("out", "[training.logger]", '[training.logger]\noutput_file = "a.jsonl"'),
            ("out_1", "[paths]", '[paths]\nlogs = "runs/out_1"'),
            ("out-2", "batch_size = 1000", "batch_size = 9"),  # other experiments
            ("out-100", "train = null", 'train = "100.spacy"'),
            ("out-01", "seed = 8", "seed = 0"),  # the seed of `folder`
        ]
    ):
        shutil.copytree(folder, folder.parent / name)
        config = folder.parent / name / "model-best" / "config.cfg"
        content = re.sub(r"(?m)^seed = 0", f"seed = {number + 4}", config.read_text(encoding="utf8"))
        assert before in content
        config.write_text(content.replace(before, after), encoding="utf8")
    assert {seed.name for seed in read_output(folder).seeds} == {"out-0", "out-3", "out-12", "out", "out_1"}
    write_logs(folder)  # known by their rows
    (folder / "other.jsonl").write_text('{"text": "no log"}\n', encoding="utf8")
    (folder / "empty.jsonl").write_text("", encoding="utf8")
    output = read_output(folder)
    assert [row["step"] for row in output.score_log] == [0, 20]
    assert [row["shares"] for row in output.weight_log["tagger", 1]] == [pytest.approx([0.5, 0.3, 0.2])] * 2


@pytest.mark.parametrize(
    "name, content",
    [
        ("metrics.json", "{"),
        ("timing.json", "2.5 s"),
        ("model-best/meta.json", "3"),
        ("model-best/config.cfg", "no config"),
        ("log.jsonl", '{"step": 1}\n{'),
        ("weights.jsonl", '{"step": 0, "component": "tagger", "number": 1, "shares": [0.5, "x"]}'),
    ],
)
def test_damaged_files_are_named(folder, name, content):
    srsly.write_json(folder / "metrics.json", {})
    (folder / name).write_text(content, encoding="utf8")
    with pytest.raises(
        ValueError, match="not a log of layer weights" if name == "weights.jsonl" else "EL431"
    ) as caught:
        read_output(folder)
    assert name in str(caught.value)


def test_scores_are_compared_in_the_order_of_their_weight():
    ours = [
        SeedScores("elmo-0", {"own": 0.1, "ents_f": 0.5, "tag_micro_f": 1.0}),
        SeedScores("elmo-1", {"ents_f": 0.7}),
    ]
    found = compare_scores(ours, [SeedScores("baseline-0", {"ents_f": 0.4})])
    assert list(found.items()) == [("NER F", ([0.5, 0.7], [0.4])), ("own", ([0.1], []))]
