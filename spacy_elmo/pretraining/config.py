"""The settings of a pretraining run."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Dict, List, Mapping

from ..bilm.config import BiLMConfig
from ..errors import Errors

SOFTMAXES = ("sampled", "full")
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class PretrainConfig:
    """How to train: text layout, objective, optimiser, reports.

    seed (int): Of weights, samples and dropout.
    batch_size (int): B, lanes of text read side by side.
    unroll_steps (int): S, tokens per lane between two updates; gradients are cut there, the state is carried.
    block_sentences (int): Consecutive sentences a lane reads before it takes the next block of the corpus.
    reset_blocks (bool): Start each block from a zero state, so that the model also learns to begin.
    max_tokens (int): Predictions per direction to train on; the corpus is repeated if it is shorter.
    softmax (str): "sampled" or "full".
    n_negatives (int): Distinct negatives to expect per update, for "sampled".
    dropout (float): Share of each LSTM input, and of the last output, that is dropped.
    learn_rate (float): Peak of Adam's learning rate.
    warmup_steps (int): Updates of linear warm-up; afterwards the rate falls linearly to zero at `max_tokens`.
    grad_clip (float): Largest global norm of the gradient.
    precision (str): Of the matrix products, "float32" or "bfloat16"; weights, states and sums are float32.
    eval_every (int): Updates between two validations and checkpoints.
    eval_sentences (int): Sentences of the held-out text that a validation reads.
    """

    seed: int = 0
    batch_size: int = 64
    unroll_steps: int = 32
    block_sentences: int = 8
    reset_blocks: bool = True
    max_tokens: int = 20_000_000
    softmax: str = "sampled"
    n_negatives: int = 2048
    dropout: float = 0.0
    learn_rate: float = 0.002
    warmup_steps: int = 500
    grad_clip: float = 1.0
    precision: str = "float32"
    eval_every: int = 1000
    eval_sentences: int = 1000

    def __post_init__(self) -> None:
        problems = self._problems()
        if problems:
            raise ValueError(Errors.EL100.format(problems="; ".join(problems)))

    def to_dict(self) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): Plain JSON types, the inverse of `from_dict`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "PretrainConfig":
        """record (Mapping[str, Any]): Settings left out get their default.
        RAISES (ValueError): EL001 for unknown settings, EL100 for impossible values.
        """
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(record) - set(known))
        if unknown:
            raise ValueError(
                Errors.EL001.format(block="[pretraining]", unknown=", ".join(unknown), known=", ".join(known))
            )
        return cls(**record)

    def _problems(self) -> List[str]:
        positive = ("batch_size", "unroll_steps", "block_sentences", "max_tokens", "n_negatives", "eval_every")
        checks = [(getattr(self, name) >= 1, f"{name} should be 1 or more") for name in positive]
        checks += [
            (self.softmax in SOFTMAXES, f"softmax should be one of {SOFTMAXES}"),
            (self.precision in PRECISIONS, f"precision should be one of {PRECISIONS}"),
            (0.0 <= self.dropout < 1.0, "dropout should be from 0 to below 1"),
            (self.learn_rate > 0, "learn_rate should be above 0"),
            (self.grad_clip > 0, "grad_clip should be above 0"),
            (self.warmup_steps >= 0, "warmup_steps should be 0 or more"),
            (self.eval_sentences >= 1, "eval_sentences should be 1 or more"),
        ]
        return [text for is_fine, text in checks if not is_fine]


def default_bilm_config() -> BiLMConfig:
    """RETURNS (BiLMConfig): A small biLM that trains on a CPU in hours."""
    return BiLMConfig.from_dict(
        {
            "char_cnn": {"filters": [[1, 32], [2, 64], [3, 160], [4, 256], [5, 256], [6, 256]], "n_highway": 1},
            "cell_width": 640,
            "projection_width": 128,
        }
    )
