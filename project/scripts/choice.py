"""Score against speed: words per second of kept pipelines on the CPU, one after the other in one process."""

import gc
import platform
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import spacy
import torch
import typer
from data import ASSETS, PROJECT_DIR, RESULTS_DIR, prepare, report_errors, write_json
from paper_run import find_processor, load_kept
from spacy.tokens import DocBin
from spacy.training import Corpus
from spacy.vocab import Vocab
from tables import SHARE_TASKS, first_score
from wasabi import msg

PIPELINES_DIR = PROJECT_DIR / "training" / "paper"
DATASETS = {"wnut17": "wnut17", "ewt-tags": "ud_en_ewt", "sample": "sample"}
# Experiment of paper.py whose kept pipelines are measured.
KEPT_BY = {"wnut17": "choice-wnut17", "ewt-tags": "alternatives-ewt-tags", "sample": "sample"}
KEYS = {**{task: first_score(task)[1] for task in SHARE_TASKS}, "sample": "ents_f"}
N_WARM_UP = 50  # texts
INT8 = {
    "components.elmo.model.precision": "int8",
    "components.elmo.model.frozen": True,
    "components.elmo.model.fine_tuning": None,  # a frozen biLM has none
}
# Label, condition of the run, and overrides of the config when the pipeline is loaded.
SYSTEMS: Tuple[Tuple[str, str, Dict[str, Any]], ...] = (
    ("tok2vec", "baseline", {}),
    ("pretrained tok2vec", "tok2vec", {}),
    ("tok2vec with floret", "floret", {}),
    ("frozen ELMo", "elmo", {}),
    ("frozen ELMo (int8)", "elmo", INT8),
    ("fine-tuned ELMo", "elmo-finetuned", {}),
    ("fine-tuned ELMo (int8)", "elmo-finetuned", INT8),
)


class System(NamedTuple):
    """A pipeline to measure, and the result of its run, if it has a score."""

    label: str
    path: Path
    overrides: Dict[str, Any]
    result: Optional[Dict[str, Any]]


@report_errors("Cannot measure")
def choice_cli(
    # fmt: off
    task: str = typer.Option("wnut17", "--task", "-t", help=f"Task: {', '.join(DATASETS)}"),
    seed: int = typer.Option(0, "--seed", "-s", help="Seed of the runs whose pipelines are measured"),
    pipelines: Path = typer.Option(PIPELINES_DIR, "--pipelines", "-p", help="Folder given to `paper.py --keep`"),
    speed_only: List[str] = typer.Option([], "--speed-only", "-o", help="NAME=FOLDER of a pipeline without a score"),
    repeats: int = typer.Option(3, "--repeats", "-r", min=1, help="Times that each pipeline is loaded and measured"),
    assets_dir: str = ASSETS,
    results: Path = typer.Option(RESULTS_DIR, "--results", "-R", help="Folder for choice-<task>.json", file_okay=False),
    # fmt: on
) -> None:
    """Measure the speed of all kept pipelines of a task with one thread, on the texts of the test data: load every
    pipeline, process all texts once, and so on with the next one, `repeats` times. A row has label, score (0 to 1, null
    for speed alone), words per second (median, lowest, highest) and settings of the run.
    """
    if task not in DATASETS:
        raise ValueError(f"The speed of '{task}' cannot be measured. Known tasks: {', '.join(DATASETS)}.")
    others = []
    for text in speed_only:
        name, _, path = text.partition("=")
        if not name or not (Path(path) / "config.cfg").is_file():
            raise ValueError(
                f"--speed-only is '{text}', wanted NAME=FOLDER with the folder of a pipeline (config.cfg)."
            )
        others.append(System(name, Path(path), {}, None))
    systems = _find_systems(task, seed, pipelines)
    if not systems:
        raise FileNotFoundError(
            f"There is no pipeline of the task '{task}' with seed {seed} in '{pipelines}'. Train them with `python "
            f"project/scripts/paper.py {KEPT_BY[task]} --seed {seed} --keep FOLDER`."
        )
    systems += others
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        prepare(DATASETS[task], Path(folder), assets_dir)
        test_path = Path(folder) / "test.spacy"
        texts = [doc.text for doc in DocBin().from_disk(test_path).get_docs(Vocab())]
        speeds: Dict[str, List[float]] = {system.label: [] for system in systems}
        for _ in range(repeats):
            for system in systems:
                speeds[system.label].append(_measure(system, texts))
        rows = []
        for system in systems:
            found, score = speeds[system.label], _score(KEYS[task], system, test_path)
            speed = {"words_per_s": median(found), "lowest": min(found), "highest": max(found)}
            settings = system.result and system.result["settings"]
            rows.append({"label": system.label, "score": score, **speed, "settings": settings})
    record = {"task": task, "seed": seed, "threads": 1, "n_texts": len(texts), "repeats": repeats, "rows": rows}
    versions = {"python": platform.python_version(), "spacy": spacy.__version__, "torch": torch.__version__}
    write_json(results / f"choice-{task}.json", {**record, "processor": find_processor(), "versions": versions})
    scores = ["-" if row["score"] is None else f"{row['score']:.4f}" for row in rows]
    msg.table([(row["label"], score, f"{row['words_per_s']:,.0f}") for row, score in zip(rows, scores)])


def _find_systems(task: str, seed: int, pipelines: Path) -> List[System]:
    """RAISES (ValueError): If pipelines were trained with different weights of the biLM."""
    systems, digests = [], {}
    for label, condition, overrides in SYSTEMS:
        path = pipelines / f"{task}-{condition}-100pct-seed{seed}"
        result = load_kept(path)
        if result is None:
            msg.warn(f"{label}: {path.name} was not kept, left out")
            continue
        systems.append(System(label, path, overrides, result))
        if result["settings"].get("bilm"):
            digests[path.name] = result["settings"].get("bilm_digest", "not recorded")
    if len(set(digests.values())) > 1:
        told = ", ".join(f"{name} ({digest})" for name, digest in digests.items())
        raise ValueError(
            f"Pipelines in '{pipelines}' were trained with different weights of a biLM: {told}. A ranking needs the "
            f"same weights: train those of other weights again with `python project/scripts/paper.py {KEPT_BY[task]} "
            f"--seed {seed} --keep {pipelines}`."
        )
    return systems


def _measure(system: System, texts: Sequence[str]) -> float:
    """RETURNS (float): Words per second, tokenizer included; loading and the first texts are not counted."""
    nlp = spacy.load(system.path, config=system.overrides)
    for _ in nlp.pipe(texts[:N_WARM_UP]):
        pass
    gc.collect()
    start_s = time.perf_counter()
    n_words = sum(len(doc) for doc in nlp.pipe(texts))
    return n_words / (time.perf_counter() - start_s)


def _score(key: str, system: System, test_path: Path) -> Optional[float]:
    """RETURNS (Optional[float]): The score of the run; measured again if the pipeline is loaded with other settings."""
    if system.result is None:
        return None
    if not system.overrides:
        return float(system.result["test"][key])
    nlp = spacy.load(system.path, config=system.overrides)
    return round(float(nlp.evaluate(list(Corpus(test_path)(nlp)))[key]), 5)


if __name__ == "__main__":
    typer.run(choice_cli)
