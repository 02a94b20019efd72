"""The biLM that a question is asked of: weights, or what a pipeline reads Docs with."""

import os
from pathlib import Path
from typing import NamedTuple, Optional

import spacy
from spacy.util import is_package

from .._choices import AnyPath
from ..errors import Errors
from ..inference.bilm import BiLM
from ..ml.elmo_model import fill, get_settings
from ..ml.settings import ElmoSettings
from ..pipeline.elmo import Elmo
from ..weights import load_bilm
from ..weights.formats import PACKAGED_NAMES, split_part
from ..weights.identity import digest_bilm


class OpenedBiLM(NamedTuple):
    """bilm (BiLM): The biLM, in the precision of the pipeline.
    reading (Optional[ElmoSettings]): How the pipeline reads Docs; None for weights, which have no such settings.
    digest (Optional[str]): Of the file or folder of weights; None for a pipeline, and for a prefix of file names.
    """

    bilm: BiLM
    reading: Optional[ElmoSettings]
    digest: Optional[str]


def open_pipeline(name: AnyPath) -> OpenedBiLM:
    """name (AnyPath): A pipeline with `elmo` (folder or installed package), or a biLM (packaged name or path).
    RETURNS (OpenedBiLM): The biLM, and how it reads Docs; of several components `elmo` the first.
    RAISES (ValueError): EL426 for a pipeline without `elmo`; OSError if there is nothing of this name.
    """
    name = os.fsdecode(name)
    if not is_pipeline(name):
        return OpenedBiLM(load_bilm(name), None, _find_digest(name))
    nlp = spacy.load(name)
    pipe = next((pipe for _, pipe in nlp.components if isinstance(pipe, Elmo)), None)
    if pipe is None:
        raise ValueError(Errors.EL426.format(pipeline=name, pipes=", ".join(nlp.component_names) or "none"))
    pipe.fill()
    return OpenedBiLM(fill(pipe.model), get_settings(pipe.model), None)


def is_pipeline(name: str) -> bool:
    """RETURNS (bool): Whether this is a folder of `nlp.to_disk` or an installed package."""
    if Path(name).exists() or name in PACKAGED_NAMES:
        return (Path(name) / "config.cfg").is_file()
    return is_package(name)


def _find_digest(name: str) -> Optional[str]:
    """None where the weights are not files at this path, but a prefix of their names (TensorFlow checkpoints)."""
    try:
        return digest_bilm(split_part(name)[0])
    except FileNotFoundError:
        return None
