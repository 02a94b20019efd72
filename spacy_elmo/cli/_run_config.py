"""The config of `elmo pretrain`: its blocks, settings and types."""

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
    """Paths of texts, vocabulary and weights.

    train (Union[str, List[str], None]), valid (Union[str, List[str], None]): See `find_shards`.
    vocab (Optional[str]): A vocabulary file; None counts the words of the training text.
    init (Optional[str]): A biLM to continue training; None starts from random weights.
    """

    train: Union[str, List[str], None] = None
    valid: Union[str, List[str], None] = None
    vocab: Optional[str] = None
    init: Optional[str] = None


@dataclass(frozen=True)
class CorpusConfig:
    """How texts are read, see `find_shards`.

    format (str): Format of all files; "auto" infers it from the suffix.
    lang (Optional[str]): Language of the tokenizer; None: tokens are separated by white space.
    running_text (bool): Split texts into sentences.
    """

    format: str = "auto"
    lang: Optional[str] = None
    running_text: bool = False


@dataclass(frozen=True)
class WordsConfig:
    """The vocabulary of the softmax.

    n_words (Optional[int]): Number of most frequent words; None for all.
    min_count (int): Minimum count of a word; rarer words are left out.
    new_head (bool): Train a new softmax even if the biLM in `init` has one. In a full or sampled one, words of both keep
        their weights.
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
    """A validated config.

    paths (PathsConfig), corpus (CorpusConfig), words (WordsConfig), pretraining (PretrainConfig): Blocks.
    bilm (Dict[str, Any]): The block as given, since it may need the size of a vocabulary that is not counted yet.
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
    overrides (Mapping[str, Any]): Values by dotted name of the setting.
    RETURNS (Config): The config, interpolated.
    RAISES (ValueError): EL001 for an unknown setting in `overrides`.
    """
    for name, value in overrides.items():
        block = reduce(lambda inner, part: {part: inner}, reversed(name.split(".")), value)
        refuse_unknown(RunConfig, block, NAME)
    text = path.read_text(encoding="utf-8-sig")
    return Config().from_str(text + _missing_blocks(text, overrides), overrides=dict(overrides))


def _missing_blocks(text: str, overrides: Mapping[str, Any]) -> str:
    """Empty blocks for overrides: Thinc sets values only in existing blocks, and needs the parent of each block."""
    present = set(re.findall(r"^\s*\[([^\]]+)\]", text, flags=re.MULTILINE))
    missing: List[str] = []
    for name in overrides:
        parts = name.split(".")[:-1]
        names = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
        missing += [block for block in names if block not in present and block not in missing]
    return "".join(f"\n[{block}]\n" for block in missing)


def check_config(config: Mapping[str, Any]) -> RunSettings:
    """config (Mapping[str, Any]): Blocks of plain values; those left out get their defaults.
    RETURNS (RunSettings): The settings with their types.
    RAISES (ValueError): EL001 for unknown settings, EL170 for values of a wrong type, EL100 for invalid values in
        [pretraining].
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
