"""Data, a biLM or a number that cannot be used end a recipe with one message, before layers are computed: the file, the
line, the field, the value found and the value needed.
"""

import gzip
import json

import pytest
from examples.writing import FOLDERS, LINES, write_jsonl, write_parts

# Lines that a recipe reads, but that leave it without anything to train on.
BARREN = {
    "coref": ({**LINES["coref"], "clusters": []}, "anaphors"),
    "qa": ({**LINES["qa"], "qas": []}, "questions"),
    "sentiment": (LINES["sentiment"], "categories"),
    "srl": ({**LINES["srl"], "frames": []}, "frames"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_data_or_a_bilm_that_cannot_be_used_are_named(end_of, tmp_path, name):
    message = end_of(name, "--data", tmp_path, "--without-elmo")
    assert str(tmp_path) in message and "--data" in message
    folder, other = tmp_path / FOLDERS[name], LINES["sentiment" if name == "srl" else "srl"]
    write_parts(folder, [LINES[name]] * 3)
    message = end_of(name, "--data", tmp_path, "--bilm", tmp_path / "nowhere")
    assert "--bilm" in message and "EL020" in message and "nowhere" in message
    for lines, problem in (
        ([], "has no lines"),
        ([LINES[name], other], "line 2: '"),  # of another task
        ([LINES[name], [1]], "line 2: the line is [1], where an object with '"),
    ):
        write_jsonl(folder / "train.jsonl.gz", lines)
        message = end_of(name, "--data", tmp_path)
        assert "train.jsonl.gz'" in message and problem in message, message
    write_parts(folder, [LINES[name]] * 3)
    (folder / "dev.jsonl.gz").unlink()
    message = end_of(name, "--data", tmp_path)
    assert "dev.jsonl.gz' does not exist" in message and "--data" in message
    if name in BARREN:
        line, what = BARREN[name]
        write_parts(folder, [line] * 3)
        message = end_of(name, "--data", tmp_path)
        assert "train" in message and what in message


GAP = {
    "words": ["Ann", "met", "Eve", ".", "She"],
    **{"A": {"first": 0, "last": 0}, "B": {"first": 2, "last": 2}, "pronoun": {"first": 4, "last": 4}},
    "label": "A",
}
EMOTION = {"text": "Thanks !", "labels": ["gratitude", "love"]}
RIGHT = {
    **{name: (FOLDERS[name], LINES[name]) for name in FOLDERS},
    **{"coref gap": ("gap", GAP), "sentiment several": ("goemotions", EMOTION)},
}


def frame(**fields):
    return {"frames": [{"predicate": 1, "tags": ["B-ARG0", "B-V"], **fields}]}


def asked(**fields):
    return {"qas": [{**LINES["qa"]["qas"][0], **fields}]}


def answer(**fields):
    return asked(answers=[{"first": 0, "last": 0, "text": "She", **fields}])


TEXT, SOME_WORDS = "a text that is not empty is needed", "a list of 1 or more is needed"
# Data set, fields that replace those of a line, what the message tells about field, value and need.
WRONG = [
    ("srl", frame(tags=["B-V"]), "'frames[0].tags' is a list of 1, where a list of 2 is needed"),
    ("srl", frame(tags=["B-V", "I-ARG0"]), "'frames[0].tags[1]' is \"I-ARG0\", where 'O', 'B-ROLE', or 'I-ROLE' after"),
    ("srl", frame(predicate=2), "'frames[0].predicate' is 2, where a whole number from 0 to 1"),
    ("srl", {"words": ["She", None]}, f"'words[1]' is null, where {TEXT}"),
    ("coref", {"clusters": [[[0, 1]], [[0, 1]]]}, "'clusters' is a list with [0, 1] twice, where each of them once is"),
    ("coref", {"clusters": [[0]]}, "'clusters[0][0]' is 0, where a list, or an object with 'first' and 'last',"),
    ("coref", {"sentences": [[0, 2], [1, 2]]}, "'sentences[1][0]' is 1, where 2 is needed"),
    ("coref gap", {"A": {"first": 0, "last": 5}}, "'A.last' is 5, where a whole number from 0 to 4 is needed"),
    ("qa", asked(answers=[]), f"'qas[0].answers' is a list of 0, where {SOME_WORDS}"),
    ("qa", answer(first=1), "'qas[0].answers[0].last' is 0, where 1 is needed"),
    ("sentiment", {"text": "\ud800"}, f"'text' is \"\ud800\", where {TEXT}"),  # no letter: half of one
    ("sentiment several", {"labels": ["joy", 1]}, f"'labels[1]' is 1, where {TEXT}"),
    ("nli", {"label": "maybe"}, "'label' is \"maybe\", where one of entailment, neutral, contradiction is needed"),
]


@pytest.mark.parametrize("name, fields, told", WRONG, ids=[f"{name}-{json.dumps(new)}" for name, new, _ in WRONG])
def test_wrong_field_is_told(end_of, tmp_path, name, fields, told):
    folder, line = RIGHT[name]
    path = write_parts(tmp_path / folder, [line] * 3) / "dev.jsonl.gz"
    write_jsonl(path, [line, {**line, **fields}, line])  # line 2
    message = end_of(name.split()[0], "--data", tmp_path)
    assert message.startswith(f"'{path}', line 2: {told}") and "--data" in message


def test_further_data_sets_are_checked_before_the_first_is_used(end_of, tmp_path):
    write_parts(tmp_path / "snli-cad", [LINES["nli"]] * 3)
    write_jsonl(write_parts(tmp_path / "sick", [LINES["nli"]] * 3) / "test.jsonl.gz", [])
    assert "sick/test.jsonl.gz' has no lines" in end_of("nli", "--data", tmp_path)
    write_parts(tmp_path / "sick", [*[LINES["nli"]] * 3, {**LINES["nli"], "label": "maybe"}])  # not in the first line
    assert "sick/train.jsonl.gz', line 4: 'label' is" in end_of("nli", "--data", tmp_path)
    write_parts(tmp_path / FOLDERS["sentiment"], [LINES["sentiment"], {**LINES["sentiment"], "label": "negative"}])
    write_parts(tmp_path / "goemotions", [{"text": "fine", "labels": ["joy"]}] * 3)
    assert "goemotions' has 1 categories" in end_of("sentiment", "--data", tmp_path)
    write_parts(tmp_path / FOLDERS["qa"], [LINES["qa"]] * 3)
    write_jsonl(tmp_path / "squad-v1.1-dev" / "test.jsonl.gz", [LINES["qa"], {**LINES["qa"], **asked(answers=[])}])
    assert "squad-v1.1-dev/test.jsonl.gz', line 2: '" in end_of("qa", "--data", tmp_path)


@pytest.mark.parametrize("content, told", [(b"no gzip", "gzip"), (gzip.compress(b'{"a": 1}\n{"a":\n'), "line 2")])
def test_damaged_file_is_named(load_recipe, tmp_path, content, told):
    path = tmp_path / "train.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(SystemExit) as error:
        load_recipe("_records").read_jsonl(path)
    assert str(path) in str(error.value) and told in str(error.value)


@pytest.mark.parametrize("option", ["--seeds", "--epochs", "--limit", "--every"])
def test_numbers_are_above_zero(load_recipe, capsys, option):
    parser = load_recipe("_common").make_parser("", ".", epochs=1, every=2)
    for value in ("0", "-1", "x", "1.5"):
        with pytest.raises(SystemExit):
            parser.parse_args([f"{option}={value}"])
        assert option in capsys.readouterr().err.splitlines()[-1]


def test_every_nth_line_of_training(load_recipe, tmp_path):
    records = load_recipe("_records")
    write_parts(tmp_path, [{"words": [word] * 2} for word in "abcde"])
    parts = records.read_parts(tmp_path, lambda line: list(line["words"].as_words()), limit=4, every=3)
    assert {name: "".join(words) for name, words in parts.items()} == {
        **{"train": "aadd", "dev": "aabbccdd", "test": "aabbccdd"}
    }
