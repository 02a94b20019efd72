"""Read `char.dic` and `word.dic` of ELMoForManyLangs: SYMBOL<TAB>ID per line."""

from typing import Dict, List, Optional, Sequence, Tuple

from ...errors import Errors
from ..limits import MAX_SHOWN, MIB, listed
from ..sources import Source, decode_text

BLANK = "\u3000"  # what a line without a visible symbol means
MAX_BYTES = 32 * MIB
MAX_DIGITS = 10


def read_symbols(source: Source, needed: Sequence[str]) -> Tuple[Optional[str], ...]:
    """source (Source): The file.
    needed (Sequence[str]): Symbols that it should have.
    RETURNS (Tuple[Optional[str], ...]): Symbols by id; None for blank ones that a later line replaces.
    RAISES (ValueError): EL305 with all problems, EL020 or EL036 if it is missing or too large.
    """
    content = source.read_bytes(MAX_BYTES)
    try:
        lines = decode_text(content).split("\n")
    except ValueError as error:
        raise ValueError(_refusal(source, [str(error)])) from error
    lines = lines[:-1] if not lines[-1].strip() else lines  # only a line feed ends a line
    ids: Dict[str, int] = {}
    symbols: Dict[int, str] = {}
    problems: List[str] = []
    for number, line in enumerate(lines, start=1):
        problem = _add_line(line, len(lines), ids, symbols)
        if problem:
            problems.append(f"line {number:,} {problem}")
        if len(problems) > MAX_SHOWN:
            break
    problems += [f"{symbol} is missing" for symbol in needed if symbol not in ids and len(problems) <= MAX_SHOWN]
    if problems:
        raise ValueError(_refusal(source, problems))
    return tuple(symbols[i] if ids[symbols[i]] == i else None for i in range(len(lines)))


def _add_line(line: str, n_lines: int, ids: Dict[str, int], symbols: Dict[int, str]) -> str:
    """RETURNS (str): What is wrong with the line, empty if nothing is."""
    symbol, _, text = line.strip().rpartition("\t")
    symbol = symbol or BLANK
    if not text:
        return "is empty"
    if "\t" in symbol:
        return "has more than one tab"
    if not text.isdecimal() or len(text) > MAX_DIGITS:
        return f"has the id {text[:40]!r}, should be a number from 0 to {n_lines - 1:,}"
    number = int(text)
    if number >= n_lines:
        return f"has the id {number:,}, should be 0 to {n_lines - 1:,}, since there are {n_lines:,} lines"
    if number in symbols:
        return f"has the id {number:,} of {symbols[number][:40]!r} again"
    if symbol in ids and symbol != BLANK:
        return f"has {symbol[:40]!r} again"
    ids[symbol] = number
    symbols[number] = symbol
    return ""


def _refusal(source: Source, problems: List[str]) -> str:
    return Errors.EL305.format(path=source, n_problems=len(problems), problems=listed(problems))
