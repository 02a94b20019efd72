"""`elmo vocab`: count words and write the vocabulary of a biLM."""

import os
from enum import Enum
from pathlib import Path
from typing import Iterable, Iterator, List, Optional, Sequence, Tuple

from tqdm import tqdm

from ..corpora.counting import VocabularyCounts, count_vocabulary
from ..corpora.files import Tell, say_nothing
from ..corpora.find import describe_counts, find_shards
from ..corpora.punctuation import PunctuationCheck
from ..corpora.shards import Counts, Shard, read_shards
from ..errors import Errors, Warnings
from . import _common
from ._app import Arg, Opt, app


class CorpusFormat(str, Enum):
    """Formats of the files of a corpus."""

    auto = "auto"
    text = "text"
    jsonl = "jsonl"
    docbin = "docbin"


@app.command("vocab")
def vocab_cli(
    # fmt: off
    corpus_path: List[str] = Arg(
        ...,
        help="Text (plain, .gz, .xz, .zst), JSONL or DocBin: files, folders, patterns such as 'corpus/**/*.gz', hf:NAME[:SPLIT][:COLUMN], or - for text from stdin.",
    ),
    output_path: Path = Arg(..., help="Text file for the words, one per line.", dir_okay=False),
    n_words: int = Opt(
        30000,
        "--n-words",
        "-n",
        help="Number of most frequent words to keep, not counting <S>, </S> and <UNK>; 0 keeps all.",
        min=0,
    ),
    min_count: int = Opt(
        2,
        "--min-count",
        "-m",
        help="Leave out words that occur less often. With 1, no word may be mapped to <UNK>, so the softmax never learns to predict it.",
        min=1,
    ),
    corpus_format: CorpusFormat = Opt(
        CorpusFormat.auto, "--format", "-f", help="Format of the files, by default what their suffix says."
    ),
    lang: Optional[str] = _common.LANG_OPT,
    running_text: bool = _common.RUNNING_TEXT_OPT,
    max_entries: int = Opt(
        5_000_000,
        "--max-entries",
        "-M",
        help="Maximum number of distinct words in memory; further counts are written to temporary files in the output's folder.",
        min=1,
    ),
    force: bool = _common.FORCE_OPT,
    # fmt: on
) -> None:
    """Count the words of a text and write the vocabulary of a biLM.

    The file starts with <S>, </S> and <UNK>. The words follow in order of descending frequency, as the sampled and the
    adaptive softmax require; ties are in alphabetical order. Memory depends on --max-entries and on the number of words
    kept, not on the size of the text; with --n-words 0 all distinct words are in memory.
    """
    with _common.show_errors():
        counts, result = vocab(
            corpus_path,
            output_path,
            n_words=n_words or None,
            min_count=min_count,
            format=corpus_format.value,
            lang=lang,
            running_text=running_text,
            max_entries=max_entries,
            force=force,
            tell=_common.msg.info,
            warn=_common.msg.warn,
        )
    _common.msg.text(describe_counts(counts))
    _common.msg.text(f"Kept {len(result.words):,} of {result.n_types:,} distinct words")
    _common.msg.text(f"{result.unk_rate:.2%} of the tokens are <UNK>")
    _common.msg.good(f"Saved a vocabulary of {len(result.words) + 3:,} words", output_path)


def vocab(
    places: Sequence[str],
    output: Path,
    *,
    n_words: Optional[int] = 30000,
    min_count: int = 2,
    format: str = "auto",
    lang: Optional[str] = None,
    running_text: bool = False,
    max_entries: int = 5_000_000,
    force: bool = False,
    tell: Tell = say_nothing,
    warn: Tell = say_nothing,
) -> Tuple[Counts, VocabularyCounts]:
    """Count the words of a corpus and write the most frequent ones.

    places (Sequence[str]): See `find_shards`, also for `format`, `lang` and `running_text`.
    output (Path): Text file, one word per line; written atomically.
    n_words (Optional[int]): Words to keep, None for all.
    min_count (int), max_entries (int): See `count_vocabulary`.
    force (bool): Replace the output.
    tell (Tell): Called with a message on files that are not read.
    warn (Tell): Called with a warning if the text looks like raw text, or if no token is `<UNK>`.
    RETURNS (Tuple[Counts, VocabularyCounts]): Counts of the text, and of the vocabulary.
    RAISES (ValueError): EL101 for a corpus without sentences, EL133 for a path without texts, EL134 if the output
        exists, EL178 and EL179 if it cannot be a file.
    """
    _common.check_output_file(output, force=force)
    shards = find_shards(places, lang=lang, format=format, running_text=running_text, tell=tell)
    output.parent.mkdir(parents=True, exist_ok=True)
    counts, check = Counts(), PunctuationCheck()
    result = count_vocabulary(
        check.watch(_with_progress(shards, counts)),
        n_words=n_words,
        min_count=min_count,
        max_entries=max_entries,
        folder=output.parent,
    )
    if not counts.n_sentences:
        raise ValueError(Errors.EL101.format(source=", ".join(map(str, places))))
    _common.warn_of_raw_text(check, places, lang, warn)
    if not result.n_unknown:
        warn(Warnings.WL102)
    _write_lines(output, result.vocabulary().words)
    return counts, result


def _with_progress(shards: Sequence[Shard], counts: Counts) -> Iterator[List[str]]:
    with tqdm(disable=None, unit="tok", unit_scale=True) as progress:
        for tokens in read_shards(shards, counts):
            yield tokens
            progress.update(len(tokens))


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write to a temporary file in the same folder, then rename it."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
