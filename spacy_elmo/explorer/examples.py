"""What the forms of the page hold at first, by language."""

from functools import cache
from pathlib import Path
from typing import Dict, NamedTuple

EXAMPLES_FILE = Path(__file__).parent / "static" / "examples.txt"  # a line per language


class Examples(NamedTuple):
    """Texts of a language, around a word with two meanings.

    a (str), b (str): Sentences with the word in two meanings.
    odd (str): `a` with an unexpected word.
    word (str): The word.
    """

    a: str
    b: str
    odd: str
    word: str


@cache
def read_examples() -> Dict[str, Examples]:
    """RETURNS (Dict[str, Examples]): The texts by language code."""
    rows = (line.split(" | ") for line in EXAMPLES_FILE.read_text(encoding="utf8").splitlines())
    return {lang: Examples(*texts) for lang, *texts in rows}


def find_examples(lang: str) -> Examples:
    """RETURNS (Examples): Those of a language, such as "pt" or "pt-br", or English ones."""
    examples = read_examples()
    return examples.get(lang.lower().replace("_", "-").partition("-")[0], examples["en"])
