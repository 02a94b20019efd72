"""Files are compared with the sizes that are documented of a published biLM."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Iterator, Mapping, Tuple

import h5py
import numpy as np
import pytest
from reference.seeded_weights import make_arrays, make_options, write_model
from weights.loopback import Site, serving

import spacy_elmo.weights.origins as facts
from spacy_elmo import BiLMConfig, CharCNNConfig, load_bilm
from spacy_elmo.weights.origins import Origin, OriginFile, count_parameters, download, find_origin

LARGE = ("original", "large", "pubmed")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "published", make_options(), make_arrays(make_options()))


@pytest.fixture
def origin(model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Origin]:
    """A published biLM on a server, without documented sizes."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    files = [OriginFile(name, name, None, None) for name in ("options.json", "weights.hdf5")]
    with serving(Site({file.name: (model / file.name).read_bytes() for file in files})) as site:
        yield replace(find_origin("small"), n_parameters=None, files=tuple(files), mirrors=(site.address,))


def refuse(url: str, headers: Mapping[str, str]) -> Any:
    raise AssertionError(f"{url} was opened")


@pytest.mark.issue(17)
def test_another_bilm_is_not_stored_as_a_published_one(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="(?s)published 'small'.*options.json' is of a biLM with") as error:
        download(find_origin("small"), tmp_path / "out", given=[model], opener=refuse)
    text = r"weights.hdf5' is of a biLM with [\d,]+ parameters, documented are 13.6 M"
    assert re.search(text, str(error.value)) and not (tmp_path / "out").exists()
    (model / "options.json").write_text("{}")
    with pytest.raises(ValueError, match="(?s)options.json' has no sizes to compare: .EL023"):
        download(find_origin("small"), tmp_path / "out", given=[model], opener=refuse)


@pytest.mark.issue(17)
def test_options_and_weights_are_compared_each(
    origin: Origin, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "UNIT", 100)
    origin = replace(origin, n_parameters=count_parameters(load_bilm(model).config))
    download(origin, tmp_path / "out", given=[model], opener=refuse)
    softmax = {"softmax/W": np.zeros((500, 8), "float32"), "softmax/b": np.zeros(500, "float32")}
    for name in ("larger", "softmax"):
        shutil.copytree(model, tmp_path / name)
    with h5py.File(tmp_path / "softmax" / "weights.hdf5", "a") as file:
        for key, array in softmax.items():
            file.create_dataset(key, data=array)
    download(origin, tmp_path / "with_softmax", given=[tmp_path / "softmax"], opener=refuse)
    with h5py.File(tmp_path / "larger" / "weights.hdf5", "a") as file:
        file.create_dataset("more", data=np.zeros(200, "float32"))
    with pytest.raises(ValueError, match="(?s)weights.hdf5' is of a biLM") as error:
        download(origin, tmp_path / "b", given=[tmp_path / "larger"], opener=refuse)
    assert "options.json'" not in str(error.value)


@pytest.mark.issue(17)
def test_another_bilm_from_a_mirror_is_removed(origin: Origin, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="These files are not those of the published"):
        download(replace(origin, n_parameters=13_600_000), tmp_path / "out")
    assert not list((tmp_path / "out").iterdir()), "nothing of it is continued"


@pytest.mark.issue(17)
@pytest.mark.parametrize(
    "name, sizes",
    [("small", (1024, 128, 1)), ("medium", (2048, 256, 1)), *((name, (4096, 512, 2)) for name in LARGE)],
)
def test_documented_parameters_are_those_of_the_published_sizes(name: str, sizes: Tuple[int, int, int]) -> None:
    """The sizes are in the names of the files, such as 2x1024_128_2048cnn_1xhighway."""
    cell_width, projection_width, n_highway = sizes
    origin = find_origin(name)
    assert f"2x{cell_width}_{projection_width}_2048cnn_{n_highway}xhighway" in origin.files[0].path
    config = BiLMConfig(
        char_cnn=CharCNNConfig(n_highway=n_highway), cell_width=cell_width, projection_width=projection_width
    )
    assert round(count_parameters(config), -5) == origin.n_parameters
