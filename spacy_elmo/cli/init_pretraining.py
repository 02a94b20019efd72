"""`elmo init-pretraining`: a starter config for the pretraining of a biLM from random weights."""

from pathlib import Path
from typing import Optional

from ..corpora.shards import find_shards
from ..pretraining.run_config import SMALL_TEXT_MB, make_pretraining_config, measure_text
from . import _common
from ._app import Opt, app
from ._init import OUTPUT_ARG, check_config_files, find_tokenizer, lang_opt, quote_path, save_configs, text_opt


@app.command("init-pretraining")
def init_pretraining_cli(
    # fmt: off
    output_path: Path = OUTPUT_ARG,
    lang: Optional[str] = lang_opt("en"),
    corpus: Optional[str] = text_opt(", and its size decides if the config is the small one."),
    small: bool = Opt(
        False, "--small", "-s", help="For a text of a few MB: a smaller biLM and more passes through the text."
    ),
    force: bool = _common.FORCE_OPT,
    # fmt: on
) -> None:
    """Write a starter config for `elmo pretrain` that trains a biLM from random weights.

    It has the sizes of en_elmo_sm, or of a smaller biLM with --small and for a text of at most 10 MB.
    """
    with _common.show_errors():
        check_config_files([output_path], corpus, force=force)
        if corpus is not None:
            find_shards(corpus)
        config = make_pretraining_config(
            lang=lang or "en",
            tokenizer=find_tokenizer(lang),
            is_small=small or (corpus is not None and _is_small(corpus)),
            config_path=quote_path(output_path),
        )
        if lang is None:
            _common.msg.info("The language is en, the default. Choose another with --lang.")
        save_configs("a pretraining", {output_path: config}, corpus)


def _is_small(place: str) -> bool:
    n_mb = measure_text(place)
    size = f"{n_mb:.1f} MB" if n_mb <= SMALL_TEXT_MB else f"more than {SMALL_TEXT_MB} MB"
    sizes = "a smaller biLM, as with --small" if n_mb <= SMALL_TEXT_MB else "the sizes of en_elmo_sm"
    _common.msg.info(f"'{place}' has {size} of text, so the config has {sizes}")
    return n_mb <= SMALL_TEXT_MB
