"""Pretrain a biLM on raw text within a time limit, from random weights: ELMo with the text and time of alternatives."""

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List

import srsly
import typer
from alternatives import ALTERNATIVES_DIR, BILM, Source, call_pretrain, is_kept, save_source, source_dir, start_source
from known_datasets import PROJECT_DIR
from messages import Messages
from raw_text import name_texts, read_sentences
from wasabi import msg

from spacy_elmo.pretraining.vocabulary import save_vocabulary
from spacy_elmo.weights.identity import digest_bilm

CONFIG = PROJECT_DIR.parent / "configs" / "pretrain_en_elmo_sm.cfg"
PROBE_TOKENS = 200_000  # read once to measure the speed
HELD_OUT = 500
FILES = ("text.txt", "valid.txt", "vocab.txt", "probe", "run")
SPARE = 0.97  # of the time left, for loading and saving


def bilm_cli(
    # fmt: off
    texts: List[str] = typer.Argument(..., help="Tokenized text, one sentence per line: files, folders or patterns"),
    seconds: float = typer.Option(600, "--seconds", "-t", min=1, help="Wall time that counting and training may take"),
    share: int = typer.Option(100, "--share", "-p", min=1, max=100, help="Percentage of the sentences to read"),
    output: Path = typer.Option(ALTERNATIVES_DIR, "--output", "-o", help="Folder of the alternatives", file_okay=False),
    force: bool = typer.Option(False, "--force", "-F", help="Replace a biLM that is complete"),
    skip: bool = typer.Option(False, "--skip-complete", "-s", help="Do nothing if it is complete"),
    # fmt: on
) -> None:
    """Pretrain with configs/pretrain_en_elmo_sm.cfg, the learning rate falling to zero at the limit."""
    output_dir = source_dir(output, "bilm", "")
    if is_kept(output_dir, skip):
        return
    try:
        source = pretrain_bilm(texts, output, limit_s=seconds, share=share, force=force)
    except (ValueError, OSError) as e:
        msg.fail("Cannot pretrain a biLM", str(e), exits=1)
    msg.good(f"{output_dir}: {source.words:,} words in {source.elapsed_s:.0f} s")


def pretrain_bilm(
    texts: List[str], output: Path, *, limit_s: float, share: int = 100, force: bool = False, config: Path = CONFIG
) -> Source:
    """Count the vocabulary, measure the speed on a part of the text, and train on as much as fits into the time.

    config (Path): Config of `elmo pretrain`.
    RETURNS (Source): The record beside the biLM.
    RAISES (ValueError): P030 without text, P036 if no time is left, P051 if a command fails. RAISES (FileExistsError):
    P033 for a biLM that is complete.
    """
    output_dir = source_dir(output, "bilm", "")
    next(read_sentences(texts, share))
    start_source(output_dir, force=force)
    shutil.rmtree(output_dir / BILM, ignore_errors=True)
    start_s, cpu_start_s = time.monotonic(), _cpu_seconds()
    with tempfile.TemporaryDirectory(dir=output_dir) as folder:
        text, held_out, words, probe, run = (Path(folder) / name for name in FILES)
        _write_lines(texts, share, text, held_out)
        save_vocabulary([str(text)], words)
        settings = {"paths.train": text, "paths.valid": held_out, "paths.vocab": words}
        call_pretrain(config, probe, {**settings, "pretraining.max_tokens": PROBE_TOKENS})
        left_s = start_s + limit_s - time.monotonic()
        n_tokens = int(SPARE * left_s * _last_row(probe)["tokens_per_s"])
        if n_tokens <= 0:
            raise ValueError(Messages.P036.format(limit_s=f"{limit_s:.0f}"))
        call_pretrain(config, run, {**settings, "pretraining.max_tokens": n_tokens})
        n_trained = _last_row(run)["n_tokens"]
        (run / "model-last").rename(output_dir / BILM)
    elapsed_s, cpu_s = round(time.monotonic() - start_s, 1), round(_cpu_seconds() - cpu_start_s, 1)
    digest = digest_bilm(output_dir / BILM)
    source = Source("bilm", name_texts(texts), share, n_trained, limit_s, elapsed_s, cpu_s, digest)
    save_source(output_dir, source)
    return source


def _write_lines(texts: List[str], share: int, text: Path, held_out: Path) -> None:
    """One sentence of `HELD_OUT` is held out, since `elmo pretrain` reports perplexities."""
    with text.open("w", encoding="utf8", newline="\n") as lines, held_out.open("w", encoding="utf8") as others:
        for number, tokens in enumerate(read_sentences(texts, share)):
            (lines if number % HELD_OUT else others).write(" ".join(tokens) + "\n")


def _last_row(run: Path) -> Dict[str, Any]:
    *_, row = srsly.read_jsonl(run / "log.jsonl")
    return row


def _cpu_seconds() -> float:
    """RETURNS (float): CPU time of this process and of those it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


if __name__ == "__main__":
    typer.run(bilm_cli)
