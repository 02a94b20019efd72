"""The catalogue of the project's scripts: a code in front of each message, none unused, none of another catalogue."""

import re
from pathlib import Path
from typing import Any, Callable

SCRIPTS = Path(__file__).parents[2] / "project" / "scripts"


def test_messages_begin_with_their_code(import_script: Callable[[str], Any]) -> None:
    messages = import_script("messages").Messages
    codes = [name for name in vars(messages) if re.fullmatch(r"P\d{3}", name)]
    assert len(codes) > 6
    assert all(getattr(messages, code).startswith(f"[{code}] ") for code in codes)


def test_scripts_name_the_codes_of_their_own_catalogue(import_script: Callable[[str], Any]) -> None:
    messages = import_script("messages").Messages
    sources = [path.read_text(encoding="utf8") for path in SCRIPTS.glob("*.py") if path.name != "messages.py"]
    used = set(re.findall(r"Messages\.(\w+)", "\n".join(sources)))
    assert used == {name for name in vars(messages) if not name.startswith("_")}
    assert not any(re.search(r"\b[EW]L\d{3}\b", source) for source in sources)
