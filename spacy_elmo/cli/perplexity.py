"""`elmo perplexity`: the perplexity of a biLM on a text."""

import math
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import List, Optional

import srsly
from tqdm import tqdm

from ..corpora.files import Tell, say_nothing
from ..corpora.find import describe_counts, find_shards
from ..corpora.punctuation import PunctuationCheck
from ..corpora.shards import Counts, read_shards
from ..inference.perplexity import Perplexity
from . import _common
from ._app import Arg, Opt, app


class PerplexityState(str, Enum):
    """The recurrent state between sentences."""

    carry = "carry"
    reset = "reset"
    steady = "steady"


@app.command("perplexity")
def perplexity_cli(
    # fmt: off
    bilm_path: str = _common.BILM_ARG,
    corpus_path: List[Path] = Arg(
        ...,
        help="Text (plain, .gz, .xz, .zst) with one sentence per line, JSONL or DocBin; several files are concatenated.",
        exists=True,
        dir_okay=False,
    ),
    lang: Optional[str] = _common.LANG_OPT,
    running_text: bool = _common.RUNNING_TEXT_OPT,
    batch_size: int = Opt(
        32,
        "--batch-size",
        "-b",
        help="Rows per batch: parallel lanes of text with --state carry; otherwise a batch has up to 64 times as many tokens.",
        min=1,
    ),
    state: Optional[PerplexityState] = Opt(
        None,
        "--state",
        "-S",
        help="Carry the state from sentence to sentence, as bilm-tf does (the default), or start each sentence from the zero (reset, the default of a transformer) or the steady state.",
    ),
    options: Optional[Path] = _common.OPTIONS_OPT,
    vocab: Optional[Path] = _common.VOCAB_OPT,
    softmax: Optional[Path] = _common.SOFTMAX_OPT,
    gpu_id: int = _common.GPU_OPT,
    as_json: bool = _common.JSON_OPT,
    # fmt: on
) -> None:
    """Compute the perplexity of a biLM on a text, per direction, with standard error.

    The biLM needs its softmax and its vocabulary. Perplexity is the exponential of the mean negative log likelihood
    per token over the full vocabulary, EOS included. Words outside the vocabulary count as <UNK>, so perplexities with
    different vocabularies cannot be compared. The text is kept in memory.
    """
    counts = Counts()
    with _common.show_errors():
        result = perplexity(
            bilm_path,
            corpus_path,
            lang=lang,
            running_text=running_text,
            batch_size=batch_size,
            state=None if state is None else state.value,
            options=options,
            vocab=vocab,
            softmax=softmax,
            gpu_id=gpu_id,
            counts=counts,
            tell=_common.msg.info,
            warn=_common.msg.warn,
        )
    if as_json:
        # JSON does not have NaN.
        scores = {key: None if math.isnan(value) else value for key, value in asdict(result).items()}
        print(srsly.json_dumps({**scores, "text": counts.to_dict()}))
        return
    rows = [
        (name, f"{getattr(result, name):,.2f}", f"{getattr(result, f'{name}_error'):,.2f}")
        for name in ("forward", "backward", "mean")
        if not math.isnan(getattr(result, name))
    ]
    _common.msg.table(rows, header=("Direction", "Perplexity", "Std. error"), aligns=("l", "r", "r"), divider=True)
    _common.msg.text(describe_counts(counts))
    _common.msg.text(f"{result.n_tokens:,} predictions, {result.unk_rate:.2%} of them <UNK>")
    if result.n_dropped:
        _common.msg.text(f"{result.n_dropped:,} tokens at the end were not scored (--state reset scores all)")


def perplexity(
    bilm_path: str,
    corpus_paths: List[Path],
    *,
    lang: Optional[str] = None,
    running_text: bool = False,
    batch_size: int = 32,
    state: Optional[str] = None,
    options: Optional[Path] = None,
    vocab: Optional[Path] = None,
    softmax: Optional[Path] = None,
    gpu_id: int = -1,
    counts: Optional[Counts] = None,
    tell: Tell = say_nothing,
    warn: Tell = say_nothing,
) -> Perplexity:
    """Load a biLM and score text.

    bilm_path (str): See `load_bilm`.
    state (Optional[str]): See `BiLM.perplexity`.
    corpus_paths (List[Path]): See `find_shards`, also for `lang` and `running_text`.
    counts (Optional[Counts]): Counts of the text are added to it.
    tell (Tell): Called with a message on files that are named more than once, which are read once.
    warn (Tell): Called with a warning if the text looks like raw text.
    RETURNS (Perplexity): Both directions.
    RAISES (ValueError): If a perplexity is not finite.
    """
    bilm = _common.open_bilm(bilm_path, options=options, vocab=vocab, softmax=softmax, gpu_id=gpu_id)
    counts, check = Counts() if counts is None else counts, PunctuationCheck()
    shards = find_shards(corpus_paths, lang=lang, running_text=running_text, tell=tell)
    sentences = list(check.watch(read_shards(shards, counts)))
    _common.warn_of_raw_text(check, corpus_paths, lang, warn, bilm.meta)
    with tqdm(total=counts.n_tokens + counts.n_sentences, disable=None, unit="tok", unit_scale=True) as bar:
        return bilm.perplexity(sentences, state=state, batch_size=batch_size, on_progress=bar.update)
