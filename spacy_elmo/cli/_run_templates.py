"""The packaged configs of `elmo pretrain`, adapted to a user's run."""

import re
from pathlib import Path
from typing import Optional

import srsly

# An installed package contains the configs; in a checkout they are in the root of the repository.
PACKAGE = Path(__file__).parent.parent
PRETRAINING = "pretrain_en_elmo_sm.cfg"
ADAPTATION = "adapt.cfg"


def find_configs() -> Path:
    """RETURNS (Path): The folder with the configs."""
    packaged = PACKAGE / "configs"
    return packaged if packaged.is_dir() else PACKAGE.parent / "configs"


def make_pretraining_config(*, lang: str, config_path: str) -> str:
    """lang (str): Language of the text.
    config_path (str): Path of the config, for the command in its header.
    RETURNS (str): A config that trains a biLM from random weights, with a comment above each setting.
    """
    text = _read(PRETRAINING, config_path, name=f"{lang}_elmo")
    for key, value in (("name", f"{lang}_elmo"), ("lang", lang), ("license", None)):
        text = set_value(text, "meta", key, value)
    return text


def make_adaptation_config(*, lang: str, bilm: Optional[str], config_path: str) -> str:
    """lang (str): Language of the text.
    bilm (Optional[str]): The biLM to continue; None if it will be given for training.
    config_path (str): Path of the config, for the command in its header.
    RETURNS (str): A config that continues the training of a biLM, with a comment above each setting.
    """
    text = _read(ADAPTATION, config_path, name="adapted")
    return set_value(set_value(text, "paths", "init", bilm), "meta", "lang", lang)


def set_value(text: str, block: str, key: str, value: Optional[str]) -> str:
    """text (str): A config.
    block (str), key (str): An existing setting.
    value (Optional[str]): Its new value.
    RETURNS (str): The config with its comments.
    """
    start = text.index(f"\n[{block}]\n")
    line = re.compile(rf"^{key} = .*$", flags=re.MULTILINE)
    return text[:start] + line.sub(lambda _: f"{key} = {srsly.json_dumps(value)}", text[start:], count=1)


def _read(file_name: str, config_path: str, *, name: str) -> str:
    text = (find_configs() / file_name).read_text(encoding="utf8")
    return re.sub(r"pretrain configs/\S+ runs/\S+", lambda _: f"pretrain {config_path} runs/{name}", text)
