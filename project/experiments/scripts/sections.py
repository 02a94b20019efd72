"""Sections of docs/results.md and RESULTS.md: the grid of trainings, and files that errors.py, layers.py, contexts.py
and choice.py write.

Each function takes results or the record of a file, and returns Markdown.
"""

from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

import srsly
from errors import MISSED
from named_configs import read_any_config
from pictures import draw_choice
from tables import make_choice, make_grid, make_table, note_earlier

Record = Dict[str, Any]
ERROR_TITLES = {
    "wnut17": "WNUT-17, entities",
    "ewt-tags": "UD EWT, UPOS",
    "goemotions": "GoEmotions, categories",
}
N_SHOWN = 3  # categories with the largest gain and loss, pairs of tags
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


def read_records(results: Path) -> Dict[str, Record]:
    """RETURNS (Dict[str, Record]): The files that are not of trainings, by name."""
    names = [*(file for _, file, _ in SECTIONS.values()), *(f"errors-{task}.json" for task in ERROR_TITLES)]
    return {name: srsly.read_json(results / name) for name in names if (results / name).is_file()}


# Layers


def senses_section(record: Record) -> str:
    """Word senses by layer."""
    rows = [
        [_name_layer(row["layer"]), _interval(row), _interval(row["ambiguous"]), _interval(row["gain"], sign="+")]
        for row in record["rows"]
    ]
    table = make_table(["layer", "F1", "several senses", "difference from the baseline"], rows)
    preface = (
        "Each use gets the sense with the nearest mean, the 1-nearest neighbor of the paper. SemCor (NOAD senses): "
        f"{record['n_train']:,} training instances, {record['n_test']:,} test instances, of which "
        f"{record['n_answered']:,} have a lemma with training instances, without back-off for the others; biLM "
        f"`{record['bilm']}`. F1 over all instances, accuracy over lemmas with several senses, and paired difference "
        "from the most frequent training sense; in brackets 95 % confidence intervals."
    )
    # The best single layer; neither a baseline nor the mean.
    best = max((row for row in record["rows"] if isinstance(row["layer"], int)), key=lambda row: row["value"])
    gain = best["gain"]
    verdict = "better than" if gain["low"] > 0 else "worse than" if gain["high"] < 0 else "not significantly other than"
    return (
        f"{preface}\n\n{table}\n\nThe best layer, {_name_layer(best['layer'])}, is {verdict} the most frequent "
        f"training sense.{note_earlier(record)}"
    )


def pos_section(record: Record) -> str:
    """Parts of speech by layer."""
    rows = []
    for row in record["rows"]:
        control = row.get("control")
        beside = ["", ""] if control is None else [f"{control:.1f}", f"{row['value'] - control:.1f}"]
        rows.append([_name_layer(row["layer"]), _interval(row), *beside])
    preface = (
        f"A linear probe of UPOS on UD English-EWT: {record['n_train']:,} training tokens, {record['n_test']:,} test "
        f"tokens, biLM `{record['bilm']}`. Accuracy with its 95 % interval; the control task (Hewitt and Liang 2019) "
        "has random tags per word, three seeds."
    )
    table = make_table(["layer", "accuracy", "control task", "selectivity"], rows)
    return f"{preface}\n\n{table}{note_earlier(record)}"


def _name_layer(layer: Any) -> str:
    return LAYER_LABELS.get(layer) or (layer if isinstance(layer, str) else f"LSTM layer {layer}")


def _interval(score: Optional[Record], sign: str = "", digits: int = 1) -> str:
    if score is None:
        return ""
    value, low, high = (f"{score[name]:{sign}.{digits}f}" for name in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


# Contexts


def contexts_section(record: Record) -> str:
    """Contexts and initial states."""
    rows = []
    for row in record["rows"]:
        labels = [CONTEXT_LABELS[row[name]].format(max_tokens=record["max_tokens"]) for name in ("contexts", "state")]
        probe = {"value": 100 * row["accuracy"], "low": 100 * row["low"], "high": 100 * row["high"]}
        rows.append([*labels, f"{row['perplexity']:.1f}", _interval(probe, digits=2)])
    table = make_table(["read as one sequence", "state before it", "forward perplexity", "probe accuracy"], rows)
    preface = (
        f"Forward perplexity of {record['n_documents']} held-out documents ({record['n_tokens']:,} tokens), and "
        f"accuracy of a linear probe of UPOS on the mean of the layers with its 95 % interval (UD English-EWT, "
        f"{record['n_dev']:,} development tokens); biLM `{record['bilm']}`, `project/experiments/scripts/contexts.py`."
    )
    return f"{preface}\n\n{table}{note_earlier(record)}"


# Errors


def errors_section(records: Dict[str, Record]) -> str:
    """Errors by kind, with and without ELMo."""
    tasks = {title: record for task, title in ERROR_TITLES.items() if (record := records.get(f"errors-{task}.json"))}
    return "\n\n".join(
        f"### {title}, seed {record['seed']}\n\n{DESCRIBE[record['kind']](record)}{note_earlier(record)}"
        for title, record in tasks.items()
    )


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


# Heading, file, and what makes the section of it.
SECTIONS: Dict[str, Tuple[str, str, Callable[[Record], str]]] = {
    "senses": ("Word senses by layer", "layers-senses.json", senses_section),
    "pos": ("Parts of speech by layer", "layers-pos.json", pos_section),
    "contexts": ("Contexts and states", "contexts.json", contexts_section),
}


# The grid


def grid_section(results: List[Record]) -> Optional[str]:
    """What `elmo init-config` writes, with and without ELMo."""
    table = make_grid(results)
    trained = [result for result in results if "_init-config:" in result["settings"]["config"]]
    max_steps = read_any_config("elmo_init-config:textcat")["training"]["max_steps"]  # of all components
    processors = " or ".join(sorted({result["processor"] for result in trained}))
    preface = (
        "Each row is the config that `elmo init-config --component` writes, as it stands, and its baseline, on "
        f"the same training sentences; both stop by its patience or after {max_steps:,} updates, on at most 500 "
        "development sentences beside 100 and 1,000 for training. The biLM is `en_elmo_sm` for English; of another "
        "treebank it is trained on the whole training part, on each machine anew, with "
        "`configs/pretrain_small_text.cfg` as it stands, and with the components. Means over three seeds, or n, in "
        "percent, ± the sample standard deviation; differences ± their standard error. Each seed has its own random "
        "weights and its own draw of 100 or 1,000 training sentences, so ± covers both; the development and test data "
        "are the same for all, and their sampling error is not in it. "
        "Only sentence polarity, which its authors do not divide, has other parts with each seed. CPU times of one "
        f"thread of an {processors}, beside another training; words per second of CPU time on the test data."
    )
    command = "`python -m spacy project run grid project/experiments` trains what has no result."
    return None if table is None else f"{preface}\n\n{table}\n\n{command}"


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
