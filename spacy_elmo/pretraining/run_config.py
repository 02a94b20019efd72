"""The config of a run (`elmo pretrain`): a class for each block, settings that depend on the text, starter configs."""

import math
import re
from dataclasses import asdict, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Dict, List, Literal, Mapping, Optional, Tuple

import srsly
from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass
from thinc.api import Config

from ..bilm.config import BiLMConfig
from ..corpora.shards import find_shards, read_shards
from ..errors import Errors
from ..files import find_configs
from ..settings import (
    KNOWN_NAMES,
    Count,
    Factor,
    Flag,
    NotNegative,
    Positive,
    Probability,
    Share,
    TrainingPrecision,
    Whole,
    WholeNumber,
    read_block,
    require,
)

# Up to this size the full softmax of a small biLM costs little more than 2,048 negatives, and its losses are exact.
FULL_SOFTMAX_WORDS = 10_000


@dataclass(frozen=True, config=KNOWN_NAMES)
class SoftmaxConfig:
    """The softmax and its loss.

    kind (str): "sampled" (log-uniform negatives), "full", "adaptive" (clusters by frequency, Grave et al. 2017), or
        "auto": full for a small vocabulary, sampled for a larger one, see `fit_to_corpus`.
    n_negatives (int): Expected number of distinct negatives per update, shared by the batch, for "sampled".
    tie_weights (bool): The softmax shares its rows with the word embedding; for word input only.
    cutoffs (Tuple[int, ...]): First word of each tail cluster, ascending, for "adaptive".
    div_value (float): Each cluster is narrower than the one before by this factor, for "adaptive".
    """

    kind: Literal["auto", "sampled", "full", "adaptive"] = "auto"
    n_negatives: Count = 2048
    tie_weights: Flag = False
    cutoffs: Tuple[Count, ...] = (2000, 10000)
    div_value: Factor = 4.0

    def __post_init__(self) -> None:
        is_ascending = all(first < second for first, second in pairwise(self.cutoffs))
        require(
            (is_ascending, f"cutoffs is {list(self.cutoffs)}, should be ascending numbers of words"),
            (self.kind != "adaptive" or not self.tie_weights, "tie_weights should be false with kind 'adaptive'"),
        )


@dataclass(frozen=True, config=KNOWN_NAMES)
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
    layer_decay (float): Learning rate of every layer below the top, divided by the rate of the layer above it, above 0
        to 1. Howard & Ruder (2018) use 1/2.6.
    unfreeze_tokens (int): Gradual unfreezing: tokens after which one more layer, from the top, is trained; 0 trains all
        layers from the start.
    """

    name: Literal["adagrad", "adam", "adamw"] = "adam"
    learn_rate: Positive = 0.002
    initial_accumulator: NotNegative = 1.0
    beta1: Probability = 0.9
    beta2: Probability = 0.999
    eps: NotNegative = 1e-8
    weight_decay: NotNegative = 0.0
    grad_clip: Positive = 1.0
    sparse: Flag = False
    layer_decay: Share = 1.0
    unfreeze_tokens: WholeNumber = 0

    def __post_init__(self) -> None:
        require(
            (self.name == "adamw" or not self.weight_decay, "weight_decay should be 0 unless name is 'adamw'"),
            (self.name != "adamw" or not self.sparse, "sparse should be false with name 'adamw'"),
        )


@dataclass(frozen=True, config=KNOWN_NAMES)
class ScheduleConfig:
    """The learning rate schedule, as a factor of the peak rate.

    name (str): "constant", "linear" and "cosine" (to zero at `max_tokens`), "inverse_sqrt", or "slanted_triangular"
        (Howard & Ruder 2018).
    warmup_steps (Optional[int]): Updates of linear warm-up, for all but "slanted_triangular"; None: `warmup_share`.
    warmup_share (float): Warm-up as a share of the updates of the run.
    cut_frac (float): Share of the run in which the rate rises, for "slanted_triangular".
    ratio (float): Peak over the lowest rate, for "slanted_triangular".
    """

    name: Literal["constant", "linear", "cosine", "inverse_sqrt", "slanted_triangular"] = "linear"
    warmup_steps: Optional[WholeNumber] = None
    warmup_share: Probability = 0.05
    cut_frac: Annotated[Probability, Field(gt=0)] = 0.1
    ratio: Factor = 32.0


@dataclass(frozen=True, config=KNOWN_NAMES)
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

    seed: Whole = 0
    batch_size: Count = 64
    unroll_steps: Count = 32
    accumulate: Count = 1
    block_sentences: Count = 8
    reset_blocks: Flag = True
    shuffle_blocks: WholeNumber = 0
    max_sentence_tokens: Count = 1000
    max_tokens: WholeNumber = 20_000_000
    max_passes: NotNegative = 0.0
    dropout: Probability = 0.0
    output_dropout: Optional[Probability] = None
    recurrent_dropout: Probability = 0.0
    precision: TrainingPrecision = "auto"
    scale_loss: Flag = False
    report_every: Count = 20
    eval_every: Count = 1000
    eval_sentences: Count = 1000
    patience: WholeNumber = 0
    checkpoint_every: WholeNumber = 0
    keep_checkpoints: Count = 2
    softmax: SoftmaxConfig = SoftmaxConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()

    def __post_init__(self) -> None:
        is_limited = self.max_tokens != 0 or self.max_passes != 0
        # The shared embedding would be unfrozen last, with the words; until then only the softmax bias would train.
        is_frozen_head = self.softmax.tie_weights and self.optimizer.unfreeze_tokens > 0
        require(
            (is_limited, "max_tokens and max_passes are 0, one of them should be above 0"),
            (not is_frozen_head, "optimizer.unfreeze_tokens should be 0 with softmax.tie_weights"),
        )

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
        """RETURNS (Dict[str, Any]): Plain JSON types."""
        record = asdict(self)
        record["softmax"]["cutoffs"] = list(self.softmax.cutoffs)
        return record


@dataclass(frozen=True, config=KNOWN_NAMES)
class BiLMBlock(BiLMConfig):
    """The sizes of a new biLM. Without `char_cnn` its input is words, as many as the vocabulary has, which is counted
    after the config is read: only `with_words` gives a complete config.
    """

    def with_words(self, n_words: int) -> BiLMConfig:
        """n_words (int): Size of the vocabulary; not used for character input."""
        record = self.to_dict()
        return BiLMConfig.from_dict(record if self.char_cnn is not None else {**record, "n_words": n_words})

    def _check_input(self) -> Tuple[bool, str]:
        is_fine = self.token_embedder is None and (self.char_cnn is None or self.n_words is None)
        return is_fine, "char_cnn should be set, or for word input neither char_cnn nor token_embedder"


# "" and empty lists and blocks stand for null.
EmptyAsNone = BeforeValidator(lambda value: value or None)
Places = Annotated[
    Optional[List[str]], BeforeValidator(lambda value: [value] if isinstance(value, str) else value), EmptyAsNone
]


@dataclass(frozen=True, config=KNOWN_NAMES)
class PathsConfig:
    """Paths of texts, vocabulary and weights.

    train (Union[str, List[str], None]), valid (Union[str, List[str], None]): One place or several, see `find_shards`.
    vocab (Optional[str]): A vocabulary file; None counts the words of the training text.
    init (Optional[str]): A biLM to continue training; None starts from random weights.
    cache (Optional[str]): Folder of tokenized training texts, which several runs can share; None: the run's.
    """

    train: Places = None
    valid: Places = None
    vocab: Optional[str] = None
    init: Optional[str] = None
    cache: Optional[str] = None


@dataclass(frozen=True, config=KNOWN_NAMES)
class CorpusConfig:
    """How texts are read, see `find_shards`.

    format (str): Format of all files; "auto" infers it from the first bytes, then the suffix.
    lang (Optional[str]): Language of the tokenizer; None: tokens are separated by white space.
    running_text (bool): Split texts into sentences.
    """

    format: str = "auto"
    lang: Optional[str] = None
    running_text: Flag = False


@dataclass(frozen=True, config=KNOWN_NAMES)
class WordsConfig:
    """The vocabulary of the softmax.

    n_words (Optional[int]): Number of most frequent words; None for all.
    min_count (int): Minimum count of a word; rarer words are left out.
    new_head (bool): Train a new softmax even if the biLM in `init` has one. In a full or sampled one, words of both
        keep their weights.
    """

    n_words: Optional[Count] = 30000
    min_count: Count = 2
    new_head: Flag = False


@dataclass(frozen=True, config=KNOWN_NAMES)
class RunConfig:
    """All blocks.

    bilm (Optional[BiLMBlock]): None for the biLM in `paths.init`.
    meta (Dict[str, Any]): Saved with the model.
    """

    paths: PathsConfig = PathsConfig()
    corpus: CorpusConfig = CorpusConfig()
    vocabulary: WordsConfig = WordsConfig()
    bilm: Annotated[Optional[BiLMBlock], EmptyAsNone] = None
    pretraining: PretrainConfig = PretrainConfig()
    meta: Dict[str, Any] = field(default_factory=dict)


def read_run_config(path: Path, overrides: Mapping[str, Any]) -> Config:
    """Read a .cfg file, interpolated; `overrides` has values by dotted name of the setting."""
    config = Config().from_str(path.read_text(encoding="utf-8-sig"), interpolate=False)
    for name, value in overrides.items():
        block, (*outer, last) = config, name.split(".")
        for key in outer:
            block[key] = block[key] if isinstance(block.get(key), dict) else {}
            block = block[key]
        block[last] = value
    return config.interpolate()


def check_config(config: Mapping[str, Any]) -> RunConfig:
    """Convert blocks of plain values to settings with their types; blocks that are left out get their defaults.

    RAISES (ValueError): EL001 for unknown settings, for invalid values.
    """
    return read_block(RunConfig, dict(config), "config")


# The packaged configs, adapted to a run

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


def measure_text(place: str) -> float:
    """place (str): See `find_shards`.
    RETURNS (float): Size of its text in MB of UTF-8, uncompressed; once above `SMALL_TEXT_MB`, no more of it is read.
    RAISES (ValueError): EL101 for no text.
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
    text = _read_recipe(SMALL if is_small else PRETRAINING, config_path, name=f"{lang}_elmo")
    if not is_small:
        text = TEMPLATE_HEADER + text[text.index("# python -m spacy") :]
        for block, key, value in FOR_ANY_TEXT:
            text = set_value(text, block, key, value)
    for key, name in (("name", f"{lang}_elmo"), ("lang", lang), ("license", None)):
        text = set_value(text, "meta", key, name)
    return set_value(text, "corpus", "lang", tokenizer)


def make_adaptation_config(
    *, lang: Optional[str], tokenizer: Optional[str], bilm: Optional[str], config_path: str
) -> str:
    """A config that continues the training of a biLM, see `make_pretraining_config`.

    lang (Optional[str]): None for the language of the biLM, whichever is given for training.
    bilm (Optional[str]): The biLM to continue; None if it will be given for training.
    """
    text = _read_recipe(ADAPTATION, config_path, name="adapted", more="" if bilm else " --paths.init BILM")
    for block, key, value in (("paths", "init", bilm), ("corpus", "lang", tokenizer), ("meta", "lang", lang)):
        text = set_value(text, block, key, value)
    return text


def set_value(text: str, block: str, key: str, value: Any) -> str:
    """Set an existing setting of a config to a value of a type that JSON has, and keep the comments."""
    start = text.index(f"\n[{block}]\n")
    line = re.compile(rf"^{key} = .*$", flags=re.MULTILINE)
    return text[:start] + line.sub(lambda _: f"{key} = {srsly.json_dumps(value)}", text[start:], count=1)


def _read_recipe(file_name: str, config_path: str, *, name: str, more: str = "") -> str:
    """RETURNS (str): A config of the repository; the command in its header has these paths, and `more` at its end."""
    text = (find_configs() / file_name).read_text(encoding="utf8")
    text = re.sub(r"corpus/(train|valid)\S*\.gz\b", r"\1.txt", text)
    text = text.replace("domain/train.spacy", "train.txt").replace("domain/dev.spacy", "valid.txt")
    command = re.compile(r"pretrain configs/\S+ runs/\S+( --paths.*)?")
    return command.sub(lambda match: f"pretrain {config_path} runs/{name}{match[1] or ''}{more}", text)
