"""The perplexity curve of a pretraining run, drawn from its log."""

from pathlib import Path
from typing import Any, Dict, List, Optional

import srsly

from .._compat import has_matplotlib
from ..pretraining.run_folder import PICTURE


def draw_curve(log: Path) -> Optional[Path]:
    """Draw held-out perplexities over tokens seen.

    log (Path): `log.jsonl` of a run.
    RETURNS (Optional[Path]): Path of the image, None without matplotlib or without a validation.
    """
    rows: List[Dict[str, Any]] = list(srsly.read_jsonl(log))
    scored = [row for row in rows if row.get("forward") is not None]
    if not has_matplotlib or not scored:
        return None
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for name, style in (("forward", "o-"), ("backward", "s--")):
        found = [(row["n_tokens"] / 1e6, row[name]) for row in scored if row.get(name) is not None]
        if found:
            axes.plot(*zip(*found), style, markersize=3, label=f"{name}, last {found[-1][1]:.1f}")
    axes.set(xlabel="tokens seen (millions)", ylabel="held-out perplexity", yscale="log")
    axes.yaxis.set_major_formatter("{x:.0f}")
    axes.yaxis.set_minor_formatter("{x:.0f}")
    axes.grid(which="both", alpha=0.3)
    axes.legend()
    part = log.parent / f".{PICTURE}.part.png"
    figure.savefig(part, dpi=120)
    part.replace(log.parent / PICTURE)
    return log.parent / PICTURE
