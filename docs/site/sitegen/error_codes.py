"""The page of all error and warning codes, from the catalogues in `spacy_elmo/errors/`."""

import ast
import re
from typing import Dict, Iterator, List, NamedTuple, Tuple

from .docstrings import escape
from .source import ROOT

PATH = "reference/errors.md"
# The page has a heading per code: only the sections are listed beside it.
_FRONT_MATTER = "---\ntocdepth: 2\n---"
_INTRODUCTION = (
    "Every error and warning of the package begins with a code in brackets, such as `[EL020]`. Its first sentence says "
    "what is wrong; the others say what was found, what is wanted and what to do. Words in braces stand for values."
)


class Entry(NamedTuple):
    """A code, its template, and the modules that use it."""

    code: str
    text: str
    modules: List[str]


def make_page() -> str:
    """RETURNS (str): Markdown, a section for each catalogue and a heading for each code."""
    uses, parts = _find_uses(), [_FRONT_MATTER, "# Error codes", _INTRODUCTION]
    for title, templates in sorted(_read_catalogues(), key=lambda catalogue: min(catalogue[1])):
        entries = [Entry(code, text, uses.get(code, [])) for code, text in templates.items()]
        parts += [f"## {title}", *map(_write, entries)]
    return "\n\n".join(parts) + "\n"


def _read_catalogues() -> Iterator[Tuple[str, Dict[str, str]]]:
    for path in sorted((ROOT / "spacy_elmo" / "errors").glob("[a-z]*.py")):
        tree = ast.parse(path.read_text(encoding="utf8"))
        templates = dict(_read_templates(tree))
        if templates:
            yield _title(tree), templates


def _title(tree: ast.Module) -> str:
    """First sentence of the module, without "Errors of": "Weights: files of every format"."""
    title = re.split(r"\.(?:\s|$)", ast.get_docstring(tree) or "")[0].removeprefix("Errors of ").removeprefix("the ")
    return title[:1].upper() + title[1:]


def _read_templates(tree: ast.Module) -> Iterator[Tuple[str, str]]:
    for catalogue in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for node in catalogue.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                if re.fullmatch(r"[EW]L\d{3}", node.targets[0].id):
                    yield node.targets[0].id, str(ast.literal_eval(node.value))


def _find_uses() -> Dict[str, List[str]]:
    uses: Dict[str, List[str]] = {}
    for path in sorted((ROOT / "spacy_elmo").rglob("*.py")):
        for code in set(re.findall(r"\b(?:Errors|Warnings)\.([EW]L\d{3})\b", path.read_text(encoding="utf8"))):
            uses.setdefault(code, []).append(path.relative_to(ROOT).as_posix())
    return uses


def _write(entry: Entry) -> str:
    """The first sentence of a message stands out."""
    first, rest = _split_sentence(entry.text)
    modules = f"<small>{', '.join(f'`{module}`' for module in entry.modules)}</small>"
    return "\n\n".join(filter(None, [f"### {entry.code}", f"**{_show(first)}**", _show(rest), modules]))


def _split_sentence(text: str) -> Tuple[str, str]:
    found = re.match(r"(.+?(?:[.!?](?=\s+[A-Z`'\"{])|$))\s*(.*)", text, flags=re.S)
    return (found[1], found[2]) if found else (text, "")


def _show(text: str) -> str:
    """Fields become `{name}`, outside of code that is there already."""
    parts = re.split(r"(`[^`]*`)", text)
    plain = (part if part.startswith("`") else _show_fields(part) for part in parts)
    return "".join(plain).replace("{{", "{").replace("}}", "}")


def _show_fields(text: str) -> str:
    parts = re.split(r"(?<!\{)(\{\w+[^{}]*\})(?!\})", text)
    return "".join(f"`{part}`" if re.fullmatch(r"\{\w+[^{}]*\}", part) else escape(part) for part in parts)
