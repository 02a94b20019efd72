"""The config of a run (`elmo pretrain`), one class per block, and the settings that depend on the corpus."""

import math
import re
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple, Type, Union

from thinc.api import Config

from ..bilm.config import BiLMConfig
from ..util import TRAINING_PRECISIONS as PRECISIONS
from ..util import fit_types, refuse_unknown

SOFTMAXES = ("auto", "sampled", "full", "adaptive")
OPTIMIZERS = ("adagrad", "adam", "adamw")
SCHEDULES = ("constant", "linear", "cosine", "inverse_sqrt", "slanted_triangular")
LIMITS = ("max_tokens", "max_passes")
# Up to this size the full softmax of a small biLM costs little more than 2,048 negatives, and its losses are exact.
FULL_SOFTMAX_WORDS = 10_000
NAME = "the config"  # in errors
Check = Tuple[bool, str]


@dataclass(frozen=True)
class SoftmaxConfig:
    """The softmax and its loss.

    kind (str): "sampled" (log-uniform negatives), "full", "adaptive" (clusters by frequency, Grave et al. 2017), or
        "auto": full for a small vocabulary, sampled for a larger one, see `fit_to_corpus`.
    n_negatives (int): Expected number of distinct negatives per update, shared by the batch, for "sampled".
    tie_weights (bool): The softmax shares its rows with the word embedding; for word input only.
    cutoffs (Tuple[int, ...]): First word of each tail cluster, ascending, for "adaptive".
    div_value (float): Each cluster is narrower than the one before by this factor, for "adaptive".
    """

    kind: str = "auto"
    n_negatives: int = 2048
    tie_weights: bool = False
    cutoffs: Tuple[int, ...] = (2000, 10000)
    div_value: float = 4.0

    def __post_init__(self) -> None:
        ascending = list(self.cutoffs) == sorted(set(self.cutoffs)) and all(cutoff >= 1 for cutoff in self.cutoffs)
        _refuse(
            "[pretraining.softmax]",
            [
                (self.kind in SOFTMAXES, f"kind is '{self.kind}', should be one of {SOFTMAXES}"),
                (self.n_negatives >= 1, f"n_negatives is {self.n_negatives}, should be 1 or more"),
                (ascending, f"cutoffs is {list(self.cutoffs)}, should be ascending numbers of words"),
                (self.div_value >= 1, f"div_value is {self.div_value}, should be 1 or more"),
                (self.kind != "adaptive" or not self.tie_weights, "tie_weights should be false with kind 'adaptive'"),
            ],
        )


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer.

    name (str): "adagrad" (bilm-tf), "adam" or "adamw".
    learn_rate (float): Peak; the schedule multiplies it.
    initial_accumulator (float): Initial value of Adagrad's sums of squares.
    init_accumulators (bool): Take over Adagrad's sums of squares from the TensorFlow checkpoint that training starts
        from.
    beta1 (float), beta2 (float), eps (float): Hyperparameters of Adam.
    weight_decay (float): Decoupled weight decay, for "adamw".
    grad_clip (float): Maximum global norm of the gradient.
    sparse (bool): Sparse gradients: an update changes only the rows of softmax and word embedding that it uses.
        Identical results with Adagrad; with Adam the moments of the other rows do not decay.
    discriminative (float): Each layer has the learning rate of the layer above divided by this (Howard & Ruder 2018).
    unfreeze_tokens (int): Gradual unfreezing: tokens after which one more layer, from the top, is trained; 0 trains all
        layers from the start.
    """

    name: str = "adam"
    learn_rate: float = 0.002
    initial_accumulator: float = 1.0
    init_accumulators: bool = False
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    grad_clip: float = 1.0
    sparse: bool = False
    discriminative: float = 1.0
    unfreeze_tokens: int = 0

    def __post_init__(self) -> None:
        positive = ("learn_rate", "grad_clip")
        not_negative = ("initial_accumulator", "eps", "weight_decay", "unfreeze_tokens")
        checks = [_above(self, name, 0) for name in positive] + [_at_least(self, name, 0) for name in not_negative]
        checks += [
            (self.name in OPTIMIZERS, f"name is '{self.name}', should be one of {OPTIMIZERS}"),
            (self.discriminative >= 1, f"discriminative is {self.discriminative}, should be 1 or more"),
            *((0 <= getattr(self, beta) < 1, f"{beta} should be from 0 to below 1") for beta in ("beta1", "beta2")),
            (self.name == "adamw" or not self.weight_decay, "weight_decay should be 0 unless name is 'adamw'"),
            (self.name != "adamw" or not self.sparse, "sparse should be false with name 'adamw'"),
            (self.name == "adagrad" or not self.init_accumulators, "init_accumulators needs name 'adagrad'"),
        ]
        _refuse("[pretraining.optimizer]", checks)


@dataclass(frozen=True)
class ScheduleConfig:
    """The learning rate schedule, as a factor of the peak rate.

    name (str): "constant", "linear" and "cosine" (to zero at `max_tokens`), "inverse_sqrt", or "slanted_triangular"
        (Howard & Ruder 2018).
    warmup_steps (Optional[int]): Updates of linear warm-up, for all but "slanted_triangular"; None: `warmup_share`.
    warmup_share (float): Warm-up as a share of the updates of the run.
    cut_frac (float): Share of the run in which the rate rises, for "slanted_triangular".
    ratio (float): Peak over the lowest rate, for "slanted_triangular".
    """

    name: str = "linear"
    warmup_steps: Optional[int] = None
    warmup_share: float = 0.05
    cut_frac: float = 0.1
    ratio: float = 32.0

    def __post_init__(self) -> None:
        _refuse(
            "[pretraining.schedule]",
            [
                (self.name in SCHEDULES, f"name is '{self.name}', should be one of {SCHEDULES}"),
                (self.warmup_steps is None or self.warmup_steps >= 0, "warmup_steps should be 0 or more, or null"),
                (0 <= self.warmup_share < 1, f"warmup_share is {self.warmup_share}, should be from 0 to below 1"),
                (0 < self.cut_frac < 1, f"cut_frac is {self.cut_frac}, should be between 0 and 1"),
                (self.ratio >= 1, f"ratio is {self.ratio}, should be 1 or more"),
            ],
        )


BLOCKS: Dict[str, Type[Any]] = {"softmax": SoftmaxConfig, "optimizer": OptimizerConfig, "schedule": ScheduleConfig}


@dataclass(frozen=True)
class PretrainConfig:
    """Settings of the training: text layout, objective, optimizer, reports.

    seed (int): Random seed of weights, samples, shuffling and dropout.
    batch_size (int): B, lanes of text in a batch, summed over all ranks.
    unroll_steps (int): S, tokens per lane and update; backpropagation is truncated there, the state is carried.
    accumulate (int): Chunks whose gradients are averaged into one update.
    block_sentences (int): Consecutive sentences per block; each lane reads one block after the other.
    reset_blocks (bool): Start each block from a zero state, so that the model also learns to start from it.
    shuffle_blocks (int): Size of the shuffle buffer in blocks; 0 keeps the order of the corpus.
    shard_text (bool): Each rank reads its own files, every N-th one of N ranks, into its own lanes; otherwise all ranks
        read all files, and N ranks give the results of one.
    max_sentence_tokens (int): Longer sentences are split at this length.
    max_tokens (int): Predictions per direction to train on; the corpus is repeated if it is shorter. 0: no limit but
        `max_passes`.
    max_passes (float): Passes through the corpus to train on; the run ends at whichever limit comes first. 0: no limit
        but `max_tokens`.
    dropout (float): Dropout probability of each LSTM input.
    output_dropout (Optional[float]): Dropout probability of the last output; None: the same as `dropout`.
    recurrent_dropout (float): Dropout probability of the recurrent inputs, with the same mask at all steps of a chunk
        (Gal & Ghahramani 2016).
    precision (str): Precision of matrix products, "float32", "bfloat16" or "float16"; weights, states and sums are
        float32.
    scale_loss (bool): Multiply the loss by `unroll_steps` before the gradients are clipped, as in bilm-tf.
    report_every (int): Updates between two log lines.
    eval_every (int): Updates between two validations.
    eval_sentences (int): Held-out sentences per validation.
    patience (int): Validations without improvement after which the run stops; 0 for never.
    checkpoint_every (int): Updates between two checkpoints to resume from; 0: at each validation.
    keep_checkpoints (int): Number of newest checkpoints to keep.
    """

    seed: int = 0
    batch_size: int = 64
    unroll_steps: int = 32
    accumulate: int = 1
    block_sentences: int = 8
    reset_blocks: bool = True
    shuffle_blocks: int = 0
    shard_text: bool = False
    max_sentence_tokens: int = 1000
    max_tokens: int = 20_000_000
    max_passes: float = 0.0
    dropout: float = 0.0
    output_dropout: Optional[float] = None
    recurrent_dropout: float = 0.0
    precision: str = "float32"
    scale_loss: bool = False
    report_every: int = 20
    eval_every: int = 1000
    eval_sentences: int = 1000
    patience: int = 0
    checkpoint_every: int = 0
    keep_checkpoints: int = 2
    softmax: SoftmaxConfig = field(default_factory=SoftmaxConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)

    def __post_init__(self) -> None:
        layout = ("batch_size", "unroll_steps", "accumulate", "block_sentences", "max_sentence_tokens")
        reports = ("report_every", "eval_every", "eval_sentences", "keep_checkpoints")
        checks = [_at_least(self, name, 1) for name in (*layout, *reports)]
        checks += [_at_least(self, name, 0) for name in (*LIMITS, "shuffle_blocks", "patience", "checkpoint_every")]
        is_limited = self.max_tokens != 0 or self.max_passes != 0
        checks.append((is_limited, "max_tokens and max_passes are 0, one of them should be above 0"))
        checks.append((self.precision in PRECISIONS, f"precision is '{self.precision}', should be one of {PRECISIONS}"))
        for name in ("dropout", "output_dropout", "recurrent_dropout"):
            value = getattr(self, name)
            checks.append((value is None or 0.0 <= value < 1.0, f"{name} is {value}, should be from 0 to below 1"))
        # The shared embedding would be unfrozen last, with the words; until then only the softmax bias would train.
        is_frozen_head = self.softmax.tie_weights and self.optimizer.unfreeze_tokens > 0
        checks.append((not is_frozen_head, "optimizer.unfreeze_tokens should be 0 with softmax.tie_weights"))
        _refuse("[pretraining]", checks)

    @property
    def checkpoint_steps(self) -> int:
        """RETURNS (int): Updates between two checkpoints."""
        return self.checkpoint_every or self.eval_every

    @property
    def n_updates(self) -> int:
        """RETURNS (int): Number of updates for `max_tokens`."""
        return math.ceil(self.max_tokens / (self.batch_size * self.unroll_steps * self.accumulate))

    @property
    def warmup_updates(self) -> int:
        """RETURNS (int): Updates of linear warm-up, as a number or as a share of `n_updates`."""
        schedule = self.schedule
        share = schedule.warmup_share * self.n_updates
        return round(share) if schedule.warmup_steps is None else schedule.warmup_steps

    @property
    def last_dropout(self) -> float:
        """RETURNS (float): Dropout probability of the last output."""
        return self.dropout if self.output_dropout is None else self.output_dropout

    def fit_to_corpus(self, *, n_words: int, n_predictions: Optional[int]) -> "PretrainConfig":
        """Set the settings that depend on the corpus: `max_tokens` from `max_passes`, and "full" or "sampled" for the
        softmax "auto".

        n_words (int): V, words of the softmax.
        n_predictions (Optional[int]): Predictions per direction of one pass; needed with `max_passes`.
        RETURNS (PretrainConfig): The settings; `max_tokens` is the lower one of both limits.
        """
        softmax = self.softmax
        if softmax.kind == "auto":
            is_full = n_words <= FULL_SOFTMAX_WORDS and not self.optimizer.sparse
            softmax = replace(softmax, kind="full" if is_full else "sampled")
        limits = [self.max_tokens] if self.max_tokens else []
        if self.max_passes and n_predictions is not None:
            limits.append(max(1, round(self.max_passes * n_predictions)))
        return replace(self, softmax=softmax, max_tokens=min(limits))

    def to_dict(self) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): Plain JSON types, the inverse of `from_dict`."""
        record = asdict(self)
        record["softmax"]["cutoffs"] = list(self.softmax.cutoffs)
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "PretrainConfig":
        """Omitted settings have their default.

        RAISES (ValueError): EL001 for unknown settings, for invalid values.
        """
        refuse_unknown(cls, record, "[pretraining]", path="pretraining")
        settings, problems = fit_types(cls, record)
        if problems:
            raise ValueError(f"The [pretraining] block is invalid: {'; '.join(problems)}. Correct these settings.")
        for name, block in BLOCKS.items():
            if isinstance(settings.get(name), Mapping):
                settings[name] = block(**settings[name])
        return cls(**settings)


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
    new_head (bool): Train a new softmax even if the biLM in `init` has one. In a full or sampled one, words of both
        keep their weights.
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
    pretraining: PretrainConfig = field(default_factory=PretrainConfig)
    meta: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RunSettings:
    """A validated config.

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
    """Read a .cfg file, interpolated; `overrides` has values by dotted name of the setting.

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
    """Convert blocks of plain values to settings with their types; blocks that are left out get their defaults.

    RAISES (ValueError): EL001 for unknown settings, for values of a wrong type, for invalid values in [pretraining].
    """
    refuse_unknown(RunConfig, config, NAME)
    blocks, problems = fit_types(RunConfig, config)
    if problems:
        raise ValueError(
            f"The config is invalid, {len(problems)} setting(s) have a wrong type: {'; '.join(problems)}. Correct "
            "these settings."
        )
    return RunSettings(
        paths=PathsConfig(**blocks.get("paths", {})),
        corpus=CorpusConfig(**blocks.get("corpus", {})),
        words=WordsConfig(**blocks.get("vocabulary", {})),
        pretraining=PretrainConfig.from_dict(blocks.get("pretraining", {})),
        bilm=dict(blocks.get("bilm") or {}),
        meta=dict(blocks.get("meta", {})),
    )


def _refuse(block: str, checks: List[Check]) -> None:
    problems = [text for is_fine, text in checks if not is_fine]
    if problems:
        raise ValueError(f"The {block} block is invalid: {'; '.join(problems)}. Correct these settings.")


def _at_least(settings: Any, name: str, lowest: int) -> Check:
    value = getattr(settings, name)
    return value >= lowest, f"{name} is {value}, should be {lowest} or more"


def _above(settings: Any, name: str, lowest: int) -> Check:
    value = getattr(settings, name)
    return value > lowest, f"{name} is {value}, should be above {lowest}"
