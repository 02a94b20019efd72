"""The table of packages, enforced: allowed imports, allowed libraries, no cycle.

The source is parsed, not imported, so that a rule also holds for imports inside functions and under TYPE_CHECKING.
"""

import ast
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

import pytest

PACKAGE = "spacy_elmo"
ROOT = Path(__file__).parent.parent / PACKAGE
# Open to all, and nothing but the standard library inside, and pydantic in `settings`.
OPEN = ("errors", "about", "files", "util", "settings")
# Optional or slow to import: only inside the function that needs them.
LAZY = frozenset(["matplotlib", "sklearn", "onnx", "pyarrow", "ray", "cupy", "pandas", "faiss"])
# Ways to reach a file from a package that may not open files.
FILES = frozenset(["pathlib", "io", "tempfile", "shutil", "gzip", "zipfile", "h5py", "safetensors", "srsly"])


ALL_INNER = "bilm text inference weights corpora pipeline pretraining nn compat"
NO_FILES = ("bilm", "text", "inference")


# Of each package, others of ours and libraries that it may import.
PACKAGES: Dict[str, Tuple[str, str]] = {
    "bilm": ("", "torch numpy"),
    "text": ("", "numpy"),
    "inference": ("bilm text", "torch numpy"),
    "weights": ("bilm text inference", "torch numpy srsly safetensors h5py"),
    "corpora": ("text", "numpy srsly spacy"),
    "pipeline": ("bilm text inference weights", "thinc spacy srsly torch numpy cupy"),
    "pretraining": ("bilm text inference weights corpora", "torch numpy srsly tqdm thinc safetensors"),
    "nn": ("bilm text inference weights", "torch numpy"),
    "compat": ("bilm text inference weights nn", "torch numpy h5py"),
    "analysis": (ALL_INNER, "numpy spacy srsly sklearn matplotlib faiss"),
    "export": (ALL_INNER, "spacy thinc srsly numpy torch h5py onnx pyarrow ray"),
    "explorer": (f"{ALL_INNER} analysis", "numpy spacy starlette uvicorn"),
    "cli": (f"{ALL_INNER} analysis export explorer", "typer wasabi srsly spacy thinc torch numpy tqdm matplotlib"),
}


class Import(NamedTuple):
    """One imported name of one module: `module` is absolute, `name` what is taken from it ("" for the module)."""

    line: int
    module: str
    name: str
    is_top_level: bool


def module_name(path: Path, root: Path) -> str:
    """Dotted name of a file, a package's `__init__` included."""
    return ".".join((root.name, *path.relative_to(root).with_suffix("").parts))


def package_of(module: str) -> str:
    """Second part of a dotted name: the package, or a module of the top level, or "" for the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def read_imports(path: Path, root: Path) -> List[Import]:
    """All imports of a file; those that run when it is imported are `is_top_level`."""
    tree = ast.parse(path.read_text(encoding="utf8"))
    package = module_name(path, root).split(".")[:-1]
    late = {node for outer in ast.walk(tree) if _is_late(outer) for node in ast.walk(outer)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [Import(node.lineno, alias.name, "", node not in late) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found += [Import(node.lineno, module, alias.name, node not in late) for alias in node.names]
    return found


def _is_late(node: ast.AST) -> bool:
    """Code below this node does not run at import."""
    is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    return is_function or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))


def find_violations(root: Path) -> List[str]:
    """One line for each rule that the package below `root` breaks."""
    found = []
    for path in sorted(root.rglob("*.py")):
        module, where = module_name(path, root), path.relative_to(root)
        for imported in read_imports(path, root):
            is_ours = imported.module.split(".")[0] == root.name
            problem = (_ours_problem if is_ours else _library_problem)(module, imported)
            found += [f"{where}:{imported.line}: {problem}"] if problem else []
        if package_of(module) in NO_FILES:
            found += [f"{where}:{line}: opens a file" for line in _open_calls(path)]
    return found + [f"import cycle: {' -> '.join(cycle)}" for cycle in find_cycles(root)]


def _ours_problem(module: str, imported: Import) -> str:
    """What is wrong with an import of our own, or ""."""
    here, there = package_of(module), package_of(imported.module) or imported.name
    if here in OPEN:
        return "" if there in OPEN[: OPEN.index(here) + 1] else "only the standard library is allowed here"
    if module == f"{PACKAGE}.cli.plugin" and not imported.module.endswith("cli._app"):
        return "the plugin imports only typer, spacy.cli and the app"
    if there in OPEN or here == there or (here == "__main__" and there == "cli"):
        return ""
    if here == "__init__":
        return "the top level does not import cli" if there == "cli" else ""
    if here not in PACKAGES:
        return f"'{here}' is not a package of the design"
    return "" if there in PACKAGES[here][0].split() else f"{here} must not import {there}"


def _library_problem(module: str, imported: Import) -> str:
    """What is wrong with an import of a library, or ""."""
    here, library = package_of(module), imported.module.split(".")[0]
    if here in NO_FILES and library in FILES:
        return f"{here} must not know of files ({library})"
    if library in sys.stdlib_module_names:
        return ""
    if library == "pydantic" and here not in ("errors", "about", "files", "util", "text"):
        return ""
    if here not in PACKAGES:
        return f"only the standard library is allowed here ({library})"
    if library not in PACKAGES[here][1].split():
        return f"{here} must not import {library}"
    if library in LAZY and imported.is_top_level:
        return f"{library} must be imported in the function that needs it"
    if here == "pretraining" and library == "thinc" and (imported.module, imported.name) != ("thinc.api", "Config"):
        return "of thinc, pretraining may use only thinc.api.Config"
    if module == f"{PACKAGE}.cli.plugin" and imported.module not in ("typer", "spacy.cli"):
        return "the plugin imports only typer, spacy.cli and the app"
    return ""


def _open_calls(path: Path) -> List[int]:
    tree = ast.parse(path.read_text(encoding="utf8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "open"]


def find_cycles(root: Path) -> List[List[str]]:
    """Modules that import each other in a package, at most one cycle; its `__init__` counts as the package."""
    paths = {module_name(path, root).removesuffix(".__init__"): path for path in sorted(root.rglob("*.py"))}
    graph = {
        module: {_target(imported, paths) for imported in read_imports(path, root) if imported.is_top_level}
        - {module, ""}
        for module, path in paths.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [error.args[1]]
    return []


def _target(imported: Import, paths: Dict[str, Path]) -> str:
    full = f"{imported.module}.{imported.name}"
    return full if full in paths else imported.module if imported.module in paths else ""


def test_package_keeps_the_layers() -> None:
    violations = find_violations(ROOT)
    assert not violations, "\n".join(violations)


def test_every_directory_is_a_package() -> None:
    directories = {path.parent.relative_to(ROOT).parts[0] for path in ROOT.glob("*/*.py")}
    assert directories <= {*PACKAGES}


@pytest.mark.parametrize(
    "path, source, problem",
    [
        ("bilm/lstm.py", "import spacy", "bilm must not import spacy"),
        ("inference/runner.py", "from ..weights.native import read", "inference must not import weights"),
        ("inference/bilm.py", "x = open('a')", "opens a file"),
        ("export/parquet.py", "import pyarrow", "in the function that needs it"),
        ("cli/plugin.py", "import wasabi", "the plugin imports only"),
        ("text/lanes.py", "from .windows import cut", "import cycle"),
    ],
)
def test_planted_violation_is_found(tmp_path: Path, path: str, source: str, problem: str) -> None:
    root = tmp_path / PACKAGE
    for name, content in {"text/windows.py": "from .lanes import plan", path: source}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content, encoding="utf8")
    assert [line for line in find_violations(root) if problem in line]
