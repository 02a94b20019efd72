"""A whole pretraining run: vocabulary, training, validation, checkpoints, log."""

import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

import srsly
import torch

from ..about import __version__
from ..bilm.config import BiLMConfig
from ..bilm.lm_head import SoftmaxHead
from ..bilm.model import BiLMNetwork
from ..encoding.facade import BiLM
from ..encoding.perplexity import Perplexity
from ..errors import Errors
from ..text.vocabulary import Vocabulary
from ..weights import save_bilm
from .config import PretrainConfig
from .corpus import read_sentences, repeat_sentences
from .loop import Progress, train

LAST = "model-last"
BEST = "model-best"
LOG = "log.jsonl"


@dataclass(frozen=True)
class Report:
    """What there is to tell after some updates.

    progress (Progress): Where the run stands.
    validation (Optional[Perplexity]): Of the held-out text, when it was just computed.
    is_best (bool): Whether this is the best validation so far.
    """

    progress: Progress
    validation: Optional[Perplexity] = None
    is_best: bool = False

    def to_row(self) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): A line of the log, plain JSON types."""
        row: Dict[str, Any] = {
            "step": self.progress.step,
            "n_tokens": self.progress.n_tokens,
            "loss": round(self.progress.loss, 5),
            "learn_rate": round(self.progress.learn_rate, 8),
            "elapsed_s": round(self.progress.elapsed_s, 1),
        }
        if self.validation is not None:
            row["forward"] = round(self.validation.forward, 3)
            has_backward = not math.isnan(self.validation.backward)
            row["backward"] = round(self.validation.backward, 3) if has_backward else None
        return row


def pretrain(
    bilm_config: BiLMConfig,
    config: PretrainConfig,
    vocabulary: Vocabulary,
    train_paths: Sequence[Path],
    valid_paths: Sequence[Path],
    output: Path,
    *,
    meta: Optional[Mapping[str, Any]] = None,
    device: str = "cpu",
    force: bool = False,
) -> Iterator[Report]:
    """Train a biLM; `model-last` and `model-best` in the output folder are complete models at any moment.

    bilm_config (BiLMConfig): Sizes; word input takes its rows from the vocabulary.
    config (PretrainConfig): How to train.
    vocabulary (Vocabulary): Words to predict, sorted by frequency.
    train_paths (Sequence[Path]), valid_paths (Sequence[Path]): Text, one tokenized sentence a line.
    output (Path): Folder for models and log.
    meta (Optional[Mapping[str, Any]]): Saved with the model: name, language, sources, licences.
    device (str): "cpu" or "cuda:0".
    force (bool): Write into a folder that holds a run already.
    YIELDS (Report): At intervals.
    RAISES (ValueError): EL101 for an empty text, EL103 for a loss that is not finite, EL104 for an existing run.
    """
    if (output / LOG).exists() and not force:
        raise ValueError(Errors.EL104.format(path=output))
    held_out = _held_out(valid_paths, config.eval_sentences)
    torch.manual_seed(config.seed)
    network = BiLMNetwork(bilm_config).to(device)
    head = SoftmaxHead(len(vocabulary), bilm_config.projection_width).to(device)
    output.mkdir(parents=True, exist_ok=True)
    log = output / LOG
    log.write_text("", encoding="utf8")
    best = float("inf")
    text = repeat_sentences(train_paths)
    for progress in train(network, head, vocabulary, text, config, checkpoint=output / LAST):
        report = Report(progress)
        is_end = progress.n_tokens >= config.max_tokens
        if is_end or progress.step % config.eval_every == 0:
            bilm = BiLM(network, vocabulary=vocabulary, head=head)
            validation = bilm.perplexity(held_out, batch_size=min(32, config.batch_size))
            report = Report(progress, validation, validation.mean < best)
            best = min(best, validation.mean)
            bilm.meta = _meta(meta or {}, config, train_paths, valid_paths, report)
            for name in (LAST, BEST) if report.is_best else (LAST,):
                save_bilm(bilm, output / name, force=True)
        with log.open("a", encoding="utf8") as lines:
            lines.write(srsly.json_dumps(report.to_row()) + "\n")
        yield report


def _held_out(paths: Sequence[Path], n_sentences: int) -> List[List[str]]:
    """Sentences from all over the held-out text."""
    sentences = list(read_sentences(paths))
    if not sentences:
        raise ValueError(Errors.EL101.format(source=", ".join(str(path) for path in paths)))
    every = max(1, len(sentences) // n_sentences)
    return list(itertools.islice(sentences, 0, every * n_sentences, every))


def _meta(
    given: Mapping[str, Any],
    config: PretrainConfig,
    train_paths: Sequence[Path],
    valid_paths: Sequence[Path],
    report: Report,
) -> Dict[str, Any]:
    validation = report.validation
    training = {
        "spacy_elmo_version": __version__,
        "corpus": [path.name for path in train_paths],
        "held_out": [path.name for path in valid_paths],
        "settings": config.to_dict(),
        "n_tokens": report.progress.n_tokens,
        "n_updates": report.progress.step,
        "elapsed_s": round(report.progress.elapsed_s),
    }
    if validation is not None:
        training["perplexity"] = {
            "forward": round(validation.forward, 2),
            "backward": None if math.isnan(validation.backward) else round(validation.backward, 2),
            "n_tokens": validation.n_tokens,
            "unk_rate": round(validation.unk_rate, 5),
        }
    return {**given, "training": training}
