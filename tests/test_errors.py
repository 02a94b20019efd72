"""Every message of the catalogue can be formatted and has a code of its own."""

import re
from string import Formatter
from typing import List, Tuple

import pytest

from spacy_elmo._warnings import Warnings
from spacy_elmo.errors import Errors


def _entries(catalogue: type) -> List[Tuple[str, str]]:
    return [(code, text) for code, text in vars(catalogue).items() if not code.startswith("__")]


ENTRIES = _entries(Errors) + _entries(Warnings)


@pytest.mark.parametrize("code, text", ENTRIES, ids=[code for code, _ in ENTRIES])
def test_entry_is_a_template_of_sentences(code: str, text: str) -> None:
    fields = [field for _, field, _, _ in Formatter().parse(text) if field is not None]
    assert all(field.isidentifier() for field in fields), "fields are plain names"
    message = text.format(**dict.fromkeys(fields, "value"))
    assert "{" not in message and message.rstrip().endswith((".", "!", "?", "value"))


def test_codes_have_the_form_of_their_class() -> None:
    assert all(re.fullmatch(r"EL\d{3}", code) for code, _ in _entries(Errors))
    assert all(re.fullmatch(r"WL\d{3}", code) for code, _ in _entries(Warnings))


def test_no_message_is_there_twice() -> None:
    texts = [text for _, text in ENTRIES]
    assert len(set(texts)) == len(texts)
