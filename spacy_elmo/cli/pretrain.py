"""`elmo pretrain`: train a biLM on text."""

import ctypes
import math
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Optional

import typer
from spacy.cli._util import parse_config_overrides
from tqdm import tqdm

from ..analysis.plots import draw_perplexities, read_validations
from ..corpora.texts import make_nlp
from ..files import check_output_folder, only_writer
from ..pretraining.distributed import connect, report_lost_ranks, restart_count
from ..pretraining.prepare import make_run
from ..pretraining.run import Pretraining, Report
from ..pretraining.run_config import read_run_config
from ..pretraining.run_folder import BEST, LAST, LOG, PICTURE, list_checkpoints
from ..util import has_matplotlib
from . import _common
from ._app import Arg, Opt, app

COLUMNS = ("Step", "Tokens", "Loss", "Forward", "Backward", "UNK", "tok/s", "Data", "Left")
NOTICE = (
    b"\nStopping after this update, with a checkpoint and model-last. Press Ctrl+C again to stop at once, without.\n"
)
WIDTHS = (8, 13, 8, 9, 9, 6, 8, 5, 8)


@app.command("pretrain", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def pretrain_cli(
    # fmt: off
    ctx: typer.Context,
    config_path: Path = Arg(
        ...,
        help="Config file with the blocks [paths], [corpus], [vocabulary], [pretraining], [meta] and, unless paths.init is "
        "set, [bilm].",
        exists=True,
        dir_okay=False,
    ),
    output_path: Path = Arg(..., help="Folder for the models, the checkpoints and the log.", file_okay=False),
    code_path: Optional[Path] = _common.CODE_OPT,
    gpu_id: int = _common.GPU_OPT,
    lang: Optional[str] = Opt(None, "--lang", "-l", help=f"{_common.LANG_HELP} The same as --corpus.lang."),
    running_text: bool = Opt(
        False, "--running-text", "-r", help="Split each line into sentences. The same as --corpus.running_text true."
    ),
    corpus_format: Optional[_common.CorpusFormat] = Opt(
        None, "--format", "-f", help="Format of all files. The same as --corpus.format."
    ),
    resume: bool = Opt(
        False,
        "--resume",
        "-R",
        help="Resume from the newest checkpoint in the output folder, or start if there is none.",
    ),
    force: bool = Opt(
        False, "--force", "-F", help="Start a new run in a folder that contains one, and remove the old run."
    ),
    verbose: bool = Opt(False, "--verbose", "-V", help="Print the complete config."),
    # fmt: on
) -> None:
    """Train a biLM on text.

    Options override settings by their dotted names: --paths.train "corpus/*.txt.gz"
    --pretraining.max_tokens 1000000. The output folder contains `model-best` and `model-last`, complete models from the
    first validation on, `checkpoints` to resume from, `log.jsonl` with one line per report, and `perplexity.png` at the
    end. Ctrl+C and SIGTERM stop a run after the current update, with a checkpoint and `model-last`. A stopped run
    continues with --resume; on a CPU with the same number of threads its results are bit-identical to an
    uninterrupted run.

    The text is tokenized once, into `text` in the output folder or into the folder --paths.cache, which several runs
    can share. With several processes: torchrun --nproc-per-node 2 -m spacy_elmo pretrain CONFIG OUTPUT.
    """
    with _common.show_errors():
        _common.import_code(code_path)
    options = {"corpus.lang": lang, "corpus.running_text": running_text or None, "corpus.format": corpus_format}
    overrides = {name: value for name, value in options.items() if value is not None}
    overrides.update(parse_config_overrides(ctx.args))
    _keep_large_blocks()
    with _common.show_errors(), connect(_common.device_of(gpu_id)) as ranks, ExitStack() as locks:
        config = read_run_config(config_path, overrides)
        if verbose and ranks.is_writer:
            _common.msg.text(config.to_str())
        resume = ranks.any(resume or bool(restart_count()))  # a replacement node counts from 0
        check_output_folder(output_path)
        run = make_run(config, output_path, ranks, resume=resume, on_message=_common.msg.info, warn=_common.msg.warn)
        ranks.agree(lambda: _lock(locks, output_path) if ranks.is_writer else None)
        run.begin(resume=resume, force=force)
        with report_lost_ranks(ranks.rank):
            try:
                with _common.stop_on_signals(run.stop, NOTICE):
                    _show(run)
            except KeyboardInterrupt:
                run.is_stopped = True
        if run.is_stopped:
            _print_stop(run)
            raise typer.Exit(1)
        if ranks.is_writer:
            _finish(run)


def _lock(locks: ExitStack, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    locks.enter_context(only_writer(output))


def _show(run: Pretraining) -> None:
    """Show a progress bar with tokens/s and remaining time, and a table row per validation; without a terminal a row
    per report. Only the first rank shows anything."""
    if not run.ranks.is_writer:
        for _ in run.reports():
            pass
        return
    for text in run.warnings:
        _common.msg.warn(text)
    total, begin = run.config.max_tokens, run.trainer.n_tokens
    if begin:
        _common.msg.info(f"Resumed at step {run.trainer.step:,}, after {begin:,} tokens")
    with tqdm(total=total, initial=begin, unit="tok", unit_scale=True, disable=None, file=sys.stderr) as bar:
        _row(COLUMNS)
        _row(["-" * width for width in WIDTHS])
        for n_before, report in enumerate(run.reports()):
            bar.update(min(report.n_tokens, total) - bar.n)
            bar.set_postfix(loss=f"{report.loss:.3f}")
            if report.validation is not None or bar.disable:
                with bar.external_write_mode():
                    _row(_cells(report, total))
            if n_before == 0 and report.n_tokens < total and report.tokens_per_s:
                with bar.external_write_mode():
                    _common.msg.info(f"Time left at this speed: {_duration(_seconds_left(report, total))}")


def _seconds_left(report: Report, total: int) -> float:
    """RETURNS (float): Seconds of training to the end of the run at the speed of this report, without validations."""
    return max(0, total - report.n_tokens) / report.tokens_per_s if report.tokens_per_s else math.nan


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"


def _cells(report: Report, total: int) -> "list[str]":
    validation, left_s = report.validation, _seconds_left(report, total)
    scores = ["-"] * 3
    if validation is not None:
        scores = [_number(validation.forward, 2), _number(validation.backward, 2), f"{validation.unk_rate:.1%}"]
    return [
        f"{report.step:,}",
        f"{report.n_tokens:,}",
        _number(report.loss, 3),
        *scores,
        f"{report.tokens_per_s:,.0f}",
        f"{report.data_share:.0%}",
        "-" if math.isnan(left_s) else tqdm.format_interval(left_s),
    ]


def _row(cells: "list[str] | tuple[str, ...]") -> None:
    _common.msg.row(list(cells), widths=WIDTHS, aligns=("r",) * len(COLUMNS))
    sys.stdout.flush()  # output to a pipe or a file is buffered


def _number(value: float, n_digits: int) -> str:
    """Format a number; NaN, the backward perplexity of a forward-only model, is a dash."""
    return "-" if math.isnan(value) else f"{value:.{n_digits}f}"


def _print_stop(run: Pretraining) -> None:
    if not run.ranks.is_writer:
        return
    _print_length(run)
    newest = next(iter(list_checkpoints(run.output)), None)
    next_start = f"resumes from {newest}" if newest else "starts again: there is no checkpoint yet"
    last = run.output / LAST
    usable = f" '{last}' is the biLM so far, which every command reads." if last.is_dir() else ""
    _common.msg.warn(f"Stopped at step {run.trainer.step:,}. The same command with --resume {next_start}.{usable}")


def _print_length(run: Pretraining) -> None:
    n_passes = run.trainer.n_tokens / run.text.n_predictions
    _common.msg.text(
        f"Trained on {run.trainer.n_tokens:,} predictions per direction: {n_passes:.2f} passes through the text"
    )


def _finish(run: Pretraining) -> None:
    _print_length(run)
    if run.config.patience and run.best.should_stop(run.config.patience):
        _common.msg.info(f"Stopped early: no improvement since step {run.best.step:,}")
    _common.msg.text(_draw_curve(run.output))
    _common.msg.good(f"Saved the biLM to {run.output / LAST}, the best one to {run.output / BEST}")
    unk_rate = next((row["unk_rate"] for row in reversed(read_validations(run.output / LOG)) if "unk_rate" in row), 0.0)
    easy = (
        f" {unk_rate:.0%} of the words were <UNK>, which is easy to predict and makes it lower."
        if unk_rate > 0.1
        else ""
    )
    _common.msg.info(
        f"Held-out perplexity {run.best.mean:.1f}: equivalent to a uniform choice among {run.best.mean:,.0f} "
        f"words.{easy} Compare it only on the same text with the same vocabulary; docs/pretraining.md has "
        "a table for texts of other sizes"
    )
    best, lang = shlex.quote(str(run.output / BEST)), run.meta.get("lang")
    language = f"--lang {shlex.quote(_find_language(str(lang)))} " if lang else ""
    train = f"python -m spacy elmo init-config pipeline.cfg --data train.spacy --baseline {language}--bilm {best}"
    _common.print_next(
        "Look at it in the browser, or train a pipeline on annotated Docs, with and without it:",
        [f"python -m spacy elmo explore --bilm {best}", train],
    )


def _find_language(lang: str) -> str:
    """RETURNS (str): The code, "xx" if spaCy does not have the language."""
    try:
        make_nlp(lang)
    except ValueError:
        return "xx"
    return lang


def _draw_curve(output: Path) -> str:
    """RETURNS (str): Where the picture of the held-out perplexities is, or why it was not drawn."""
    if not has_matplotlib:
        return "No curve: matplotlib is not installed (pip install matplotlib)"
    validations = read_validations(output / LOG)
    if not validations:
        return "No curve: the run has not been validated"
    draw_perplexities([validations], output / PICTURE)
    return f"Curve: {output / PICTURE}"


def _keep_large_blocks() -> None:
    """Make glibc reuse large blocks. New ones cost a page fault per 4 KB, a sixth of the time of a small run."""
    if sys.platform != "linux":
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return
    mallopt(-4, 0)  # M_MMAP_MAX: never allocate by mmap
    mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: keep freed memory between steps
