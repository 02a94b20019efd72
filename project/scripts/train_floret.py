"""Train static floret vectors on raw text until a time limit, as vectors for spaCy."""

import tempfile
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, List

import spacy
import typer
from alternatives import ALTERNATIVES_DIR, Source, digest_files, is_kept, save_source, source_dir, start_source
from messages import Messages
from raw_text import name_texts, read_sentences
from spacy.training.initialize import convert_vectors
from wasabi import msg

# As spaCy advises for floret: two hashes per n-gram, n-grams of 4 and 5 characters, 50,000 rows; CBOW. One thread.
SETTINGS = {"model": "cbow", "mode": "floret", "hashCount": 2, "bucket": 50000, "minn": 4, "maxn": 5, "thread": 1}
WIDTH = 128
MIN_COUNT = 5
PROBE_SHARE = 20  # one of so many sentences is used to measure the speed
SHORTEST_S = 0.01  # a pass over the probe, seconds


def floret_cli(
    # fmt: off
    texts: List[str] = typer.Argument(..., help="Tokenized text, one sentence per line: files, folders or patterns"),
    seconds: float = typer.Option(600, "--seconds", "-t", min=1, help="Wall time that as many passes as fit may take"),
    share: int = typer.Option(100, "--share", "-p", min=1, max=100, help="Percentage of the sentences to read"),
    lang: str = typer.Option("en", "--lang", "-l", help="Language code of the vectors"),
    output: Path = typer.Option(ALTERNATIVES_DIR, "--output", "-o", help="Folder of the alternatives", file_okay=False),
    force: bool = typer.Option(False, "--force", "-F", help="Replace vectors that are complete"),
    skip: bool = typer.Option(False, "--skip-complete", "-s", help="Do nothing if they are complete"),
    # fmt: on
) -> None:
    """Train floret vectors and convert them, as `spacy init vectors --mode floret` does."""
    output_dir = source_dir(output, "floret", "")
    if is_kept(output_dir, skip):
        return
    try:
        source = train_floret(texts, output, limit_s=seconds, share=share, lang=lang, force=force)
    except (ValueError, OSError, ImportError) as e:
        msg.fail("Cannot train vectors", str(e), exits=1)
    msg.good(f"{output_dir}: {source.words:,} words in {source.elapsed_s:.0f} s")


def train_floret(
    texts: List[str], output: Path, *, limit_s: float, share: int = 100, lang: str = "en", force: bool = False
) -> Source:
    """Write a pipeline of vectors, for `initialize.vectors`, and its record.

    RETURNS (Source): The record.
    RAISES (ValueError): P030 without text, P035 if one pass takes too long. RAISES (ImportError): P034 without floret.
    RAISES (FileExistsError): P033 for vectors that are complete.
    """
    if find_spec("floret") is None:
        raise ImportError(Messages.P034)
    output_dir = source_dir(output, "floret", "")
    next(read_sentences(texts, share))
    start_source(output_dir, force=force)
    start_s, cpu_start_s = time.monotonic(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        text, probe, vectors = (Path(folder) / name for name in ("text.txt", "probe.txt", "vectors.floret"))
        n_words = _write_lines(texts, share, text, probe)
        n_passes = _count_passes(probe, start_s + limit_s)
        _train(text, n_passes).save_floret_vectors(str(vectors))
        nlp = spacy.blank(lang)
        convert_vectors(nlp, vectors, truncate=0, prune=-1, mode="floret")
        nlp.to_disk(output_dir)
    elapsed_s = round(time.monotonic() - start_s, 1)
    cpu_s = round(time.process_time() - cpu_start_s, 1)
    digest = digest_files([output_dir / "vocab" / "vectors"])
    source = Source("floret", name_texts(texts), share, n_words * n_passes, limit_s, elapsed_s, cpu_s, digest)
    save_source(output_dir, source)
    return source


def _write_lines(texts: List[str], share: int, text: Path, probe: Path) -> int:
    """Write all sentences, and every 20th to the probe. RETURNS (int): Number of words."""
    n_words = 0
    with text.open("w", encoding="utf8", newline="\n") as all_lines, probe.open("w", encoding="utf8") as some:
        for number, tokens in enumerate(read_sentences(texts, share)):
            n_words += len(tokens)
            line = " ".join(tokens) + "\n"
            all_lines.write(line)
            if number % PROBE_SHARE == 0:
                some.write(line)
    return n_words


def _count_passes(probe: Path, end_s: float) -> int:
    """Measure one pass over the probe, less the time for the table of vectors, which one word needs, too.

    RETURNS (int): Passes over the text that end before `end_s`. RAISES (ValueError): P035 if there is none.
    """
    word = probe.with_name("word.txt")
    word.write_text("word\n", encoding="utf8")
    setup_s, probe_s = _time_pass(word), _time_pass(probe)
    pass_s = max(probe_s - setup_s, SHORTEST_S) * PROBE_SHARE
    left_s = end_s - setup_s - time.monotonic()
    if left_s < pass_s:
        raise ValueError(Messages.P035.format(pass_s=f"{pass_s:.0f}", left_s=f"{max(left_s, 0):.0f}"))
    return int(left_s / pass_s)


def _time_pass(text: Path) -> float:
    """RETURNS (float): Seconds of one pass."""
    start_s = time.monotonic()
    _train(text, 1, min_count=1)
    return time.monotonic() - start_s


def _train(text: Path, n_passes: int, *, min_count: int = MIN_COUNT) -> Any:
    settings = {**SETTINGS, "dim": WIDTH, "minCount": min_count, "epoch": n_passes, "verbose": 0}
    return import_module("floret").train_unsupervised(str(text), **settings)


if __name__ == "__main__":
    typer.run(floret_cli)
