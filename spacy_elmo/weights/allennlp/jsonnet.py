"""The Jsonnet that configs of AllenNLP have beyond JSON: trailing commas, and files next to the config.

AllenNLP evaluates configs as Jsonnet. `std.thisFile` is the path of the config in the folder that it unpacks an archive
to, so a config can name other members of its archive.
"""

import re

# An escape, a quotation mark, or a comma that only white space separates from a closing bracket. A pattern of whole
# strings would take quadratic time where a string has no end.
TOKEN = re.compile(rb'\\.|"|,(?=\s*[\]}])', re.DOTALL)
BESIDE = 'std.strReplace(std.thisFile, "config.json", {name})'
BESIDE_PATTERN = re.compile(re.escape(BESIDE.format(name="@")).replace("@", r'("[\w.-]*")').encode())


def to_json(content: bytes) -> bytes:
    """content (bytes): JSON, maybe with trailing commas and names of members.
    RETURNS (bytes): JSON; other Jsonnet is unchanged.
    """
    return _without_trailing_commas(BESIDE_PATTERN.sub(rb"\1", content))


def name_members(text: str, names: "list[str]") -> str:
    """text (str): JSON.
    names (List[str]): Names of members of its archive, which are values in it.
    RETURNS (str): Jsonnet, in which these values are paths of the unpacked members.
    """
    for name in names:
        text = text.replace(f': "{name}"', f": {BESIDE.format(name=chr(34) + name + chr(34))}")
    return text


def _without_trailing_commas(content: bytes) -> bytes:
    """RETURNS (bytes): Strings are unchanged."""
    kept = bytearray()
    start, is_string = 0, False
    for token in TOKEN.finditer(content):
        if token[0] == b'"':
            is_string = not is_string
        elif token[0] == b"," and not is_string:
            kept += content[start : token.start()]
            start = token.end()
    return bytes(kept + content[start:])
