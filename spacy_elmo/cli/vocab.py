"""`elmo vocab`: count words and write the vocabulary of a biLM."""

from pathlib import Path
from typing import List, Optional

from ..pretraining.vocabulary import save_vocabulary
from . import _common
from ._app import Arg, Opt, app


@app.command("vocab")
def vocab_cli(
    # fmt: off
    corpus_path: List[str] = Arg(..., help=_common.CORPUS_HELP),
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
    corpus_format: _common.CorpusFormat = _common.FORMAT_OPT,
    lang: Optional[str] = _common.LANG_OPT,
    running_text: bool = _common.RUNNING_TEXT_OPT,
    max_entries: int = Opt(
        5_000_000,
        "--max-entries",
        "-M",
        help="Maximum number of distinct words in memory; with more, counts are added up in a temporary file in the output's folder.",
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
        counts, vocabulary = save_vocabulary(
            corpus_path,
            output_path,
            n_words=n_words or None,
            min_count=min_count,
            format=corpus_format,
            lang=lang,
            running_text=running_text,
            max_entries=max_entries,
            force=force,
            on_message=_common.msg.info,
            warn=_common.msg.warn,
        )
    _common.msg.text(counts.describe())
    _common.msg.text(f"Kept {len(vocabulary.words):,} of {vocabulary.n_types:,} distinct words")
    _common.msg.text(f"{vocabulary.unk_rate:.2%} of the tokens are <UNK>")
    _common.msg.good(f"Saved a vocabulary of {len(vocabulary.words) + 3:,} words", output_path)
