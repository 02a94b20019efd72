"""Every message of the catalogue can be formatted and has a code of its own."""

from string import Formatter

from spacy_elmo.errors import Errors, Warnings


def test_every_entry_is_a_template_of_sentences_that_begins_with_its_code() -> None:
    entries = {code: getattr(owner, code) for owner in (Errors, Warnings) for code in dir(owner) if code[1:2] == "L"}
    assert len(entries) > 20
    for code, text in entries.items():
        fields = [field for _, field, _, _ in Formatter().parse(text) if field is not None]
        assert all(field.isidentifier() for field in fields), f"{code}: fields are plain names"
        message = text.format(**dict.fromkeys(fields, "value"))
        assert message.startswith(f"[{code}] ") and "{" not in message
        assert message.rstrip().endswith((".", "!", "?", "value")), code
