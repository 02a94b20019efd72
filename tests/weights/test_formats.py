"""The table of formats: each row detects, reads and writes its own files."""

import pytest
from reference.seeded_manylangs import make_architecture, write_manylangs
from reference.seeded_weights import SENTENCES

from spacy_elmo import load_bilm, load_mixes, save_bilm
from spacy_elmo.weights.files import Listing
from spacy_elmo.weights.formats import FORMATS, detect_format

WRITTEN = [format for format in FORMATS if format.write is not None]


@pytest.mark.parametrize("format", WRITTEN, ids=lambda format: format.name)
def test_what_a_format_writes_is_detected_and_read_by_it_alone(format, bilm, tmp_path):
    folder = tmp_path / "written"
    folder.mkdir()
    format.write(bilm, folder, "float32")
    assert {path.name for path in folder.iterdir()} <= set(format.file_names)
    assert detect_format(folder)[0] is format
    assert all(other.detect(Listing(folder)) is None for other in FORMATS if other is not format)
    assert load_mixes(folder) == []
    for one, other in zip(load_bilm(folder).embed(SENTENCES), bilm.embed(SENTENCES)):
        assert (one == other).all()


def test_a_name_after_the_path_is_refused_where_there_is_one_bilm(bilm, tmp_path):
    write_manylangs(tmp_path / "manylangs", make_architecture())
    save_bilm(bilm, tmp_path / "tf", format="bilm-tf")
    for path in ("en_elmo_sm", str(tmp_path / "manylangs"), str(tmp_path / "tf")):
        with pytest.raises(ValueError, match="'other'.*one biLM without a name"):
            load_bilm(f"{path}#other")
    with pytest.raises(ValueError, match="'other'"):
        load_bilm(options=tmp_path / "tf" / "options.json", weights=f"{tmp_path}/tf/weights.hdf5#other")
