"""The runs of the workflow `paper`: data set, network, settings and share of the training data of each.

Peters et al. (2018), sec. 4 (gains), 5.1 (mixes), 5.2 (placements) and 5.4 (sample efficiency).
"""

from dataclasses import dataclass, replace
from typing import Any, Dict, List, Optional, Tuple, Union

from messages import Messages

SHARES = (1, 3, 10, 30, 100)
# Both networks train until the development score has not improved for `patience` updates: an equal number of updates
# would favour the network that learns faster. One constant learning rate, since a decay needs a known length.
TRAINING = (
    ("training.max_steps", 20000),
    ("training.patience", 1600),
    ("training.eval_frequency", 200),
    ("training.optimizer.learn_rate", 0.001),
)
Settings = Tuple[Tuple[str, Any], ...]


@dataclass(frozen=True)
class Run:
    """A training without its seed.

    task (str): Name in the tables and in names of files.
    dataset (str): Name in `DATASETS`.
    condition (str): "elmo", "baseline", or the variant of an ablation.
    config (str): Name of a file in configs/, or "init-config:<component>" for the output of `elmo init-config`.
    component (str): Component whose network is changed.
    placement (Optional[str]): ELMo at the "input", the "output", "both" or "none" of the encoder of a task; None keeps
        the network of the config file.
    settings (Settings): More settings, by their dotted name.
    share (int): Percentage of the training docs, 1 to 100.
    """

    task: str
    dataset: str
    condition: str
    config: str
    component: str = "ner"
    placement: Optional[str] = None
    settings: Settings = ()
    share: int = 100

    @property
    def has_elmo(self) -> bool:
        """RETURNS (bool): Whether the network reads a biLM."""
        return self.placement != "none" and not self.config.startswith("baseline_")

    def name(self, seed: Union[int, str]) -> str:
        """RETURNS (str): Name of the result; experiments with the same run share it."""
        return f"{self.task}-{self.condition}-{self.share}pct-seed{seed}"


def find_experiment(name: str) -> List[Run]:
    """RETURNS (List[Run]): Its runs. RAISES (ValueError): P020 if the experiment is not known."""
    if name not in EXPERIMENTS:
        raise ValueError(Messages.P020.format(name=name, known=", ".join(EXPERIMENTS)))
    return EXPERIMENTS[name]


def _pair(task: str, dataset: str, pipeline: str) -> List[Run]:
    variants = ("baseline", "elmo")
    return [Run(task, dataset, variant, f"{variant}_{pipeline}.cfg") for variant in variants]


def _bilstm_pair(task: str, dataset: str, config: str, component: str, settings: Settings = ()) -> List[Run]:
    with_elmo = Run(task, dataset, "elmo", config, component, "both", settings)
    return [replace(with_elmo, condition="baseline", placement="none"), with_elmo]


def _mixes() -> List[Run]:
    block = "components.ner.model.tok2vec.elmo"
    conditions: Dict[str, Settings] = {
        "mix-top": ((f"{block}.mix", "top"),),
        "mix-mean": ((f"{block}.mix", "mean"),),
        "mix-l2-1": ((f"{block}.weights_l2", 1.0),),
        "mix-l2-0.001": ((f"{block}.weights_l2", 0.001),),
    }
    return [Run("wnut17", "wnut17", name, "elmo_ner.cfg", settings=settings) for name, settings in conditions.items()]


def _placements() -> List[Run]:
    places = ("none", "input", "output", "both")
    return [Run("wnut17", "wnut17", f"bilstm-{place}", "task_ner.cfg", placement=place) for place in places]


# Without the macro AUC, which spaCy selects by: it does not depend on the threshold.
MACRO_F = (("training.score_weights.cats_score", 0.0), ("training.score_weights.cats_macro_f", 1.0))
WNUT17 = _pair("wnut17", "wnut17", "ner")
EWT_TAGS = _pair("ewt-tags", "ud_en_ewt", "tagger_morphologizer")
EXPERIMENTS: Dict[str, List[Run]] = {
    "sample": _pair("sample", "sample", "tagger_ner"),
    "gains-wnut17": WNUT17,
    "gains-wikigold": _pair("wikigold", "wikigold", "ner"),
    "gains-ncbi": _pair("ncbi-disease", "ncbi_disease", "ner"),
    "gains-ewt-tags": EWT_TAGS,
    "gains-ewt-parser": _bilstm_pair("ewt-parser", "ud_en_ewt", "task_parser.cfg", "parser"),
    "gains-goemotions": _bilstm_pair(
        "goemotions", "goemotions", "init-config:textcat_multilabel", "textcat_multilabel", MACRO_F
    ),
    "mixes": _mixes(),
    "placements": _placements(),
    "shares-wnut17": [replace(run, share=share) for share in SHARES for run in WNUT17],
    "shares-ewt-tags": [replace(run, share=share) for share in SHARES for run in EWT_TAGS],
}
