"""The section on errors of docs/results.md, from the files that errors.py writes."""

from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import srsly
from error_counts import MISSED
from paper_tables import make_table
from weights_in_use import note_earlier

Record = Dict[str, Any]
TITLES = {
    "wnut17": "WNUT-17, entities",
    "ewt-tags": "UD EWT, UPOS",
    "goemotions": "GoEmotions, categories",
}
N_EXTREMES = 3  # categories with the largest gain and loss


def errors_section(results: Path) -> Optional[str]:
    """results (Path): Folder with the counts.
    RETURNS (Optional[str]): Markdown; None if nothing was counted.
    """
    records = [srsly.read_json(path) for path in (results / f"errors-{task}.json" for task in TITLES) if path.is_file()]
    parts = [_describe(record) + note_earlier(record) for record in records]
    return "\n\n".join(parts) or None


def name_errors(results: Path) -> Dict[str, Record]:
    """RETURNS (Dict[str, Record]): For each file of counts the name and digest of its biLM."""
    return {path.name: srsly.read_json(path) for path in sorted(results.glob("errors-*.json"))}


def _describe(record: Record) -> str:
    return f"### {TITLES[record['task']]}, seed {record['seed']}\n\n{DESCRIBE[record['kind']](record)}"


def _describe_words(record: Record) -> str:
    rows = [[f"words {row['kind']}", f"{row['n']:,}", *_percentages(row)] for row in record["rows"]]
    table = make_table(["tokens of the test data", "n", "right without ELMo, %", "right with ELMo, %"], rows)
    confusions = [[row["right"], row["found"], str(row["n"]), _quote(row["words"])] for row in record["confusions"]]
    frequent = make_table(["gold tag", "tag with ELMo", "n", "frequent words"], confusions)
    return (
        f"Only tokens whose boundaries match those of the treebank:\n\n{table}\n\n"
        f"The most frequent errors left with ELMo:\n\n{frequent}"
    )


def _describe_entities(record: Record) -> str:
    rows = [[row["kind"], f"{row['n']:,}", *_percentages(row)] for row in record["rows"] if row["n"]]
    table = make_table(["entities of the test data", "n", "found without ELMo, %", "found with ELMo, %"], rows)
    errors = [[row["kind"], f"{row['without']:,}", f"{row['with']:,}"] for row in record["errors"]]
    return f"{table}\n\n{_describe_kinds(record)}\n\n{make_table(['error', 'without ELMo', 'with ELMo'], errors)}"


def _describe_kinds(record: Record) -> str:
    """How each kind is counted, and how many entities were predicted."""
    told = []
    for name in ("without", "with"):
        right = sum(row[name] for row in record["rows"])
        wrong = sum(row[name] for row in record["errors"] if row["kind"] != MISSED)
        told.append(f"{right + wrong:,} {name} ELMo, {right:,} of them right")
    return (
        f"Predicted entities: {'; '.join(told)}. A predicted entity that overlaps no gold "
        "entity is spurious; a gold entity that no predicted one overlaps is missed."
    )


def _describe_categories(record: Record) -> str:
    rows = [
        [_limits(row["from"], row["to"]), str(row["n"]), *(f"{100 * row[name]:.1f}" for name in ("without", "with"))]
        for row in record["rows"]
    ]
    table = make_table(["training texts of a category", "categories", "mean F without ELMo", "mean F with ELMo"], rows)
    ordered = sorted(record["categories"], key=lambda row: float(row["without"]["f"] - row["with"]["f"]))
    ends = (ordered[:N_EXTREMES], ordered[::-1][:N_EXTREMES])
    most, least = ("; ".join(_change(row) for row in rows) for rows in ends)
    return f"{table}\n\nF without and with ELMo where ELMo helps most: {most}; where it helps least: {least}."


def _change(row: Record) -> str:
    return f"{row['category']} {100 * row['without']['f']:.1f}, {100 * row['with']['f']:.1f}"


def _limits(low: int, high: Optional[int]) -> str:
    return f"{low:,} or more" if high is None else f"{low:,} to {high - 1:,}" if low else f"fewer than {high:,}"


def _percentages(row: Record) -> List[str]:
    return [f"{100 * row[name] / row['n']:.1f}" if row["n"] else "-" for name in ("without", "with")]


def _quote(words: List[str]) -> str:
    return ", ".join(f"*{word}*" for word in words)


DESCRIBE: Dict[str, Callable[[Record], str]] = {
    "words": _describe_words,
    "entities": _describe_entities,
    "categories": _describe_categories,
}
