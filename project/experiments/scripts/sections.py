"""Sections of docs/results.md and RESULTS.md from files that errors.py, layers.py, contexts.py and choice.py write.

Each function takes the folder with these files, and returns Markdown, or None without its file.
"""

from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import srsly
from errors import MISSED
from pictures import draw_choice
from tables import make_choice, make_table, note_earlier

Record = Dict[str, Any]
ERROR_TITLES = {
    "wnut17": "WNUT-17, entities",
    "ewt-tags": "UD EWT, UPOS",
    "goemotions": "GoEmotions, categories",
}
N_SHOWN = 3  # categories with the largest gain and loss, pairs of tags
SENSES, POS, CONTEXTS = "layers-senses.json", "layers-pos.json", "contexts.json"
CONTEXT_LABELS = {
    "sentences": "a sentence",
    "doc": "the document, in windows of {max_tokens} tokens",
    "reset": "zero (`reset`)",
    "steady": "steady state (`steady`)",
    "carry": "that after the sentence before (`carry`)",
}
CHOICE_COMMAND = (
    "`python -m spacy project run choice project/experiments` trains and measures the systems, `project run results "
    "project/experiments` writes the table ([what they need](../project/experiments/README.md#data))."
)
LAYER_LABELS = {"mean": "mean of all layers", "first sense": "most frequent training sense", 0: "token layer"}


def read_record(path: Path) -> Optional[Record]:
    """RETURNS (Optional[Record]): None without the file."""
    return srsly.read_json(path) if path.is_file() else None


def read_identities(results: Path) -> Dict[str, Record]:
    """RETURNS (Dict[str, Record]): By file without a training of its own, a record with the name and digest of its
    biLM.
    """
    found = {name: read_record(results / name) for name in (SENSES, POS, CONTEXTS)}
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
        "Each use gets the sense with the nearest mean, the 1-nearest neighbor of the paper. SemCor (NOAD senses): "
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
    return LAYER_LABELS.get(layer) or (layer if isinstance(layer, str) else f"LSTM layer {layer}")


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
    rows = []
    for row in found["rows"]:
        labels = [CONTEXT_LABELS[row[name]].format(max_tokens=found["max_tokens"]) for name in ("contexts", "state")]
        probe = {"value": 100 * row["accuracy"], "low": 100 * row["low"], "high": 100 * row["high"]}
        rows.append([*labels, f"{row['perplexity']:.1f}", _interval(probe, digits=2)])
    table = make_table(["read as one sequence", "state before it", "forward perplexity", "probe accuracy"], rows)
    told = (
        f"Forward perplexity of {found['n_documents']} held-out documents ({found['n_tokens']:,} tokens), and accuracy "
        f"of a linear probe of UPOS on the mean of the layers with its 95 % interval (UD English-EWT, "
        f"{found['n_dev']:,} development tokens); biLM `{found['bilm']}`, `project/experiments/scripts/contexts.py`."
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
    rows = [[f"words {row['kind']}", *_count_and_percents(row)] for row in record["rows"]]
    table = make_table(["tokens of the test data", "n", "right without ELMo, %", "right with ELMo, %"], rows)
    confusions = [
        [row["right"], row["found"], str(row["n"]), ", ".join(f"*{word}*" for word in row["words"])]
        for row in record["confusions"][:N_SHOWN]
    ]
    frequent = make_table(["gold tag", "tag with ELMo", "n", "frequent words"], confusions)
    return (
        f"Only tokens with the boundaries of the treebank:\n\n{table}\n\n"
        f"The most frequent errors left with ELMo:\n\n{frequent}"
    )


def _describe_entities(record: Record) -> str:
    rows = [[row["kind"], *_count_and_percents(row)] for row in record["rows"] if row["n"]]
    table = make_table(["entities of the test data", "n", "found without ELMo, %", "found with ELMo, %"], rows)
    predicted = []
    for name in ("without", "with"):
        right = sum(row[name] for row in record["rows"])
        wrong = sum(row[name] for row in record["errors"] if row["kind"] != MISSED)
        predicted.append(f"{right + wrong:,} {name} ELMo, {right:,} of them right")
    errors = [[row["kind"], f"{row['without']:,}", f"{row['with']:,}"] for row in record["errors"]]
    return (
        f"{table}\n\nPredicted entities: {'; '.join(predicted)}. A spurious entity overlaps no gold entity; a missed "
        f"one no predicted entity.\n\n{make_table(['error', 'without ELMo', 'with ELMo'], errors)}"
    )


def _describe_categories(record: Record) -> str:
    rows = []
    for row in record["rows"]:
        low, high = row["from"], row["to"]
        limits = f"{low:,} or more" if high is None else f"{low:,} to {high - 1:,}" if low else f"fewer than {high:,}"
        rows.append([limits, str(row["n"]), f"{100 * row['without']:.1f}", f"{100 * row['with']:.1f}"])
    table = make_table(["training texts of a category", "categories", "mean F without ELMo", "mean F with ELMo"], rows)
    ordered = sorted(record["categories"], key=lambda row: float(row["without"]["f"] - row["with"]["f"]))
    changes = [f"{row['category']} {100 * row['without']['f']:.1f}, {100 * row['with']['f']:.1f}" for row in ordered]
    most, least = "; ".join(changes[:N_SHOWN]), "; ".join(changes[::-1][:N_SHOWN])
    return f"{table}\n\nF without and with ELMo where ELMo helps most: {most}; where it helps least: {least}."


def _count_and_percents(row: Record) -> List[str]:
    percents = [f"{100 * row[name] / row['n']:.1f}" if row["n"] else "-" for name in ("without", "with")]
    return [f"{row['n']:,}", *percents]


DESCRIBE: Dict[str, Callable[[Record], str]] = {
    "words": _describe_words,
    "entities": _describe_entities,
    "categories": _describe_categories,
}


# Score against speed


def choice_section(results: List[Record], measured: List[Record], image_dir: Path) -> Optional[str]:
    """measured (List[Record]): Rows of choice.py. RETURNS (Optional[str]): Its table, and a picture in `image_dir`."""
    table = make_choice(results, measured)
    if table is None or not measured:
        return table
    preface = (
        "Scores are means over three seeds, in percent. HWU64 has 10 examples of each intent. Of several settings the "
        "best on development data counts.\n\n"
        "Words per second of CPU time, peak memory and size are those of the pipeline of WNUT-17, on one thread of an "
        f"{measured[0]['processor']}."
    )
    drawn = draw_choice(results, measured, image_dir)
    picture = "" if drawn is None else f"\n\n![{drawn[0]}](images/{drawn[1]})"
    return f"{preface}\n\n{table}{picture}\n\n{CHOICE_COMMAND}"
