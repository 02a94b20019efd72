"""Data, a biLM or a number that cannot be used end a recipe with one message, before layers are computed."""

import gzip

import pytest
from examples.writing import FOLDERS, LINES, write_jsonl, write_parts

# Lines that a recipe reads, but that leave it without anything to train on.
BARREN = {
    "coref": ({**LINES["coref"], "clusters": []}, "anaphors"),
    "qa": ({**LINES["qa"], "qas": []}, "questions"),
    "sentiment": (LINES["sentiment"], "categories"),
    "srl": ({**LINES["srl"], "frames": []}, "frames"),
}
every_recipe = pytest.mark.parametrize("name", FOLDERS)


@every_recipe
def test_missing_and_empty_data_are_named(end_of, tmp_path, name):
    message = end_of(name, "--data", tmp_path, "--without-elmo")
    assert str(tmp_path) in message and "--data" in message
    folder = write_parts(tmp_path / FOLDERS[name], [LINES[name]] * 3)
    (folder / "dev.jsonl.gz").unlink()
    message = end_of(name, "--data", tmp_path)
    assert "dev.jsonl.gz' does not exist" in message and "--data" in message
    for part in ("train", "dev"):
        write_parts(folder, [LINES[name]] * 3)
        write_jsonl(folder / f"{part}.jsonl.gz", [])
        assert f"{part}.jsonl.gz' has no lines" in end_of(name, "--data", tmp_path)


@pytest.mark.parametrize("name", BARREN)
def test_part_without_anything_to_learn_is_named(end_of, tmp_path, name):
    line, what = BARREN[name]
    write_parts(tmp_path / FOLDERS[name], [line] * 3)
    message = end_of(name, "--data", tmp_path)
    assert "train" in message and what in message


@every_recipe
def test_wrong_bilm_is_named(end_of, tmp_path, name):
    write_parts(tmp_path / FOLDERS[name], [LINES[name]] * 3)
    message = end_of(name, "--data", tmp_path, "--bilm", tmp_path / "nowhere")
    assert "--bilm" in message and "EL020" in message and "nowhere" in message


def test_second_data_set_is_checked_before_the_first_is_used(end_of, tmp_path):
    write_parts(tmp_path / "snli-cad", [LINES["nli"]] * 3)
    write_jsonl(write_parts(tmp_path / "sick", [LINES["nli"]] * 3) / "test.jsonl.gz", [])
    assert "sick/test.jsonl.gz' has no lines" in end_of("nli", "--data", tmp_path)
    write_parts(tmp_path / "sick", [*[LINES["nli"]] * 3, {**LINES["nli"], "label": "maybe"}])  # not in the first line
    assert "sick/train.jsonl.gz', line 4: 'label' is" in end_of("nli", "--data", tmp_path)
    write_parts(tmp_path / FOLDERS["sentiment"], [LINES["sentiment"], {**LINES["sentiment"], "label": "negative"}])
    write_parts(tmp_path / "goemotions", [{"text": "fine", "labels": ["joy"]}] * 3)
    assert "goemotions' has 1 categories" in end_of("sentiment", "--data", tmp_path)


@every_recipe
def test_lines_of_another_task_are_told(end_of, tmp_path, name):
    other = LINES["sentiment" if name == "srl" else "srl"]
    write_parts(tmp_path / FOLDERS[name], [LINES[name], other, LINES[name]])
    message = end_of(name, "--data", tmp_path)
    assert "train.jsonl.gz', line 2: '" in message and "is missing, where" in message and "--data" in message


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
