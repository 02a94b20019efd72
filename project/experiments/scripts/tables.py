"""Tables of the trainings: from stored results to Markdown, or None without any.

Tables and plots have the results of the weights in use, beside those without a biLM.
"""

import hashlib
from itertools import product
from math import sqrt
from pathlib import Path
from statistics import mean, mode, stdev
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

import srsly
from paper_experiments import GRID, GRID_SIZES, SHARES, find_grid
from shared import N_SEEDS, summarize
from stored import Result

from spacy_elmo.pipeline.layer_weights import TaskMix
from spacy_elmo.weights.contents import hash_weights
from spacy_elmo.weights.formats.native import PACKAGED_NAMES
from spacy_elmo.weights.load import locate_model

Settings = Dict[str, Any]  # of a result, or the record of a measurement
Mixes = List[Dict[str, Any]]  # of a place, one for each seed
# Title of each task, and its scores: label and key. The first score is that of the other tables.
Tasks = Dict[str, Tuple[str, Dict[str, str]]]
TASKS: Tasks = {
    "wnut17": ("WNUT-17", {"NER F": "ents_f"}),
    "wikigold": ("Wikigold", {"NER F": "ents_f"}),
    "ncbi-disease": ("NCBI-disease", {"NER F": "ents_f"}),
    "wnut17-crf": ("WNUT-17", {"NER F, CRF": "ents_f"}),
    "wikigold-crf": ("Wikigold", {"NER F, CRF": "ents_f"}),
    "ncbi-disease-crf": ("NCBI-disease", {"NER F, CRF": "ents_f"}),
    "ewt-tags": ("UD EWT", {"UPOS": "pos_acc", "XPOS": "tag_acc", "morph": "morph_acc"}),
    "ewt-parser": ("UD EWT", {"UAS": "dep_uas", "LAS": "dep_las"}),
    "goemotions": (
        "GoEmotions",
        {"macro F": "cats_macro_f", "micro F": "cats_micro_f", "macro AUC": "cats_macro_auc"},
    ),
}
LANGUAGES: Tasks = {
    "fr_sequoia-upos": ("French, UD Sequoia", {"UPOS": "pos_acc"}),
    "ru_taiga-upos": ("Russian, UD Taiga", {"UPOS": "pos_acc"}),
}
NETWORKS = {"UPOS": "tags", "UAS": "parser", "macro F": "categories"}  # of tasks with several scores
SHARE_TASKS = ("wnut17", "ewt-tags")
FINETUNED_TASKS = ("wnut17-crf", "wikigold-crf", "ncbi-disease-crf", "ewt-tags")
# Rows of a table: condition and label.
MIXES = {
    "elmo": "learned, no L2",
    "mix-l2-0.001": "learned, lambda 0.001",
    "mix-l2-1": "learned, lambda 1",
    "mix-mean": "mean of the layers",
    "mix-top": "top layer",
    "baseline": "without ELMo",
}
ALTERNATIVES = {
    "baseline": "without ELMo",
    "tok2vec": "without ELMo, tok2vec from `spacy pretrain`",
    "floret": "without ELMo, static floret vectors",
    "elmo-timed": "with ELMo, a biLM pretrained as long on the same text",
    "elmo": "with ELMo",
}
PLACES = {
    "bilstm-input": "input of the BiLSTM",
    "bilstm-output": "output of the BiLSTM",
    "bilstm-both": "input and output of the BiLSTM",
    "bilstm-none": "nowhere (without ELMo)",
}
# What to choose: conditions of each system, and of each column its tasks, which differ in settings, and its score. Of
# several conditions and tasks the best of the development data is taken.
SYSTEMS = {
    "tok2vec": ("baseline",),
    "tok2vec, floret vectors": ("floret",),
    "`en_elmo_sm`, frozen": ("elmo", "elmo-configured", "elmo-averaged", "elmo-gamma-0.04", "elmo-gamma-0.2"),
    "`en_elmo_sm`, fine-tuned": ("elmo-finetuned",),
    "MiniLM, frozen": ("minilm-frozen",),
    "MiniLM, fine-tuned": ("minilm-finetuned-0.0001", "minilm-finetuned-0.0003", "minilm-spacy"),
}
COLUMNS = {
    "WNUT-17, F": (("wnut17", "wnut17-crf"), "ents_f"),
    "Wikigold, F": (("wikigold", "wikigold-crf"), "ents_f"),
    "EWT, UPOS": (("ewt-tags",), "pos_acc"),
    "HWU64, accuracy": (("hwu64",), "cats_micro_f"),
}
# The grid: titles of its data sets, and label and key of the score of each component.
GRID_TITLES = {
    "ud_en_ewt": "UD EWT",
    "wnut17": "WNUT-17",
    "wikigold": "Wikigold",
    "ncbi_disease": "NCBI-disease",
    "goemotions8": "GoEmotions, 8 categories",
    "sentiment": "sentence polarity",
    "hwu64": "HWU64, 64 intents",
    "goemotions": "GoEmotions",
    "af_afribooms": "Afrikaans, UD AfriBooms",
    "hy_bsut": "Armenian, UD BSUT",
    "tr_framenet": "Turkish, UD FrameNet",
    "vi_vtb": "Vietnamese, UD VTB",
    "fr_sequoia": "French, UD Sequoia",
}
GRID_SCORES = {
    "tagger": ("XPOS", "tag_acc"),
    "morphologizer": ("UPOS", "pos_acc"),
    **dict.fromkeys(("parser", "biaffine_parser"), ("LAS", "dep_las")),
    **dict.fromkeys(("ner", "crf_ner"), ("F", "ents_f")),
    "spancat": ("F", "spans_sc_f"),
    "textcat": ("macro F", "cats_macro_f"),
    "textcat_multilabel": ("macro AUC", "cats_macro_auc"),
}
GRID_COLUMNS = {
    "best_step": "updates to the best score",
    "cpu_seconds": "CPU seconds of training",
    "words_per_second": "words per second",
}
MEASURED = "speed.jsonl"  # of choice.py, in the folder of the results
FINETUNED = {"baseline": "without ELMo", "elmo": "frozen biLM", "elmo-finetuned": "fine-tuned biLM"}


def make_gains(results: List[Result], tasks: Tasks = TASKS) -> Optional[str]:
    """RETURNS (Optional[str]): Test scores with and without ELMo by task, Peters et al. (2018), table 1."""
    rows = []
    for task, (title, scores) in tasks.items():
        without, with_elmo = (select(results, task, condition) for condition in ("baseline", "elmo"))
        updates = " / ".join(_mean_number(group) for group in (without, with_elmo))
        for label, key in scores.items():
            if percents(without, key) or percents(with_elmo, key):
                gain = summarize(paired_differences(without, with_elmo, key), sign="+")
                cells = [summarize(percents(group, key)) for group in (without, with_elmo)]
                rows.append([f"{title}, {label}", *cells, gain, updates])
    updates = "updates to the best score, without / with"
    return make_table(["test score", "without ELMo", "with ELMo", "difference, same seeds", updates], rows)


def make_finetuned(results: List[Result]) -> Optional[str]:
    """RETURNS (Optional[str]): Score and CPU time with a fine-tuned biLM beside a frozen one."""
    rows = []
    for task in FINETUNED_TASKS:
        (title, key), frozen = first_score(task), select(results, task, "elmo")
        for label, group in _group(results, task, FINETUNED):
            gain = "" if group == frozen else summarize(paired_differences(frozen, group, key), sign="+")
            rows.append([title, label, summarize(percents(group, key)), gain, *_describe_cost(group)])
    gain = "difference from the frozen biLM, same seeds"
    cost = ["CPU minutes", "CPU seconds per 1,000 updates", "processor"]
    return make_table(["test score", "network", "score", gain, *cost], rows)


def _describe_cost(results: List[Result]) -> List[str]:
    """RETURNS (List[str]): CPU time of a training and of 1,000 updates, evaluations included, and the processor. Times
    are those of the most frequent processor alone, of equals that of the lowest seed, with the number of its results if
    there are others.
    """
    processor = mode(result["processor"] for result in results)
    timed = [result for result in results if result["processor"] == processor]
    n_timed = "" if len(timed) == len(results) else f" ({len(timed)} of {len(results)})"
    minutes = mean(result["cpu_seconds"] / 60 for result in timed)
    seconds = mean(1000 * result["cpu_seconds"] / result["last_step"] for result in timed)
    return [f"{minutes:.1f}", f"{seconds:.0f}", f"{processor}{n_timed}"]


def make_alternatives(results: List[Result]) -> Optional[str]:
    """RETURNS (Optional[str]): Test scores with what else raw text can give."""
    rows = []
    for task in SHARE_TASKS:
        title, key = first_score(task)
        for label, group in _group(results, task, ALTERNATIVES):
            rows.append([title, label, *_describe_source(group[0]["settings"]), summarize(percents(group, key))])
    header = ["test score", "network", "raw text", "words trained on", "wall time (CPU time)", "score"]
    return make_table(header, rows)


def _describe_source(settings: Settings) -> List[str]:
    """RETURNS (List[str]): Raw text, words read (those of all passes) and time of a packaged biLM, from its meta data,
    or of an alternative; empty cells for others.
    """
    name, source = settings["bilm"], settings.get("source")
    if name in PACKAGED_NAMES:
        meta: Dict[str, Any] = srsly.read_json(locate_model(name) / "meta.json")
        training = meta["training"]
        hours = training["hours"] if "hours" in training else training["elapsed_s"] / 3600
        return [meta["corpus"]["name"], f"{training['n_tokens']:,}", f"{hours:.1f} h"]
    if not source:
        return ["", "", ""]
    share = "" if source["share"] == 100 else f", {source['share']} %"
    minutes = f"{source['elapsed_s'] / 60:.1f} min ({source['cpu_s'] / 60:.1f})"
    return [f"{source['text']}{share}", f"{source['words']:,}", minutes]


def make_layer_weights(results: List[Result]) -> Optional[str]:
    """RETURNS (Optional[str]): softmax(w) in percent and gamma of each mix, means over seeds."""
    rows = []
    for name, seeds in find_mixes(results):
        mix = average_mixes(seeds)
        rows.append([name, *(f"{100 * share:.1f}" for share in mix.shares), f"{mix.gamma:.2f}", str(len(seeds))])
    n_layers = max((len(row) - 3 for row in rows), default=0)
    layers = ["token layer, %", *(f"LSTM layer {number}, %" for number in range(1, n_layers))]
    return make_table(["mix", *layers, "gamma", "seeds"], rows)


def find_mixes(results: List[Result]) -> List[Tuple[str, Mixes]]:
    """RETURNS (List[Tuple[str, Mixes]]): Name of each mix of the gains, and what each seed ended with."""
    named = []
    for task, (title, scores) in TASKS.items():
        label = next(iter(scores))
        label = NETWORKS.get(label, label.replace("NER F", "NER"))  # a network may have several scores
        for mixes in zip(*(result["mixes"] for result in select(results, task, "elmo"))):
            place = f" ({mixes[0]['place']})" if mixes[0]["place"] else ""
            named.append((f"{title}, {label}{place}", list(mixes)))
    return named


def average_mixes(seeds: Mixes) -> TaskMix:
    """RETURNS (TaskMix): Means over seeds."""
    shares = tuple(mean(layer) for layer in zip(*(mix["shares"] for mix in seeds)))
    return TaskMix(seeds[0]["component"], 1, shares, (), mean(mix["gamma"] for mix in seeds), seeds[0]["place"])


def describe_mixes(results: List[Result]) -> str:
    """RETURNS (str): Number of trainings, and the first digits of the sha256 of what they ended with."""
    mixes = find_mixes(results)
    digest = hashlib.sha256(srsly.json_dumps(mixes).encode("utf8")).hexdigest()[:12]
    return f"{sum(len(seeds) for _, seeds in mixes)} mixes of project/experiments/results {digest}"


def make_mixes(results: List[Result]) -> Optional[str]:
    """RETURNS (Optional[str]): WNUT-17 by mix of the layers, table 2 of the paper."""
    rows = [
        [label, summarize(percents(group, "ents_f")), _mean_shares(group)]
        for label, group in _group(results, "wnut17", MIXES)
    ]
    header = ["mix of the layers, at the input of the network", "WNUT-17, NER F"]
    return make_table([*header, "shares of the layers, token layer first"], rows)


def _mean_shares(results: List[Result]) -> str:
    """RETURNS (str): Mean over seeds of each layer's share in the first mix; empty where no result has mixes."""
    shares = [result["mixes"][0]["shares"] for result in results if "mixes" in result]
    return " / ".join(f"{mean(layer):.2f}" for layer in zip(*shares))


def make_placements(results: List[Result]) -> Optional[str]:
    """RETURNS (Optional[str]): WNUT-17 by place of ELMo in a network with a BiLSTM, table 3 of the paper."""
    groups = _group(results, "wnut17", PLACES)
    return make_table(
        ["ELMo at", "WNUT-17, NER F"], [[name, summarize(percents(one, "ents_f"))] for name, one in groups]
    )


def make_shares(results: List[Result]) -> Optional[str]:
    """RETURNS (Optional[str]): Test scores by share of the training data, figure 1 of the paper."""
    rows = []
    for task in SHARE_TASKS:
        title, key = first_score(task)
        for share in measured_shares(results, task):
            without, with_elmo = (select(results, task, name, share) for name in ("baseline", "elmo"))
            words = f"{(without or with_elmo)[0]['train_words']:,}"
            scores = [summarize(percents(group, key)) for group in (without, with_elmo)]
            rows.append([title, f"{share} %", words, *scores])
    return make_table(["test score", "share", "training words", "without ELMo", "with ELMo"], rows)


def make_grid(results: List[Result]) -> Optional[str]:
    """RETURNS (Optional[str]): Test scores of what `elmo init-config` writes, by data set, component and size, without
    and with ELMo, and how many are above and below.
    """
    rows, cells = [], []
    for dataset, components in GRID.items():
        for component, size in product(components, GRID_SIZES):
            label, key = GRID_SCORES[component]
            pair = find_grid(dataset, size, component)
            without, with_elmo = (_keep_newest(select(results, run.task, run.condition)) for run in pair)
            if gains := paired_differences(without, with_elmo, key):
                scores = [summarize(percents(group, key)) for group in (without, with_elmo)]
                means = [" / ".join(_mean_number(group, key) for group in (without, with_elmo)) for key in GRID_COLUMNS]
                title = [GRID_TITLES[dataset], f"`{component}`, {label}", size]
                rows.append([*title, *scores, _add_standard_error(gains), *means])
                cells.append(gains)
    header = ["data set", "component, test score", "sentences or texts", "without ELMo", "with ELMo"]
    means = [f"{label}, without / with" for label in GRID_COLUMNS.values()]
    table = make_table([*header, "difference, same seeds", *means], rows)
    return None if table is None else f"{table}\n\n{_count_cells(cells)}"


def _keep_newest(results: List[Result]) -> List[Result]:
    """RETURNS (List[Result]): Those of the newest config: `elmo init-config` may have written others before."""
    newest = [result["settings"]["config_digest"] for result in _sort_by_time(results)[-1:]]
    return [result for result in results if result["settings"]["config_digest"] in newest]


def _add_standard_error(gains: List[float]) -> str:
    error = f" ± {stdev(gains) / sqrt(len(gains)):.2f}" if len(gains) > 1 else ""
    return f"{mean(gains):+.2f}{error}" + ("" if len(gains) == N_SEEDS else f" (n = {len(gains)})")


def _count_cells(cells: List[List[float]]) -> str:
    """RETURNS (str): Number of rows above and below the baseline by more than a standard error, or with one seed."""
    counts = []
    for label, group in (
        ("several seeds, by more than a standard error", [gains for gains in cells if len(gains) > 1]),
        ("one seed", [gains for gains in cells if len(gains) == 1]),
    ):
        pairs = [(mean(gains), stdev(gains) / sqrt(len(gains)) if len(gains) > 1 else 0.0) for gains in group]
        below, above = sum(gain < -error for gain, error in pairs), sum(gain > error for gain, error in pairs)
        counts += [f"{below} of {len(group)} rows are below the baseline and {above} above ({label})"] if group else []
    return f"With ELMo {'; '.join(counts)}."


def make_choice(results: List[Result], measured: List[Result]) -> Optional[str]:
    """measured (List[Result]): Rows of choice.py.
    RETURNS (Optional[str]): Scores, speed, memory and size of each system. Times of training are of several processors,
        and cannot be compared.
    """
    rows = []
    for system in SYSTEMS:
        scores = [summarize(percents(find_best(results, system, name), key)) for name, (_, key) in COLUMNS.items()]
        first = find_best(results, system, next(iter(COLUMNS)))
        speed = find_speed(first, measured)
        costs = [f"{speed[name]:,.0f}" if speed else "-" for name in ("words_per_s", "memory_mb", "size_mb")]
        rows.append([system, *scores, *costs])
    return make_table(["system", *COLUMNS, "words/s", "memory, MB", "on disk, MB"], rows)


def find_best(results: List[Result], system: str, column: str) -> List[Result]:
    """RETURNS (List[Result]): All seeds of the settings that are best on the development data; empty without any."""
    groups = [select(results, task, name) for task in COLUMNS[column][0] for name in SYSTEMS[system]]
    return max(groups, key=lambda group: mean(result["best_dev_score"] for result in group) if group else -1.0)


def find_speed(results: List[Result], measured: List[Result]) -> Optional[Result]:
    """RETURNS (Optional[Result]): The row of choice.py of a pipeline with these settings, or without averages."""
    settings = [
        (result["settings"]["task"], result["settings"]["condition"].removesuffix("-averaged"))
        for result in results[:1]
    ]
    return next((row for row in measured if (row["task"], row["condition"]) in settings), None)


def read_measured(folder: Path) -> List[Result]:
    """RETURNS (List[Result]): What choice.py has measured, a row for each pipeline."""
    path = folder / MEASURED
    return list(srsly.read_jsonl(path)) if path.is_file() else []


def measured_shares(results: List[Result], task: str) -> List[int]:
    """RETURNS (List[int]): Shares with a result; none if only all training data was used."""
    shares = {result["settings"]["share"] for result in results if result["settings"]["task"] == task}
    return [share for share in SHARES if share in shares] if shares - {100} else []


def first_score(task: str) -> Tuple[str, str]:
    """RETURNS (Tuple[str, str]): Title of a task with the label of its first score, and the key of the score."""
    title, scores = TASKS[task]
    label, key = next(iter(scores.items()))
    return f"{title}, {label}", key


def select(results: List[Result], task: str, condition: str, share: int = 100) -> List[Result]:
    """RETURNS (List[Result]): The results of all seeds, by seed."""
    run = {"task": task, "condition": condition, "share": share}
    seeds = [result for result in results if run.items() <= result["settings"].items()]
    return sorted(seeds, key=lambda result: result["settings"]["seed"])


def percents(results: Iterable[Result], key: str) -> List[float]:
    """RETURNS (List[float]): A test score of each result, 0 to 100."""
    return [result["test"][key] * 100 for result in results if key in result["test"]]


def paired_differences(without: List[Result], with_elmo: List[Result], key: str) -> List[float]:
    """RETURNS (List[float]): With less without ELMo, 0 to 100, for each seed that both have."""
    old, new = ({one["settings"]["seed"]: percents([one], key) for one in group} for group in (without, with_elmo))
    return [new[seed][0] - old[seed][0] for seed in new if seed in old]


def make_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Optional[str]:
    """RETURNS (Optional[str]): A Markdown table, numbers to the right; None without rows."""
    if not rows:
        return None
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _group(results: List[Result], task: str, labels: Dict[str, str]) -> List[Tuple[str, List[Result]]]:
    """labels (Dict[str, str]): By condition.
    RETURNS (List[Tuple[str, List[Result]]]): Label and results of each condition with any, if there are others than
        those with and without ELMo.
    """
    groups = {condition: group for condition in labels if (group := select(results, task, condition))}
    return [(labels[name], group) for name, group in groups.items()] if groups.keys() - {"baseline", "elmo"} else []


def _mean_number(results: List[Result], key: str = "best_step") -> str:
    """RETURNS (str): Mean of those that have it; results from before it was measured do not."""
    values = [result[key] for result in results if key in result]
    return f"{mean(values):,.0f}" if values else "-"


# Weights in use


def keep_in_use(results: List[Result]) -> List[Result]:
    """RETURNS (List[Result]): Results without a biLM, or of the weights in use."""
    in_use = find_digests(result["settings"] for result in _sort_by_time(results))
    return [result for result in results if _is_of(result["settings"], in_use)]


def _sort_by_time(results: List[Result]) -> List[Result]:
    return sorted(results, key=lambda result: str(result.get("finished_at", "")))


def find_digests(settings: Iterable[Settings]) -> Dict[str, str]:
    """settings (Iterable[Settings]): The newest last.
    RETURNS (Dict[str, str]): For each biLM and alternative the digest of its weights: of a packaged biLM as they are
        now, of others the newest.
    """
    newest = dict(identity for one in settings if (identity := _identify(one))[0])
    return {name: hash_weights(name) if name in PACKAGED_NAMES else newest[name] for name in sorted(newest)}


def describe_weights(results: List[Result], records: Iterable[Settings]) -> Optional[str]:
    """records (Iterable[Settings]): Of files without trainings, each with name and digest of its biLM.
    RETURNS (Optional[str]): The weights that the tables are of, and how many results are in none.
    """
    in_use = find_digests([*records, *(result["settings"] for result in _sort_by_time(results))])
    if not in_use:
        return None
    names = "; ".join(f"`{name}` {digest}" for name, digest in in_use.items())
    n_others = sum(not _is_of(result["settings"], in_use) for result in results)
    others = f" Results of other weights, not shown: {n_others}." if n_others else ""
    return f"Weights, first digits of the sha256 of their file, or of the pretraining config: {names}.{others}"


def note_earlier(record: Settings) -> str:
    """RETURNS (str): Markdown, a paragraph if it was made with earlier weights of a packaged biLM; otherwise ""."""
    name, digest = record["bilm"], record["bilm_digest"]
    is_earlier = name in PACKAGED_NAMES and digest != hash_weights(name)
    return f"\n\nMeasured with earlier weights of `{name}` ({digest})." if is_earlier else ""


def _identify(settings: Settings) -> Tuple[str, str]:
    """RETURNS (Tuple[str, str]): Name and digest of the weights that a result was made with, or of the config of their
    pretraining; "" for none.
    """
    if settings["bilm"]:
        return settings["bilm"], settings.get("pretraining", settings["bilm_digest"])
    source = settings.get("source")
    return (f"{source['kind']} for {settings['task']}", source["digest"]) if source else ("", "")


def _is_of(settings: Settings, in_use: Dict[str, str]) -> bool:
    name, digest = _identify(settings)
    return not name or digest == in_use[name]
