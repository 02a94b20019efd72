"""Settings of an ELMo model, validated on construction."""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Protocol

from .._choices import CONTEXTS, DTYPES, PRECISIONS, STATES
from .._settings import find_texts
from ..bilm.config import BiLMConfig
from ..errors import Errors
from .fine_tuning import FineTuning


class ReadingSettings(Protocol):
    """How Docs are cut into the sequences that a biLM reads."""

    @property
    def contexts(self) -> str:
        """RETURNS (str): "sentences", "doc" or "auto"."""

    @property
    def state(self) -> str:
        """RETURNS (str): "reset", "steady" or "carry"."""

    @property
    def max_tokens(self) -> int:
        """RETURNS (int): Length of a window."""

    @property
    def overlap(self) -> int:
        """RETURNS (int): Tokens that neighbouring windows share."""


def find_reading_problems(settings: ReadingSettings) -> List[str]:
    """RETURNS (List[str]): A description of each invalid setting."""
    texts = find_texts(max_tokens=settings.max_tokens, overlap=settings.overlap)
    if texts:
        return texts
    checks = [
        (settings.contexts in CONTEXTS, f"contexts is '{settings.contexts}', should be one of {CONTEXTS}"),
        (settings.state in STATES, f"state is '{settings.state}', should be one of {STATES}"),
        (settings.max_tokens >= 1, f"max_tokens is {settings.max_tokens}, should be 1 or more"),
        (
            0 <= 2 * settings.overlap < settings.max_tokens,
            f"overlap is {settings.overlap}, should be 0 or more, and below half of max_tokens ({settings.max_tokens})",
        ),
    ]
    return [text for is_fine, text in checks if not is_fine]


@dataclass(frozen=True)
class ElmoSettings:
    """The settings of an ELMo model. They are stored in the config, not with the weights. `ElmoModel` has the defaults.

    bilm (Optional[Dict[str, Any]]): Required sizes of the weights (see `BiLMConfig`), None to accept any.
    frozen (bool): Do not train the biLM.
    precision (str): "float32", "bfloat16", "float16" or "int8".
    contexts (str): Input sequences: "sentences", "doc", or "auto" (sentences if boundaries are set).
    state (str): Recurrent state at the start of a sequence: "reset", "steady" or "carry".
    max_tokens (int): Longer sequences are split into windows of this many tokens.
    overlap (int): Tokens that two neighbouring windows share.
    batch_tokens (int): Tokens computed at once; bounds the working memory.
    word_cache_mb (float): Maximum size of the cache of word vectors in megabytes.
    layer_cache_mb (float): Maximum size on disk of the cache of layers of training Docs in megabytes.
    layer_cache_dtype (str): Precision of these layers, "float32" or "float16".
    fine_tuning (Optional[FineTuning]): How a biLM that is not frozen is trained, None for all layers alike.
    """

    bilm: Optional[Dict[str, Any]]
    frozen: bool
    precision: str
    contexts: str
    state: str
    max_tokens: int
    overlap: int
    batch_tokens: int
    word_cache_mb: float
    layer_cache_mb: float
    layer_cache_dtype: str
    fine_tuning: Optional[FineTuning]

    def __post_init__(self) -> None:
        if self.bilm is not None:
            BiLMConfig.from_dict(self.bilm)  # validates the sizes before weights are loaded
        problems = self._problems()
        if problems:
            raise ValueError(Errors.EL060.format(block="ELMo model", problems="; ".join(problems)))

    def _problems(self) -> List[str]:
        sizes = ("batch_tokens", "word_cache_mb", "layer_cache_mb")
        texts = find_texts(**{name: getattr(self, name) for name in sizes})
        if texts:
            return texts
        checks = [
            (self.precision in PRECISIONS, f"precision is '{self.precision}', should be one of {PRECISIONS}"),
            (self.batch_tokens >= 1, f"batch_tokens is {self.batch_tokens}, should be 1 or more"),
            (self.word_cache_mb >= 0, f"word_cache_mb is {self.word_cache_mb}, should be 0 or more"),
            (self.layer_cache_mb >= 0, f"layer_cache_mb is {self.layer_cache_mb}, should be 0 or more"),
            (
                self.layer_cache_dtype in DTYPES,
                f"layer_cache_dtype is '{self.layer_cache_dtype}', should be one of {DTYPES}",
            ),
            (
                self.frozen or self.state == "reset",
                f"state is '{self.state}', should be 'reset' while the biLM is trained (frozen = false)",
            ),
            (
                self.frozen or self.precision == "float32",
                f"precision is '{self.precision}', should be 'float32' while the biLM is trained (frozen = false)",
            ),
            (
                self.fine_tuning is None or isinstance(self.fine_tuning, FineTuning),
                f'fine_tuning is {self.fine_tuning!r}, should be a block with @misc = "spacy-elmo.FineTuning.v1"',
            ),
            (
                self.fine_tuning is None or not self.frozen,
                "fine_tuning says how the biLM is trained, but frozen is true, should be false; or fine_tuning null",
            ),
        ]
        problems = [text for is_fine, text in checks if not is_fine]
        return [*find_reading_problems(self), *problems]
