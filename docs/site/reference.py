"""Reference from docstrings and signatures: sections of `docs/api.md` and `docs/component.md`, and pages."""

import ast
import json
import re
import sys
import textwrap
from dataclasses import fields, is_dataclass
from importlib import import_module
from inspect import Parameter, cleandoc, getsource, isclass, isfunction, signature
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

from spacy.language import Language

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which Sphinx requires there

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the package of this checkout
LINE_WIDTH = 84
Definition = Union[ast.ClassDef, ast.FunctionDef, ast.Assign]
# Modules of the sections of `docs/api.md`.
API = ("spacy_elmo", "spacy_elmo.nn", "spacy_elmo.export")
RETURNED = (
    ("pipeline.component", "ElmoComponent"),
    ("pipeline.labelled_pipe", "LabelledPipe"),
    ("pipeline.crf_ner", "CRFNer"),
    ("pipeline.biaffine_parser", "BiaffineDependencyParser"),
    ("pipeline.suffix_lemmatizer", "SuffixLemmatizer"),
    ("pipeline.surprisal", "ElmoSurprisal"),
    ("pipeline.surprisal", "Surprisal"),
    ("inference.perplexity", "Perplexity"),
    ("inference.substitutes", "find_substitutes"),
)
# Page: title, one line about it, and its modules.
PAGES: Dict[str, Tuple[str, str, Tuple[str, ...]]] = {
    "compat": (
        "spacy_elmo.compat",
        "Replacements for packages that are no longer maintained. [Migrating](../migrating.md) shows their use.",
        tuple(f"spacy_elmo.compat.{name}" for name in ("allennlp", "simple_elmo", "elmoformanylangs", "bilm")),
    ),
    "analysis": (
        "spacy_elmo.analysis",
        "Questions asked of vectors and pipelines, and their pictures. [Analysis](../analysis.md) shows their use.",
        ("spacy_elmo.analysis", "spacy_elmo.explorer"),
    ),
}
# Groups of entry points: their title.
REGISTRIES = {
    "spacy_factories": "Settings of components",
    "spacy_architectures": "Settings of architectures",
    "spacy_callbacks": "Settings of callbacks",
    "spacy_loggers": "Settings of loggers",
    "spacy_misc": "Settings of loaders and of fine-tuning",
    "thinc_schedules": "Settings of schedules",
}


def make_pages() -> Iterator[Tuple[str, str]]:
    """YIELDS (Tuple[str, str]): Path in the site, and Markdown."""
    for name, (title, about, modules) in PAGES.items():
        sections = [_write_module(module) for module in modules]
        yield f"reference/{name}.md", "\n\n".join([f"# {title}", about, *filter(None, sections)]) + "\n"


def write_api() -> str:
    """RETURNS (str): The names of the modules of `API`."""
    parts = [_write_module(module) for module in API]
    parts += ["## Components and results", "What `nlp.add_pipe`, `nlp.get_pipe` and methods return."]
    parts += [part for module, name in RETURNED for part in _write_name(f"spacy_elmo.{module}", name)]
    return "\n\n".join(parts) + "\n"


def write_registered() -> str:
    """RETURNS (str): What spaCy finds by name, each with its settings and their defaults."""
    parts = []
    with (ROOT / "pyproject.toml").open("rb") as file:
        groups = tomllib.load(file)["project"]["entry-points"]
    for group, title in REGISTRIES.items():
        parts.append(f"## {title}")
        for name, target in groups[group].items():
            module, attribute = target.split(":")
            docstring, defaults = _read_settings(getattr(import_module(module), attribute), import_module(module))
            if group == "spacy_factories":
                defaults.update(_flatten(Language.get_factory_meta(name).default_config))
            text = to_markdown(docstring, defaults)
            parts += [f"### `{name}`", re.sub(r"`spacy-elmo\.(\w+)\.v1`", _link_setting, text)]
    return "\n\n".join(parts) + "\n"


def _link_setting(match: "re.Match[str]") -> str:
    return f"[{match[0]}](#spacy-elmo{match[1].lower()}v1)"


def _flatten(config: Dict[str, Any], prefix: str = "") -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Settings by their dotted names; no blocks that create something."""
    flat: Dict[str, Any] = {}
    for name, value in config.items():
        if not isinstance(value, dict):
            flat[prefix + name] = value
        elif not any(key.startswith("@") for key in value):
            flat.update(_flatten(value, f"{prefix}{name}."))
    return flat


def _read_settings(function: Any, module: Any) -> Tuple[str, Dict[str, Any]]:
    """RETURNS (Tuple[str, Dict[str, Any]]): The docstring, with the settings of each dataclass that it refers to (see
    `Name`), and the defaults.
    """
    parameters = signature(function).parameters
    defaults = {name: item.default for name, item in parameters.items() if item.default is not Parameter.empty}
    chunks = []
    for chunk in _split_chunks(cleandoc(function.__doc__)):
        reference, setting = re.search(r"see `(\w+)`", chunk), _match_field(chunk)
        block = getattr(module, reference[1], None) if reference else None
        if setting and _NAME.findall(setting[1])[0][0] in ("nlp", "name", "RETURNS"):
            continue
        if not (isclass(block) and is_dataclass(block)):
            chunks.append(chunk)
            continue
        prefix = f"{_NAME.findall(setting[1])[0][0]}." if setting else ""
        chunks += [] if prefix else [""]
        for field in filter(_match_field, _split_chunks(cleandoc(block.__doc__ or ""))):
            chunks += [] if field.startswith("RAISES") else [prefix + field]
        if prefix:
            defaults.update({f"{prefix}{field.name}": field.default for field in fields(block)})
    return "\n".join(chunks), defaults


def _write_module(module: str) -> str:
    loaded = import_module(module)
    own = [name for name, value in vars(loaded).items() if name[0] != "_" and _is_own(value, module)]
    names = getattr(loaded, "__all__", own)
    if not names:
        return ""
    parts = [f"## {module}", to_markdown(loaded.__doc__ or "")]
    return "\n\n".join([*parts, *(part for name in names for part in _write_name(module, name))])


def _write_name(module: str, name: str) -> Iterator[str]:
    definition, anchor = _define(module, name), f"{module}.{name}"
    yield f"({anchor})=\n### `{name}`"
    yield from _describe(definition, name)
    for node in definition.body if isinstance(definition, ast.ClassDef) else ():
        if isinstance(node, ast.FunctionDef) and node.name[0] != "_" and "setter" not in _decorators(node):
            yield f"({anchor}.{node.name})=\n#### `{node.name}`"
            yield from _describe(node, node.name)


def _describe(definition: Definition, name: str) -> List[str]:
    """RETURNS (List[str]): The definition as a reader would write it, and its docstring."""
    if isinstance(definition, ast.Assign):
        return [_fence(f"{name} = {ast.unparse(definition.value)}")]
    if isinstance(definition, ast.FunctionDef):
        is_property = "@property\n" in (decorators := _decorators(definition)) and definition.returns
        code = f"{name}: {ast.unparse(is_property)}" if is_property else decorators + _signature(definition, name)
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
    """RETURNS (str): Decorators that change how a function is called."""
    names = [ast.unparse(node) for node in function.decorator_list]
    return "".join(f"@{name}\n" for name in names if re.fullmatch(r"(class|static)method|property|\w+\.setter", name))


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
_FIELD = re.compile(rf"(\**[\w.]+ {_TYPE}(?:, \**[\w.]+ {_TYPE})*): (.*)", re.S)
_NAME = re.compile(rf"(\**[\w.]+) ({_TYPE})")
_RESULTS = {"RETURNS": "Returns", "YIELDS": "Yields", "RAISES": "Raises"}


def to_markdown(docstring: str, defaults: Optional[Dict[str, Any]] = None) -> str:
    """docstring (str): In spaCy's form: text, and `name (type): description`, continued in indented lines.
    defaults (Optional[Dict[str, Any]]): Of settings, by name; they are written as a config has them.
    RETURNS (str): Paragraphs, and one list item for each parameter, result or error.
    """
    text, was_field = "", False
    for paragraph in cleandoc(docstring).split("\n\n"):
        for number, chunk in enumerate(_split_chunks(paragraph)):
            field = _match_field(chunk)
            is_joined = number > 0 and bool(field) == was_field
            text += ("\n" if is_joined else "\n\n") + (_write_field(field, defaults or {}) if field else escape(chunk))
            was_field = bool(field)
    return text.strip()


def _split_chunks(docstring: str) -> List[str]:
    return re.split(r"\n(?! )", docstring)


def _match_field(chunk: str) -> Optional["re.Match[str]"]:
    return _FIELD.fullmatch(re.sub(r"\n *", " ", chunk))


def _write_field(field: "re.Match[str]", defaults: Dict[str, Any]) -> str:
    names = []
    for name, type_ in _NAME.findall(field[1]):
        default = f", default `{json.dumps(defaults[name], default=str)}`" if name in defaults else ""
        is_result = name in _RESULTS
        names.append(
            f"*{_RESULTS[name]}* (`{type_[1:-1]}`)" if is_result else f"**`{name}`** (`{type_[1:-1]}`{default})"
        )
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
