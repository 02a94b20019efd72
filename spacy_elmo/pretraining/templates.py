"""The packaged configs of `elmo pretrain`, adapted to a user's run."""

import re
from pathlib import Path
from typing import Any, Optional

import srsly

from ..corpora.shards import find_shards, read_shards
from ..errors import Errors

# An installed package contains the configs; in a checkout they are in the root of the repository.
PACKAGE = Path(__file__).parent.parent
PRETRAINING = "pretrain_en_elmo_sm.cfg"
SMALL = "pretrain_small_text.cfg"
ADAPTATION = "adapt.cfg"
# The largest text for SMALL, see docs/pretraining.md.
SMALL_TEXT_MB = 10
# The header of PRETRAINING states the results of one text.
HEADER = """\
# Peters et al. (2018), sec. 3.1 to 3.4: a small biLM with the sizes of the packaged en_elmo_sm.
# Differs: 640/128 cells, Adam, two passes; the length of the run, its warm-up and the softmax are set by the text.
# Cost and perplexity depend on the text, see docs/pretraining.md. For a few MB of text, use the config of --small.
"""
# Settings of PRETRAINING that fit only the text of en_elmo_sm, and values that fit any text.
FOR_ANY_TEXT = (
    ("vocabulary", "min_count", 2),
    ("pretraining", "max_tokens", 0),
    ("pretraining", "max_passes", 2.0),
    ("pretraining.softmax", "kind", "auto"),
    ("pretraining.schedule", "warmup_steps", None),
)


def find_configs() -> Path:
    """RETURNS (Path): The folder with the configs."""
    packaged = PACKAGE / "configs"
    return packaged if packaged.is_dir() else PACKAGE.parent / "configs"


def measure_text(place: str) -> float:
    """place (str): See `find_shards`.
    RETURNS (float): Size of its text in MB of UTF-8, uncompressed; once above `SMALL_TEXT_MB`, no more of it is read.
    RAISES (ValueError): EL101 if it has none.
    """
    n_mb = 0.0
    for tokens in read_shards(find_shards(place)):
        n_mb += (len(" ".join(tokens).encode("utf8", "replace")) + 1) / 1e6
        if n_mb > SMALL_TEXT_MB:
            break
    if not n_mb:
        raise ValueError(Errors.EL101.format(source=place))
    return n_mb


def make_pretraining_config(*, lang: str, tokenizer: Optional[str], is_small: bool, config_path: str) -> str:
    """A config that trains a biLM from random weights, with a comment above each setting.

    tokenizer (Optional[str]): Language whose tokenizer reads raw text; None for tokenized text.
    config_path (str): Path of the config, for the command in its header.
    """
    text = _read(SMALL if is_small else PRETRAINING, config_path, name=f"{lang}_elmo")
    if not is_small:
        text = HEADER + text[text.index("# python -m spacy") :]
        for block, key, value in FOR_ANY_TEXT:
            text = set_value(text, block, key, value)
    for key, name in (("name", f"{lang}_elmo"), ("lang", lang), ("license", None)):
        text = set_value(text, "meta", key, name)
    return set_value(text, "corpus", "lang", tokenizer)


def make_adaptation_config(*, lang: str, tokenizer: Optional[str], bilm: Optional[str], config_path: str) -> str:
    """A config that continues the training of a biLM, see `make_pretraining_config`.

    bilm (Optional[str]): The biLM to continue; None if it will be given for training.
    """
    text = _read(ADAPTATION, config_path, name="adapted", more="" if bilm else " --paths.init BILM")
    for block, key, value in (("paths", "init", bilm), ("corpus", "lang", tokenizer), ("meta", "lang", lang)):
        text = set_value(text, block, key, value)
    return text


def set_value(text: str, block: str, key: str, value: Any) -> str:
    """Set an existing setting of a config to a value of a type that JSON has, and keep the comments."""
    start = text.index(f"\n[{block}]\n")
    line = re.compile(rf"^{key} = .*$", flags=re.MULTILINE)
    return text[:start] + line.sub(lambda _: f"{key} = {srsly.json_dumps(value)}", text[start:], count=1)


def _read(file_name: str, config_path: str, *, name: str, more: str = "") -> str:
    """RETURNS (str): A config of the repository; the command in its header has these paths, and `more` at its end."""
    text = (find_configs() / file_name).read_text(encoding="utf8")
    text = re.sub(r"corpus/(train|valid)\S*\.gz\b", r"\1.txt", text)
    text = text.replace("domain/train.spacy", "train.txt").replace("domain/dev.spacy", "valid.txt")
    command = re.compile(r"pretrain configs/\S+ runs/\S+( --paths.*)?")
    return command.sub(lambda found: f"pretrain {config_path} runs/{name}{found[1] or ''}{more}", text)
