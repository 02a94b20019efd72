"""The recipe on treebanks of several languages: word features alone, with spaCy's parser or with the biaffine one, and
beside them a biLM.

Each run is a line of languages.jsonl. `train` skips those that are there; `speed` measures the two parsers on one
encoder; `table` writes the table of README.md.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, Dict, List, Optional

import spacy
import srsly
import torch
import typer
from pipeline import (
    PREDICTION,
    STAGE,
    TRAINING_SENTENCES,
    find_annotation,
    find_bilm,
    lang_of,
    make_treebank_config,
    name_of,
    prepare_cli,
    score_treebank,
    train_stage,
)
from spacy.tokens import DocBin
from spacy.vocab import Vocab
from treebank import PROJECT_DIR, find_treebank, make_docs
from wasabi import msg

sys.path.append(str(Path(__file__).parents[2] / "scripts"))  # of the example: data.py, shared.py
from shared import ASSETS, CONFIG_DIR, find_processor, report_errors

from spacy_elmo.files import write_text
from spacy_elmo.pipeline.starter_config import find_language_bilm

TREEBANKS = ["tr_framenet", "vi_vtb", "hy_bsut", "af_afribooms", "ru_taiga-r2.7", "fr_sequoia", "en_ewt"]
SPACY_PARSER, BIAFFINE, BILM = "spacy_parser", "biaffine_parser", "bilm"  # the systems
PARSER_SPEED = "parser_speed"  # the line of a treebank with the words per second of both parsers
RESULTS = PROJECT_DIR / "languages.jsonl"
README = PROJECT_DIR / "README.md"
START, END = "<!-- results: languages -->", "<!-- end of languages -->"
LANGUAGES_DIR = PROJECT_DIR / "training" / "languages"
OWN_TEXT = "own_text"  # folder of the biLM of a treebank
SEED = 0
N_UPDATES = 300  # of each training; the recipe has ten times as many
PASSES = 20  # of a biLM over the text of its treebank, as in the experiments
N_PASSES = 3  # of each parser, whose speed is the median
HEADER = [
    "| treebank | training words | LAS, `parser` | LAS, `biaffine_parser` | LAS, biLM | UPOS | UPOS, biLM | "
    "words/s, `parser` | words/s, `biaffine_parser` |",
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
]
Result = Dict[str, Any]
TREEBANK_NAMES = typer.Argument(TREEBANKS, help="Folders of UD treebanks, or their names below the assets")
app = typer.Typer(add_completion=False, help=__doc__)


def read_results() -> List[Result]:
    """RETURNS (List[Result]): The lines of languages.jsonl."""
    return list(srsly.read_jsonl(RESULTS)) if RESULTS.is_file() else []


def find_result(results: List[Result], treebank: str, system: str) -> Result:
    """RETURNS (Result): That of a run, empty if it has not ended."""
    return next((r for r in results if (r["treebank"], r["system"]) == (treebank, system)), {})


@app.command("train")
@report_errors("Cannot train on a treebank")
def train_cli(
    # fmt: off
    treebanks: List[str] = TREEBANK_NAMES,
    max_steps: int = typer.Option(0, "--max-steps", "-n", help="Updates of each training; 0 for those of the table"),
    assets_dir: str = ASSETS,
    # fmt: on
) -> None:
    """Train each system on each treebank, one seed. The biLM is the packaged one of the language, otherwise one that is
    pretrained on the training text by configs/pretrain_small_text.cfg.
    """
    for treebank in treebanks:
        name, label = name_of(treebank, assets_dir), Path(treebank).name
        corpus, folder = PROJECT_DIR / "corpus" / name, LANGUAGES_DIR / name
        if not (corpus / "train.spacy").is_file():
            prepare_cli(treebank, assets_dir)
        paths = {f"paths.{split}": str(corpus / f"{split}.spacy") for split in ("train", "dev")}
        lang, annotation = lang_of(name), find_annotation(corpus / "train.spacy")
        for system in (SPACY_PARSER, BIAFFINE, BILM):
            if find_result(read_results(), label, system):
                msg.info(f"{label}, {system}: trained already")
                continue
            bilm = find_language_bilm(lang) if system == BILM else None
            pretraining_s = 0.0
            if system == BILM and bilm is None:
                bilm, pretraining_s = find_bilm(str(folder / OWN_TEXT / "model-best")), pretrain(corpus, folder, lang)
            parser = "parser" if system == SPACY_PARSER else "biaffine_parser"
            config = make_treebank_config(lang, bilm, parser=parser, **annotation)
            settings = train_stage(config, folder / system, paths, bilm, SEED, max_steps or N_UPDATES)
            nlp = spacy.load(folder / system / "out" / "model-best", config=PREDICTION)
            stage = srsly.read_json(folder / system / STAGE)
            result = {
                **{"treebank": label, "system": system, "lang": lang, "settings": settings},
                "training_words": count_words(corpus / "train.spacy"),
                **{"cpu_seconds": stage["cpu_seconds"], "pretraining_cpu_seconds": round(pretraining_s, 1)},
                "processor": stage["processor"],
                **score_treebank(nlp, find_treebank(treebank, assets_dir)["test"]),
            }
            srsly.write_jsonl(RESULTS, [result], append=True, append_new_line=False)
            msg.good(f"{label}, {system}: LAS {_percent(result, 'LAS')}, UPOS {_percent(result, 'UPOS')}")


def pretrain(corpus: Path, folder: Path, lang: str) -> float:
    """Pretrain a biLM on the training part alone: <folder>/own_text. RETURNS (float): Seconds of CPU time."""
    start = os.times()
    shutil.rmtree(folder / OWN_TEXT, ignore_errors=True)
    command = [sys.executable, "-m", "spacy", "elmo", "pretrain", str(CONFIG_DIR / "pretrain_small_text.cfg")]
    options = {
        "paths.train": corpus / "train.spacy",
        "paths.valid": corpus / "dev.spacy",
        "pretraining.max_passes": PASSES,
        "pretraining.dropout": 0.1,
        "pretraining.eval_every": 200,
        "meta.name": OWN_TEXT,
        "meta.lang": lang,
    }
    command += [str(folder / OWN_TEXT), *(text for key, value in options.items() for text in (f"--{key}", str(value)))]
    if subprocess.run(command).returncode:
        raise ValueError("`elmo pretrain` failed. Correct what it says.")
    end = os.times()
    return end.children_user + end.children_system - start.children_user - start.children_system


def count_words(path: Path) -> int:
    """RETURNS (int): Words of a .spacy file."""
    return sum(map(len, DocBin().from_disk(path).get_docs(Vocab())))


@app.command("speed")
@report_errors("Cannot measure the speed")
def speed_cli(treebanks: List[str] = TREEBANK_NAMES, assets_dir: str = ASSETS) -> None:
    """Measure the words per second of CPU time of both parsers alone, one thread, in turns, on the test part in Docs of
    up to ten sentences. A treebank without its trainings, or with a line, is skipped.
    """
    torch.set_num_threads(1)
    for treebank in treebanks:
        label, results = Path(treebank).name, read_results()
        folder = LANGUAGES_DIR / name_of(treebank, assets_dir)
        paths = {system: folder / system / "out" / "model-best" for system in (SPACY_PARSER, BIAFFINE)}
        if find_result(results, label, PARSER_SPEED) or not all(find_result(results, label, name) for name in paths):
            continue
        texts = [doc.text for doc in make_docs(find_treebank(treebank, assets_dir)["test"], TRAINING_SENTENCES)]
        pipelines = {system: spacy.load(path, config=PREDICTION) for system, path in paths.items()}
        docs = {system: list(nlp.pipe(texts, disable=["parser"])) for system, nlp in pipelines.items()}
        rates: Dict[str, List[float]] = {system: [] for system in pipelines}
        for turn in range(N_PASSES + 1):  # the first fills the caches
            for system, nlp in pipelines.items():
                unparsed = [doc.copy() for doc in docs[system]]
                start_s = time.process_time()
                n_words = sum(map(len, nlp.get_pipe("parser").pipe(unparsed, batch_size=nlp.batch_size)))
                rates[system] += [n_words / (time.process_time() - start_s)] if turn else []
        speeds = {system: round(median(values)) for system, values in rates.items()}
        line = {"treebank": label, "system": PARSER_SPEED, "processor": find_processor(), "words_per_s": speeds}
        srsly.write_jsonl(RESULTS, [line], append=True, append_new_line=False)
        msg.good(f"{label}: {', '.join(f'{system} {rate:,} words/s' for system, rate in speeds.items())}")


@app.command("table")
def table_cli(page: Path = typer.Option(README, "--page", "-p", help="Markdown file", dir_okay=False)) -> None:
    """Write the table between the markers of the page."""
    block = "\n".join([START, *make_table(read_results()), END])
    text = page.read_text(encoding="utf8")
    write_text(page, re.sub(f"{START}.*?{END}", lambda _: block, text, flags=re.DOTALL))


def make_table(results: List[Result]) -> List[str]:
    """RETURNS (List[str]): Lines of Markdown: a row for each treebank, in the order of its training words."""
    rows = []
    for treebank in sorted({result["treebank"] for result in results}):
        by_system = {name: find_result(results, treebank, name) for name in (SPACY_PARSER, BIAFFINE, BILM)}
        speeds = find_result(results, treebank, PARSER_SPEED).get("words_per_s", {})
        n_words = max(result.get("training_words", 0) for result in by_system.values())
        las = [_percent(by_system[name], "LAS") for name in by_system]
        upos = [_percent(by_system[name], "UPOS") for name in (BIAFFINE, BILM)]
        rates = [f"{speeds[name]:,}" if speeds else "-" for name in (SPACY_PARSER, BIAFFINE)]
        rows.append((n_words, f"| {' | '.join([treebank, f'{n_words:,}', *las, *upos, *rates])} |"))
    return [*HEADER, *(row for _, row in sorted(rows))]


def _percent(result: Result, measure: str) -> str:
    score: Optional[float] = result.get("gold", {}).get(measure)
    return "-" if score is None else f"{100 * score:.1f}"


if __name__ == "__main__":
    app()
