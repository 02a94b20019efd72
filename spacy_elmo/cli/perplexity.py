"""`elmo perplexity`: the perplexity of a biLM on a text."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import List, Literal, Optional

import srsly
from tqdm import tqdm

from ..corpora.lines import Counts
from ..corpora.shards import choose_cutter, find_shards, read_first, read_shards
from ..corpora.texts import choose_tokenizer
from ..util import finite_or_none
from . import _common
from ._app import Arg, Opt, app


@app.command("perplexity")
def perplexity_cli(
    # fmt: off
    bilm_path: str = _common.BILM_ARG,
    corpus_path: List[str] = Arg(
        ...,
        help="Text with one sentence per line, JSONL or DocBin, plain or compressed (.gz, .bz2, .xz, .zst), or - for stdin: files, folders and patterns, which are concatenated.",
    ),
    lang: Optional[str] = _common.CORPUS_LANG_OPT,
    running_text: bool = _common.RUNNING_TEXT_OPT,
    batch_size: int = Opt(
        32,
        "--batch-size",
        "-b",
        help="Rows per batch: parallel lanes of text with --state carry; otherwise a batch has up to 64 times as many tokens.",
        min=1,
    ),
    state: Optional[Literal["carry", "reset", "steady"]] = Opt(
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
    with _common.show_errors():
        bilm = _common.open_bilm(bilm_path, options=options, vocab=vocab, softmax=softmax, gpu_id=gpu_id)
        shards = find_shards(corpus_path, on_message=_common.msg.info)
        lang = choose_tokenizer(lang, read_first(shards), corpus_path, _common.msg.warn, bilm.meta)
        counts = Counts()
        sentences = list(read_shards(choose_cutter(shards, lang=lang, running_text=running_text), counts))
        with tqdm(total=counts.n_tokens + counts.n_sentences, disable=None, unit="tok", unit_scale=True) as bar:
            result = bilm.perplexity(sentences, state=state, batch_size=batch_size, on_progress=bar.update)
    if as_json:
        scores = {key: finite_or_none(value) for key, value in asdict(result).items()}
        print(srsly.json_dumps({**scores, "text": asdict(counts)}))
        return
    rows = [
        (name, f"{getattr(result, name):,.2f}", f"{getattr(result, f'{name}_error'):,.2f}")
        for name in ("forward", "backward", "mean")
        if not math.isnan(getattr(result, name))
    ]
    _common.msg.table(rows, header=("Direction", "Perplexity", "Std. error"), aligns=("l", "r", "r"), divider=True)
    _common.msg.text(counts.describe())
    _common.msg.text(f"{result.n_tokens:,} predictions, {result.unk_rate:.2%} of them <UNK>")
    if result.n_dropped:
        _common.msg.text(f"{result.n_dropped:,} tokens at the end were not scored (--state reset scores all)")
