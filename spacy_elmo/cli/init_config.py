"""`elmo init-config`: an initial config for a pipeline with ELMo, for pretraining or for adaptation."""

import warnings
from pathlib import Path
from typing import Literal, Optional

from .._settings import check_output_file
from ..corpora.texts import make_nlp
from ..pipeline.config import (
    DEFAULT_PIPELINE,
    choose_bilm,
    find_packaged,
    make_pipeline_config,
    missing_options,
    read_lang,
)
from ..pretraining.templates import make_adaptation_config, make_pretraining_config
from ..util import write_text
from . import _common
from ._app import Arg, Opt, app

STDOUT = "-"
COMMANDS = {
    "pipeline": "python -m spacy train {path} --output training --paths.train train.spacy --paths.dev dev.spacy{more}",
    "pretraining": "python -m spacy elmo pretrain {path} runs/mine --paths.train train.txt --paths.valid valid.txt",
    "adaptation": "python -m spacy elmo pretrain {path} runs/adapted --paths.train train.txt --paths.valid valid.txt{more}",
}


@app.command("init-config")
def init_config_cli(
    # fmt: off
    output_path: Path = Arg(..., help="Config file to write, or - for stdout.", allow_dash=True, dir_okay=False),
    lang: Optional[str] = Opt(
        None,
        "--lang",
        "-l",
        help="Code of the language, by default that of --bilm, or en. For pretraining and adaptation also corpus.lang: raw text is tokenized.",
    ),
    pipeline: Optional[str] = Opt(
        None,
        "--pipeline",
        "-p",
        help=f"Names of components, separated by commas, without 'elmo'; {DEFAULT_PIPELINE} if not given.",
    ),
    optimize: Optional[Literal["efficiency", "accuracy"]] = Opt(
        None,
        "--optimize",
        "-o",
        help="efficiency (default): components read ELMo alone. accuracy: components read ELMo concatenated with spaCy's word features, through an encoder; slower.",
    ),
    placement: Optional[Literal["input", "output", "both"]] = Opt(
        None,
        "--placement",
        "-P",
        help="Accuracy with a BiLSTM over word features, and ELMo at its input, its output or both. If not given: what --optimize says, with ELMo at the input.",
    ),
    bilm: Optional[str] = Opt(
        None,
        "--bilm",
        "-b",
        help="Name of a packaged biLM, or path to weights in any known format. Defaults to en_elmo_sm for English, otherwise to null (pass --paths.bilm when training, --paths.init for adaptation).",
    ),
    gpu: bool = Opt(False, "--gpu", "-G", help="The pipeline will be trained on a GPU."),
    pretraining: bool = Opt(
        False,
        "--pretraining",
        "-pt",
        help="Write a config that trains a biLM from random weights with `elmo pretrain`, not a pipeline config.",
    ),
    adaptation: bool = Opt(
        False,
        "--adaptation",
        "-a",
        help="Write a config that continues training an existing biLM with `elmo pretrain`, not a pipeline config.",
    ),
    small: bool = Opt(
        False,
        "--small",
        "-s",
        help="With --pretraining: for a text of a few MB, a smaller biLM and more passes through the text.",
    ),
    force: bool = _common.FORCE_OPT,
    # fmt: on
) -> None:
    """Write a starter config: for a pipeline that uses ELMo, for pretraining or for adaptation.

    For a pipeline it is the config of `spacy init config` with the component `elmo` first in the pipeline, and with a
    listener as the tok2vec of every trainable component. The config is complete and can be passed to `spacy train`
    unchanged; an entity linker also needs --paths.kb, a knowledge base.
    """
    path = str(output_path)
    config_path = "config.cfg" if path == STDOUT else path
    kind = "pretraining" if pretraining else "adaptation" if adaptation else "pipeline"
    given = {"--pipeline": pipeline, "--optimize": optimize, "--placement": placement, "--gpu": gpu}
    others = [name for name, value in given.items() if value] + (["--bilm"] if pretraining and bilm else [])
    with _common.show_errors():
        if pretraining and adaptation:
            raise _do_not_fit("--pretraining", "--adaptation")
        if kind != "pipeline" and others:
            raise _do_not_fit(f"--{kind}", ", ".join(others))
        if small and not pretraining:
            raise ValueError(
                f"--small is for a config for pretraining, but a config of another kind ({kind}) was requested. Add "
                "--pretraining, or remove --small."
            )
        if placement is not None and optimize == "efficiency":
            raise _do_not_fit("--placement", "--optimize efficiency")
        if path != STDOUT:
            check_output_file(output_path, force=force)
        names = DEFAULT_PIPELINE if pipeline is None else pipeline
        if kind == "pipeline":
            settings = {"lang": lang, "optimize": optimize, "placement": placement, "bilm": bilm}
            text = make_pipeline_config(names, **settings, use_gpu=gpu, config_path=config_path)
        else:
            tokenizer = None if lang is None else _find_tokenizer(lang)
            chosen = lang or read_lang(bilm) or "en"
            if pretraining:
                text = make_pretraining_config(
                    lang=chosen, tokenizer=tokenizer, is_small=small, config_path=config_path
                )
            else:
                text = make_adaptation_config(
                    lang=chosen, tokenizer=tokenizer, bilm=choose_bilm(bilm, chosen), config_path=config_path
                )
        if path == STDOUT:
            print(text, end="")
            return
        write_text(output_path, text)
    _common.msg.good(f"Saved the config of a {kind}" if kind == "pipeline" else f"Saved the config of {kind}", path)
    has_bilm = bilm or find_packaged(lang or "en")
    more = "" if has_bilm else " --paths.init BILM"
    if kind == "pipeline":
        more = missing_options(names, has_bilm)
    _common.msg.info(f"Next, with your data: {COMMANDS[kind].format(path=path, more=more)}")


def _do_not_fit(option: str, others: str) -> ValueError:
    return ValueError(
        f"{option} cannot be combined with {others}: they are for different kinds of configs. Remove one of them."
    )


def _find_tokenizer(lang: str) -> Optional[str]:
    """RETURNS (Optional[str]): The language, None with a warning if spaCy cannot tokenize it."""
    try:
        make_nlp(lang)
    except ValueError as error:
        text = f"corpus.lang is null, so that tokens are separated by white space. {error}"
        warnings.warn(text, stacklevel=2)
        return None
    return lang
