"""The installed package: entry points agree with the registered names; wheel and sdist contain the model."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import warnings
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest
import spacy
from own_process import run_script
from packaging.requirements import Requirement
from spacy.cli.package import package
from spacy.training import Example

from spacy_elmo import load_bilm
from spacy_elmo.about import __version__
from spacy_elmo.export.package import package_bilm

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
MODEL = ROOT / "spacy_elmo" / "models" / "en_elmo_sm"


def _project() -> Dict[str, Any]:
    project: Dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
    return project


def _entry_points() -> List[Tuple[str, str, str]]:
    return [(group, *item) for group, items in _project()["entry-points"].items() for item in items.items()]


def test_version_is_that_of_the_citation() -> None:
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf8")


def test_entry_points_lead_somewhere() -> None:
    for _, _, target in _entry_points():
        module, _, attribute = target.partition(":")
        assert hasattr(import_module(module), attribute), target


def test_constraints_pin_every_requirement() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf8").splitlines()
    pins = {line.partition("==")[0].lower(): line.partition("==")[2] for line in lines if not line.startswith("#")}
    project = _project()
    wanted = project["dependencies"] + sum(project["optional-dependencies"].values(), [])
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(pins[requirement.name.lower()]), requirement
    assert all(pins.values()), "each is a version"
    assert "://" not in "\n".join(lines)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel built from it, so that what the sdist lacks is missing in both."""
    folder = tmp_path_factory.mktemp("built")
    # A copy, since a build leaves folders behind that the next one reads.
    skipped = shutil.ignore_patterns(".*", "build", "*.egg-info", "corpus", "training", "packages", "runs")
    shutil.copytree(ROOT, folder / "source", ignore=skipped)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(folder / "source")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    return folder


@pytest.mark.slow
@pytest.mark.issue(49)
def test_a_compiler_that_fails_does_not_stop_the_installation(built: Path, tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "build_ext", "--build-lib", str(tmp_path), "--build-temp", str(tmp_path)]
    failing = {**os.environ, "CC": "false", "CXX": "false"}
    result = subprocess.run(command, cwd=built / "source", env=failing, capture_output=True, text=True)
    assert result.returncode == 0 and "_kernel" in result.stdout + result.stderr
    assert not list(tmp_path.rglob("*.so"))
    subprocess.run(command, cwd=built / "source", capture_output=True, check=True)
    assert {path.name.partition(".")[0] for path in tmp_path.rglob("*.so")} == {"_kernel", "_recurrence"}


@pytest.mark.slow
def test_wheel_and_sdist_hold_the_model(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        in_wheel = {name for name in wheel.namelist() if name.startswith("spacy_elmo/")}
        metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith("/METADATA"))).decode()
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        in_sdist = {name.partition("/")[2] for name in sdist.getnames()}
    description = metadata.partition("\n\n")[2]
    links = re.findall(r"\]\(([^)]+)\)", description)
    assert links and all(link.startswith(("https://", "#")) for link in links), "a package index has no other files"
    assert "All commands" in description, "the text of a link stays"
    assert re.search(r"^!", description, re.MULTILINE) is None, "a picture in the repository leaves its text"
    assert f"\nVersion: {__version__}\n" in metadata
    assert (MODEL.relative_to(ROOT) / "README.md").as_posix() in in_wheel, "the model card"
    wanted = {path.relative_to(ROOT).as_posix() for path in MODEL.iterdir()}
    wanted |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "spacy_elmo").rglob("*.py")}
    wanted |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "spacy_elmo").glob("*/static/*")}
    wanted.add("spacy_elmo/py.typed")
    assert wanted <= in_wheel and wanted <= in_sdist
    configs = ("pretrain_en_elmo_sm.cfg", "pretrain_small_text.cfg", "adapt.cfg")
    wanted_in_wheel = {f"spacy_elmo/configs/{name}" for name in configs}
    assert {name for name in in_wheel if name.endswith(".cfg")} == wanted_in_wheel
    assert {"LICENSE", "README.md", "constraints.txt", "project/project.yml"} <= in_sdist
    weights = {name for name in in_sdist if name.endswith(".safetensors") and not name.startswith("tests/")}
    assert weights == {(MODEL / "weights.safetensors").relative_to(ROOT).as_posix()}


@pytest.mark.slow
@pytest.mark.issue(40)
def test_a_packaged_pipeline_is_installed_in_an_empty_environment(built: Path, tmp_path: Path) -> None:
    """As the docs say: the wheel of this package beside it, and --find-links. No index is asked."""
    shared = tmp_path / "site"  # what an index would serve: all that is installed here, without this package
    shared.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(("spacy_elmo", "__editable__")):
            (shared / entry.name).symlink_to(entry)
    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    (site,) = (tmp_path / "venv").glob("**/site-packages")
    (site / "index.pth").write_text(f"{shared}\n", encoding="utf8")

    def run(*command: Any) -> Tuple[int, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "PIP_"))}
        settings: Any = {"env": {**kept, "PIP_CONFIG_FILE": os.devnull}, "cwd": tmp_path}
        result = subprocess.run([python, *map(str, command)], capture_output=True, text=True, **settings)
        return result.returncode, result.stdout + result.stderr

    folder = tmp_path / "packages"
    package_bilm(load_bilm("en_elmo_sm"), folder, name="mine", lang="en")
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    listener = {"@architectures": "spacy-elmo.ElmoListener.v1"}
    model = {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}
    nlp.add_pipe("tagger", config={"model": model})
    example = Example.from_dict(nlp.make_doc("bank"), {"tags": ["NOUN"]})
    nlp.initialize(lambda: [example])
    nlp.to_disk(tmp_path / "trained")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of spaCy
        package(tmp_path / "trained", folder, name="tags", version="1.0", create_sdist=False)
    packages = [next((folder / "en_elmo_mine-1.0.0" / "dist").glob("*.whl")), folder / "en_tags-1.0"]
    install = ("-m", "pip", "install", "--no-index", "--no-build-isolation")
    code, told = run(*install, *packages)
    assert code and "spacy-elmo" in told

    shutil.copy(next(built.glob("*.whl")), folder)
    code, told = run(*install, "--find-links", folder, *packages)
    assert not code, told
    script = (
        "import spacy; print([spacy.load(name)('Hello bank')._.elmo.shape for name in ('en_elmo_mine', 'en_tags')])"
    )
    code, told = run("-c", script)
    assert not code and "(2, 256), (2, 256)" in told, told


def test_importing_the_package_brings_nothing_heavy() -> None:
    code = "import sys, spacy; before = set(sys.modules); import spacy_elmo; print(*set(sys.modules) - before)"
    assert set(run_script(code).split()) <= {"spacy_elmo", "spacy_elmo.about"}
