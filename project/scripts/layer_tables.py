"""The tables on layers of docs/results.md, from the files that layers.py writes."""

from pathlib import Path
from typing import Any, Dict, List, Optional

import srsly
from weights_in_use import note_earlier

Row = Dict[str, Any]
SENSES, POS = "layers-senses.json", "layers-pos.json"


def senses_section(results: Path) -> str:
    """results (Path): Folder with the scores.
    RETURNS (str): Markdown; "" if the experiment has not been run.
    """
    found = _read(results / SENSES)
    if found is None:
        return ""
    lines = [
        f"Word senses by 1-nearest neighbour on SemCor (NOAD senses): {found['n_train']:,} training instances, "
        f"{found['n_test']:,} test instances, of which {found['n_answered']:,} have a lemma with training instances; "
        f"there is no back-off for the others; biLM `{found['bilm']}`. F1 over all instances, accuracy over lemmas "
        "with several senses, and the paired difference from the baseline, the most frequent training sense; in "
        "brackets the 95 % confidence interval. Nothing is random here, so there are no seeds.",
        "",
        "| layer | F1 | several senses | difference from the baseline |",
        "| --- | ---: | ---: | ---: |",
    ]
    for row in found["rows"]:
        cells = [_name(row["layer"]), _interval(row), _interval(row["ambiguous"]), _interval(row["gain"], sign="+")]
        lines.append(f"| {' | '.join(cells)} |")
    best = _best(found["rows"])
    gain = best["gain"]
    verdict = "better than" if gain["low"] > 0 else "worse than" if gain["high"] < 0 else "not significantly other than"
    lines += ["", f"The best layer, {_name(best['layer'])}, is {verdict} the most frequent training sense."]
    return "\n".join(lines) + note_earlier(found)


def pos_section(results: Path) -> str:
    """results (Path): Folder with the scores.
    RETURNS (str): Markdown; "" if the experiment has not been run.
    """
    found = _read(results / POS)
    if found is None:
        return ""
    lines = [
        f"Parts of speech (UPOS) of UD English-EWT by a linear probe: {found['n_train']:,} training tokens, "
        f"{found['n_test']:,} test tokens, biLM `{found['bilm']}`. Accuracy with its 95 % interval; the control task "
        "(Hewitt and Liang 2019) has random tags per word, three seeds.",
        "",
        "| layer | accuracy | control task | selectivity |",
        "| --- | ---: | ---: | ---: |",
    ]
    for row in found["rows"]:
        control = row.get("control")
        beside = ["", ""] if control is None else [f"{control:.1f}", f"{row['value'] - control:.1f}"]
        lines.append(f"| {' | '.join([_name(row['layer']), _interval(row), *beside])} |")
    return "\n".join(lines) + note_earlier(found)


def _read(path: Path) -> Optional[Row]:
    """RETURNS (Optional[Row]): None without the file."""
    return srsly.read_json(path) if path.is_file() else None


def _name(layer: Any) -> str:
    if layer == "mean":
        return "mean of all layers"
    if layer == "first sense":
        return "most frequent training sense"
    return layer if isinstance(layer, str) else "token layer" if layer == 0 else f"LSTM layer {layer}"


def _interval(score: Optional[Row], sign: str = "") -> str:
    if score is None:
        return ""
    value, low, high = (f"{score[name]:{sign}.1f}" for name in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


def _best(rows: List[Row]) -> Row:
    """The best single layer; neither a baseline nor the mean."""
    return max((row for row in rows if isinstance(row["layer"], int)), key=lambda row: row["value"])
