"""`elmo download`: the list, files from elsewhere, and mistakes."""

import pytest
import srsly
from cli.calls import call, call_json, refused

from spacy_elmo.weights import save_bilm


@pytest.fixture
def tf_path(bilm, tmp_path):
    save_bilm(bilm, tmp_path / "tf", format="bilm-tf")
    return tmp_path / "tf"


def test_list_has_language_size_and_licence():
    shown = call("download", "--list").stdout
    for text in ("small", "13.6 M parameters", "374 MB", "manylangs-zh", "MIT", "norelmo30", "not documented"):
        assert text in shown
    assert max(map(len, shown.splitlines())) <= 100
    assert shown.splitlines()[-1] == "python -m spacy elmo download original --dest elmo"
    record = {entry["name"]: entry for entry in call_json("download", "--list")}
    assert record["large"]["files"][1]["path"].endswith("5.5B_weights.hdf5")
    assert record["small"]["licence_source"].startswith("https://github.com/")


def test_local_files_are_saved_with_the_next_step(tf_path, tmp_path):
    arguments = ("download", "pt", "--dest", tmp_path / "out", "--from", tf_path)
    result = call(*arguments)
    shown = " ".join(result.stderr.split())
    assert "No checksum is documented" in shown and "aclanthology.org/N18-1202" in shown
    assert f"python -m spacy elmo inspect {tmp_path / 'out'}" in shown.replace("- ", "-").replace("/ ", "/")
    assert srsly.read_json(tmp_path / "out" / "origin.json")["files"][0]["sha256"] in result.stdout
    call("inspect", tmp_path / "out")
    assert "--force" in refused(*arguments, "--json")
    assert call_json(*arguments, "--force")["files"][1]["name"] == "weights.hdf5"


def test_usage_is_shown_without_a_name_or_a_place():
    for arguments in ([], ["small"], ["--dest", "x"]):
        shown = " ".join(refused("download", *arguments, code=2).replace("\u2502", " ").split())
        assert "python -m spacy elmo download original --dest elmo" in shown
