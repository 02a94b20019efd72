"""Configs of the trainings, by the names that results store: files, the same without ELMo or with a transformer in its
place, or `elmo init-config`.
"""

from functools import cache
from typing import Any, Dict

from shared import read_config
from thinc.api import Config

from spacy_elmo.pipeline.starter_config import make_pipeline_config

LOGGER = {"@loggers": "spacy.ConsoleLogger.v3", "progress_bar": "eval", "console_output": True, "output_file": None}


def read_any_config(name: str, bilm: str = "en_elmo_sm") -> Config:
    """name (str): "elmo_<pipeline>.cfg", a file of configs/; "baseline_<pipeline>.cfg" for the same without ELMo;
        "minilm_<pipeline>.cfg" for the same with a transformer of spacy-transformers; "elmo_init-config:<component>"
        and "baseline_init-config:<component>" for the two files that `elmo init-config --pipeline <component> --bilm
        <bilm> --baseline` writes; "init-config:<component>", or "task_<component>.cfg" with a logger to a file, for
        what `elmo init-config --pipeline <component> --placement both` writes.
    bilm (str): Name or path of a biLM.
    RETURNS (Config): Not interpolated.
    """
    kind, _, component = name.partition(":")
    if kind.endswith("_init-config"):
        text = _write_starter_config(component, bilm, kind.startswith("baseline_"))
        return Config().from_str(text, interpolate=False)
    if name.startswith("task_"):
        component = name.removeprefix("task_").removesuffix(".cfg")
    if component:
        config = Config().from_str(make_pipeline_config(pipeline=component, placement="both"), interpolate=False)
        config["training"]["logger"] = LOGGER if kind != "init-config" else config["training"]["logger"]
        return config
    config = read_config(name)
    if name.startswith("minilm_"):
        replace_elmo(config)
    return config


@cache
def _write_starter_config(component: str, bilm: str, is_baseline: bool) -> str:
    return make_pipeline_config(pipeline=component, bilm=bilm, is_baseline=is_baseline)


def replace_elmo(config: Dict[str, Any]) -> None:
    """Put the component `transformer` of the pipeline `paths.minilm` in the place of `elmo`, and its listeners in the
    place of ELMo's. Only a component of a pipeline can be frozen: spaCy does not initialize those that are.
    """
    config["nlp"]["pipeline"] = ["transformer" if name == "elmo" else name for name in config["nlp"]["pipeline"]]
    del config["components"]["elmo"], config["initialize"]["components"]["elmo"], config["paths"]["bilm"]
    config["paths"]["minilm"] = None
    config["components"]["transformer"] = {"source": "${paths.minilm}"}
    listener = {"@architectures": "spacy-transformers.TransformerListener.v1", "grad_factor": 1.0}
    for component in config["components"].values():
        _replace_listeners(component, {**listener, "pooling": {"@layers": "reduce_mean.v1"}})


def _replace_listeners(block: Dict[str, Any], listener: Dict[str, Any]) -> None:
    for key, value in block.items():
        if isinstance(value, dict):
            _replace_listeners(value, listener)
            if value.get("@architectures") == "spacy-elmo.ElmoListener.v1":
                block[key] = dict(listener)
