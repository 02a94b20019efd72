"""What CI tests is what a reader of the README gets: its commands, from its text, and nothing else is built."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import List

import pytest

pytestmark = pytest.mark.issue(59)
ROOT = Path(__file__).parent.parent
# Scripts that test the package. `release.yml` builds what is published, and is not among them.
PROJECTS = ["project/project.yml", "project/english/project.yml", "project/experiments/project.yml"]
SCRIPTS = [".ci/run", ".ci/environments", ".ci/readme", ".github/workflows/test.yml", "Makefile", *PROJECTS]
# Commands that install, compile or copy. A compiled module is never named.
CHANGES = re.compile(
    r"\b(pip3?|uv|conda|apt(-get)?|npm)\b[^|;&]* (install|wheel|sync)\b|\bsetup\.py\b|\bbuild_ext\b|--inplace\b"
    r"|-m build\b|\b(cp|mv|rsync|tar|dd|curl|wget|make) \S|\binstall -\w|\bln -|\.so\b|\.pyd\b|\bg?c\+\+ |\bgcc "
    r"|\bcmake\b"
    r"|> *\S*spacy_elmo/|\bPYTHONPATH=|\bgit (checkout|restore|apply|stash)\b|\bshutil\b|\bcopy(tree|file)?\("
)
# What else is allowed, and why.
ALLOWED = {
    "apt-get -qq install -y --no-install-recommends chromium": "a browser, without which its tests are skipped",
    "pip install uv": "it finds the oldest versions, outside of the tested environment",
    'ln -sf -t "$work/bin"': "links to all programs but compilers, for the environment without one",
}


def read_install_commands() -> List[str]:
    """RETURNS (List[str]): The commands of the README that install the package from a checkout."""
    text = (ROOT / "README.md").read_text(encoding="utf8")
    section = text.partition("\n## Install\n")[2].partition("\n## ")[0]
    return [line for block in re.findall(r"```bash\n(.*?)```", section, flags=re.S) for line in block.splitlines()]


def find_changes(text: str) -> List[str]:
    """RETURNS (List[str]): Lines that change the environment in a way that no command of the README does."""
    commands = [part.strip() for line in read_install_commands() for part in line.split("&&")]
    # Without the tested versions, or with others: what the script `.ci/environments` does by name.
    commands += [command.replace(" -c constraints.txt", "") for command in commands]
    changes = []
    for line in text.splitlines():
        code = re.sub(r"\$\{\{.*?\}\} *", "", line.partition("#")[0])
        for known in sorted([*commands, *ALLOWED], key=len, reverse=True):
            code = code.replace(known, "")
        if CHANGES.search(code):
            changes.append(line.strip())
    return changes


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_ci_runs_the_two_commands_of_the_readme():
    script = ["bash", str(ROOT / ".ci" / "readme")]
    printed = [subprocess.run([*script, n], capture_output=True, text=True, check=True).stdout for n in "12"]
    first, second = map(str.strip, printed)
    commands = read_install_commands()
    assert first in commands and second in commands
    assert first.startswith("pip install") and first.endswith("&& python -m spacy project run all project")
    assert second.startswith("pip install") and second.endswith("&& python -m pytest")
    for script in (".ci/run", ".ci/environments"):
        assert ".ci/readme" in (ROOT / script).read_text(encoding="utf8")


@pytest.mark.issue(61)
def test_the_readme_installs_the_pipeline_that_it_uses():
    """Its blocks run after any of its commands: the wheel is named, since Windows has no shell that expands `*`."""
    text = (ROOT / "README.md").read_text(encoding="utf8")
    (package,) = re.findall(r'spacy\.load\("(\w+)"\)', text)
    wheels = {word for command in read_install_commands() for word in command.split() if word.endswith(".whl")}
    (wheel,) = wheels
    assert Path(wheel).name.startswith(f"{package}-") and (ROOT / wheel).is_file()
    assert all(wheel in command for command in read_install_commands())


def test_every_installation_from_a_checkout_is_editable():
    """With another one, Python in the checkout imports the sources, which have no compiled kernel."""
    pattern = re.compile(r"pip install (?:-\S+ \S+ )*[\"']?\.(?:\[\w+\][\"']?)?(?:\s|`|$|&)")
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "constraints.txt", *ROOT.glob("docs/**/*.md")]
    pages += [*ROOT.glob("project/**/*.md"), *ROOT.glob("examples/*.md"), *ROOT.glob("docs/tutorial/*.ipynb")]
    wrong = [
        f"{page.relative_to(ROOT)}: {line.strip()}"
        for page in [*pages, *(ROOT / script for script in SCRIPTS)]
        for line in page.read_text(encoding="utf8").splitlines()
        if any(" -e " not in found.group() for found in pattern.finditer(line))
    ]
    assert not wrong


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_that_tests_installs_only_what_the_readme_does(script):
    assert find_changes((ROOT / script).read_text(encoding="utf8")) == []


@pytest.mark.parametrize(
    "line",
    [
        'cp "$file" "spacy_elmo/inference/"',
        "python setup.py build_ext --inplace",
        "pip install .",
        "pip install cython",
        "python -m build",
        "install -m 644 _kernel.abi3.so spacy_elmo/inference",
        "mv kernel spacy_elmo",
        'cat "$site/$file" > "spacy_elmo/inference/$file"',
        "tar -cf - inference | tar -xf - -C spacy_elmo",
        'python -c "import shutil; shutil.copytree(a, b)"',
        'export PYTHONPATH="$site"',
        "git checkout kernel -- .",
        'ln -sf -t spacy_elmo/inference "$site"/*',
        "make kernel",
    ],
)
def test_a_script_that_builds_more_is_found(line):
    assert find_changes(line) == [line]
