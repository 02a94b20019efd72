"""`elmo inspect` and `elmo convert` with AllenNLP archives."""

import json

import pytest
from reference.allennlp_state import GAMMA, WEIGHTS, elmo_state, make_config, write_archive
from reference.seeded_weights import make_arrays, make_options
from typer.testing import CliRunner

from spacy_elmo import load_mixes
from spacy_elmo.cli._app import app

OPTIONS = make_options()


@pytest.fixture
def archive(tmp_path):
    state = elmo_state(make_arrays(OPTIONS), OPTIONS)
    return write_archive(tmp_path / "model.tar.gz", state, make_config(options_file=OPTIONS))


def test_inspect_shows_the_mixes(archive):
    result = CliRunner().invoke(app, ["inspect", str(archive), "--json"])
    assert result.exit_code == 0
    (mix,) = json.loads(result.stdout)["mixes"]
    assert mix["weights"] == pytest.approx(WEIGHTS) and mix["gamma"] == pytest.approx(GAMMA)
    assert sum(mix["shares"]) == pytest.approx(1.0)
    table = CliRunner().invoke(app, ["inspect", str(archive)]).stdout
    rows = [line.split() for line in table.splitlines()]
    assert ["Mix", "0", "1.700", "0.348", "0.078", "0.574"] in rows


def test_convert_reads_and_writes_archives(archive, tmp_path):
    for source, target, format in ((archive, "native", "native"), (tmp_path / "native", "out", "allennlp")):
        result = CliRunner().invoke(app, ["convert", str(source), str(tmp_path / target), "--to", format])
        assert result.exit_code == 0
    assert load_mixes(tmp_path / "out" / "model.tar.gz") == load_mixes(archive)


def test_a_name_that_is_not_there_is_an_error(archive):
    result = CliRunner().invoke(app, ["inspect", f"{archive}#other"])
    assert result.exit_code == 1 and "has no biLM with the name" in result.output
