"""Data, a biLM or a number that cannot be used end a recipe with one message, before layers are computed."""

import gzip

import pytest
from examples.writing import FOLDERS, LINES, write_jsonl, write_parts

# A line that a recipe reads, but that leaves it without anything to train on.
BARREN = {
    "coref": ({**LINES["coref"], "clusters": []}, "anaphors"),
    "qa": ({**LINES["qa"], "qas": []}, "questions"),
    "sentiment": (LINES["sentiment"], "categories"),
    "srl": ({**LINES["srl"], "frames": []}, "frames"),
}
# Of each kind of check: data set, fields that replace those of a line, the field, its value and what is needed.
FRAME = {"predicate": 1, "tags": ["B-ARG0", "B-V"]}
QUESTION = LINES["qa"]["qas"][0]
WRONG = {
    "length": ("srl", {"frames": [{**FRAME, "tags": ["B-V"]}]}, "'frames[0].tags' is a list of 1, where a list of 2"),
    "text": ("srl", {"words": ["She", None]}, "'words[1]' is null, where a text that is not empty is needed"),
    "label": ("nli", {"label": "maybe"}, "'label' is \"maybe\", where one of entailment, neutral, contradiction is"),
    "span": ("coref", {"clusters": [[0]]}, "'clusters[0][0]' is 0, where a list, or an object with 'first'"),
    "twice": ("coref", {"clusters": [[[0, 1]], [[0, 1]]]}, "'clusters' is a list with [0, 1] twice"),
    "none": (
        "qa",
        {"qas": [{**QUESTION, "answers": []}]},
        "'qas[0].answers' is a list of 0, where a list of 1 or more",
    ),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_data_or_a_bilm_that_cannot_be_used_are_named(end_of, tmp_path, name):
    message = end_of(name, "--data", tmp_path, "--without-elmo")
    assert str(tmp_path) in message and "--data" in message
    folder, other = tmp_path / FOLDERS[name], LINES["sentiment" if name == "srl" else "srl"]
    write_parts(folder, [LINES[name]] * 3)
    message = end_of(name, "--data", tmp_path, "--bilm", tmp_path / "nowhere")
    assert "--bilm" in message and "EL020" in message and "nowhere" in message
    barren, what = BARREN.get(name, (LINES[name], ""))
    for lines, problem in (
        ([], "has no lines"),
        ([LINES[name], other], "line 2: '"),  # of another task
        ([LINES[name], [1]], "line 2: the line is [1], where an object with '"),
        *([([barren] * 3, what)] if what else []),
    ):
        write_jsonl(folder / "train.jsonl.gz", lines)
        message = end_of(name, "--data", tmp_path)
        assert "train" in message and problem in message, message
    write_parts(folder, [LINES[name]] * 3)
    (folder / "dev.jsonl.gz").unlink()
    assert "dev.jsonl.gz' does not exist" in end_of(name, "--data", tmp_path)


@pytest.mark.parametrize("name, fields, told", WRONG.values(), ids=WRONG)
def test_wrong_field_is_told(end_of, tmp_path, name, fields, told):
    line = LINES[name]
    path = write_parts(tmp_path / FOLDERS[name], [line] * 3) / "dev.jsonl.gz"
    write_jsonl(path, [line, {**line, **fields}, line])
    message = end_of(name, "--data", tmp_path)
    assert message.startswith(f"'{path}', line 2: {told}") and "--data" in message


@pytest.mark.parametrize("content, told", [(b"no gzip", "gzip"), (gzip.compress(b'{"a": 1}\n{"a":\n'), "line 2")])
def test_damaged_file_is_named(load_recipe, tmp_path, content, told):
    path = tmp_path / "train.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(SystemExit) as error:
        load_recipe("_records").read_jsonl(path)
    assert str(path) in str(error.value) and told in str(error.value)


def test_numbers_are_above_zero_and_every_nth_line_is_read(load_recipe, capsys, tmp_path):
    parser = load_recipe("_common").make_parser("", ".", epochs=1, every=2)
    for option in ("--seeds", "--epochs", "--limit", "--every"):
        for value in ("0", "1.5"):
            with pytest.raises(SystemExit):
                parser.parse_args([f"{option}={value}"])
            assert option in capsys.readouterr().err.splitlines()[-1]
    write_parts(tmp_path, [{"words": [word]} for word in "abcde"])
    parts = load_recipe("_records").read_parts(tmp_path, lambda line: [line["words"].as_words()], limit=4, every=3)
    read = {name: "".join(word for (word,) in words) for name, words in parts.items()}
    assert read == {"train": "ad", "dev": "abcd", "test": "abcd"}
