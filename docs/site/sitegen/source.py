"""Public names of the package, read from its source without importing it: no torch is needed to build the site."""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Tuple, Union

ROOT = Path(__file__).parents[3]
Definition = Union[ast.ClassDef, ast.FunctionDef, ast.Assign]


@dataclass(frozen=True)
class Public:
    """A public name: where it is imported from, its definition, and the module that defines it."""

    name: str
    definition: Definition
    home: str


def find_path(module: str) -> Optional[Path]:
    """module (str): Dotted name.
    RETURNS (Optional[Path]): Its file, if it is one of ours.
    """
    base = ROOT.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def parse(module: str) -> ast.Module:
    """module (str): Dotted name of a module of ours.
    RETURNS (ast.Module): Its source.
    """
    path = find_path(module)
    if path is None:
        raise ValueError(f"there is no module {module}: correct PAGES in sitegen/reference.py")
    return ast.parse(path.read_text(encoding="utf8"))


def read_public(module: str) -> List[Public]:
    """module (str): Dotted name.
    RETURNS (List[Public]): The names of `__all__`, or, without it, the public classes and functions.
    """
    tree = parse(module)
    names = _listed_names(tree)
    if names is None:
        defined = [node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
        names = [node.name for node in defined if not node.name.startswith("_")]
    return [find_definition(module, name) for name in names]


def find_definition(module: str, name: str) -> Public:
    """module (str): Dotted name of a module that has or imports the name.
    RETURNS (Public): The definition, followed through imports and aliases.
    """
    tree, shown = parse(module), name
    while True:
        definition = _own_definitions(tree).get(name)
        if isinstance(definition, ast.Assign) and isinstance(definition.value, ast.Name):
            name = definition.value.id  # an alias
            continue
        if definition is not None:
            return Public(shown, definition, module)
        imported = dict(_imports(tree, module)).get(name)
        if imported is None:
            raise ValueError(f"{module} has no {name}, which its __all__ lists")
        (module, name), tree = imported, parse(imported[0])


def _listed_names(tree: ast.Module) -> Optional[List[str]]:
    definition = _own_definitions(tree).get("__all__")
    return None if not isinstance(definition, ast.Assign) else list(ast.literal_eval(definition.value))


def _own_definitions(tree: ast.Module) -> Dict[str, Definition]:
    found: Dict[str, Definition] = {}
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node
    return found


def _imports(tree: ast.Module, module: str) -> Iterator[Tuple[str, Tuple[str, str]]]:
    """Names from our own modules, those for type checkers included: they are loaded on first use."""
    path = find_path(module)
    package = module if path is not None and path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            home = ".".join([*parents, *([node.module] if node.module else [])])
            yield from ((alias.asname or alias.name, (home, alias.name)) for alias in node.names)
