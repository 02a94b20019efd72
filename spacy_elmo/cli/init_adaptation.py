"""`elmo init-adaptation`: a starter config that continues the training of a biLM on other text."""

from pathlib import Path
from typing import Optional

from ..corpora.shards import find_shards
from ..pipeline.starter_config import choose_bilm, read_lang
from ..pretraining.run_config import make_adaptation_config
from . import _common
from ._app import Opt, app
from ._init import (
    OUTPUT_ARG,
    check_config_files,
    find_tokenizer,
    lang_opt,
    quote_path,
    save_configs,
    text_opt,
)


@app.command("init-adaptation")
def init_adaptation_cli(
    # fmt: off
    output_path: Path = OUTPUT_ARG,
    bilm: Optional[str] = Opt(
        None,
        "--bilm",
        "-b",
        help="The biLM to continue: name of a packaged one, or path to weights in any known format. Defaults to en_elmo_sm for English, otherwise to null (pass --paths.init when training).",
    ),
    lang: Optional[str] = lang_opt("the language of the biLM"),
    corpus: Optional[str] = text_opt(),
    force: bool = _common.FORCE_OPT,
    # fmt: on
) -> None:
    """Write a starter config for `elmo pretrain` that continues the training of a biLM, for instance on texts of a
    domain.
    """
    with _common.show_errors():
        check_config_files([output_path], corpus, bilm=bilm, force=force)
        if corpus is not None:
            find_shards(corpus)
        config = make_adaptation_config(
            lang=lang,
            tokenizer=find_tokenizer(lang),
            bilm=choose_bilm(bilm, lang or read_lang(bilm) or "en"),
            config_path=quote_path(output_path),
        )
        save_configs("an adaptation", {output_path: config}, corpus)
