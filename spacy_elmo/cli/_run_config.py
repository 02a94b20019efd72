"""The config of `elmo pretrain`: which blocks and settings there are, and of which types."""

import re
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Union

from thinc.api import Config

from .._settings import fit_types, refuse_unknown
from ..bilm.config import BiLMConfig
from ..errors import Errors
from ..pretraining.config import PretrainConfig

NAME = "the config"


@dataclass(frozen=True)
class PathsConfig:
    """Where text, words and weights come from.

    train (Union[str, List[str], None]), valid (Union[str, List[str], None]): Places, see `_shards.find_shards`.
    vocab (Optional[str]): A ready vocabulary; None counts the training text.
    init (Optional[str]): A biLM to go on from; None begins with random weights.
    """

    train: Union[str, List[str], None] = None
    valid: Union[str, List[str], None] = None
    vocab: Optional[str] = None
    init: Optional[str] = None


@dataclass(frozen=True)
class CorpusConfig:
    """How texts are read, see `_shards.find_shards`.

    format (str): Of all files; "auto" goes by suffix.
    lang (Optional[str]): Tokenizer of raw text; None: tokens are separated by white space.
    running_text (bool): Texts are cut into sentences.
    """

    format: str = "auto"
    lang: Optional[str] = None
    running_text: bool = False


@dataclass(frozen=True)
class WordsConfig:
    """Which words are predicted.

    n_words (Optional[int]): The most frequent ones; None for all.
    min_count (int): Rarer words are left out.
    new_head (bool): Train a new softmax even if the biLM to go on from has one.
    """

    n_words: Optional[int] = 30000
    min_count: int = 2
    new_head: bool = False


@dataclass(frozen=True)
class RunConfig:
    """All blocks. Sizes and ranges of [bilm] and [pretraining] are checked where they are used."""

    paths: PathsConfig = PathsConfig()
    corpus: CorpusConfig = CorpusConfig()
    vocabulary: WordsConfig = WordsConfig()
    bilm: Optional[BiLMConfig] = None
    pretraining: PretrainConfig = PretrainConfig()
    meta: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RunSettings:
    """A config that has been checked.

    paths (PathsConfig), corpus (CorpusConfig), words (WordsConfig), pretraining (PretrainConfig): Blocks.
    bilm (Dict[str, Any]): The block as it is, since the vocabulary may have to be counted to complete it.
    meta (Dict[str, Any]): Saved with the model.
    """

    paths: PathsConfig
    corpus: CorpusConfig
    words: WordsConfig
    pretraining: PretrainConfig
    bilm: Dict[str, Any]
    meta: Dict[str, Any]


def read_config(path: Path, overrides: Mapping[str, Any]) -> Config:
    """path (Path): A .cfg file.
    overrides (Mapping[str, Any]): Values by the dotted names of settings.
    RETURNS (Config): Interpolated.
    RAISES (ValueError): EL001 for an override of a setting that is not known.
    """
    for name, value in overrides.items():
        block = reduce(lambda inner, part: {part: inner}, reversed(name.split(".")), value)
        refuse_unknown(RunConfig, block, NAME)
    text = path.read_text(encoding="utf8")
    return Config().from_str(text + _missing_blocks(text, overrides), overrides=dict(overrides))


def _missing_blocks(text: str, overrides: Mapping[str, Any]) -> str:
    """Empty blocks for overrides: Thinc sets values in blocks that are there, and wants each inside its parent."""
    present = set(re.findall(r"^\s*\[([^\]]+)\]", text, flags=re.MULTILINE))
    missing: List[str] = []
    for name in overrides:
        parts = name.split(".")[:-1]
        names = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
        missing += [block for block in names if block not in present and block not in missing]
    return "".join(f"\n[{block}]\n" for block in missing)


def check_config(config: Mapping[str, Any]) -> RunSettings:
    """config (Mapping[str, Any]): Blocks of plain values; those left out get their defaults.
    RETURNS (RunSettings): The same in the types of the settings.
    RAISES (ValueError): EL001 for names that are not known, EL170 for values of wrong types, EL100 for impossible
        values of [pretraining].
    """
    refuse_unknown(RunConfig, config, NAME)
    blocks, problems = fit_types(RunConfig, config)
    if problems:
        raise ValueError(Errors.EL170.format(n_problems=len(problems), problems="; ".join(problems)))
    return RunSettings(
        paths=PathsConfig(**blocks.get("paths", {})),
        corpus=CorpusConfig(**blocks.get("corpus", {})),
        words=WordsConfig(**blocks.get("vocabulary", {})),
        pretraining=PretrainConfig.from_dict(blocks.get("pretraining", {})),
        bilm=dict(blocks.get("bilm") or {}),
        meta=dict(blocks.get("meta", {})),
    )
