"""Docstrings in spaCy's form as Markdown: text, then a list of `name (type): description`."""

import re
from inspect import cleandoc
from typing import List, Tuple

# A type, in parentheses: it begins with a capital letter or is one of Python's or a library's; one level of nesting.
_OWN = r"[A-Z]|(?:bool|int|float|str|bytes|object|slice|dict|list|tuple)\b|torch\.|nn\.|np\."
_TYPE = rf"\((?:{_OWN})(?:[^()]|\([^()]*\))*\)"
_NAMES = rf"\**\w+ {_TYPE}(?:, \**\w+ {_TYPE})*"
_FIELD = re.compile(rf"({_NAMES}): (.*)", re.S)
_NAME = re.compile(rf"(\**\w+) ({_TYPE})")
_CODE = re.compile(r"(`[^`]*`)")
_RESULTS = {"RETURNS": "Returns", "YIELDS": "Yields", "RAISES": "Raises"}


def to_markdown(docstring: str) -> str:
    """docstring (str): As it stands in the source.
    RETURNS (str): Paragraphs, and one list item for each parameter, result or error.
    """
    blocks: List[str] = []
    for paragraph in cleandoc(docstring).split("\n\n"):
        blocks.extend(_render(chunk) for chunk in _split_fields(paragraph))
    return _join(blocks)


def escape(text: str) -> str:
    """text (str): Plain text with code between backticks.
    RETURNS (str): The same for Markdown: outside of code, nothing is markup.
    """
    return "".join(part if part.startswith("`") else _escape_plain(part) for part in _CODE.split(text))


def _split_fields(paragraph: str) -> List[str]:
    """A chunk for each field, with its continuation lines; the lines of a text or a list stay together."""
    chunks: List[str] = []
    for chunk in re.split(r"\n(?! )", paragraph):
        is_text = bool(chunks) and not _is_field(chunks[-1]) and not _is_field(chunk)
        chunks = [*chunks[:-1], f"{chunks[-1]}\n{chunk}"] if is_text else [*chunks, chunk]
    return chunks


def _one_line(chunk: str) -> str:
    return re.sub(r"\n *", " ", chunk)


def _is_field(chunk: str) -> bool:
    return _FIELD.fullmatch(_one_line(chunk)) is not None


def _render(chunk: str) -> str:
    found = _FIELD.fullmatch(_one_line(chunk))
    if found is None:
        return escape(chunk)
    names = ", ".join(_render_name(*pair) for pair in _NAME.findall(found[1]))
    return f"- {names}: {escape(found[2])}"


def _render_name(name: str, type_: str) -> str:
    shown = f"*{_RESULTS[name]}*" if name in _RESULTS else f"**`{name}`**"
    return f"{shown} (`{type_[1:-1]}`)"


def _escape_plain(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([*_\[\]])", r"\\\1", text)


def _join(blocks: List[str]) -> str:
    """Items of a list stand together, paragraphs apart."""
    text = ""
    for before, block in _pairs(blocks):
        is_list = before.startswith("- ") and block.startswith("- ")
        text += ("" if not before else "\n" if is_list else "\n\n") + block
    return text


def _pairs(blocks: List[str]) -> List[Tuple[str, str]]:
    return list(zip(["", *blocks[:-1]], blocks))
