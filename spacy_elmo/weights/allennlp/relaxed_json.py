"""Trailing commas, which AllenNLP allows in its configs (they are Jsonnet), out of JSON."""

import re

# A string as it is, or a comma that only white space separates from a closing bracket.
TOKEN = re.compile(rb'("(?:[^"\\]|\\.)*")|,(?=\s*[\]}])')


def strip_trailing_commas(content: bytes) -> bytes:
    """content (bytes): JSON, maybe with trailing commas.
    RETURNS (bytes): The same without them; strings are unchanged.
    """
    return TOKEN.sub(lambda match: match[1] or b"", content)
