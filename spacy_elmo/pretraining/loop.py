"""The training loop: chunks of lanes, one update each, a report at intervals."""

import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import ContextManager, Iterable, Iterator, List, Optional, Sequence

import torch
from torch import Tensor, nn

from ..bilm.lm_head import SoftmaxHead
from ..bilm.model import BiLMNetwork
from ..encoding.perplexity import run_chunk
from ..errors import Errors
from ..text.sentence_lanes import Chunk, SentenceLanes
from ..text.vocabulary import Vocabulary
from ..text.word_table import WordTable
from .config import PretrainConfig
from .objective import SampledSoftmax


@dataclass(frozen=True)
class Progress:
    """Where a run stands after an update.

    step (int): Updates done.
    n_tokens (int): Predictions per direction trained on.
    loss (float): Mean training loss since the last report, in nats, both directions.
    elapsed_s (float): Seconds since the start.
    learn_rate (float): Of this update.
    """

    step: int
    n_tokens: int
    loss: float
    elapsed_s: float
    learn_rate: float


def train(
    network: BiLMNetwork,
    head: SoftmaxHead,
    vocabulary: Vocabulary,
    sentences: Iterable[Sequence[str]],
    config: PretrainConfig,
    *,
    checkpoint: Path,
    report_every: int = 20,
) -> Iterator[Progress]:
    """Train in place: truncated back-propagation through time with carried state (Peters et al. 2018).

    network (BiLMNetwork), head (SoftmaxHead): Changed at each step.
    sentences (Iterable[Sequence[str]]): The text, endless or not; training also ends where it ends.
    checkpoint (Path): Where the caller saves, for error messages.
    report_every (int): Updates between two yields, apart from those at which a validation is due.
    YIELDS (Progress): At intervals and after the last update. The caller validates and saves between two yields.
    RAISES (ValueError): EL103 if the loss is not finite; the weights before that update are kept.
    """
    trainer = _Trainer(network, head, vocabulary, sentences, config)
    started = time.perf_counter()
    losses: List[Tensor] = []
    step = n_tokens = 0
    while n_tokens < config.max_tokens:
        chunk = trainer.lanes.next_chunk(config.unroll_steps)
        if chunk is None:
            break
        learn_rate = _learn_rate(config, step, n_tokens)
        loss = trainer.update(chunk, learn_rate)
        if loss is None:
            raise ValueError(Errors.EL103.format(step=step, n_tokens=n_tokens, path=checkpoint))
        losses.append(loss)
        step += 1
        n_tokens += chunk.inputs[0].size
        is_due = step % report_every == 0 or step % config.eval_every == 0
        if is_due or n_tokens >= config.max_tokens:
            mean_loss = float(torch.stack(losses).mean())
            yield Progress(step, n_tokens, mean_loss, time.perf_counter() - started, learn_rate)
            losses.clear()


class _Trainer:
    """What an update needs from the one before."""

    def __init__(
        self,
        network: BiLMNetwork,
        head: SoftmaxHead,
        vocabulary: Vocabulary,
        sentences: Iterable[Sequence[str]],
        config: PretrainConfig,
    ) -> None:
        self.network, self.head, self.config = network, head, config
        characters = network.config.char_cnn
        self.table = WordTable(vocabulary, max_characters=characters.max_characters if characters else 50)
        numbered = (self.table.numbers_of(list(words)) for words in sentences)
        self.lanes = SentenceLanes(numbered, config.batch_size, block_sentences=config.block_sentences)
        self.parameters = [*network.parameters(), *head.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=config.learn_rate, fused=True)
        self.state = network.zero_state(config.batch_size)
        self.generator = torch.Generator().manual_seed(config.seed)
        self.sampled = _sampled(head, config)

    def update(self, chunk: Chunk, learn_rate: float) -> Optional[Tensor]:
        """RETURNS (Optional[Tensor]): The loss, or None if it is not finite: nothing is changed then."""
        self.network.train()
        self.optimizer.zero_grad()
        with _autocast(self.config, self.head.weight.device):
            loss = self._loss(chunk)
        if not bool(torch.isfinite(loss)):
            return None
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, self.config.grad_clip)
        for group in self.optimizer.param_groups:
            group["lr"] = learn_rate
        self.optimizer.step()
        return loss.detach()

    def _loss(self, chunk: Chunk) -> Tensor:
        config, d = self.config, self.network.config.n_directions
        layers, self.state = run_chunk(
            self.network,
            self.table,
            chunk,
            self.state,
            with_resets=config.reset_blocks,
            input_dropout=config.dropout,
        )
        outputs = nn.functional.dropout(layers[-1], config.dropout).flatten(0, 2)  # (d * S * B, P)
        targets = torch.from_numpy(self.table.targets(chunk.targets[:d]).reshape(-1)).to(outputs.device)
        if self.sampled is None:
            return self.head.token_losses(outputs, targets).mean()
        return self.sampled(outputs, targets, self.generator).mean()  # type: ignore[no-any-return]


def _sampled(head: SoftmaxHead, config: PretrainConfig) -> Optional[SampledSoftmax]:
    if config.softmax == "full":
        return None
    n_words = head.weight.shape[0]
    if config.n_negatives > n_words // 2:
        raise ValueError(Errors.EL102.format(n_negatives=config.n_negatives, n_words=n_words))
    return SampledSoftmax(head, config.n_negatives).to(head.weight.device)


def _learn_rate(config: PretrainConfig, step: int, n_tokens: int) -> float:
    """Linear warm-up by updates, linear decay by tokens."""
    warmup = min(1.0, (step + 1) / max(1, config.warmup_steps))
    return config.learn_rate * warmup * max(0.0, 1.0 - n_tokens / config.max_tokens)


def _autocast(config: PretrainConfig, device: torch.device) -> ContextManager[None]:
    if config.precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16)
