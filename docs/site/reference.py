"""Reference pages from the docstrings and signatures of the public names, as the source has them."""

import ast
import re
import sys
import textwrap
from importlib import import_module
from inspect import cleandoc, getsource, isclass, isfunction
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which Sphinx requires there

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the package of this checkout
LINE_WIDTH = 100
Definition = Union[ast.ClassDef, ast.FunctionDef, ast.Assign]
# Page: title, one line about it, and its modules. A trailing `.*` stands for each module of a package.
PAGES: Dict[str, Tuple[str, str, Tuple[str, ...]]] = {
    "spacy_elmo": ("spacy_elmo", "Load and save biLMs, and compute vectors without a pipeline.", ("spacy_elmo",)),
    "nn": ("spacy_elmo.nn", "Modules for plain PyTorch.", ("spacy_elmo.nn",)),
    "compat": (
        "spacy_elmo.compat",
        "Replacements for packages that are no longer maintained. [Migrating](../migrating.md) shows their use.",
        tuple(f"spacy_elmo.compat.{name}" for name in ("allennlp", "simple_elmo", "elmoformanylangs", "bilm")),
    ),
    "analysis": (
        "spacy_elmo.analysis",
        "Questions asked of vectors and pipelines, and their pictures.",
        ("spacy_elmo.analysis.*",),
    ),
    "export": (
        "spacy_elmo.export",
        "ONNX graphs and packages, see [Formats](../formats.md); vectors, see [Large corpora](../scale.md).",
        ("spacy_elmo.export", "spacy_elmo.export.package"),
    ),
}
REGISTERED = (
    "# Registered names\n\nWhat spaCy finds by name: components, architectures, loggers, schedules and callbacks. "
    "[Component](../component.md) explains each setting."
)


def make_pages() -> Iterator[Tuple[str, str]]:
    """YIELDS (Tuple[str, str]): Path in the site, and Markdown."""
    for name, (title, about, patterns) in PAGES.items():
        modules = [module for pattern in patterns for module in _expand(pattern)]
        sections = [_write_module(module, is_only=len(modules) == 1) for module in modules]
        yield f"reference/{name}.md", "\n\n".join([f"# {title}", about, *filter(None, sections)]) + "\n"
    parts = [REGISTERED]
    with (ROOT / "pyproject.toml").open("rb") as file:
        groups = tomllib.load(file)["project"]["entry-points"]
    for group in groups:
        if group == "spacy_cli":
            continue
        parts.append(f"## {group}")
        for name, target in groups[group].items():
            module, attribute = target.split(":")
            parts += [f"### `{name}`", f"`{module}.{attribute}`", *_describe(_define(module, attribute), attribute)]
    yield "reference/registered.md", "\n\n".join(parts) + "\n"


def _expand(pattern: str) -> List[str]:
    package = pattern.removesuffix(".*")
    paths = sorted(ROOT.joinpath(*package.split(".")).glob("[a-z]*.py"))
    return [f"{package}.{path.stem}" for path in paths] if package != pattern else [pattern]


def _write_module(module: str, *, is_only: bool) -> str:
    loaded = import_module(module)
    own = [name for name, value in vars(loaded).items() if name[0] != "_" and _is_own(value, module)]
    names = getattr(loaded, "__all__", own)
    if not names:
        return ""
    level = "##" if is_only else "###"
    parts = [*([] if is_only else [f"## {module}"]), to_markdown(loaded.__doc__ or "")]
    for name in names:
        definition, anchor = _define(module, name), f"{module}.{name}"
        parts += [f"({anchor})=\n{level} `{name}`", *_describe(definition, name)]
        for node in definition.body if isinstance(definition, ast.ClassDef) else ():
            if isinstance(node, ast.FunctionDef) and node.name[0] != "_" and "setter" not in _decorators(node):
                parts += [f"({anchor}.{node.name})=\n{level}# `{node.name}`", *_describe(node, node.name)]
    return "\n\n".join(parts)


def _describe(definition: Definition, name: str) -> List[str]:
    """RETURNS (List[str]): The definition as a reader would write it, and its docstring."""
    if isinstance(definition, ast.Assign):
        return [_fence(f"{name} = {ast.unparse(definition.value)}")]
    if isinstance(definition, ast.FunctionDef):
        code = _decorators(definition) + _signature(definition, name)
    else:
        makers = [node for node in definition.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
        fields = [f"    {ast.unparse(node)}" for node in definition.body if isinstance(node, ast.AnnAssign)]
        bases = f"({', '.join(map(ast.unparse, definition.bases))})" if definition.bases else ""
        code = f"class {_signature(makers[0], name)}" if makers else "\n".join([f"class {name}{bases}", *fields])
    return [_fence(code), to_markdown(ast.get_docstring(definition) or "")]


def _signature(function: ast.FunctionDef, name: str) -> str:
    """RETURNS (str): Without `self`; long ones in several lines."""
    parameters = re.sub(r"^(self|cls)(, |$)", "", ast.unparse(function.args))
    result = f" -> {ast.unparse(function.returns)}" if function.returns and function.name != "__init__" else ""
    return textwrap.fill(f"{name}({parameters}){result}", LINE_WIDTH, subsequent_indent="    ", break_long_words=False)


def _decorators(function: ast.FunctionDef) -> str:
    return "".join(f"@{ast.unparse(node)}\n" for node in function.decorator_list)


def _fence(code: str) -> str:
    return f"```python\n{code}\n```"


def _is_own(value: Any, module: str) -> bool:
    return (isclass(value) or isfunction(value)) and value.__module__ == module


def _define(module: str, name: str) -> Definition:
    """RETURNS (Definition): The source of a class or function, wherever it is; of another value an assignment."""
    value = getattr(import_module(module), name)
    source = getsource(value) if isclass(value) or isfunction(value) else f"{name} = {value!r}"
    return ast.parse(textwrap.dedent(source)).body[0]  # type: ignore[return-value]


# A type, in parentheses: it begins with a capital letter or is one of Python's or a library's; one level of nesting.
_OWN = r"[A-Z]|(?:bool|int|float|str|bytes|object|slice|dict|list|tuple)\b|torch\.|nn\.|np\."
_TYPE = rf"\((?:{_OWN})(?:[^()]|\([^()]*\))*\)"
_FIELD = re.compile(rf"(\**\w+ {_TYPE}(?:, \**\w+ {_TYPE})*): (.*)", re.S)
_NAME = re.compile(rf"(\**\w+) ({_TYPE})")
_RESULTS = {"RETURNS": "Returns", "YIELDS": "Yields", "RAISES": "Raises"}


def to_markdown(docstring: str) -> str:
    """docstring (str): In spaCy's form: text, and `name (type): description`, continued in indented lines.
    RETURNS (str): Paragraphs, and one list item for each parameter, result or error.
    """
    text, was_field = "", False
    for paragraph in cleandoc(docstring).split("\n\n"):
        for number, chunk in enumerate(re.split(r"\n(?! )", paragraph)):
            field = _FIELD.fullmatch(re.sub(r"\n *", " ", chunk))
            is_joined = number > 0 and bool(field) == was_field
            text += ("\n" if is_joined else "\n\n") + (_write_field(field) if field else escape(chunk))
            was_field = bool(field)
    return text.strip()


def _write_field(field: "re.Match[str]") -> str:
    names = [
        f"*{_RESULTS[name]}* (`{type_[1:-1]}`)" if name in _RESULTS else f"**`{name}`** (`{type_[1:-1]}`)"
        for name, type_ in _NAME.findall(field[1])
    ]
    return f"- {', '.join(names)}: {escape(field[2])}"


def escape(text: str, inside: Optional["re.Pattern[str]"] = None) -> str:
    """text (str): Plain text with code between backticks.
    inside (Optional[re.Pattern[str]]): What becomes code, too.
    RETURNS (str): The same for Markdown: outside of code, nothing is markup.
    """
    if inside is not None:
        parts = re.split(r"(`[^`]*`)", text)
        text = "".join(part if part[:1] == "`" else inside.sub(lambda found: f"`{found[0]}`", part) for part in parts)
    return "".join(
        part if part[:1] == "`" else re.sub(r"([*_\[\]])", r"\\\1", part.replace("&", "&amp;").replace("<", "&lt;"))
        for part in re.split(r"(`[^`]*`)", text)
    )
