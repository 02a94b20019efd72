"""The runs of the workflow `paper`: data set, network, settings and share of the training data of each.

Peters et al. (2018), sec. 4 (gains), 5.1 (mixes), 5.2 (placements) and 5.4 (sample efficiency).
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple, Union

from pretrain import ALTERNATIVES_DIR, LANGUAGES

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
    source (Optional[str]): What was made from raw text within a time limit: "tok2vec", pretrained weights, "floret",
        static vectors, or "bilm", in place of `Options.bilm`; None for nothing.
    without (Tuple[str, ...]): Components of the config that are left out.
    """

    task: str
    dataset: str
    condition: str
    config: str
    component: str = "ner"
    placement: Optional[str] = None
    settings: Settings = ()
    share: int = 100
    source: Optional[str] = None
    without: Tuple[str, ...] = ()

    @property
    def has_elmo(self) -> bool:
        """RETURNS (bool): Whether the network reads a biLM."""
        return self.placement != "none" and not self.config.startswith("baseline_")

    def name(self, seed: Union[int, str]) -> str:
        """RETURNS (str): Name of the result; experiments with the same run share it."""
        return f"{self.task}-{self.condition}-{self.share}pct-seed{seed}"


@dataclass(frozen=True)
class Options:
    """What the runs of one call share.

    bilm (str): Name or path of the biLM.
    max_steps (int): Limit of updates; 0 as `TRAINING` says.
    alternatives (Path): Folder with pretrained tok2vec weights and static vectors.
    """

    bilm: str = "en_elmo_sm"
    max_steps: int = 0
    alternatives: Path = ALTERNATIVES_DIR

    def training_settings(self, run: Run) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): Updates, patience, evaluations and learning rate."""
        settings = {**dict(TRAINING), **dict(run.settings)}
        if self.max_steps:
            settings["training.max_steps"] = self.max_steps
            settings["training.eval_frequency"] = min(self.max_steps, settings["training.eval_frequency"])
        return settings


def find_experiment(name: str) -> List[Run]:
    """RETURNS (List[Run]): Its runs. RAISES (ValueError): If the experiment is not known."""
    if name not in EXPERIMENTS:
        raise ValueError(f"There is no experiment '{name}'. Known experiments: {', '.join(EXPERIMENTS)}.")
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


def _alternatives(pair: List[Run]) -> List[Run]:
    """What raw text can give within a time limit, between the network without anything and that with `Options.bilm`: a
    pretrained tok2vec or static vectors for the first, a biLM for the second.
    """
    baseline, with_elmo = pair
    others = [replace(baseline, condition=source, source=source) for source in ("tok2vec", "floret")]
    return [baseline, *others, replace(with_elmo, condition="elmo-timed", source="bilm"), with_elmo]


def _language(dataset: str, lang: str) -> List[Run]:
    weights = {"training.score_weights.tag_acc": 0.0, "training.score_weights.pos_acc": 1.0}
    settings = (("nlp.lang", lang), *weights.items())
    pair = _pair(f"{dataset}-upos", dataset, "tagger_morphologizer")
    return [replace(run, settings=settings, without=("tagger",)) for run in pair]


def _finetuned(pair: List[Run], config: Optional[str] = None) -> List[Run]:
    """config (Optional[str]): A config with fine-tuning; None for its rates in the config of the pair."""
    with_elmo = replace(pair[1], condition="elmo-finetuned")
    if config is not None:
        return [*pair, replace(with_elmo, config=config)]
    rates = {"@misc": "spacy-elmo.FineTuning.v1", "top_rate": 0.385, "layer_decay": 0.385}  # as in configs/
    settings = (("components.elmo.model.frozen", False), ("components.elmo.model.fine_tuning", rates))
    return [*pair, replace(with_elmo, settings=(*pair[1].settings, *settings))]


# Without the macro AUC, which spaCy selects by: it does not depend on the threshold. Rare categories are seldom above
# spaCy's threshold of 0.5; after the training each pipeline gets that which is best on the development data. Adam's
# running averages are scored and stored: the F of rare categories varies much from one evaluation to the next without.
MACRO_F = (
    ("training.score_weights.cats_score", 0.0),
    ("training.score_weights.cats_macro_f", 1.0),
    ("components.textcat_multilabel.threshold", 0.25),
    ("training.optimizer.use_averages", True),
)
WNUT17 = _pair("wnut17", "wnut17", "ner")
WIKIGOLD = _pair("wikigold", "wikigold", "ner")
NCBI_CRF = _pair("ncbi-disease-crf", "ncbi_disease", "crf_ner")
EWT_TAGS = _pair("ewt-tags", "ud_en_ewt", "tagger_morphologizer")
GOEMOTIONS = _bilstm_pair("goemotions", "goemotions", "init-config:textcat_multilabel", "textcat_multilabel", MACRO_F)
FINETUNED_WNUT17 = _finetuned(WNUT17, config="elmo_ner_finetune.cfg")
EXPERIMENTS: Dict[str, List[Run]] = {
    "sample": _pair("sample", "sample", "tagger_ner"),
    "gains-wnut17": WNUT17,
    "gains-wikigold": WIKIGOLD,
    "gains-ncbi": _pair("ncbi-disease", "ncbi_disease", "ner"),
    "gains-wnut17-crf": _pair("wnut17-crf", "wnut17", "crf_ner"),
    "gains-wikigold-crf": _pair("wikigold-crf", "wikigold", "crf_ner"),
    "gains-ncbi-crf": NCBI_CRF,
    "gains-ewt-tags": EWT_TAGS,
    "gains-ewt-parser": _bilstm_pair("ewt-parser", "ud_en_ewt", "task_parser.cfg", "parser"),
    "gains-goemotions": GOEMOTIONS,
    "alternatives-wnut17": _alternatives(WNUT17),
    "alternatives-ewt-tags": _alternatives(EWT_TAGS),
    "finetuned-wnut17": FINETUNED_WNUT17,
    "finetuned-wikigold": _finetuned(WIKIGOLD, config="elmo_ner_finetune.cfg"),
    "finetuned-ncbi-crf": _finetuned(NCBI_CRF),
    "finetuned-ewt-tags": _finetuned(EWT_TAGS),
    "finetuned-goemotions": _finetuned(GOEMOTIONS),
    "choice-wnut17": [*(run for run in _alternatives(WNUT17) if run.source != "bilm"), FINETUNED_WNUT17[-1]],
    **{f"language-{dataset}": _language(dataset, lang) for dataset, lang in LANGUAGES.items()},
    "mixes": _mixes(),
    "placements": _placements(),
    "shares-wnut17": [replace(run, share=share) for share in SHARES for run in WNUT17],
    "shares-ewt-tags": [replace(run, share=share) for share in SHARES for run in EWT_TAGS],
}
