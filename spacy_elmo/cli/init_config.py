"""`elmo init-config`: a starter config for a spaCy pipeline with ELMo."""

import shlex
from pathlib import Path
from typing import Iterator, List, Literal, Optional, Sequence

from spacy.language import Language
from spacy.tokens import Doc

from ..corpora.places import find_sources
from ..corpora.records import read_docbin
from ..corpora.sources import Source
from ..corpora.texts import make_nlp
from ..pipeline.noun_chunks import has_ud_labels
from ..pipeline.starter_config import (
    find_annotated,
    find_neg_prefix,
    find_unannotated,
    make_pipeline_config,
    read_lang,
)
from . import _common
from ._app import Opt, app
from ._init import OUTPUT_ARG, check_config_files, is_stdout, quote_path, save_configs

REPORT = "python -m spacy elmo report {} --baseline {} --data test.spacy"


@app.command("init-config")
def init_config_cli(
    # fmt: off
    output_path: Path = OUTPUT_ARG,
    lang: Optional[str] = Opt(
        None, "--lang", "-l", help="Code of the language, by default the language of --bilm or --from, or en."
    ),
    pipeline: Optional[str] = Opt(
        None,
        "--component",
        "--pipeline",
        "-p",
        help="Names of components, separated by commas, without 'elmo'. By default those that --data has annotations for.",
    ),
    data: Optional[str] = Opt(
        None, "--data", "-d", help="What will be trained on: annotated Docs (.spacy). The next commands name them."
    ),
    baseline: bool = Opt(
        False,
        "--baseline",
        "-B",
        help="Also write a config without ELMo, to NAME_baseline.cfg: word features through an encoder, and for text categories n-grams alone; with --placement, word features through its BiLSTM. With --optimize efficiency the components read ELMo in place of that, otherwise beside it. Both write the logs that `elmo report` draws.",
    ),
    base: Optional[str] = Opt(
        None,
        "--from",
        "-f",
        help="Trained pipeline, an installed package or a path: the components are trained on ELMo, its other components stay as they are.",
    ),
    optimize: Literal["efficiency", "accuracy"] = Opt(
        "accuracy",
        "--optimize",
        "-o",
        help="accuracy: components read ELMo concatenated with spaCy's word features, through an encoder. efficiency: components read ELMo alone, nearly twice as fast; with a biLM of little text, or on specialist text, scores may be below the baseline's. Text categories are learned from n-grams and ELMo with both, and the weight of ELMo is chosen on the training texts; where keywords show the categories, the baseline can be as good.",
    ),
    placement: Optional[Literal["input", "output", "both"]] = Opt(
        None,
        "--placement",
        "-P",
        help="A BiLSTM over word features in place of the network of --optimize, with ELMo at its input, its output or both.",
    ),
    fine_tune: Optional[bool] = Opt(
        None,
        "--fine-tune/--frozen",
        "-ft",
        help="Train the biLM together with the components: higher scores, several times the training time, the same speed afterwards. The default with a biLM of `elmo pretrain` that is narrower than en_elmo_sm, except for textcat and textcat_multilabel.",
    ),
    bilm: Optional[str] = Opt(
        None,
        "--bilm",
        "-b",
        help="Name of a packaged biLM, or path to weights in any known format. Defaults to en_elmo_sm for English, otherwise to null (pass --paths.bilm when training; such a biLM is frozen unless --fine-tune is given).",
    ),
    code_path: Optional[Path] = _common.CODE_OPT,
    gpu: bool = Opt(False, "--gpu", "-G", help="The pipeline will be trained on a GPU."),
    force: bool = _common.FORCE_OPT,
    # fmt: on
) -> None:
    """Write a starter config for a spaCy pipeline that uses ELMo.

    It is the config of `spacy init config` with the component `elmo` first in the pipeline, which every trainable
    component listens to. The config is complete and can be passed to `spacy train` unchanged.
    """
    with _common.show_errors():
        if baseline and is_stdout(output_path):
            raise ValueError("--baseline writes two files, which stdout cannot hold. Give a path for the first one.")
        baseline_path = output_path.with_name(f"{output_path.stem}_baseline{output_path.suffix}")
        paths = [output_path, baseline_path] if baseline else [output_path]
        check_config_files(paths, data, base, code_path, bilm=bilm, force=force)
        annotated = [] if data is None else _find_docbins(data)
        next(_read_docs(annotated), None)
        _common.import_code(code_path)
        names = pipeline or (_find_components(str(data), annotated) if annotated else "")
        is_ud = has_ud_labels(_read_docs(annotated))
        neg_prefix = find_neg_prefix(_read_docs(annotated))
        configs = {
            path: make_pipeline_config(
                names,
                lang=lang,
                optimize=optimize,
                placement=placement,
                bilm=bilm,
                base=base,
                fine_tune=fine_tune,
                is_baseline=path != output_path,
                output=_output_of(path),
                writes_logs=baseline,
                has_ud_labels=is_ud,
                neg_prefix=neg_prefix,
                use_gpu=gpu,
                code=code_path,
                config_path=quote_path(path),
            )
            for path in paths
        }
        if pipeline and annotated:
            _warn_unannotated(pipeline, str(data), annotated)
        if data is not None and lang is None and base is None and read_lang(bilm) is None:
            _common.msg.info("The language is en, the default. Choose another with --lang.")
        code = "" if code_path is None else f" --code {shlex.quote(str(code_path))}"
        report = REPORT.format(*(shlex.quote(_output_of(path)) for path in paths)) + code if baseline else None
        save_configs("a pipeline", configs, data, [report] if report else [])


def _output_of(config_path: Path) -> str:
    return f"runs/{'config' if is_stdout(config_path) else config_path.stem}"


def _find_docbins(place: str) -> List[Source]:
    """RETURNS (List[Source]): The files at a place; of a folder those that `spacy train` reads.
    RAISES (ValueError): For a place without such files.
    """
    if not Path(place).is_dir():
        return find_sources(place)
    if not any(Path(place).rglob("*.spacy")):
        raise ValueError(f"There are no .spacy files in the folder '{place}'. Write them with `DocBin.to_disk`.")
    return [source for source in find_sources(place) if source.name.endswith(".spacy")]


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


def _warn_unannotated(pipeline: str, place: str, sources: Sequence[Source]) -> None:
    names = [name.strip() for name in pipeline.split(",")]
    missing = find_unannotated([name for name in names if Language.has_factory(name)], _read_docs(sources))
    if missing:
        _common.msg.warn(f"'{place}' has no annotations for {', '.join(missing)}, which cannot learn from it.")


def _read_docs(sources: Sequence[Source]) -> Iterator[Doc]:
    nlp = make_nlp("xx")
    return (doc for source in sources for doc in read_docbin(source.look(), nlp))
