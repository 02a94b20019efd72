"""`elmo init-config`: an initial config for a pipeline with ELMo, for pretraining or for adaptation."""

import warnings
from enum import Enum
from pathlib import Path
from typing import Any, Optional

from ..corpora.texts import choose_lang, make_nlp
from ..errors import Errors, Warnings
from ..pretraining.templates import make_adaptation_config, make_pretraining_config
from ..util import write_text
from ..weights.formats import PACKAGED_NAMES, locate
from ..weights.sources import Source, read_json
from . import _common
from ._app import Arg, Opt, app
from ._config_comments import add_comments
from ._pipeline_config import LINKER, check_pipeline, make_pipeline_config

STDOUT = "-"
DEFAULT_PIPELINE = "tagger,parser,ner"  # as `spacy init config`
PIPELINE_HEADER = """\
# {pipeline} with ELMo: the config of `spacy init config` for {optimize}, each component with its own mix of layers.
{network}# python -m spacy train {config_path} --output training --paths.train train.spacy --paths.dev dev.spacy{more}

"""
PLACES = {"input": "at the input", "output": "at the output", "both": "at the input and at the output"}
NETWORK = "# Differs from it: a BiLSTM over word features, with ELMo {place}.\n"
COMMANDS = {
    "pipeline": "python -m spacy train {path} --output training --paths.train train.spacy --paths.dev dev.spacy{more}",
    "pretraining": "python -m spacy elmo pretrain {path} runs/mine --paths.train train.txt --paths.valid valid.txt",
    "adaptation": "python -m spacy elmo pretrain {path} runs/adapted --paths.train train.txt --paths.valid valid.txt{more}",
}


class Placements(str, Enum):
    """Where ELMo enters the network of a component."""

    input = "input"
    output = "output"
    both = "both"


class Optimizations(str, Enum):
    """Goals of the optimization."""

    efficiency = "efficiency"
    accuracy = "accuracy"


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
    optimize: Optional[Optimizations] = Opt(
        None,
        "--optimize",
        "-o",
        help="efficiency (default): components read ELMo alone. accuracy: components read ELMo concatenated with spaCy's word features, through an encoder; slower.",
    ),
    placement: Optional[Placements] = Opt(
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
    with _common.show_errors():
        kind = _kind_of(pretraining, adaptation)
        given = {
            "--pipeline": pipeline,
            "--optimize": optimize,
            "--placement": placement,
            "--gpu": gpu,
            "--bilm": bilm if pretraining else None,
        }
        _refuse_options(kind, [name for name, value in given.items() if value])
        if small and not pretraining:
            raise ValueError(Errors.EL213.format(kind=kind))
        if placement is not None and optimize == Optimizations.efficiency:
            raise ValueError(Errors.EL211.format(option="--placement", others="--optimize efficiency"))
        if path != STDOUT:
            _common.check_output_file(output_path, force=force)
        text = init_config(
            kind,
            pipeline=pipeline if pipeline is not None else DEFAULT_PIPELINE,
            lang=lang,
            optimize=None if optimize is None else optimize.value,
            placement=None if placement is None else placement.value,
            bilm=bilm,
            use_gpu=gpu,
            is_small=small,
            config_path="config.cfg" if path == STDOUT else path,
        )
        if path == STDOUT:
            print(text, end="")
            return
        write_text(output_path, text)
    _common.msg.good(f"Saved the config of a {kind}" if kind == "pipeline" else f"Saved the config of {kind}", path)
    command = COMMANDS[kind].format(path=path, more=_more_options(kind, pipeline, bilm or _packaged(choose_lang(lang))))
    _common.msg.info(f"Next, with your data: {command}")


def init_config(
    kind: str = "pipeline",
    *,
    pipeline: str = DEFAULT_PIPELINE,
    lang: Optional[str] = None,
    optimize: Optional[str] = None,
    placement: Optional[str] = None,
    bilm: Optional[str] = None,
    use_gpu: bool = False,
    is_small: bool = False,
    config_path: str = "config.cfg",
) -> str:
    """Create a config with comments.

    kind (str): "pipeline", "pretraining" or "adaptation".
    pipeline (str): Names of components, separated by commas. This, `optimize`, `placement` and `use_gpu` are for a
        pipeline only.
    lang (Optional[str]): Language code; None for that of the biLM, or "en". If it is given, a run of pretraining or
        adaptation tokenizes raw text by the rules of this language.
    optimize (Optional[str]): "efficiency" or "accuracy"; None for accuracy with a placement, otherwise efficiency.
    placement (Optional[str]): ELMo at the "input", the "output" or "both" of a BiLSTM; None as `optimize` says.
    bilm (Optional[str]): Name or path of a biLM; None: the packaged one of the language, or null.
    use_gpu (bool): The pipeline will be trained on a GPU.
    is_small (bool): The text for pretraining is small, a few MB. For "pretraining" only.
    config_path (str): Path of the config, for the command in its header.
    RETURNS (str): The text of the config.
    RAISES (ValueError): EL210 for an invalid pipeline, EL212 for an unknown language.
    """
    tokenizer = None if lang is None or kind == "pipeline" else _find_tokenizer(lang)
    lang = choose_lang(lang, _lang_of(bilm))
    if kind == "pretraining":
        return make_pretraining_config(lang=lang, tokenizer=tokenizer, is_small=is_small, config_path=config_path)
    if kind == "adaptation":
        bilm = _choose_bilm(bilm, lang)
        return make_adaptation_config(lang=lang, tokenizer=tokenizer, bilm=bilm, config_path=config_path)
    names = check_pipeline(pipeline, lang)
    bilm = _choose_bilm(bilm, lang)
    optimize = optimize or ("efficiency" if placement is None else "accuracy")
    config = make_pipeline_config(names, lang=lang, optimize=optimize, placement=placement, bilm=bilm, use_gpu=use_gpu)
    header = PIPELINE_HEADER.format(
        pipeline=", ".join(names),
        optimize=optimize,
        network="" if placement is None else NETWORK.format(place=PLACES[placement]),
        config_path=config_path,
        more=_more_options(kind, pipeline, bilm),
    )
    return header + add_comments(config.to_str(interpolate=False))


def _more_options(kind: str, pipeline: Optional[str], bilm: Optional[str]) -> str:
    """RETURNS (str): What the next command also needs: a biLM if the config names none, data of an entity linker."""
    if kind == "adaptation":
        return "" if bilm else " --paths.init BILM"
    names = [name.strip() for name in (pipeline or "").split(",")]
    return ("" if bilm else " --paths.bilm BILM") + (" --paths.kb kb" if LINKER in names else "")


def _choose_bilm(bilm: Optional[str], lang: str) -> Optional[str]:
    """RETURNS (Optional[str]): The given biLM; otherwise a packaged biLM of the language, if there is one."""
    if bilm is not None:
        if not bilm.strip():
            raise ValueError(Errors.EL214)
        if bilm not in PACKAGED_NAMES and not Path(bilm).exists():
            warnings.warn(Warnings.WL122.format(bilm=bilm, packaged=", ".join(PACKAGED_NAMES)), stacklevel=2)
        return bilm
    packaged = _packaged(lang)
    if packaged is None:
        warnings.warn(Warnings.WL121.format(lang=lang), stacklevel=2)
    return packaged


def _lang_of(bilm: Optional[str]) -> Any:
    """RETURNS (Any): Language in the meta data of a biLM in native format; None for others, which have none."""
    meta = None if bilm is None else locate(bilm) / "meta.json"
    record = read_json(Source(meta)) if meta is not None and meta.is_file() else None
    return record.get("lang") if isinstance(record, dict) else None


def _find_tokenizer(lang: str) -> Optional[str]:
    """RETURNS (Optional[str]): The language, None with a warning if spaCy cannot tokenize it."""
    try:
        make_nlp(lang)
    except ValueError as error:
        text = f"corpus.lang is null, so that tokens are separated by white space. {error}"
        warnings.warn(text, stacklevel=2)
        return None
    return lang


def _packaged(lang: str) -> Optional[str]:
    """RETURNS (Optional[str]): The packaged biLM of a language, None if there is none."""
    return next((name for name in PACKAGED_NAMES if name.startswith(f"{lang}_")), None)


def _kind_of(pretraining: bool, adaptation: bool) -> str:
    if pretraining and adaptation:
        raise ValueError(Errors.EL211.format(option="--pretraining", others="--adaptation"))
    return "pretraining" if pretraining else "adaptation" if adaptation else "pipeline"


def _refuse_options(kind: str, given: "list[str]") -> None:
    """RAISES (ValueError): EL211 for options of another kind of config."""
    if kind == "adaptation":
        given = [name for name in given if name != "--bilm"]
    if kind != "pipeline" and given:
        raise ValueError(Errors.EL211.format(option=f"--{kind}", others=", ".join(given)))
