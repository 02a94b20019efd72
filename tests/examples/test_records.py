"""Lines that do not fit end a recipe with file, line, field, the value found and the value needed."""

import json

import pytest
from examples.writing import FOLDERS, LINES, write_jsonl, write_parts

GAP = {
    "words": ["Ann", "met", "Eve", ".", "She"],
    **{"A": {"first": 0, "last": 0}, "B": {"first": 2, "last": 2}, "pronoun": {"first": 4, "last": 4}},
    "label": "A",
}
EMOTION = {"text": "Thanks !", "labels": ["gratitude", "love"]}
RIGHT = {name: (FOLDERS[name], LINES[name]) for name in FOLDERS}
RIGHT = {**RIGHT, "coref gap": ("gap", GAP), "sentiment several": ("goemotions", EMOTION)}


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
    ("srl", frame(predicate=True), "'frames[0].predicate' is true, where a whole number from 0 to 1"),
    ("srl", {"words": ["She", None]}, f"'words[1]' is null, where {TEXT}"),
    ("srl", {"frames": ["B-V"]}, "'frames[0]' is \"B-V\", where an object with 'predicate' is needed"),
    ("coref", {"clusters": [[[0, 1]], [[0, 1]]]}, "'clusters' is a list with [0, 1] twice, where each of them once is"),
    ("coref", {"clusters": [[0]]}, "'clusters[0][0]' is 0, where a list, or an object with 'first' and 'last',"),
    ("coref", {"sentences": [[0, 2], [1, 2]]}, "'sentences[1][0]' is 1, where 2 is needed"),
    ("coref gap", {"A": {"first": 0, "last": 5}}, "'A.last' is 5, where a whole number from 0 to 4 is needed"),
    ("qa", asked(answers=[]), f"'qas[0].answers' is a list of 0, where {SOME_WORDS}"),
    ("qa", answer(first=1), "'qas[0].answers[0].last' is 0, where 1 is needed"),
    ("qa", {"offsets": [[0, 3], [4, 10]]}, "'offsets[1][1]' is 10, where a whole number from 4 to 9 is needed"),
    ("sentiment", {"text": " \t"}, f"'text' is \" \\t\", where {TEXT}"),
    ("sentiment", {"text": "\ud800"}, f"'text' is \"\ud800\", where {TEXT}"),  # no letter: half of one
    ("sentiment several", {"labels": ["joy", 1]}, f"'labels[1]' is 1, where {TEXT}"),
    ("nli", {"hypothesis_words": {"0": "She"}}, '\'hypothesis_words\' is {"0": "She"}, where a list is needed'),
    ("nli", {"label": "maybe"}, "'label' is \"maybe\", where one of entailment, neutral, contradiction is needed"),
]


@pytest.mark.parametrize("part", ["train", "dev", "test"])
@pytest.mark.parametrize("name, fields, told", WRONG, ids=[f"{name}-{json.dumps(new)}" for name, new, _ in WRONG])
def test_wrong_field_is_told(end_of, tmp_path, name, fields, told, part):
    folder, line = RIGHT[name]
    path = write_parts(tmp_path / folder, [line] * 3) / f"{part}.jsonl.gz"
    write_jsonl(path, [line, {**line, **fields}, line])  # line 2, which --every leaves out of training
    message = end_of(name.split()[0], "--data", tmp_path)
    assert message.startswith(f"'{path}', line 2: {told}") and "--data" in message


@pytest.mark.parametrize("name", FOLDERS)
def test_line_that_is_no_object_is_told(end_of, tmp_path, name):
    for line, shown in [([1], "[1]"), ("She", '"She"'), (None, "null")]:
        write_parts(tmp_path / FOLDERS[name], [LINES[name], line])
        message = end_of(name, "--data", tmp_path)
        assert f"train.jsonl.gz', line 2: the line is {shown}, where an object with '" in message


@pytest.mark.parametrize(
    "name, folder, fields",
    [("nli", "breaking-nli", {"label": "maybe"}), ("qa", "squad-v1.1-dev", asked(answers=[]))],
)
def test_data_of_the_further_test_are_checked(end_of, tmp_path, name, folder, fields):
    write_parts(tmp_path / FOLDERS[name], [LINES[name]] * 3)
    write_jsonl(tmp_path / folder / "test.jsonl.gz", [LINES[name], {**LINES[name], **fields}])
    assert f"{folder}/test.jsonl.gz', line 2: '" in end_of(name, "--data", tmp_path)


def test_every_nth_line_of_training(load_recipe, tmp_path):
    records = load_recipe("_records")
    write_parts(tmp_path, [{"words": [word] * 2} for word in "abcde"])
    parts = records.read_parts(tmp_path, lambda line: list(line["words"].as_words()), limit=4, every=3)
    assert {name: "".join(words) for name, words in parts.items()} == {
        **{"train": "aadd", "dev": "aabbccdd", "test": "aabbccdd"}
    }
