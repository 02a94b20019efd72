"""Configs of the trainings, by the names that results store: files, the same without ELMo, or `elmo init-config`."""

from typing import Any

from data import PROJECT_DIR
from thinc.api import Config

from spacy_elmo.pipeline.config import make_pipeline_config

CONFIG_DIR = PROJECT_DIR.parent / "configs"
LOGGER = {"@loggers": "spacy.ConsoleLogger.v3", "progress_bar": "eval", "console_output": True, "output_file": None}


def read_config(name: str) -> Config:
    """name (str): "elmo_<pipeline>.cfg", a file of configs/; "baseline_<pipeline>.cfg" for the same without ELMo;
        "init-config:<component>", or "task_<component>.cfg" with a logger to a file, for what `elmo init-config
        --pipeline <component> --placement both` writes.
    RETURNS (Config): Not interpolated.
    """
    kind, _, component = name.partition(":")
    if name.startswith("task_"):
        component = name.removeprefix("task_").removesuffix(".cfg")
    if component:
        config = Config().from_str(make_pipeline_config(pipeline=component, placement="both"), interpolate=False)
        config["training"]["logger"] = LOGGER if kind != "init-config" else config["training"]["logger"]
        return config
    is_baseline = name.startswith("baseline_")
    config = Config().from_disk(CONFIG_DIR / name.replace("baseline_", "elmo_"), interpolate=False)
    return Config(remove_elmo(config)) if is_baseline else config


def remove_elmo(config: Any) -> Any:
    """RETURNS (Any): A config, or a part of it, without the biLM, the component `elmo` and what listens to it."""
    if not isinstance(config, dict):
        return [name for name in config if name != "elmo"] if isinstance(config, list) else config
    kept = {key: remove_elmo(value) for key, value in config.items() if key not in ("elmo", "bilm")}
    if kept.get("@architectures") == "spacy-elmo.Tok2VecWithElmo.v1":
        kept["@architectures"] = "spacy.Tok2Vec.v2"
    return kept
