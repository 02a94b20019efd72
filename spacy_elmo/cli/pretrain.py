"""`elmo pretrain`: train a biLM on text."""

import ctypes
import glob
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import typer
from spacy.cli._util import import_code, parse_config_overrides
from thinc.api import Config
from tqdm import tqdm

from ..bilm.config import BiLMConfig
from ..errors import Errors
from ..pretraining.config import PretrainConfig
from ..pretraining.corpus import count_vocabulary, read_sentences
from ..pretraining.run import LAST, Report, pretrain
from ..text.vocabulary import Vocabulary
from . import _common
from ._app import Arg, Opt, app

BLOCKS = ("paths", "vocabulary", "bilm", "pretraining", "meta")
COLUMNS = ("Step", "Tokens", "Loss", "Forward", "Backward", "tok/s")
WIDTHS = (8, 12, 8, 9, 9, 8)


@app.command("pretrain", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def pretrain_cli(
    # fmt: off
    ctx: typer.Context,
    config_path: Path = Arg(
        ...,
        help="Config file with the blocks [paths], [vocabulary], [bilm] and [pretraining].",
        exists=True,
        dir_okay=False,
    ),
    output_path: Path = Arg(..., help="Folder for the models, the vocabulary and the log.", file_okay=False),
    code_path: Optional[Path] = Opt(
        None, "--code", "-c", help="Python file with additional code to import first.", exists=True, dir_okay=False
    ),
    gpu_id: int = _common.GPU_OPT,
    force: bool = Opt(False, "--force", "-F", help="Write into a folder that holds a run already."),
    verbose: bool = Opt(False, "--verbose", "-V", help="Also report every block of the config that is used."),
    # fmt: on
) -> None:
    """Train a biLM on text, one tokenized sentence per line, plain or gzip.

    Settings are overridden on the command line by their dotted name: --paths.train "corpus/*.txt.gz"
    --pretraining.max_tokens 1000000. The output folder gets `model-best` and `model-last`, complete models that can be
    used at any moment, `vocab.txt`, and `log.jsonl` with one line per report. Stopping with Ctrl+C loses at most what
    came after the last validation.
    """
    import_code(code_path)
    overrides = parse_config_overrides(ctx.args)
    _keep_large_blocks()
    with _common.show_errors():
        config = Config().from_disk(config_path, overrides=overrides)
        if verbose:
            _common.msg.text(config.to_str())
        reports = pretrain_from_config(config, output_path, gpu_id=gpu_id, force=force)
        _show(reports, PretrainConfig.from_dict(config.get("pretraining", {})))
    _common.msg.good(f"Saved the biLM to {output_path / LAST}")


def pretrain_from_config(
    config: Dict[str, Any], output: Path, *, gpu_id: int = -1, force: bool = False
) -> Iterator[Report]:
    """Read settings, files and vocabulary, and train.

    config (Dict[str, Any]): Blocks `paths`, `vocabulary`, `bilm`, `pretraining`, `meta`.
    output (Path): See `spacy_elmo.pretraining.run.pretrain`.
    YIELDS (Report): At intervals.
    RAISES (ValueError): EL001 for unknown blocks or settings, EL105 for paths that lead nowhere.
    """
    device = _common.device_of(gpu_id)
    unknown = sorted(set(config) - set(BLOCKS))
    if unknown:
        raise ValueError(Errors.EL001.format(block="the config", unknown=", ".join(unknown), known=", ".join(BLOCKS)))
    paths = config.get("paths", {})
    settings = PretrainConfig.from_dict(config.get("pretraining", {}))
    train_paths, valid_paths = find_texts("train", paths.get("train")), find_texts("valid", paths.get("valid"))
    sizes = dict(config.get("bilm", {}))
    BiLMConfig.from_dict({**sizes, **({} if sizes.get("char_cnn") else {"n_words": 1})})  # before the long counting
    vocabulary = _vocabulary(paths.get("vocab"), train_paths, int(config.get("vocabulary", {}).get("n_words", 30000)))
    if not sizes.get("char_cnn"):
        sizes["n_words"] = len(vocabulary)
    yield from pretrain(
        BiLMConfig.from_dict(sizes),
        settings,
        vocabulary,
        train_paths,
        valid_paths,
        output,
        meta=config.get("meta"),
        device=device,
        force=force,
    )


def find_texts(name: str, place: Optional[str]) -> List[Path]:
    """The files that a setting of [paths] names.

    name (str): The setting, for the error.
    place (Optional[str]): A file, a folder (all its .txt and .gz files) or a pattern with `*`.
    RETURNS (List[Path]): At least one, sorted.
    RAISES (ValueError): EL105 if there is none.
    """
    if not place:
        raise ValueError(Errors.EL105.format(name=name, place=place, resolved="nothing"))
    path = Path(place)
    found = [item for item in path.iterdir() if item.suffix in (".txt", ".gz")] if path.is_dir() else []
    found = found or [Path(item) for item in glob.glob(place) if Path(item).is_file()]
    if not found:
        raise ValueError(Errors.EL105.format(name=name, place=place, resolved=path.resolve()))
    return sorted(found)


def _vocabulary(place: Optional[str], train_paths: List[Path], n_words: int) -> Vocabulary:
    if place:
        with find_texts("vocab", place)[0].open(encoding="utf8") as lines:
            return Vocabulary.from_lines(lines)
    _common.msg.info(f"Counting words of {len(train_paths)} file(s)")
    vocabulary = count_vocabulary(read_sentences(train_paths), n_words)
    _common.msg.info(f"Vocabulary of {len(vocabulary):,} words")
    return vocabulary


def _show(reports: Iterator[Report], settings: PretrainConfig) -> None:
    """A bar with tokens/s and time left, a table row per validation."""
    aligns = ("r",) * len(COLUMNS)
    with tqdm(total=settings.max_tokens, unit="tok", unit_scale=True, disable=None, file=sys.stderr) as bar:
        _common.msg.row(COLUMNS, widths=WIDTHS, aligns=aligns)
        _common.msg.row(["-" * width for width in WIDTHS])
        for report in reports:
            progress = report.progress
            bar.update(min(progress.n_tokens, settings.max_tokens) - bar.n)
            bar.set_postfix(loss=f"{progress.loss:.3f}")
            if report.validation is None:
                continue
            cells = (
                f"{progress.step:,}",
                f"{progress.n_tokens:,}",
                f"{progress.loss:.3f}",
                f"{report.validation.forward:.2f}",
                f"{report.validation.backward:.2f}",
                f"{progress.n_tokens / progress.elapsed_s:,.0f}",
            )
            with bar.external_write_mode():
                _common.msg.row(cells, widths=WIDTHS, aligns=aligns)


def _keep_large_blocks() -> None:
    """Let glibc reuse large blocks: a fresh one costs a page fault every 4 KB, a sixth of the time of a small run."""
    if sys.platform != "linux":
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return
    mallopt(-4, 0)  # M_MMAP_MAX: no block of its own mapping
    mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: nothing is given back between two steps
