"""`elmo init-config`: an initial config for a pipeline with ELMo, for pretraining or for adaptation."""

import os
import re
import shlex
import warnings
from pathlib import Path
from typing import Iterator, Literal, Optional, Sequence

from spacy.tokens import Doc

from ..corpora.places import find_sources
from ..corpora.records import read_docbin
from ..corpora.shards import find_shards
from ..corpora.sources import STDIN, Source, make_source
from ..corpora.texts import make_nlp
from ..files import check_output_file, to_path, write_text
from ..pipeline.noun_chunks import has_ud_labels
from ..pipeline.starter_config import (
    choose_bilm,
    find_annotated,
    make_pipeline_config,
    read_lang,
)
from ..pretraining.run_config import SMALL_TEXT_MB, make_adaptation_config, make_pretraining_config, measure_text
from ..weights.load import list_sources
from . import _common
from ._app import Arg, Opt, app

STDOUT = "-"
COMMAND = re.compile(r"^# (python -m spacy .*)$", flags=re.MULTILINE)  # in the header of a config
REPORT = "python -m spacy elmo report {} --baseline {} --data test.spacy"
# Options of the next commands that name a text beside that of --data, and parts of its name, the most likely first.
SIBLINGS = {"--paths.dev": ("dev", "valid"), "--paths.valid": ("valid", "dev"), "--data": ("test",)}
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


@app.command("init-config")
def init_config_cli(
    # fmt: off
    output_path: Path = Arg(
        Path("config.cfg"), help="Config file to write, or - for stdout.", allow_dash=True, dir_okay=False
    ),
    lang: Optional[str] = Opt(
        None,
        "--lang",
        "-l",
        help="Code of the language, by default that of --bilm, or en. For pretraining and adaptation also corpus.lang: raw text is tokenized.",
    ),
    pipeline: Optional[str] = Opt(
        None,
        "--component",
        "--pipeline",
        "-p",
        help="Names of components, separated by commas, without 'elmo'. By default those that --data has annotations for.",
    ),
    text: Optional[str] = Opt(
        None,
        "--data",
        "--text",
        "-d",
        help="What will be trained on: annotated Docs (.spacy), or a text, whose size decides if --small is used for pretraining.",
    ),
    baseline: bool = Opt(
        False,
        "--baseline",
        "-B",
        help="Also write a config without ELMo, to NAME_baseline.cfg: word features through an encoder, and for text categories n-grams alone. Only with --optimize accuracy, --placement and n-grams are the networks otherwise the same. Both write the logs that `elmo report` draws.",
    ),
    base: Optional[str] = Opt(
        None,
        "--from",
        "-f",
        help="Trained pipeline, an installed package or a path: the components are trained on ELMo, its other components stay as they are.",
    ),
    optimize: Optional[Literal["efficiency", "accuracy"]] = Opt(
        None,
        "--optimize",
        "-o",
        help="efficiency: components read ELMo alone; the default with the biLM of the package. accuracy: components read ELMo concatenated with spaCy's word features, through an encoder, which is slower; the default with any other biLM.",
    ),
    placement: Optional[Literal["input", "output", "both"]] = Opt(
        None,
        "--placement",
        "-P",
        help="Accuracy with a BiLSTM over word features, and ELMo at its input, its output or both. If not given: as --optimize, with ELMo at the input.",
    ),
    fine_tune: bool = Opt(
        False,
        "--fine-tune",
        "-ft",
        help="Train the biLM together with the components: higher scores, longer training, the same speed afterwards.",
    ),
    bilm: Optional[str] = Opt(
        None,
        "--bilm",
        "-b",
        help="Name of a packaged biLM, or path to weights in any known format. Defaults to en_elmo_sm for English, otherwise to null (pass --paths.bilm when training, --paths.init for adaptation).",
    ),
    code_path: Optional[Path] = _common.CODE_OPT,
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
    unchanged.
    """
    kind = "pretraining" if pretraining else "adaptation" if adaptation else "pipeline"
    options = {"--component or --pipeline": pipeline, "--optimize": optimize, "--placement": placement, "--gpu": gpu}
    options |= {"--fine-tune": fine_tune, "--baseline": baseline, "--from": base, "--code": code_path is not None}
    others = [name for name, value in options.items() if value] + (["--bilm"] if pretraining and bilm else [])
    is_stdout = str(output_path) == STDOUT
    paths = [output_path]
    if baseline:
        paths.append(output_path.with_name(f"{output_path.stem}_baseline{output_path.suffix}"))
    texts = {}
    with _common.show_errors():
        if is_stdout:
            _common.check_stdout()
        if pretraining and adaptation:
            raise _do_not_fit("--pretraining", "--adaptation")
        if kind != "pipeline" and others:
            raise _do_not_fit(f"--{kind}", ", ".join(others))
        if small and not pretraining:
            raise ValueError(
                f"--small is for a config for pretraining, but a config of another kind ({kind}) was requested. Add "
                "--pretraining, or remove --small."
            )
        if bilm is not None and not bilm.strip():
            raise ValueError(
                "--bilm is empty, should be the name of a packaged biLM or a path (is it a variable that is not set?). "
                "Name a biLM, or leave the option out."
            )
        if placement is not None and optimize == "efficiency":
            raise _do_not_fit("--placement", "--optimize efficiency")
        if base is not None and lang is not None:
            raise ValueError(f"--from cannot be combined with --lang: the language is that of {base}. Remove --lang.")
        if baseline and is_stdout:
            raise ValueError("--baseline writes two files, which stdout cannot hold. Give a path for the first one.")
        sources = [] if bilm is None else list_sources(bilm)
        sources += [to_path(source) for source in (text, base, code_path) if source is not None]
        for file in [] if is_stdout else paths:
            check_output_file(file, force=force, sources=sources)
        annotated = find_sources(text) if text is not None and kind == "pipeline" else []
        if annotated:
            next(_read_docs(annotated), None)
        elif text is not None:
            find_shards(text)
        _common.import_code(code_path)
        chosen = lang or read_lang(bilm) or "en"
        tokenizer = None if lang is None or kind == "pipeline" else _find_tokenizer(lang)
        init = choose_bilm(bilm, chosen) if kind == "adaptation" else None
        names = pipeline or (_find_components(str(text), annotated) if annotated else "")
        is_ud = has_ud_labels(_read_docs(annotated))
        for file in paths:
            config_path = "config.cfg" if is_stdout else shlex.quote(str(file))
            if kind == "pipeline":
                texts[file] = make_pipeline_config(
                    names,
                    lang=lang,
                    optimize=optimize,
                    placement=placement,
                    bilm=bilm,
                    base=base,
                    fine_tune=fine_tune,
                    is_baseline=file != output_path,
                    logs=_output_of(file) if baseline else None,
                    has_ud_labels=is_ud,
                    use_gpu=gpu,
                    code=code_path,
                    config_path=config_path,
                )
            elif pretraining:
                is_small = small or (text is not None and _is_small(text))
                texts[file] = make_pretraining_config(
                    lang=chosen, tokenizer=tokenizer, is_small=is_small, config_path=config_path
                )
            else:
                texts[file] = make_adaptation_config(lang=lang, tokenizer=tokenizer, bilm=init, config_path=config_path)
        place = None if text is None or _is_stream(text) else text  # a stream has no name for later
        if place is not None:
            texts = {file: COMMAND.sub(lambda m: _name_texts(m[0], place), config) for file, config in texts.items()}
        if is_stdout:
            print(texts[output_path], end="")
            return
        for file, config in texts.items():
            write_text(file, config)
    saved = " and ".join(str(file) for file in texts)
    _common.msg.good(f"Saved the config of a {kind}" if kind == "pipeline" else f"Saved the config of {kind}", saved)
    commands = [match[1] for match in map(COMMAND.search, texts.values()) if match]
    if baseline:
        folders = [shlex.quote(_output_of(file)) for file in texts]
        code = "" if code_path is None else f" --code {shlex.quote(str(code_path))}"
        report = REPORT.format(*folders) + code
        commands.append(report if place is None else _name_texts(report, place))
    if text is not None and lang is None and base is None and kind != "adaptation" and read_lang(bilm) is None:
        _common.msg.info("The language is en, the default. Choose another with --lang.")
    _common.print_next("Next, with your data:", commands)


def _output_of(config_path: Path) -> str:
    return f"runs/{config_path.stem}"


def _is_stream(place: str) -> bool:
    return place == STDIN or (
        os.path.exists(place) and not os.path.isdir(place) and make_source(place).stream is not None
    )


def _name_texts(command: str, place: str) -> str:
    """RETURNS (str): The command with the text of --data, and with those beside it for validation and test."""
    siblings = {option: _find_sibling(Path(place), words) for option, words in SIBLINGS.items()}
    for option, path in {"--paths.train": place, **siblings}.items():
        if path is not None:
            before, named, after = command.partition(f"{option} ")
            command = f"{before}{named}{shlex.quote(path)} {after.partition(' ')[2]}".rstrip() if named else command
    return command


def _find_sibling(path: Path, words: Sequence[str]) -> Optional[str]:
    """RETURNS (Optional[str]): The file, folder or pattern whose name has one of the words in the place of "train", or
    the only file of this format whose name has it.
    """
    for word in words:
        likely = path.with_name(path.name.replace("train", word))
        if likely.name != path.name and any(path.parent.glob(likely.name)):
            return str(likely)
        files = [file for file in path.parent.glob("*") if file.is_file() and file.name != path.name]
        named = [file for file in files if re.search(rf"(?<![a-z]){word}", file.name.lower())]
        similar = [file for file in named if path.suffix and _suffix(file) == _suffix(path)]
        if len(similar) == 1:
            return str(similar[0])
    return None


def _suffix(path: Path) -> str:
    return (path.with_suffix("") if path.suffix.lower() in COMPRESSED else path).suffix.lower()


def _find_components(place: str, sources: Sequence[Source]) -> str:
    """RETURNS (str): Names of the components that the Docs have annotations for, separated by commas.
    RAISES (ValueError): For no annotations.
    """
    names = find_annotated(_read_docs(sources))
    if not names:
        raise ValueError(
            f"The Docs of '{place}' have no annotations that a component could learn: no entities, tags, "
            "dependencies, categories or spans. Pass annotated Docs, or name the components with --component."
        )
    _common.msg.info(f"Components that '{place}' has annotations for: {', '.join(names)}")
    return ",".join(names)


def _read_docs(sources: Sequence[Source]) -> Iterator[Doc]:
    nlp = make_nlp("xx")
    return (doc for source in sources for doc in read_docbin(source.look(), nlp))


def _is_small(place: str) -> bool:
    n_mb = measure_text(place)
    size = f"{n_mb:.1f} MB" if n_mb <= SMALL_TEXT_MB else f"more than {SMALL_TEXT_MB} MB"
    name = "that of --small" if n_mb <= SMALL_TEXT_MB else "that of en_elmo_sm"
    _common.msg.info(f"'{place}' has {size} of text, so the config is {name}")
    return n_mb <= SMALL_TEXT_MB


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
