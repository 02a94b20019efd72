"""The table on contexts and states of docs/results.md, from the file that contexts.py writes."""

from pathlib import Path
from typing import Any, Dict, Optional

import srsly
from paper_tables import make_table
from weights_in_use import note_earlier

CONTEXTS = "contexts.json"
LABELS = {
    "sentences": "a sentence",
    "doc": "the document, in windows of {max_tokens} tokens",
    "reset": "zero (`reset`)",
    "steady": "steady state (`steady`)",
    "carry": "that after the sentence before (`carry`)",
}


def contexts_section(results: Path) -> Optional[str]:
    """results (Path): Folder with the scores.
    RETURNS (Optional[str]): Markdown; None if the comparison has not been made.
    """
    path = results / CONTEXTS
    found: Optional[Dict[str, Any]] = srsly.read_json(path) if path.is_file() else None
    if found is None:
        return None
    rows = [
        [
            LABELS[row["contexts"]].format(max_tokens=found["max_tokens"]),
            LABELS[row["state"]],
            f"{row['perplexity']:.1f}",
            _describe_accuracy(row),
        ]
        for row in found["rows"]
    ]
    table = make_table(["read as one sequence", "state before it", "forward perplexity", "probe accuracy"], rows)
    told = (
        f"Forward perplexity of {found['n_documents']} held-out documents ({found['n_tokens']:,} tokens), and accuracy "
        f"of a linear probe of UPOS on the mean of the layers, UD English-EWT: {found['n_train']:,} training tokens, "
        f"{found['n_dev']:,} development tokens; with 95 % interval; biLM `{found['bilm']}`, "
        "`project/scripts/contexts.py`."
    )
    return f"{told}\n\n{table}{note_earlier(found)}"


def _describe_accuracy(row: Dict[str, Any]) -> str:
    value, low, high = (f"{100 * row[name]:.2f}" for name in ("accuracy", "low", "high"))
    return f"{value} ({low} to {high})"
