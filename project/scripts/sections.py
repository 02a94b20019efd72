"""Sections of docs/results.md from files that errors.py, layers.py, contexts.py and choice.py write.

Each function takes the folder with these files, and returns Markdown, or None without its file.
"""

from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import srsly
from analysis_plots import draw_speeds
from errors import MISSED
from tables import SHARE_TASKS, make_table, note_earlier

from spacy_elmo.analysis.plots import check_picture

Record = Dict[str, Any]
ERROR_TITLES = {
    "wnut17": "WNUT-17, entities",
    "ewt-tags": "UD EWT, UPOS",
    "goemotions": "GoEmotions, categories",
}
N_EXTREMES = 3  # categories with the largest gain and loss
N_CONFUSIONS = 3  # pairs of tags
SENSES, POS, CONTEXTS = "layers-senses.json", "layers-pos.json", "contexts.json"
CONTEXT_LABELS = {
    "sentences": "a sentence",
    "doc": "the document, in windows of {max_tokens} tokens",
    "reset": "zero (`reset`)",
    "steady": "steady state (`steady`)",
    "carry": "that after the sentence before (`carry`)",
}
PROBE = {"value": "accuracy", "low": "low", "high": "high"}
CHOICE_TITLES = {task: f"{title}, {label}" for task, title, label, _ in SHARE_TASKS}


def read_record(path: Path) -> Optional[Record]:
    """RETURNS (Optional[Record]): None without the file."""
    return srsly.read_json(path) if path.is_file() else None


def read_identities(results: Path) -> Dict[str, Record]:
    """RETURNS (Dict[str, Record]): By file without a training of its own, a record with the name and digest of its
    biLM.
    """
    found = {name: read_record(results / name) for name in (SENSES, POS, CONTEXTS)}
    for path in sorted(results.glob("choice-*.json")):
        found[path.name] = next(iter(_settings_with_bilm(srsly.read_json(path))), {})
    found.update({path.name: srsly.read_json(path) for path in sorted(results.glob("errors-*.json"))})
    return {name: record for name, record in found.items() if record is not None}


# Layers


def senses_section(results: Path) -> Optional[str]:
    """Word senses by layer."""
    found = read_record(results / SENSES)
    if found is None:
        return None
    rows = [
        [_name_layer(row["layer"]), _interval(row), _interval(row["ambiguous"]), _interval(row["gain"], sign="+")]
        for row in found["rows"]
    ]
    table = make_table(["layer", "F1", "several senses", "difference from the baseline"], rows)
    told = (
        "Each use gets the sense with the nearest mean, the 1-nearest neighbour of the paper. SemCor (NOAD senses): "
        f"{found['n_train']:,} training instances, {found['n_test']:,} test instances, of which "
        f"{found['n_answered']:,} have a lemma with training instances, without back-off for the others; biLM "
        f"`{found['bilm']}`. F1 over all instances, accuracy over lemmas with several senses, and paired difference "
        "from the most frequent training sense; in brackets 95 % confidence intervals."
    )
    # The best single layer; neither a baseline nor the mean.
    best = max((row for row in found["rows"] if isinstance(row["layer"], int)), key=lambda row: row["value"])
    gain = best["gain"]
    verdict = "better than" if gain["low"] > 0 else "worse than" if gain["high"] < 0 else "not significantly other than"
    return (
        f"{told}\n\n{table}\n\nThe best layer, {_name_layer(best['layer'])}, is {verdict} the most frequent training "
        f"sense.{note_earlier(found)}"
    )


def pos_section(results: Path) -> Optional[str]:
    """Parts of speech by layer."""
    found = read_record(results / POS)
    if found is None:
        return None
    rows = []
    for row in found["rows"]:
        control = row.get("control")
        beside = ["", ""] if control is None else [f"{control:.1f}", f"{row['value'] - control:.1f}"]
        rows.append([_name_layer(row["layer"]), _interval(row), *beside])
    told = (
        f"A linear probe of UPOS on UD English-EWT: {found['n_train']:,} training tokens, {found['n_test']:,} test "
        f"tokens, biLM `{found['bilm']}`. Accuracy with its 95 % interval; the control task (Hewitt and Liang 2019) "
        "has random tags per word, three seeds."
    )
    return f"{told}\n\n{make_table(['layer', 'accuracy', 'control task', 'selectivity'], rows)}{note_earlier(found)}"


def _name_layer(layer: Any) -> str:
    if layer == "mean":
        return "mean of all layers"
    if layer == "first sense":
        return "most frequent training sense"
    return layer if isinstance(layer, str) else "token layer" if layer == 0 else f"LSTM layer {layer}"


def _interval(score: Optional[Record], sign: str = "", digits: int = 1) -> str:
    if score is None:
        return ""
    value, low, high = (f"{score[name]:{sign}.{digits}f}" for name in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


# Contexts


def contexts_section(results: Path) -> Optional[str]:
    """Contexts and initial states."""
    found = read_record(results / CONTEXTS)
    if found is None:
        return None
    rows = [
        [
            CONTEXT_LABELS[row["contexts"]].format(max_tokens=found["max_tokens"]),
            CONTEXT_LABELS[row["state"]],
            f"{row['perplexity']:.1f}",
            _interval({name: 100 * row[key] for name, key in PROBE.items()}, digits=2),
        ]
        for row in found["rows"]
    ]
    table = make_table(["read as one sequence", "state before it", "forward perplexity", "probe accuracy"], rows)
    told = (
        f"Forward perplexity of {found['n_documents']} held-out documents ({found['n_tokens']:,} tokens), and accuracy "
        f"of a linear probe of UPOS on the mean of the layers with its 95 % interval (UD English-EWT, "
        f"{found['n_dev']:,} development tokens); biLM `{found['bilm']}`, `project/scripts/contexts.py`."
    )
    return f"{told}\n\n{table}{note_earlier(found)}"


# Errors


def errors_section(results: Path) -> Optional[str]:
    """Errors by kind, with and without ELMo."""
    parts = []
    for task, title in ERROR_TITLES.items():
        record = read_record(results / f"errors-{task}.json")
        if record is not None:
            content = DESCRIBE[record["kind"]](record)
            parts.append(f"### {title}, seed {record['seed']}\n\n{content}{note_earlier(record)}")
    return "\n\n".join(parts) or None


def _describe_words(record: Record) -> str:
    rows = [[f"words {row['kind']}", f"{row['n']:,}", *_percentages(row)] for row in record["rows"]]
    table = make_table(["tokens of the test data", "n", "right without ELMo, %", "right with ELMo, %"], rows)
    confusions = [
        [row["right"], row["found"], str(row["n"]), ", ".join(f"*{word}*" for word in row["words"])]
        for row in record["confusions"][:N_CONFUSIONS]
    ]
    frequent = make_table(["gold tag", "tag with ELMo", "n", "frequent words"], confusions)
    return (
        f"Only tokens with the boundaries of the treebank:\n\n{table}\n\n"
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
        f"Predicted entities: {'; '.join(told)}. A spurious entity overlaps no gold entity; a missed one no predicted "
        "entity."
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


DESCRIBE: Dict[str, Callable[[Record], str]] = {
    "words": _describe_words,
    "entities": _describe_entities,
    "categories": _describe_categories,
}


# Score against speed


def choice_section(results: Path, image_dir: Path) -> Optional[str]:
    """Score against speed, with a picture in `image_dir` for each task."""
    parts = [_describe_choice(record, image_dir) for record in read_choices(results)]
    return "\n\n".join(parts) or None


def read_choices(results: Path) -> List[Record]:
    """RETURNS (List[Record]): What choice.py has measured, by task."""
    records = [read_record(results / f"choice-{task}.json") for task in CHOICE_TITLES]
    return [record for record in records if record is not None]


def draw_choice(record: Record, image_dir: Path) -> str:
    """Draw the score of each pipeline over its words per second. RETURNS (str): Name of the picture."""
    name = f"choice_{record['task']}.png"
    check_picture(image_dir / name)
    draw_speeds(record["rows"], image_dir / name, title=make_title(record))
    return name


def make_title(record: Record) -> str:
    """RETURNS (str): The finding: the best score, and what it costs against the fastest pipeline with a score."""
    scored = [row for row in record["rows"] if row["score"] is not None]
    best, fastest = (max(scored, key=lambda row: row[key]) for key in ("score", "words_per_s"))
    title = CHOICE_TITLES[record["task"]]
    if best is fastest:
        return f"{title}: {best['label']} is best and fastest"
    factor = fastest["words_per_s"] / best["words_per_s"]
    return f"{title}: {best['label']} scores highest; {fastest['label']} is {factor:.1f} times as fast"


def _settings_with_bilm(record: Record) -> List[Record]:
    return [row["settings"] for row in record["rows"] if row["settings"] and row["settings"].get("bilm")]


def _describe_choice(record: Record, image_dir: Path) -> str:
    name = draw_choice(record, image_dir)
    rows: List[List[str]] = [_choice_cells(row) for row in record["rows"]]
    table = make_table(["pipeline", "score", "words/s (lowest to highest)"], rows)
    told = (
        f"{CHOICE_TITLES[record['task']]}, seed {record['seed']}: score on the test data, and words per second of the "
        f"whole pipeline, tokenizer included, on its {record['n_texts']:,} texts with one thread "
        f"({record['processor']}); median of {record['repeats']}."
    )
    notes = dict.fromkeys(note_earlier(settings) for settings in _settings_with_bilm(record))
    return f"{told}\n\n{table}\n\n![{make_title(record)}](images/{name}){''.join(notes)}"


def _choice_cells(row: Record) -> List[str]:
    score = "-" if row["score"] is None else f"{100 * row['score']:.2f}"
    speed, lowest, highest = (f"{row[name]:,.0f}" for name in ("words_per_s", "lowest", "highest"))
    return [row["label"], score, f"{speed} ({lowest} to {highest})"]
