"""The table of packages, enforced: allowed imports, allowed libraries, no cycle; one name for one thing.

The source is parsed, not imported, so that a rule also holds for imports inside functions and under TYPE_CHECKING.
"""

import ast
import sys
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Dict, List, NamedTuple, Set, Tuple

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
EXPECTED_NAMES = {"forward", "init", "logger", "F"}  # by Thinc, torch and logging, in many modules
MAX_HOMONYMS = 10  # public top-level names that are defined twice
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
    """A name of a module: `module` is absolute, `name` what is taken from it ("" for the module itself)."""

    line: int
    module: str
    name: str
    is_top_level: bool


def module_name(path: Path, root: Path) -> str:
    return ".".join((root.name, *path.relative_to(root).with_suffix("").parts))


def package_of(module: str) -> str:
    """Second part of a dotted name: the package, or a module of the top level, or "" for the package itself."""
    return (*module.split("."), "")[1]


def read_imports(tree: ast.AST, module: str) -> List[Import]:
    package = module.split(".")[:-1]
    late = {node for outer in ast.walk(tree) if _is_late(outer) for node in ast.walk(outer)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [Import(node.lineno, alias.name, "", node not in late) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            found += [Import(node.lineno, source, alias.name, node not in late) for alias in node.names]
    return found


def _is_late(node: ast.AST) -> bool:
    """Code below this node does not run at import."""
    is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    return is_function or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))


def find_violations(root: Path) -> List[str]:
    """One line for each rule that the package below `root` breaks."""
    trees = {path: ast.parse(path.read_text(encoding="utf8")) for path in sorted(root.rglob("*.py"))}
    found, graph = [], {}
    names = {module_name(path, root).removesuffix(".__init__") for path in trees}
    for path, tree in trees.items():
        module, imports = module_name(path, root), read_imports(tree, module_name(path, root))
        for one in imports:
            is_ours = one.module.split(".")[0] == root.name
            problem = (_ours_problem if is_ours else _library_problem)(module, one)
            found += [f"{module}:{one.line}: {problem}"] if problem else []
        if package_of(module) in NO_FILES:
            calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
            names_called = [call.func.id for call in calls if isinstance(call.func, ast.Name)]
            found += [f"{module}: opens a file"] * names_called.count("open")
        own_name = module.removesuffix(".__init__")
        graph[own_name] = {_target(one, names) for one in imports if one.is_top_level} - {own_name, ""}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found.append(f"import cycle: {' -> '.join(error.args[1])}")
    return found


def _target(imported: Import, names: Set[str]) -> str:
    full = f"{imported.module}.{imported.name}"
    return full if full in names else imported.module if imported.module in names else ""


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
    return "" if here in PACKAGES and there in PACKAGES[here][0].split() else f"{here} must not import {there}"


def _library_problem(module: str, imported: Import) -> str:
    """What is wrong with an import of a library, or ""."""
    here, library = package_of(module), imported.module.split(".")[0]
    if here in NO_FILES and library in FILES:
        return f"{here} must not know of files ({library})"
    if library in sys.stdlib_module_names:
        return ""
    if library == "pydantic" and here not in ("errors", "about", "files", "util", "text"):
        return ""
    if here not in PACKAGES or library not in PACKAGES[here][1].split():
        return f"{here} must not import {library}"
    if library in LAZY and imported.is_top_level:
        return f"{library} must be imported in the function that needs it"
    if here == "pretraining" and library == "thinc" and (imported.module, imported.name) != ("thinc.api", "Config"):
        return "of thinc, pretraining may use only thinc.api.Config"
    if module == f"{PACKAGE}.cli.plugin" and imported.module not in ("typer", "spacy.cli"):
        return "the plugin imports only typer, spacy.cli and the app"
    return ""


def test_package_keeps_the_layers() -> None:
    violations = find_violations(ROOT)
    assert not violations, "\n".join(violations)


def test_every_directory_is_a_package() -> None:
    directories = {path.parent.relative_to(ROOT).parts[0] for path in ROOT.glob("*/*.py")}
    assert directories <= {*PACKAGES}


def find_homonyms(root: Path) -> Tuple[Dict[str, List[str]], Dict[str, List[str]]]:
    """Names of modules, and public top-level names, that several modules have. `cli` and `compat` mirror what they
    serve and are left out, as is what Thinc, torch and logging expect.
    """
    modules: Dict[str, List[str]] = defaultdict(list)
    names: Dict[str, List[str]] = defaultdict(list)
    for path in sorted(root.rglob("*.py")):
        module = module_name(path, root)
        if path.name == "__init__.py" or package_of(module) in ("cli", "compat"):
            continue
        modules[path.stem].append(module)
        for name in _public_names(ast.parse(path.read_text(encoding="utf8"))):
            names[name].append(module)
    return _keep_repeated(modules), _keep_repeated(names)


def _keep_repeated(places: Dict[str, List[str]]) -> Dict[str, List[str]]:
    return {name: modules for name, modules in places.items() if len(modules) > 1}


def _public_names(tree: ast.Module) -> Set[str]:
    """Classes, functions and variables at the top of a module, but for type variables."""
    names = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(target.id for target in targets if isinstance(target, ast.Name))
    return {name for name in names if not name.startswith("_") and not name.endswith("T")} - EXPECTED_NAMES


def test_one_word_names_one_thing() -> None:
    modules, names = find_homonyms(ROOT)
    assert not modules, f"Modules with the same name: {modules}. Name each by what it has that the other has not."
    assert len(names) <= MAX_HOMONYMS, f"Names that are defined twice: {names}. Rename, or define once and import."


def test_homonyms_are_found(tmp_path: Path) -> None:
    root = tmp_path / PACKAGE
    for place, text in (
        ("text/words.py", "Row = int\n_a = 1"),
        ("bilm/words.py", "class Row: ...\n_a = 2"),
        ("cli/words.py", "Row = 1"),
    ):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text(text, encoding="utf8")
    modules, names = find_homonyms(root)
    places = [f"{PACKAGE}.bilm.words", f"{PACKAGE}.text.words"]
    assert modules == {"words": places} and names == {"Row": places}
