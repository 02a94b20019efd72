"""Every message of the catalogue can be formatted and has a code of its own."""

from string import Formatter
from typing import List, Tuple

import pytest

from spacy_elmo.errors import Errors, Warnings


def _entries(catalogue: type) -> List[Tuple[str, str]]:
    return [(code, getattr(catalogue, code)) for code in dir(catalogue) if code.startswith(("EL", "WL"))]


ENTRIES = _entries(Errors) + _entries(Warnings)


@pytest.mark.parametrize("code, text", ENTRIES, ids=[code for code, _ in ENTRIES])
def test_entry_is_a_template_of_sentences(code: str, text: str) -> None:
    fields = [field for _, field, _, _ in Formatter().parse(text) if field is not None]
    assert all(field.isidentifier() for field in fields), "fields are plain names"
    message = text.format(**dict.fromkeys(fields, "value"))
    assert "{" not in message and message.rstrip().endswith((".", "!", "?", "value"))


def test_a_message_begins_with_its_code() -> None:
    assert all(text.startswith(f"[{code}] ") for code, text in ENTRIES)
