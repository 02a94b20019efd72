"""The config of a run (`elmo pretrain`): a class for each block, settings that depend on the text, starter configs."""

import math
import re
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from operator import lt
from pathlib import Path
from typing import Annotated, Any, Dict, List, Mapping, Optional, Sequence, Tuple, Type, Union

import srsly
from thinc.api import Config

from ..bilm.config import BiLMConfig
from ..corpora.shards import find_shards, read_shards
from ..errors import Errors
from ..util import (
    ABOVE_0,
    AT_LEAST_0,
    AT_LEAST_1,
    BELOW_1,
    Allowed,
    find_not_allowed,
    fit_types,
    one_of,
    refuse_settings,
    refuse_unknown,
)
from ..util import TRAINING_PRECISIONS as PRECISIONS

SOFTMAXES = ("auto", "sampled", "full", "adaptive")
OPTIMIZERS = ("adagrad", "adam", "adamw")
SCHEDULES = ("constant", "linear", "cosine", "inverse_sqrt", "slanted_triangular")
# Up to this size the full softmax of a small biLM costs little more than 2,048 negatives, and its losses are exact.
FULL_SOFTMAX_WORDS = 10_000
NAME = "the config"  # in errors
ASCENDING = Allowed("ascending numbers of words", lambda value: all(map(lt, (0, *value), value)))


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

    kind: Annotated[str, one_of(SOFTMAXES)] = "auto"
    n_negatives: Annotated[int, AT_LEAST_1] = 2048
    tie_weights: bool = False
    cutoffs: Annotated[Tuple[int, ...], ASCENDING] = (2000, 10000)
    div_value: Annotated[float, AT_LEAST_1] = 4.0

    def __post_init__(self) -> None:
        is_fine = self.kind != "adaptive" or not self.tie_weights
        _check(self, "[pretraining.softmax]", [(is_fine, "tie_weights should be false with kind 'adaptive'")])


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer.

    name (str): "adagrad" (bilm-tf), "adam" or "adamw".
    learn_rate (float): Peak; the schedule multiplies it.
    initial_accumulator (float): Initial value of Adagrad's sums of squares.
    beta1 (float), beta2 (float), eps (float): Hyperparameters of Adam.
    weight_decay (float): Decoupled weight decay, for "adamw".
    grad_clip (float): Maximum global norm of the gradient.
    sparse (bool): Sparse gradients: an update changes only the rows of softmax and word embedding that it uses.
        Identical results with Adagrad; with Adam the moments of the other rows do not decay.
    layer_decay (float): Learning rate of every layer below the top, as a factor of that of the layer above it, above 0
        to 1. Howard & Ruder (2018) use 1/2.6.
    unfreeze_tokens (int): Gradual unfreezing: tokens after which one more layer, from the top, is trained; 0 trains all
        layers from the start.
    """

    name: Annotated[str, one_of(OPTIMIZERS)] = "adam"
    learn_rate: Annotated[float, ABOVE_0] = 0.002
    initial_accumulator: Annotated[float, AT_LEAST_0] = 1.0
    beta1: Annotated[float, BELOW_1] = 0.9
    beta2: Annotated[float, BELOW_1] = 0.999
    eps: Annotated[float, AT_LEAST_0] = 1e-8
    weight_decay: Annotated[float, AT_LEAST_0] = 0.0
    grad_clip: Annotated[float, ABOVE_0] = 1.0
    sparse: bool = False
    layer_decay: Annotated[float, Allowed("above 0 to 1", lambda value: 0 < value <= 1)] = 1.0
    unfreeze_tokens: Annotated[int, AT_LEAST_0] = 0

    def __post_init__(self) -> None:
        checks = [
            (self.name == "adamw" or not self.weight_decay, "weight_decay should be 0 unless name is 'adamw'"),
            (self.name != "adamw" or not self.sparse, "sparse should be false with name 'adamw'"),
        ]
        _check(self, "[pretraining.optimizer]", checks)


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

    name: Annotated[str, one_of(SCHEDULES)] = "linear"
    warmup_steps: Annotated[Optional[int], AT_LEAST_0] = None
    warmup_share: Annotated[float, BELOW_1] = 0.05
    cut_frac: Annotated[float, Allowed("between 0 and 1", lambda value: 0 < value < 1)] = 0.1
    ratio: Annotated[float, AT_LEAST_1] = 32.0

    def __post_init__(self) -> None:
        _check(self, "[pretraining.schedule]")


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
        float32. "auto": bfloat16 if the processors or GPUs of all ranks have instructions for it, else float32.
    scale_loss (bool): Multiply the loss by `unroll_steps` before the gradients are clipped, as in bilm-tf.
    report_every (int): Updates between two log lines.
    eval_every (int): Updates between two validations.
    eval_sentences (int): Held-out sentences per validation.
    patience (int): Validations without improvement after which the run stops; 0 for never.
    checkpoint_every (int): Updates between two checkpoints to resume from; 0: at each validation.
    keep_checkpoints (int): Number of newest checkpoints to keep.
    """

    seed: int = 0
    batch_size: Annotated[int, AT_LEAST_1] = 64
    unroll_steps: Annotated[int, AT_LEAST_1] = 32
    accumulate: Annotated[int, AT_LEAST_1] = 1
    block_sentences: Annotated[int, AT_LEAST_1] = 8
    reset_blocks: bool = True
    shuffle_blocks: Annotated[int, AT_LEAST_0] = 0
    max_sentence_tokens: Annotated[int, AT_LEAST_1] = 1000
    max_tokens: Annotated[int, AT_LEAST_0] = 20_000_000
    max_passes: Annotated[float, AT_LEAST_0] = 0.0
    dropout: Annotated[float, BELOW_1] = 0.0
    output_dropout: Annotated[Optional[float], BELOW_1] = None
    recurrent_dropout: Annotated[float, BELOW_1] = 0.0
    precision: Annotated[str, one_of(PRECISIONS)] = "auto"
    scale_loss: bool = False
    report_every: Annotated[int, AT_LEAST_1] = 20
    eval_every: Annotated[int, AT_LEAST_1] = 1000
    eval_sentences: Annotated[int, AT_LEAST_1] = 1000
    patience: Annotated[int, AT_LEAST_0] = 0
    checkpoint_every: Annotated[int, AT_LEAST_0] = 0
    keep_checkpoints: Annotated[int, AT_LEAST_1] = 2
    softmax: SoftmaxConfig = field(default_factory=SoftmaxConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)

    def __post_init__(self) -> None:
        is_limited = self.max_tokens != 0 or self.max_passes != 0
        # The shared embedding would be unfrozen last, with the words; until then only the softmax bias would train.
        is_frozen_head = self.softmax.tie_weights and self.optimizer.unfreeze_tokens > 0
        checks = [
            (is_limited, "max_tokens and max_passes are 0, one of them should be above 0"),
            (not is_frozen_head, "optimizer.unfreeze_tokens should be 0 with softmax.tie_weights"),
        ]
        _check(self, "[pretraining]", checks)

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
        refuse_settings("[pretraining] block", problems)
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
    cache (Optional[str]): Folder of tokenized training texts, which several runs can share; None: in that of the run.
    """

    train: Union[str, List[str], None] = None
    valid: Union[str, List[str], None] = None
    vocab: Optional[str] = None
    init: Optional[str] = None
    cache: Optional[str] = None


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


def _check(settings: Any, block: str, checks: Sequence[Tuple[bool, str]] = ()) -> None:
    """RAISES (ValueError): For values that are not allowed, and for checks that are not fine."""
    problems = find_not_allowed(settings) + [text for is_fine, text in checks if not is_fine]
    refuse_settings(f"{block} block", problems)


# The packaged configs, adapted to a run

# An installed package contains the configs; in a checkout they are in the root of the repository.
PACKAGE = Path(__file__).parent.parent
PRETRAINING = "pretrain_en_elmo_sm.cfg"
SMALL = "pretrain_small_text.cfg"
ADAPTATION = "adapt.cfg"
# The largest text for SMALL, see docs/pretraining.md.
SMALL_TEXT_MB = 10
# The header of PRETRAINING states the results of one text.
TEMPLATE_HEADER = """\
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
        text = TEMPLATE_HEADER + text[text.index("# python -m spacy") :]
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
