from dataclasses import replace
from pathlib import Path

import pytest
import srsly
from typer.testing import CliRunner
from weights.loopback import Site, serving

import spacy_elmo.cli.download as command
from spacy_elmo.cli._app import app
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.weights import save_bilm
from spacy_elmo.weights.origins import find_origin


def test_list_shows_all_names_with_language_size_and_licence() -> None:
    result = CliRunner().invoke(app, ["download", "--list"])
    assert result.exit_code == 0, result.output
    for text in ("small", "13.6 M parameters", "374 MB", "manylangs-zh", "MIT", "norelmo30", "not documented"):
        assert text in result.stdout


def test_list_prints_json() -> None:
    result = CliRunner().invoke(app, ["download", "--list", "--json"])
    record = {entry["name"]: entry for entry in srsly.json_loads(result.stdout)}
    assert record["large"]["files"][1]["path"].endswith("5.5B_weights.hdf5")
    assert record["small"]["licence_source"].startswith("https://github.com/")


def test_local_files_are_saved_with_the_next_step(bilm: BiLM, tmp_path: Path) -> None:
    save_bilm(bilm, tmp_path / "tf", format="bilm-tf")
    arguments = ["download", "pt", "--dest", str(tmp_path / "out"), "--from", str(tmp_path / "tf")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    told = " ".join(result.stderr.split())
    assert "No checksum is documented" in told and "aclanthology.org/N18-1202" in told
    assert f"python -m spacy elmo inspect {tmp_path / 'out'}" in told.replace("- ", "-").replace("/ ", "/")
    assert srsly.read_json(tmp_path / "out" / "origin.json")["files"][0]["sha256"] in result.stdout
    assert CliRunner().invoke(app, ["inspect", str(tmp_path / "out")]).exit_code == 0
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 1 and "EL025" in result.stderr
    result = CliRunner().invoke(app, [*arguments, "--json", "--force"])
    assert srsly.json_loads(result.stdout)["files"][1]["name"] == "weights.hdf5"


def test_mirror_is_used(bilm: BiLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    save_bilm(bilm, tmp_path / "tf", format="bilm-tf")
    stem = "elmo_pt"
    files = {f"{stem}_{name}": (tmp_path / "tf" / name).read_bytes() for name in ("options.json", "weights.hdf5")}
    with serving(Site(files)) as site:
        arguments = ["download", "pt", "--dest", str(tmp_path / "out"), "--mirror", site.address, "--json"]
        result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert srsly.json_loads(result.stdout)["files"][0]["url"] == f"{site.address}{stem}_options.json"


def test_files_that_cannot_be_read_yet_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = find_origin("small")
    origin = replace(origin, files=(replace(origin.files[0], path="notes.md", name="notes.md"),))
    monkeypatch.setattr(command, "find_origin", lambda name: origin)
    (tmp_path / "notes.md").write_text("text")
    arguments = ["download", "small", "--dest", str(tmp_path / "out"), "--from", str(tmp_path / "notes.md")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0 and "cannot read them" in " ".join(result.stderr.split())
    assert (tmp_path / "out" / "notes.md").is_file()


def test_another_bilm_is_refused(bilm: BiLM, tmp_path: Path) -> None:
    save_bilm(bilm, tmp_path / "tf", format="bilm-tf")
    arguments = ["download", "small", "--dest", str(tmp_path / "out"), "--from", str(tmp_path / "tf")]
    result = CliRunner().invoke(app, arguments)
    assert (
        result.exit_code == 1
        and "These files are not those of the published" in result.stderr
        and "13.6 M" in result.stderr
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments", [[], ["small"], ["--dest", "x"]])
def test_name_and_folder_are_needed(arguments: "list[str]") -> None:
    result = CliRunner().invoke(app, ["download", *arguments])
    assert result.exit_code == 2 and "--dest" in result.output


def test_unknown_name_is_an_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["download", "smal", "--dest", str(tmp_path / "out")])
    assert result.exit_code == 1 and "no published biLM" in result.stderr and "small" in result.stderr
