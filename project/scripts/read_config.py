"""Configs of the trainings by name: files of `configs`, and the same without ELMo."""

from pathlib import Path
from typing import Any

from thinc.api import Config

CONFIG_DIR = Path(__file__).resolve().parents[2] / "configs"


def read_config(name: str) -> Config:
    """name (str): "elmo_<pipeline>.cfg", a file of configs/; "baseline_<pipeline>.cfg" for the same without ELMo.
    RETURNS (Config): Not interpolated.
    """
    variant, _, pipeline = name.partition("_")
    config = Config().from_disk(CONFIG_DIR / f"elmo_{pipeline}", interpolate=False)
    return Config(remove_elmo(config)) if variant == "baseline" else config


def remove_elmo(config: Any) -> Any:
    """RETURNS (Any): A config, or a part of it, without the biLM, the component `elmo` and what listens to it."""
    if not isinstance(config, dict):
        return [name for name in config if name != "elmo"] if isinstance(config, list) else config
    if config.get("@architectures") == "spacy-elmo.ElmoListener.v1":
        return None  # of a text classifier, which has n-grams
    kept = {key: remove_elmo(value) for key, value in config.items() if key not in ("elmo", "bilm")}
    if kept.get("@architectures") == "spacy-elmo.Tok2VecWithElmo.v1":
        kept["@architectures"] = "spacy.Tok2Vec.v2"
    return kept
