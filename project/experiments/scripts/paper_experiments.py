"""The runs of all experiments: data set, network, settings and share of the training data of each.

Peters et al. (2018), sec. 4 (gains), 5.1 (mixes), 5.2 (placements) and 5.4 (sample efficiency).
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple, Union

from datasets import TREEBANKS
from minilm import MINILM_DIR
from pretrain import ALTERNATIVES_DIR

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
# The grid: training sentences of each size, 0 for all; components of each data set, and of each treebank that is also
# the text of its biLM.
GRID_SIZES = {"100": 100, "1000": 1000, "all": 0}
ENTITIES = ("ner", "crf_ner", "spancat")
GRID = {
    "ud_en_ewt": ("tagger", "morphologizer", "parser", "biaffine_parser"),
    "wnut17": ENTITIES,
    "wikigold": ENTITIES,
    "ncbi_disease": ENTITIES,
    "goemotions8": ("textcat",),
    "sentiment": ("textcat",),
    "hwu64": ("textcat",),
    "goemotions": ("textcat_multilabel",),
}
GRID |= dict.fromkeys(TREEBANKS, ("morphologizer", "parser", "biaffine_parser"))
# Texts, few of each category: as in examples/README.md; the weight of ELMo beside n-grams is chosen.
TEXTS: Settings = (("training.max_steps", 1000), ("training.patience", 0), ("training.eval_frequency", 50))
# Treebanks whose training text is also that of a biLM; UPOS alone, since the French one has no XPOS.
LANGUAGES = {"fr_sequoia": "fr", "ru_taiga": "ru"}
GAMMAS = (0.04, 0.2)
# configs/elmo_crf_ner.cfg and configs/elmo_ner_finetune.cfg as they are.
CONFIGURED: Settings = (("training.max_steps", 1000), ("training.patience", 0), ("training.eval_frequency", 100))
FINETUNING: Settings = (*CONFIGURED, ("training.optimizer.use_averages", True))
MINILM_RATES = (1e-4, 3e-4)  # of the encoder in the plain classifier
# Fine-tuning in spaCy: about ten passes over WNUT-17 in batches of 1,000 words. The rate of the encoder is a tenth of
# that of the other layers; with one rate for both, either the encoder forgets or the transitions are not learned.
MINILM_UPDATES: Settings = (
    ("training.max_steps", 600),
    ("training.patience", 0),
    ("training.eval_frequency", 100),
    ("training.batcher.size", {"@schedules": "constant.v1", "rate": 1000}),
    (
        "training.optimizer",
        {
            "@optimizers": "project.GroupedAdam.v1",
            "transformer_scale": 0.1,
            "learn_rate": {
                "@schedules": "warmup_linear.v1",
                "initial_rate": 1e-3,
                "warmup_steps": 60,
                "total_steps": 600,
            },
        },
    ),
)


@dataclass(frozen=True)
class Run:
    """A training without its seed.

    task (str): Name in the tables and in names of files.
    dataset (str): Name in `datasets.FILES`.
    condition (str): "elmo", "baseline", or the variant of an ablation.
    config (str): Name of a file in configs/, "init-config:<component>" for the output of `elmo init-config`,
        "elmo_init-config:<component>" and "baseline_init-config:<component>" for the same as it stands,
        "minilm_<pipeline>.cfg" for a file with MiniLM in place of ELMo, or "minilm" for the plain classifier of
        minilm.py, whose settings are those of `Tuning`, and "kind".
    component (str): Component whose network is changed.
    placement (Optional[str]): ELMo at the "input", the "output", "both" or "none" of the encoder of a task; None keeps
        the network of the config file.
    settings (Settings): More settings, by their dotted name.
    share (int): Percentage of the training docs, 1 to 100.
    n_sentences (int): Training sentences, or texts without sentence boundaries, in whole docs, drawn with the seed of
        the run; 0 for all of the share.
    per_category (int): Training docs of each category, drawn with the seed of the run; 0 for all.
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
    n_sentences: int = 0
    per_category: int = 0
    source: Optional[str] = None
    without: Tuple[str, ...] = ()

    @property
    def has_elmo(self) -> bool:
        """RETURNS (bool): Whether the network reads a biLM."""
        return self.placement != "none" and not self.config.startswith(("baseline_", "minilm"))

    @property
    def has_minilm(self) -> bool:
        """RETURNS (bool): Whether the network reads MiniLM."""
        return self.config.startswith("minilm")

    @property
    def is_starter(self) -> bool:
        """RETURNS (bool): Whether it trains what `elmo init-config` writes, as it stands."""
        return "_init-config:" in self.config

    @property
    def is_classifier(self) -> bool:
        """RETURNS (bool): Whether it is the plain classifier of minilm.py, without a config of spaCy."""
        return self.config == "minilm"

    def name(self, seed: Union[int, str]) -> str:
        """RETURNS (str): Name of the result; experiments with the same run share it."""
        return f"{self.task}-{self.condition}-{self.share}pct-seed{seed}"


@dataclass(frozen=True)
class Options:
    """What the runs of one call share.

    bilm (str): Name or path of the biLM.
    max_steps (int): Limit of updates; 0 as `TRAINING` says.
    alternatives (Path): Folder with pretrained tok2vec weights and static vectors.
    minilm (Path): Folder with the weights of MiniLM, which are unpacked there.
    """

    bilm: str = "en_elmo_sm"
    max_steps: int = 0
    alternatives: Path = ALTERNATIVES_DIR
    minilm: Path = MINILM_DIR

    def training_settings(self, run: Run) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): Updates, patience, evaluations, learning rate; of the plain classifier its own."""
        if run.is_classifier:
            return {**dict(run.settings), "max_steps": self.max_steps}
        settings = {**({} if run.is_starter else dict(TRAINING)), **dict(run.settings)}
        if self.max_steps:
            eval_frequency = settings.get("training.eval_frequency", self.max_steps)
            settings["training.max_steps"] = self.max_steps
            settings["training.eval_frequency"] = min(self.max_steps, eval_frequency)
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


def find_grid(dataset: str, size: str, *components: str) -> List[Run]:
    """components (str): By default all of the data set.
    RETURNS (List[Run]): Each component on so many sentences of a data set, without and with ELMo.
    """
    return [
        Run(
            f"{dataset}-{component}-{size}",
            f"{dataset}_spans" if component == "spancat" else dataset,
            condition,
            f"{condition}_init-config:{component}",
            n_sentences=GRID_SIZES[size],
        )
        for component in components or GRID[dataset]
        for condition in ("baseline", "elmo")
    ]


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
    """config (Optional[str]): A config with fine-tuning, as it is; None for its rates in the config of the pair."""
    with_elmo = replace(pair[1], condition="elmo-finetuned")
    if config is not None:
        return [*pair, replace(with_elmo, config=config, settings=FINETUNING)]
    rates = {"@misc": "spacy-elmo.FineTuning.v1", "top_rate": 0.385, "layer_decay": 0.385}  # as in configs/
    settings = (("components.elmo.model.frozen", False), ("components.elmo.model.fine_tuning", rates))
    return [*pair, replace(with_elmo, settings=(*pair[1].settings, *settings))]


def _as_configured(run: Run) -> List[Run]:
    """configs/elmo_crf_ner.cfg as it is, and with the averages of fine-tuning."""
    return [
        replace(run, condition=f"{run.condition}-configured", settings=CONFIGURED),
        replace(run, condition=f"{run.condition}-averaged", settings=FINETUNING),
    ]


def _minilm(pair: List[Run], block: str, kind: str, schedule: Settings) -> List[Run]:
    """MiniLM in place of ELMo, frozen and fine-tuned, and the plain classifier, fine-tuned with several rates.

    block (str): The listener in the config. kind (str): What the plain classifier predicts. schedule (Settings): Its
    passes over the data, fewer over more data, and its batches.
    """
    config = pair[1].config.replace("elmo_", "minilm_")
    frozen = replace(
        pair[1],
        condition="minilm-frozen",
        config=config,
        settings=(
            ("training.frozen_components", ["transformer"]),
            ("training.annotating_components", ["transformer"]),
            (f"{block}.grad_factor", 0.0),
        ),
    )
    finetuned = replace(frozen, condition="minilm-spacy", settings=MINILM_UPDATES)
    plain = replace(frozen, config="minilm", settings=(("kind", kind), *schedule))
    rates = [_with_rate(plain, rate) for rate in MINILM_RATES]
    return [frozen, *rates, *([finetuned] if kind == "ents" else [])]


def _with_rate(plain: Run, rate: float) -> Run:
    return replace(plain, condition=f"minilm-finetuned-{rate:g}", settings=(*plain.settings, ("rate", rate)))


def _texts(dataset: str, per_category: int) -> List[Run]:
    """A text classifier on n-grams, alone and beside floret vectors and ELMo; and MiniLM, frozen and fine-tuned."""
    run = Run(dataset, dataset, "baseline", "baseline_textcat.cfg", "textcat", None, TEXTS, per_category=per_category)
    gamma = "components.textcat.model.tok2vec.initial_gamma"
    elmo = [
        replace(run, condition=f"elmo-gamma-{value:g}", config="elmo_textcat.cfg", settings=(*TEXTS, (gamma, value)))
        for value in GAMMAS
    ]
    finetuned = _finetuned([run, elmo[-1]])[-1]
    plain = replace(run, condition="minilm-frozen", config="minilm", settings=(("kind", "cats"), ("frozen", True)))
    minilm = [_with_rate(replace(plain, settings=(("kind", "cats"),)), rate) for rate in MINILM_RATES]
    return [run, replace(run, condition="floret", source="floret"), *elmo, finetuned, plain, *minilm]


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
EWT_TAGS = _pair("ewt-tags", "ud_en_ewt", "tagger_morphologizer")
# An update of fine-tuning on Docs of EWT takes a second: 1,000, with averages, as in configs/elmo_ner_finetune.cfg.
EWT_TAGS_FINETUNED = replace(_finetuned(EWT_TAGS)[-1], settings=(*_finetuned(EWT_TAGS)[-1].settings, *FINETUNING))
WNUT17_CRF = _finetuned(_pair("wnut17-crf", "wnut17", "crf_ner"), config="elmo_ner_finetune.cfg")
WIKIGOLD_CRF = _finetuned(_pair("wikigold-crf", "wikigold", "crf_ner"), config="elmo_ner_finetune.cfg")
NCBI_CRF = _pair("ncbi-disease-crf", "ncbi_disease", "crf_ner")
GOEMOTIONS = _bilstm_pair("goemotions", "goemotions", "init-config:textcat_multilabel", "textcat_multilabel", MACRO_F)
LISTENER = "components.ner.model.tok2vec.elmo"


def _choice(pair: List[Run], block: str, kind: str, **schedule: int) -> List[Run]:
    floret = replace(pair[0], condition="floret", source="floret")
    return [pair[0], floret, pair[1], *_minilm(pair, block, kind, tuple(schedule.items()))]


# What to choose: networks of spaCy's features, of floret vectors, of ELMo and of MiniLM. A CRF is one more setting.
CHOICE: Dict[str, List[Run]] = {
    "choice-wnut17": [*_choice(WNUT17, LISTENER, "ents", epochs=3), *WNUT17_CRF, *_as_configured(WNUT17_CRF[1])],
    "choice-wikigold": [
        *_choice(WIKIGOLD, LISTENER, "ents", epochs=12),
        *WIKIGOLD_CRF,
        *_as_configured(WIKIGOLD_CRF[1]),
    ],
    # Docs of EWT have ten sentences: with 16 in a batch, two passes are 276 updates, too few (UPOS 94.7, seed 0).
    "choice-ewt-tags": [
        *_choice(EWT_TAGS, "components.tok2vec.model.elmo", "pos", epochs=4, batch=4),
        EWT_TAGS_FINETUNED,
    ],
    "choice-hwu64": _texts("hwu64", 10),
}
EXPERIMENTS: Dict[str, List[Run]] = {
    "sample": _pair("sample", "sample", "tagger_ner"),
    "gains-wnut17": WNUT17,
    "gains-wikigold": WIKIGOLD,
    "gains-ncbi": _pair("ncbi-disease", "ncbi_disease", "ner"),
    "gains-wnut17-crf": WNUT17_CRF[:2],
    "gains-wikigold-crf": WIKIGOLD_CRF[:2],
    "gains-ncbi-crf": NCBI_CRF,
    "gains-ewt-tags": EWT_TAGS,
    "gains-ewt-parser": _bilstm_pair("ewt-parser", "ud_en_ewt", "task_parser.cfg", "parser"),
    "gains-goemotions": GOEMOTIONS,
    "alternatives-wnut17": _alternatives(WNUT17),
    "alternatives-ewt-tags": _alternatives(EWT_TAGS),
    "finetuned-wnut17-crf": WNUT17_CRF,
    "finetuned-wikigold-crf": WIKIGOLD_CRF,
    "finetuned-ncbi-crf": _finetuned(NCBI_CRF),
    "finetuned-ewt-tags": [*EWT_TAGS, EWT_TAGS_FINETUNED],
    "finetuned-goemotions": _finetuned(GOEMOTIONS),
    **CHOICE,
    "choice": [run for runs in CHOICE.values() for run in runs],
    **{f"language-{dataset}": _language(dataset, lang) for dataset, lang in LANGUAGES.items()},
    "mixes": _mixes(),
    "placements": _placements(),
    "shares-wnut17": [replace(run, share=share) for share in SHARES for run in WNUT17],
    "shares-ewt-tags": [replace(run, share=share) for share in SHARES for run in EWT_TAGS],
    **{
        f"grid-{size}": [run for dataset in GRID if dataset not in TREEBANKS for run in find_grid(dataset, size)]
        for size in GRID_SIZES
    },
    **{f"grid-{name}": [run for size in GRID_SIZES for run in find_grid(name, size)] for name in TREEBANKS},
}
# The table that each run was first made for: the name of its file of results.
TABLE_OF = {run.name(""): name.partition("-")[0] for name, runs in reversed(EXPERIMENTS.items()) for run in runs}
