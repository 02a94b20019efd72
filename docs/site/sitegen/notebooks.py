"""Notebooks as Markdown: text, code and the outputs that are stored in the file."""

import json
from pathlib import Path
from typing import Any, Dict, Iterator, List, Union

Lines = Union[str, List[str]]


def to_markdown(path: Path) -> str:
    """path (Path): A notebook, version 4 of the format.
    RETURNS (str): Markdown; pictures are part of it.
    """
    cells = json.loads(path.read_text(encoding="utf8"))["cells"]
    return "\n\n".join(part for cell in cells for part in _write_cell(cell)) + "\n"


def _write_cell(cell: Dict[str, Any]) -> Iterator[str]:
    text = _join(cell["source"]).strip()
    if cell["cell_type"] != "code":
        yield text
    elif text:
        yield f"```python\n{text}\n```"
        yield from (part for output in cell["outputs"] for part in _write_output(output))


def _write_output(output: Dict[str, Any]) -> Iterator[str]:
    """The richest form of an output that needs no script: picture, HTML, text."""
    kinds = {kind: _join(value) for kind, value in output.get("data", {}).items() if isinstance(value, (str, list))}
    if "text" in output:
        kinds["text/plain"] = _join(output["text"])
    if "image/png" in kinds:
        picture = "".join(kinds["image/png"].split())
        yield f'<img alt="Output of the cell above" src="data:image/png;base64,{picture}">'
    elif "text/html" in kinds and "<script" not in kinds["text/html"]:
        yield f"<div>{' '.join(kinds['text/html'].split())}</div>"
    elif "text/plain" in kinds:
        yield f"```text\n{kinds['text/plain'].rstrip()}\n```"


def _join(lines: Lines) -> str:
    return lines if isinstance(lines, str) else "".join(lines)
