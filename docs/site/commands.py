"""The reference of the commands, from their help texts, and of the published biLMs, from the registry."""

import re
from inspect import Parameter, signature
from typing import Any, Iterator, Literal, Tuple, get_args, get_origin

from reference import escape
from typer.main import get_command

from spacy_elmo.cli._app import GROUPS, app
from spacy_elmo.weights.published import list_published

# Options and file names in a help text become code.
_CODE = re.compile(r"(?<![\w-])--?[a-z][\w-]*|(?<!\w)\.[a-z]\w*\b|'[^'\s]+'")


def write_commands() -> str:
    """RETURNS (str): Markdown with a section per group of commands: usage, help text, arguments and options."""
    group: Any = get_command(app)
    parts = []
    for title, names in GROUPS.items():
        parts.append(f"## {title}")
        for name in names:
            command = group.get_command(None, name)
            shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
            usage = [_name(parameter) for parameter in shown if parameter.param_type_name == "argument"]
            declared = signature(command.callback).parameters
            rows = [row for parameter in shown for row in _write_row(parameter, declared[parameter.name])]
            parts += [f"### {name}", f"```text\npython -m spacy elmo {name} {' '.join(usage)} [OPTIONS]\n```"]
            parts += [escape(command.help.strip(), _CODE)]
            parts += ["\n".join(["| argument | default | description |", "| --- | --- | --- |", *rows])]
    return "\n\n".join(parts) + "\n"


def write_published() -> str:
    """RETURNS (str): Markdown with a table of all names of `elmo download`."""
    rows = ["## Published biLMs", "", "| language | name | text | licence |", "| --- | --- | --- | --- |"]
    for model in sorted(list_published(), key=lambda model: model.language or ""):
        licence = (model.licence or "not stated").partition(";")[0]
        rows.append(f"| {model.language} | `{model.name}` | {escape(model.note or '')} | {escape(licence)} |")
    return "\n".join(rows) + "\n"


def _name(argument: Any) -> str:
    # typer 0.29 has no `human_readable_name` any more.
    name = (argument.metavar or argument.name).strip("[].").upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _write_row(parameter: Any, declared: Parameter) -> Iterator[str]:
    """declared (Parameter): That of the function, whose help text and choices do not depend on the version of typer."""
    text = declared.default.help
    is_option = parameter.param_type_name == "option"
    names = [*parameter.opts, *parameter.secondary_opts] if is_option else [_name(parameter)]
    is_shown = is_option and str(parameter.default) not in ("None", "False", "[]")
    default = f"`{parameter.default}`" if is_shown else ""
    choices = _find_choices(declared.annotation)
    is_listed = any(value not in text for value in choices)
    values = f" Values: {', '.join(f'`{value}`' for value in choices)}." if is_listed else ""
    description = escape(text, _CODE).replace("|", "\\|") + values
    yield f"| {', '.join(f'`{name}`' for name in names)} | {default} | {description} |"


def _find_choices(annotation: Any) -> Tuple[str, ...]:
    """RETURNS (Tuple[str, ...]): The values of a Literal, also inside of Optional."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(choice for inner in get_args(annotation) for choice in _find_choices(inner))
