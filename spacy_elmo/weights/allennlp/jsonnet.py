"""The Jsonnet that configs of AllenNLP have beyond JSON: trailing commas, and files next to the config.

AllenNLP evaluates configs as Jsonnet. `std.thisFile` is the path of the config in the folder that it unpacks an archive
to, so a config can name other members of its archive.
"""

import re

# A string as it is, or a comma that only white space separates from a closing bracket.
COMMA = re.compile(rb'("(?:[^"\\]|\\.)*")|,(?=\s*[\]}])')
BESIDE = 'std.strReplace(std.thisFile, "config.json", {name})'
BESIDE_PATTERN = re.compile(re.escape(BESIDE.format(name="@")).replace("@", r'("[\w.-]*")').encode())


def to_json(content: bytes) -> bytes:
    """content (bytes): JSON, maybe with trailing commas and names of members.
    RETURNS (bytes): JSON; other Jsonnet is unchanged.
    """
    return COMMA.sub(lambda match: match[1] or b"", BESIDE_PATTERN.sub(rb"\1", content))


def name_members(text: str, names: "list[str]") -> str:
    """text (str): JSON.
    names (List[str]): Names of members of its archive, which are values in it.
    RETURNS (str): Jsonnet, in which these values are paths of the unpacked members.
    """
    for name in names:
        text = text.replace(f': "{name}"', f": {BESIDE.format(name=chr(34) + name + chr(34))}")
    return text
