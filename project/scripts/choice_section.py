"""Score against speed: the table and the picture of docs/results.md, from the files that choice.py writes."""

from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import srsly
from analysis_plots import draw_speeds
from paper_tables import SHARE_TASKS, make_table
from weights_in_use import note_earlier

from spacy_elmo.analysis.plots import check_picture

TITLES = {task: (f"{title}, {label}") for task, title, label, _ in SHARE_TASKS}
Record = Dict[str, Any]


def choice_section(results: Path, image_dir: Path) -> Optional[str]:
    """results (Path): Folder with the measurements.
    image_dir (Path): Folder for the pictures.
    RETURNS (Optional[str]): Markdown; None if nothing was measured.
    """
    records = [read_choice(results / f"choice-{task}.json") for task in TITLES]
    parts = [_describe(record, image_dir) for record in records if record is not None]
    return "\n\n".join(parts) or None


def read_choice(path: Path) -> Optional[Record]:
    """RETURNS (Optional[Record]): None without the file."""
    return srsly.read_json(path) if path.is_file() else None


def name_choices(results: Path) -> Dict[str, Record]:
    """RETURNS (Dict[str, Record]): For each file of measurements the settings of a run with a biLM."""
    files = sorted(results.glob("choice-*.json"))
    return {path.name: next(iter(_settings_with_bilm(srsly.read_json(path))), {}) for path in files}


def draw_choice(record: Record, path: Path) -> None:
    """Draw the score of each pipeline over its words per second; one without a score is a line."""
    check_picture(path)
    draw_speeds(record["rows"], path, title=make_title(record))


def make_title(record: Record) -> str:
    """RETURNS (str): The finding: the best score, and what it costs against the fastest pipeline with a score."""
    scored = [row for row in record["rows"] if row["score"] is not None]
    best, fastest = (max(scored, key=lambda row: row[key]) for key in ("score", "words_per_s"))
    title = TITLES.get(record["task"], record["task"])
    if best is fastest:
        return f"{title}: {best['label']} is best and fastest"
    factor = fastest["words_per_s"] / best["words_per_s"]
    return f"{title}: {best['label']} scores highest; {fastest['label']} is {factor:.1f} times as fast"


def _settings_with_bilm(record: Record) -> List[Record]:
    return [row["settings"] for row in record["rows"] if row["settings"] and row["settings"].get("bilm")]


def _describe(record: Record, image_dir: Path) -> str:
    name = f"choice_{record['task']}.png"
    draw_choice(record, image_dir / name)
    rows: List[List[str]] = [_cells(row) for row in record["rows"]]
    table = make_table(["pipeline", "score", "words/s (lowest to highest)"], rows)
    told = (
        f"{TITLES.get(record['task'], record['task'])}, seed {record['seed']}: score on the test data, and words per "
        f"second of the whole pipeline, tokenizer included, on its {record['n_texts']:,} texts with one thread "
        f"({record['processor']}); median of {record['repeats']}. For encoders of the RoBERTa size only speed "
        "can be measured: no trained weights were available."
    )
    notes = dict.fromkeys(note_earlier(settings) for settings in _settings_with_bilm(record))
    return f"{told}\n\n{table}\n\n![{make_title(record)}](images/{name}){''.join(notes)}"


def _cells(row: Record) -> List[str]:
    score = "-" if row["score"] is None else f"{100 * row['score']:.2f}"
    speeds: Tuple[str, ...] = tuple(f"{row[name]:,.0f}" for name in ("words_per_s", "lowest", "highest"))
    return [row["label"], score, "{} ({} to {})".format(*speeds)]
