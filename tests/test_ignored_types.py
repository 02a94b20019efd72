"""What the type checker is told to pass over has a code and a reason."""

import re
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "spacy_elmo"
IGNORE = re.compile(r"# type: ignore(?P<rest>.*)$", re.MULTILINE)


def test_ignored_types_have_a_code_and_a_reason() -> None:
    texts = {path.name: path.read_text() for path in PACKAGE.rglob("*.py")}
    found = [(name, match["rest"]) for name, text in texts.items() for match in IGNORE.finditer(text)]
    assert found
    assert not [item for item in found if not re.match(r"\[[a-z, -]+\]  # \w", item[1])]
