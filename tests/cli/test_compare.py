"""`elmo compare`: its exit codes and what it shows."""

import pytest
from cli.calls import call, call_json, refused

from spacy_elmo.weights import save_bilm


@pytest.fixture
def int8_path(bilm, tmp_path):
    save_bilm(bilm, tmp_path / "int8", dtype="int8")
    return tmp_path / "int8"


def test_exit_code_says_whether_the_vectors_are_equal(bilm, bilm_path, int8_path):
    save_bilm(bilm, int8_path / "tf", format="bilm-tf")
    result = call("compare", bilm_path, int8_path / "tf")
    assert "equal within 2e-05" in result.stderr and "All settings are the same" in result.stdout
    assert "same" in result.stdout and "Mean cosine" in result.stdout
    result = call("compare", bilm_path, int8_path, code=1)
    assert "The vectors differ" in result.stderr and "The first layer that differs is layer" in result.stdout
    assert "different" in result.stdout and "encoder.layers.0" in result.stdout
    call("compare", bilm_path, int8_path, "--tolerance", 1)


@pytest.mark.issue(48)
def test_words_are_shown_as_they_are_written(bilm_path, int8_path, tmp_path):
    (tmp_path / "text.txt").write_text("\ud55c\uad6d\n", encoding="utf8")
    rows = call("compare", bilm_path, int8_path, tmp_path / "text.txt", code=1).stdout
    assert "'\ud55c\uad6d' (sentence 1, token 1)" in rows and "\\u" not in rows


def test_json_has_all_tensors_and_layers(bilm_path, int8_path, tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat\n\non the mat .\n", encoding="utf8")
    record = call_json("compare", bilm_path, int8_path, tmp_path / "text.txt", code=1)
    assert record["is_equal"] is False and record["n_tokens"] == 7
    assert [layer["layer"] for layer in record["layers"]] == [0, 1, 2]
    assert record["first_different_layer"] in (0, 1)
    assert {tensor["status"] for tensor in record["tensors"]} == {"same", "different"}
    assert record["layers"][2]["token"] in "<S> the cat sat on mat . </S>".split()


def test_mistakes_exit_with_two(bilm_path, tmp_path):
    assert "EL020" in refused("compare", bilm_path, tmp_path / "nothing", code=2)
    (tmp_path / "empty.txt").write_text("\n\n", encoding="utf8")
    assert "There are no sentences" in refused("compare", bilm_path, bilm_path, tmp_path / "empty.txt", code=2)
    call("compare", bilm_path, code=2)
