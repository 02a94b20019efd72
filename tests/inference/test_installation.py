"""Without the native kernel a computation warns once in a process, with the reason and what to do."""

import json
import shutil
from pathlib import Path

import pytest
from cli.calls import call, call_json
from inference.forcing import needs_kernel
from own_process import run_script

import spacy_elmo
from spacy_elmo.inference import kernel
from spacy_elmo.inference.installation import describe_kernel

PACKAGE = Path(spacy_elmo.__file__).parent
SCRIPT = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import spacy_elmo
    for _ in range(2):
        vectors = [spacy_elmo.load_bilm("en_elmo_sm").embed([["The", "bank"]]) for _ in range(2)]
print(spacy_elmo.__file__)
print(float(abs(vectors[0][0]).sum()))
print(*[str(warning.message) for warning in caught if "[WL" in str(warning.message)], sep="\\n")
"""


def run_sources(folder, **variables):
    """Embed with the package in a folder.
    RETURNS (Tuple[float, List[str]]): A sum over the vectors, and the warnings.
    """
    code = f"import sys; sys.path.insert(0, {str(folder)!r})\n{SCRIPT}"
    path, total, *messages = run_script(code, **variables).split("\n")
    assert Path(path).parent == Path(folder) / "spacy_elmo"
    return float(total), [message for message in messages if message]


@pytest.fixture
def sources(tmp_path):
    """The package in a folder where nothing was compiled."""
    (tmp_path / "spacy_elmo").mkdir()
    for entry in PACKAGE.iterdir():
        if entry.name == "inference":
            ignored = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
            shutil.copytree(entry, tmp_path / "spacy_elmo" / "inference", ignore=ignored)
        elif entry.name != "__pycache__":
            (tmp_path / "spacy_elmo" / entry.name).symlink_to(entry)
    return tmp_path


def test_sources_that_were_not_installed_warn_once(sources):
    (sources / "setup.py").touch()
    total, (message,) = run_sources(sources)
    assert message.startswith("[WL022]") and "2.5 times slower" in message
    assert f"the sources in '{sources}' are imported, where nothing was compiled" in message
    assert f"Run `pip install -e .` in '{sources}'" in message and "inspect en_elmo_sm" in message
    assert total == pytest.approx(run_sources(PACKAGE.parent)[0], rel=1e-6)


@pytest.mark.slow
def test_an_installation_without_a_compiler_says_so(sources):
    _, (message,) = run_sources(sources)
    assert "where no C++ compiler was found" in message and "--force-reinstall" in message


@pytest.mark.slow
def test_an_editable_installation_without_a_compiler_says_so(sources):
    (sources / "setup.py").touch()
    record = sources / "spacy_elmo-0.1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: spacy-elmo\nVersion: 0.1.0\n")
    (record / "direct_url.json").write_text(json.dumps({"url": sources.as_uri(), "dir_info": {"editable": True}}))
    _, (message,) = run_sources(sources)
    assert "where no C++ compiler was found" in message and f"then run `pip install -e .` in '{sources}'" in message


@pytest.mark.slow
def test_a_kernel_that_cannot_be_imported_is_named(sources):
    broken = sources / "spacy_elmo" / "inference" / "_kernel.abi3.so"
    broken.write_text("of another system")
    _, (message,) = run_sources(sources)
    assert f"'{broken}' cannot be imported here (" in message and "Compile it again" in message


def test_a_kernel_that_was_switched_off_is_not_missing():
    total, (message,) = run_sources(PACKAGE.parent, SPACY_ELMO_CPU_ISA="none")
    assert "SPACY_ELMO_CPU_ISA is 'none'. Unset SPACY_ELMO_CPU_ISA" in message
    assert total == pytest.approx(run_sources(PACKAGE.parent)[0], rel=1e-6)


@needs_kernel
def test_no_warning_with_the_kernel():
    assert run_sources(PACKAGE.parent)[1] == []


def test_inspect_shows_the_kernel_in_use():
    shown = call("inspect", "en_elmo_sm").stdout
    assert f"Native kernel: {describe_kernel()}\n" in shown
    assert call_json("inspect", "en_elmo_sm")["kernel"] == describe_kernel()
    if kernel.native is not None:
        assert describe_kernel() == f"{kernel.native.INSTRUCTION_SET}, {kernel.native.__file__}"
