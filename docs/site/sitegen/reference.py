"""Reference pages from the docstrings of the public names."""

import ast
from dataclasses import dataclass
from typing import Dict, Iterator, List, Tuple

from .docstrings import to_markdown
from .entry_points import read_entry_points
from .signatures import decorators, write_class, write_function
from .source import ROOT, Public, find_definition, parse, read_public


@dataclass(frozen=True)
class ReferencePage:
    """A page: its title, one line about it, and its modules. A trailing `.*` stands for each module of a package."""

    title: str
    about: str
    modules: Tuple[str, ...]


PAGES: Dict[str, ReferencePage] = {
    "reference/spacy_elmo.md": ReferencePage(
        "spacy_elmo", "Load and save biLMs, and compute vectors without a pipeline.", ("spacy_elmo",)
    ),
    "reference/nn.md": ReferencePage("spacy_elmo.nn", "Modules for plain PyTorch.", ("spacy_elmo.nn",)),
    "reference/compat.md": ReferencePage(
        "spacy_elmo.compat",
        "Replacements for packages that are no longer maintained. [Migrating](../migrating.md) shows their use.",
        (
            "spacy_elmo.compat.allennlp",
            "spacy_elmo.compat.simple_elmo",
            "spacy_elmo.compat.elmoformanylangs",
            "spacy_elmo.compat.bilm",
        ),
    ),
    "reference/analysis.md": ReferencePage(
        "spacy_elmo.analysis",
        "Questions asked of vectors and pipelines, and their pictures.",
        ("spacy_elmo.analysis.*",),
    ),
    "reference/export.md": ReferencePage(
        "spacy_elmo.export",
        "A biLM as ONNX graph or spaCy package. [Formats](../formats.md) says what is checked.",
        ("spacy_elmo.export", "spacy_elmo.export.package"),
    ),
}
REGISTERED = "reference/registered.md"
_INTRODUCTION = (
    "What spaCy finds by name: components, architectures, loggers, schedules and callbacks. "
    "[Component](../component.md) explains each setting."
)


def make_pages() -> Iterator[Tuple[str, str]]:
    """YIELDS (Tuple[str, str]): Path in the site, and Markdown."""
    for path, page in PAGES.items():
        modules = [name for pattern in page.modules for name in _modules(pattern)]
        sections = [_write_module(module, is_only=len(modules) == 1) for module in modules]
        yield path, "\n\n".join([f"# {page.title}", page.about, *filter(None, sections)]) + "\n"
    yield REGISTERED, _write_registered()


def _modules(pattern: str) -> List[str]:
    if not pattern.endswith(".*"):
        return [pattern]
    package = pattern[:-2]
    paths = sorted(ROOT.joinpath(*package.split(".")).glob("[a-z]*.py"))
    return [f"{package}.{path.stem}" for path in paths]


def _write_module(module: str, *, is_only: bool) -> str:
    public = read_public(module)
    if not public:
        return ""
    head = [] if is_only else [f"## {module}"]
    introduction = to_markdown(ast.get_docstring(parse(module)) or "")
    level = "##" if is_only else "###"
    return "\n\n".join([*head, introduction, *(_write_public(one, module, level) for one in public)])


def _write_public(public: Public, module: str, level: str) -> str:
    definition = public.definition
    anchor = f"{module}.{public.name}"
    head = f"({anchor})=\n{level} `{public.name}`"
    if isinstance(definition, ast.Assign):
        return "\n\n".join([head, _fence(f"{public.name} = {ast.unparse(definition.value)}")])
    if isinstance(definition, ast.FunctionDef):
        parts = [_fence(write_function(definition, name=public.name)), _text(definition)]
        return "\n\n".join([head, *parts])
    members = [_write_member(node, anchor, level) for node in _public_members(definition)]
    return "\n\n".join([head, _fence(write_class(definition, name=public.name)), _text(definition), *members])


def _public_members(definition: ast.ClassDef) -> List[ast.FunctionDef]:
    functions = [node for node in definition.body if isinstance(node, ast.FunctionDef)]
    return [node for node in functions if not node.name.startswith("_") and not _is_setter(node)]


def _is_setter(function: ast.FunctionDef) -> bool:
    return any(name.endswith((".setter", ".deleter")) for name in decorators(function))


def _write_member(function: ast.FunctionDef, owner: str, level: str) -> str:
    kinds = [kind for kind in decorators(function) if kind in ("property", "classmethod", "staticmethod")]
    signature = write_function(function, is_method=True)
    if "property" in kinds:
        signature = signature.replace("()", "", 1).replace(" -> ", ": ", 1)
    kind = "".join(f"@{name}\n" for name in kinds)
    head = f"({owner}.{function.name})=\n{level}# `{function.name}`"
    return "\n\n".join([head, _fence(kind + signature), _text(function)])


def _write_registered() -> str:
    parts = ["# Registered names", _INTRODUCTION]
    for registry, points in read_entry_points().items():
        parts.append(f"## {registry}")
        for name, (module, attribute) in points.items():
            public = find_definition(module, attribute)
            definition = public.definition
            if isinstance(definition, ast.Assign):
                raise ValueError(f"{name} of setup.py is neither a class nor a function")
            is_class = isinstance(definition, ast.ClassDef)
            signature = write_class(definition, name=attribute) if is_class else write_function(definition)
            parts += [f"### `{name}`", f"`{module}.{attribute}`", _fence(signature), _text(definition)]
    return "\n\n".join(parts) + "\n"


def _fence(code: str) -> str:
    return f"```python\n{code}\n```"


def _text(definition: ast.AST) -> str:
    assert isinstance(definition, (ast.ClassDef, ast.FunctionDef))
    return to_markdown(ast.get_docstring(definition) or "")
