"""A biLM as a spaCy package: built offline, opened by its name, with the same vectors; bad input is refused."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from export.running import make_bilm

from spacy_elmo import BiLM, load_bilm
from spacy_elmo.about import __version__
from spacy_elmo.bilm.network import SoftmaxHead
from spacy_elmo.export import package as package_module
from spacy_elmo.export.package import package_bilm

SENTENCES = [["the", "cat", "sat"], ["a", "dog"]]


def _vectors(nlp: Any, bilm: BiLM) -> float:
    """Largest difference between the vectors of a pipeline and of the biLM."""
    docs = [nlp(spacy.tokens.Doc(nlp.vocab, words=words)) for words in SENTENCES]
    pairs = zip(docs, bilm.embed(SENTENCES))
    return max(float(np.abs(doc._.elmo_layers - layers).max()) for doc, layers in pairs)


def test_package_opens_with_the_weights_inside(tmp_path: Path) -> None:
    bilm = make_bilm()
    bilm.head = head = SoftmaxHead(6, 8).eval()
    folder = package_bilm(bilm, tmp_path / "new", name="tiny", build="none")
    assert bilm.head is head
    assert folder == tmp_path / "new" / "xx_elmo_tiny-1.0.0" and (folder / "setup.py").is_file()
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    nlp = spacy.load(folder / "xx_elmo_tiny" / "xx_elmo_tiny-1.0.0")
    assert nlp.pipe_names == ["elmo"]
    assert _vectors(nlp, make_bilm()) < 1e-6


def test_package_has_the_meta_data_of_the_bilm(tmp_path: Path) -> None:
    bilm = make_bilm()
    bilm.meta = dict(load_bilm("en_elmo_sm").meta, author="A. Author")
    folder = package_bilm(bilm, tmp_path, name="tiny", lang="en", version="2.1rc1", build="none")
    meta = json.loads((folder / "meta.json").read_text(encoding="utf8"))
    assert folder.name == "en_elmo_tiny-2.1rc1" and meta["version"] == "2.1rc1" and meta["lang"] == "en"
    assert meta["author"] == "A. Author" and meta["license"].startswith("CC BY-SA 4.0")
    assert meta["description"].startswith("A small English biLM")
    assert meta["sources"][1]["name"] == "English Wikipedia articles" and len(meta["sources"]) == 18
    assert [text for text in meta["requirements"] if text.startswith("spacy-elmo")] == [
        f"spacy-elmo>={__version__},<0.2.0"
    ]


BAD_NAMES = [{"name": name} for name in ("Tiny", "ti-ny", "ti__ny", "_tiny", "", "../tiny")]
BAD_VERSIONS = [{"version": version} for version in ("1.0.0-beta", "one", "1.0/0")]


@pytest.mark.parametrize("settings", [*BAD_NAMES, *BAD_VERSIONS, {"lang": "zz"}, {"build": "egg"}])
def test_bad_arguments_are_refused_before_anything_is_written(settings: Any, tmp_path: Path) -> None:
    ((what, value),) = settings.items()
    with pytest.raises(ValueError, match=f"(?s){what}.*'{value}'|'{value}'.*{what}"):
        package_bilm(make_bilm(), tmp_path / "new", **{"name": "tiny", **settings})
    assert list(tmp_path.iterdir()) == []


def test_package_is_replaced_only_with_force(tmp_path: Path) -> None:
    folder = package_bilm(make_bilm(), tmp_path, name="tiny", build="none")
    (folder / "notes.txt").write_text("old", encoding="utf8")
    with pytest.raises(ValueError, match="EL025"):
        package_bilm(make_bilm("tanh"), tmp_path, name="tiny", build="none")
    assert (folder / "notes.txt").is_file()
    package_bilm(make_bilm("tanh"), tmp_path, name="tiny", build="none", force=True)
    assert [path.name for path in tmp_path.iterdir()] == [folder.name] and not (folder / "notes.txt").exists()
    assert _vectors(spacy.load(folder / "xx_elmo_tiny" / folder.name), make_bilm("tanh")) < 1e-6


def test_a_build_that_is_not_possible_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        monkeypatch.context() as patch,
        pytest.raises(ValueError, match="needs the package build"),
    ):
        patch.setattr(package_module, "has_build", lambda: False)
        package_bilm(make_bilm(), tmp_path, name="tiny")
    failed = subprocess.CompletedProcess([], 1, "", "Traceback\nerror: no setuptools\n")
    monkeypatch.setattr(package_module.subprocess, "run", lambda *arguments, **settings: failed)
    with pytest.raises(ValueError, match="xx_elmo_tiny-1.0.0.*could not be built.*no setuptools"):
        package_bilm(make_bilm(), tmp_path, name="tiny")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "build, name", [("wheel", "xx_elmo_tiny-1.2.3-py3-none-any.whl"), ("sdist", "xx_elmo_tiny-1.2.3.tar.gz")]
)
def test_package_is_built(build: str, name: str, tmp_path: Path) -> None:
    """`tests/test_packaging.py` installs one and loads it by its name."""
    path = package_bilm(make_bilm(), tmp_path, name="tiny", version="1.2.3", build=build)
    assert path.name == name
    assert sorted(part.name for part in path.parent.parent.iterdir()) == [
        *("MANIFEST.in", "README.md", "dist", "meta.json", "setup.py", "xx_elmo_tiny")
    ]
