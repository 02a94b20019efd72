"""Plots of the sample efficiency: test score by share of the training data, with and without ELMo."""

from pathlib import Path
from typing import List, Tuple

from analysis_plots import Scores, draw_sample_efficiency
from paper_tables import SHARE_TASKS, Result, measured_shares, percents, select

from spacy_elmo.analysis.plots import check_picture


def draw_shares(results: List[Result], image_dir: Path) -> List[Tuple[str, str]]:
    """Write one image per task with at least two shares. RETURNS (List[Tuple[str, str]]): Title and file name."""
    drawn = []
    for task, title, label, key in SHARE_TASKS:
        with_elmo, without = (_scores(results, task, name, key) for name in ("elmo", "baseline"))
        if min(len(with_elmo), len(without)) < 2:
            continue
        path = image_dir / f"shares_{task}.png"
        check_picture(path)
        heading = draw_sample_efficiency(f"{title}, {label}", with_elmo, without, path, score=label)
        drawn.append((heading, path.name))
    return drawn


def _scores(results: List[Result], task: str, condition: str, key: str) -> Scores:
    shares = measured_shares(results, task)
    found = {share: percents(select(results, task, condition, share), key) for share in shares}
    return {share: values for share, values in found.items() if values}
