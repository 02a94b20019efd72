"""Tables of the paper's experiments: from stored results to Markdown, or None without any."""

from collections import defaultdict
from statistics import mean, stdev
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from paper_experiments import SHARES
from weights_in_use import describe_pretraining

Result = Dict[str, Any]
# Task, title, and the scores in percent: title and key.
Gains = Tuple[Tuple[str, str, Tuple[Tuple[str, str], ...]], ...]
GAINS: Gains = (
    ("wnut17", "WNUT-17", (("NER F", "ents_f"),)),
    ("wikigold", "Wikigold", (("NER F", "ents_f"),)),
    ("ncbi-disease", "NCBI-disease", (("NER F", "ents_f"),)),
    ("wnut17-crf", "WNUT-17", (("NER F, CRF", "ents_f"),)),
    ("wikigold-crf", "Wikigold", (("NER F, CRF", "ents_f"),)),
    ("ncbi-disease-crf", "NCBI-disease", (("NER F, CRF", "ents_f"),)),
    ("ewt-tags", "UD EWT", (("UPOS", "pos_acc"), ("XPOS", "tag_acc"), ("morph", "morph_acc"))),
    ("ewt-parser", "UD EWT", (("UAS", "dep_uas"), ("LAS", "dep_las"))),
    (
        "goemotions",
        "GoEmotions",
        (("macro F", "cats_macro_f"), ("micro F", "cats_micro_f"), ("macro AUC", "cats_macro_auc")),
    ),
)
NETWORKS = {"UPOS": "tags", "UAS": "parser", "macro F": "categories"}  # of tasks with several scores
LANGUAGE_GAINS: Gains = (
    ("fr_sequoia-upos", "French, UD Sequoia", (("UPOS", "pos_acc"),)),
    ("ru_taiga-upos", "Russian, UD Taiga", (("UPOS", "pos_acc"),)),
)
MIXES = (
    ("elmo", "learned, no L2"),
    ("mix-l2-0.001", "learned, lambda 0.001"),
    ("mix-l2-1", "learned, lambda 1"),
    ("mix-mean", "mean of the layers"),
    ("mix-top", "top layer"),
    ("baseline", "without ELMo"),
)
ALTERNATIVES = (
    ("baseline", "without ELMo"),
    ("tok2vec", "without ELMo, tok2vec from `spacy pretrain`"),
    ("floret", "without ELMo, static floret vectors"),
    ("elmo-timed", "with ELMo, a biLM pretrained as long on the same text"),
    ("elmo", "with ELMo"),
    ("elmo-finetuned", "with ELMo, fine-tuned"),
)
PLACES = (
    ("input", "input of the BiLSTM"),
    ("output", "output of the BiLSTM"),
    ("both", "input and output of the BiLSTM"),
    ("none", "nowhere (without ELMo)"),
)
FINETUNED_TASKS = (
    ("wnut17", "WNUT-17, NER F", "ents_f"),
    ("wikigold", "Wikigold, NER F", "ents_f"),
    ("ncbi-disease-crf", "NCBI-disease, NER F, CRF", "ents_f"),
    ("ewt-tags", "UD EWT, UPOS", "pos_acc"),
)
FINETUNED = (("baseline", "without ELMo"), ("elmo", "frozen biLM"), ("elmo-finetuned", "fine-tuned biLM"))
SHARE_TASKS = (("wnut17", "WNUT-17", "NER F", "ents_f"), ("ewt-tags", "UD EWT", "UPOS", "pos_acc"))


def make_languages(results: List[Result]) -> Optional[str]:
    """RETURNS (Optional[str]): Gains in other languages, each with a biLM of the training text of its treebank."""
    return make_gains(results, LANGUAGE_GAINS)


def make_gains(results: List[Result], gains: Gains = GAINS) -> Optional[str]:
    """RETURNS (Optional[str]): Test scores with and without ELMo by task, Peters et al. (2018), table 1."""
    rows = []
    for task, title, scores in gains:
        for label, key in scores:
            groups = [select(results, task, condition) for condition in ("baseline", "elmo")]
            without, with_elmo = [percents(group, key) for group in groups]
            if without or with_elmo:
                gain = summarize(paired_differences(*groups, key), sign="+")
                updates = " / ".join(_mean_updates(group) for group in groups)
                rows.append([f"{title}, {label}", summarize(without), summarize(with_elmo), gain, updates])
    updates = "updates to the best score, without / with"
    header = ["test score", "without ELMo", "with ELMo", "difference, same seeds", updates]
    return make_table(header, rows)


def name_network(title: str, scores: Sequence[Tuple[str, str]]) -> str:
    """title (str): Title of a data set.
    scores (Sequence[Tuple[str, str]]): Labels and keys of the scores of a network.
    RETURNS (str): For tables with one row per network: "UD EWT, tags" for UPOS, XPOS and morph.
    """
    label = NETWORKS.get(scores[0][0], scores[0][0].replace("NER F", "NER"))
    return f"{title}, {label}"


def paired_differences(without: List[Result], with_elmo: List[Result], key: str) -> List[float]:
    """RETURNS (List[float]): With less without ELMo, 0 to 100, for each seed that both have."""
    baselines = {result["settings"]["seed"]: result for result in without}
    pairs = [(baselines.get(result["settings"]["seed"]), result) for result in with_elmo]
    return [percents([new], key)[0] - percents([old], key)[0] for old, new in pairs if old is not None]


def make_finetuned(results: List[Result]) -> Optional[str]:
    """RETURNS (Optional[str]): Score and CPU time with a fine-tuned biLM beside a frozen one; None before any is
    measured.
    """
    rows = []
    for task, title, key in FINETUNED_TASKS:
        groups = {name: select(results, task, name) for name, _ in FINETUNED}
        if groups["elmo-finetuned"]:
            found = [(label, groups[name]) for name, label in FINETUNED if groups[name]]
            rows += [[title, label, *_describe_cost(groups["elmo"], group, key)] for label, group in found]
    gain = "difference from the frozen biLM, same seeds"
    cost = ["CPU minutes", "CPU seconds per 1,000 updates", "processor"]
    return make_table(["test score", "network", "score", gain, *cost], rows)


def _describe_cost(frozen: List[Result], results: List[Result], key: str) -> List[str]:
    """key (str): Name of the score.
    RETURNS (List[str]): Score, gain over the frozen biLM, CPU time of a training and of 1,000 updates, evaluations
        included, and the processor. Times of different processors are not averaged: they are those of the most
        frequent processor alone, whose number of results follows its name if there are others.
    """
    gain = "" if frozen == results else summarize(paired_differences(frozen, results, key), sign="+")
    processor, timed = _most_frequent_processor(results)
    told = processor if len(timed) == len(results) else f"{processor} ({len(timed)} of {len(results)})"
    minutes = mean(result["cpu_seconds"] / 60 for result in timed)
    seconds = mean(1000 * result["cpu_seconds"] / result["last_step"] for result in timed)
    return [summarize(percents(results, key)), gain, f"{minutes:.1f}", f"{seconds:.0f}", told]


def _most_frequent_processor(results: List[Result]) -> Tuple[str, List[Result]]:
    """RETURNS (Tuple[str, List[Result]]): Its name and its results; of equals that of the lowest seed."""
    by_processor: Dict[str, List[Result]] = defaultdict(list)
    for result in results:
        by_processor[result.get("processor", "not recorded")].append(result)
    return max(by_processor.items(), key=lambda item: len(item[1]))


def make_alternatives(results: List[Result]) -> Optional[str]:
    """RETURNS (Optional[str]): Test scores with what else raw text can give; None before any is measured."""
    rows = []
    for task, title, label, key in SHARE_TASKS:
        groups = {name: select(results, task, name) for name, _ in ALTERNATIVES}
        if groups["tok2vec"] or groups["floret"]:
            rows += [
                [f"{title}, {label}", told, *_describe_source(groups[name]), summarize(percents(groups[name], key))]
                for name, told in ALTERNATIVES
                if groups[name]
            ]
    header = ["test score", "network", "raw text", "words trained on", "wall time (CPU time)", "score"]
    return make_table(header, rows)


def _describe_source(results: List[Result]) -> List[str]:
    """RETURNS (List[str]): Text, words and time of a biLM or an alternative; empty for others."""
    settings = results[0]["settings"]
    source = settings.get("source")
    if settings.get("bilm"):
        return describe_pretraining(settings["bilm"], settings.get("bilm_digest"))
    if not source:
        return ["", "", ""]
    share = "" if source["share"] == 100 else f", {source['share']} %"
    return [f"{source['text']}{share}", f"{source['words']:,}", _minutes(source)]


def _minutes(source: Dict[str, Any]) -> str:
    return f"{source['elapsed_s'] / 60:.1f} min ({source['cpu_s'] / 60:.1f})"


def make_mixes(results: List[Result]) -> Optional[str]:
    """RETURNS (Optional[str]): WNUT-17 by mix of the layers, table 2 of the paper; None before any mix is measured."""
    if not any(result["settings"]["condition"].startswith("mix-") for result in results):
        return None
    header = ["mix of the layers, at the input of the network", "WNUT-17, NER F"]
    rows = _by_condition(results, MIXES)
    shares = {label: _mean_shares(select(results, "wnut17", name)) for name, label in MIXES}
    if any(shares.values()):
        header.append("shares of the layers, token layer first")
        rows = [[*row, shares[row[0]]] for row in rows]
    return make_table(header, rows)


def _mean_shares(results: List[Result]) -> str:
    """RETURNS (str): Mean over seeds of each layer's share in the first mix; empty where no result has mixes."""
    found = [result["mixes"][0]["shares"] for result in results if result.get("mixes")]
    return " / ".join(f"{mean(layer):.2f}" for layer in zip(*found))


def make_placements(results: List[Result]) -> Optional[str]:
    """RETURNS (Optional[str]): WNUT-17 by place of ELMo in a network with a BiLSTM, table 3 of the paper."""
    rows = _by_condition(results, [(f"bilstm-{place}", label) for place, label in PLACES])
    return make_table(["ELMo at", "WNUT-17, NER F"], rows)


def make_shares(results: List[Result]) -> Optional[str]:
    """RETURNS (Optional[str]): Test scores by share of the training data, figure 1 of the paper."""
    rows = []
    for task, title, label, key in SHARE_TASKS:
        for share in measured_shares(results, task):
            without, with_elmo = [select(results, task, name, share) for name in ("baseline", "elmo")]
            words = f"{(without or with_elmo)[0]['train_words']:,}"
            scores = [summarize(percents(group, key)) for group in (without, with_elmo)]
            rows.append([f"{title}, {label}", f"{share} %", words, *scores])
    return make_table(["test score", "share", "training words", "without ELMo", "with ELMo"], rows)


def measured_shares(results: List[Result], task: str) -> List[int]:
    """RETURNS (List[int]): Shares with a result; none if only all training data was used."""
    found = {result["settings"]["share"] for result in results if result["settings"]["task"] == task}
    return [share for share in SHARES if share in found] if found - {100} else []


def select(results: List[Result], task: str, condition: str, share: int = 100) -> List[Result]:
    """RETURNS (List[Result]): The results of all seeds."""
    wanted = {"task": task, "condition": condition, "share": share}
    found = [result for result in results if wanted.items() <= result["settings"].items()]
    return sorted(found, key=lambda result: result["settings"]["seed"])


def schedule_of(result: Result) -> str:
    """RETURNS (str): Schedule of the learning rate; results of the first version do not name it."""
    return str(result["settings"].get("schedule", "constant"))


def percents(results: Iterable[Result], key: str) -> List[float]:
    """RETURNS (List[float]): A test score of each result, 0 to 100."""
    return [result["test"][key] * 100 for result in results if key in result["test"]]


def summarize(values: Sequence[float], *, sign: str = "") -> str:
    """RETURNS (str): Mean, sample standard deviation (of two values or more) and number of seeds."""
    if not values:
        return "-"
    spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
    return f"{mean(values):{sign}.2f}{spread} (n = {len(values)})"


def make_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Optional[str]:
    """RETURNS (Optional[str]): A Markdown table, numbers to the right; None without rows."""
    if not rows:
        return None
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _by_condition(results: List[Result], conditions: Sequence[Tuple[str, str]]) -> List[List[str]]:
    scores = {label: percents(select(results, "wnut17", name), "ents_f") for name, label in conditions}
    return [[label, summarize(values)] for label, values in scores.items() if values]


def _mean_updates(results: List[Result]) -> str:
    return f"{mean(result['best_step'] for result in results):,.0f}" if results else "-"
