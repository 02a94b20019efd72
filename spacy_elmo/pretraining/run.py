"""A complete pretraining run: training, validation, models, checkpoints, log; started or resumed."""

import math
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, NoReturn, Optional

import torch

from ..about import __version__
from ..bilm.network import BiLMNetwork, LMHead
from ..corpora.lines import Counts
from ..errors import Errors
from ..inference.bilm import BiLM
from ..inference.perplexity import Perplexity, held_out_losses, summarize_losses
from ..text.words import Vocabulary
from ..util import MAX_NAMED, finite_or_none
from ..weights import save_bilm
from .data import Sentences
from .distributed import Ranks
from .run_config import PretrainConfig
from .run_folder import (
    BEST,
    LAST,
    RunLog,
    Snapshot,
    changed_settings,
    changed_text,
    describe_settings,
    describe_text,
    find_run,
    list_checkpoints,
    load_checkpoint,
    make_ready,
    prune_checkpoints,
    save_checkpoint,
)
from .stored_text import StoredText
from .trainer import Trainer, Update


@dataclass(frozen=True)
class Report:
    """The progress of a run after some updates.

    step (int): Updates done.
    n_tokens (int): Predictions per direction trained on.
    loss (float): Mean training loss since the last report, in nats, both directions; NaN if all updates were skipped.
    learn_rate (float): Learning rate of the last update; NaN, like `grad_norm`, if the run resumed at its end and only
        validated.
    grad_norm (float): Global gradient norm of the last update, before clipping.
    elapsed_s (float): Seconds of training and validation, including those before a resume.
    tokens_per_s (float): Training speed since the last report.
    data_share (float): Share of that time spent on reading and preparing text.
    validation (Optional[Perplexity]): Held-out perplexity, if the report includes a validation.
    is_best (bool): Whether this is the best validation so far.
    read (Counts): Counts of the training text read so far, over all passes.
    precision (str): Precision of the matrix products.
    """

    step: int
    n_tokens: int
    loss: float
    learn_rate: float
    grad_norm: float
    elapsed_s: float
    tokens_per_s: float
    data_share: float
    validation: Optional[Perplexity]
    is_best: bool
    read: Counts
    precision: str

    def to_row(self) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): A line of the log, plain JSON types."""
        row: Dict[str, Any] = {
            "step": self.step,
            "n_tokens": self.n_tokens,
            "loss": finite_or_none(self.loss),
            "learn_rate": finite_or_none(self.learn_rate),
            "grad_norm": finite_or_none(self.grad_norm),
            "elapsed_s": round(self.elapsed_s, 1),
            "tokens_per_s": round(self.tokens_per_s, 1),
            "data_share": round(self.data_share, 4),
            "precision": self.precision,
        }
        if self.validation is not None:
            row.update(perplexities(self.validation))
            row.update(n_dropped=self.validation.n_dropped, read=asdict(self.read))
        return row


@dataclass
class BestSoFar:
    """The best validation of a run: its perplexity, the mean of both directions, and its step.

    n_worse (int): Validations since then.
    """

    mean: float = math.inf
    step: int = 0
    n_worse: int = 0

    def add(self, step: int, validation: Perplexity) -> bool:
        """RETURNS (bool): Whether this validation is better than all before."""
        is_better = validation.mean < self.mean
        if is_better:
            self.mean, self.step, self.n_worse = validation.mean, step, 0
        else:
            self.n_worse += 1
        return is_better

    def should_stop(self, patience: int) -> bool:
        """Whether there were `patience` validations without improvement, 0 for no limit."""
        return bool(patience) and self.n_worse >= patience


@dataclass
class _Interval:  # since the last report
    losses: List[float]
    began: float
    n_tokens: int
    data_s: float = 0.0


class Pretraining:
    """One pretraining run with one output folder.

    network (BiLMNetwork), head (LMHead): Trained in place, on the device of this rank.
    vocabulary (Vocabulary): Words of the head, sorted by frequency.
    text (StoredText), held_out (Sentences): The training text, and the held-out text.
    meta (Mapping[str, Any]): Saved with the model: name, language, sources, licences.
    text_settings (Mapping[str, Any]): Settings of reading the text, plain JSON types; must not change on resume.
    is_stopped (bool): Whether `stop` ended the run before its end.
    """

    def __init__(
        self,
        network: BiLMNetwork,
        head: LMHead,
        vocabulary: Vocabulary,
        text: StoredText,
        held_out: Sentences,
        config: PretrainConfig,
        output: Path,
        *,
        meta: Optional[Mapping[str, Any]] = None,
        text_settings: Optional[Mapping[str, Any]] = None,
        ranks: Ranks = Ranks(),
    ) -> None:
        self.vocabulary, self.held_out = vocabulary, held_out
        self.output, self.ranks = output, ranks
        self.meta = dict(meta or {})
        self.text = text
        self.text_settings = dict(text_settings or {})
        self.trainer = Trainer(network, head, vocabulary, text, config, ranks)
        self.config = self.trainer.config
        self.best = BestSoFar()
        self.elapsed_s = 0.0
        self.warnings: List[str] = []
        self._losses: List[float] = []
        self._validated_at = 0  # step
        self.is_stopped = False
        self._has_stop_request = False
        self._log: Optional[RunLog] = None
        self._unverified: Optional[Path] = None  # the newest checkpoint, until its weights give a finite result

    def begin(self, *, resume: bool = False, force: bool = False) -> None:
        """Prepare the folder; with `resume` continue from the newest intact checkpoint, if there is one.

        An error on one rank is raised on all. The first rank checks the folder before it writes.

        force (bool): Start a new run in a folder that contains one, and remove the old run.
        RAISES (ValueError): EL104 for a folder that contains a run, EL129 if all checkpoints are damaged, if the
            newest one does not fit the run, EL146 and EL156 if the stopped run had other settings or another text,
            if ranks find different checkpoints.
        """
        snapshot = self.ranks.agree(lambda: self._find_snapshot(resume=resume, force=force))
        steps = self.ranks.gather_objects(None if snapshot is None else snapshot.record["step"])
        if len(set(steps)) > 1:
            resumed = ", ".join(f"process {rank} {'none' if step is None else step}" for rank, step in enumerate(steps))
            raise ValueError(
                f"The processes find different checkpoints in '{self.output}': {resumed}. All of them "
                "must find the same ones: use a folder that all nodes share, or copy `checkpoints` of the first node "
                "to the same path on the others."
            )
        if snapshot is None:
            torch.manual_seed(self.config.seed + self.ranks.rank)  # ranks need different dropout masks
        else:
            self.ranks.agree(lambda: self._restore(snapshot))
        self.ranks.agree(lambda: self._open_folder(snapshot, force))

    def stop(self) -> None:
        """Make `reports` end after the current update, with a checkpoint. A signal handler may call this."""
        self._has_stop_request = True

    def reports(self) -> Iterator[Report]:
        """Train to the end, or until `stop` is called on some rank.

        YIELDS (Report): Every `report_every` updates and at each validation, on all ranks. Models, log and checkpoint
            are written at these points; at a stop a checkpoint and model-last.
        RAISES (ValueError): EL101 for a corpus without sentences, EL103 for a loss, a weight or a perplexity that
            is not finite, if a checkpoint cannot be written.
        """
        try:
            yield from self._reports()
        finally:
            self.trainer.release()

    def _reports(self) -> Iterator[Report]:
        trainer, config = self.trainer, self.config
        interval = _Interval(self._losses, time.perf_counter(), trainer.n_tokens)
        is_end = trainer.n_tokens >= config.max_tokens or self.best.should_stop(config.patience)
        while not (is_end or self.is_stopped):
            update = self._update(interval)
            is_end = trainer.n_tokens >= config.max_tokens
            is_eval = is_end or trainer.step % config.eval_every == 0
            if is_eval or trainer.step % config.report_every == 0:
                report = self._report(update, interval, is_eval)
                is_end = is_end or self.best.should_stop(config.patience)
                interval = _Interval([], time.perf_counter(), trainer.n_tokens)
                self._losses = interval.losses
                yield report
            self.is_stopped = self.ranks.any(self._has_stop_request) and not is_end
            if is_end or self.is_stopped or trainer.step % (config.checkpoint_every or config.eval_every) == 0:
                self._save_checkpoint()
            if self.is_stopped and self._validated_at < trainer.step:
                self._save_models()
            if is_eval:  # the weights have given a finite perplexity
                self._verify_checkpoint()
        if self._validated_at < trainer.step and not self.is_stopped:  # resumed after the last update
            self._check_weights()
            yield self._report(None, interval, is_eval=True)
            self._save_checkpoint()

    def _update(self, interval: _Interval) -> Update:
        update = self.trainer.update()
        if not update.is_finite:
            self._raise_diverged("The loss or its gradient")
        self._verify_checkpoint()
        interval.data_s += update.data_s
        if not update.is_skipped:
            interval.losses.append(float(update.loss))
        return update

    def _report(self, update: Optional[Update], interval: _Interval, is_eval: bool) -> Report:
        trainer, ranks, config = self.trainer, self.ranks, self.config
        seconds = time.perf_counter() - interval.began
        mean_loss = torch.tensor(interval.losses or [math.nan], dtype=torch.float64).mean()
        loss = float(ranks.average(mean_loss.to(ranks.device)))
        if interval.losses and not math.isfinite(loss):
            self._raise_diverged("The loss")
        validation = self._validate() if is_eval else None
        self._validated_at = trainer.step if is_eval else self._validated_at
        is_best = validation is not None and self.best.add(trainer.step, validation)
        self.elapsed_s += time.perf_counter() - interval.began
        report = Report(
            step=trainer.step,
            n_tokens=trainer.n_tokens,
            loss=loss,
            learn_rate=math.nan if update is None else update.learn_rate,
            grad_norm=math.nan if update is None else update.grad_norm,
            elapsed_s=self.elapsed_s,
            tokens_per_s=(trainer.n_tokens - interval.n_tokens) / seconds,
            data_share=interval.data_s / seconds,
            validation=validation,
            is_best=is_best,
            read=self.trainer.batch.counts,
            precision=config.precision,
        )
        if self._log is not None:
            if validation is not None:
                self._save_models(validation, is_best=is_best)
            self._log.write(report.to_row())
        return report

    def _validate(self) -> Perplexity:
        """Validate on the first rank and send the result to the other ranks."""
        self._check_weights()
        perplexity: Optional[Perplexity] = None
        if self.ranks.is_writer:
            network, head, n_lanes = self.trainer.network, self.trainer.head, min(32, self.config.batch_size)
            losses = held_out_losses(network, head, self.vocabulary, self.held_out, n_lanes)
            perplexity = summarize_losses(losses, self.vocabulary)
        validation: Perplexity = self.ranks.from_writer(perplexity)
        if not (math.isfinite(validation.forward + validation.mean) and not math.isinf(validation.backward)):
            scores = f"forward {validation.forward:.4g}, backward {validation.backward:.4g}"
            self._raise_diverged(f"The held-out perplexity ({scores})")
        return validation

    def _save_models(self, validation: Optional[Perplexity] = None, *, is_best: bool = False) -> None:
        """Write the biLM of this step, on the first rank."""
        if self._log is None:
            return
        trainer, meta = self.trainer, {**self.meta, "training": self._origin(validation)}
        bilm = BiLM(trainer.network, vocabulary=self.vocabulary, head=trainer.head, meta=meta)
        for name in (LAST, BEST) if is_best else (LAST,):
            save_bilm(bilm, self.output / name, force=True)

    def _origin(self, validation: Optional[Perplexity]) -> Dict[str, Any]:
        return {
            "spacy_elmo_version": __version__,
            "corpus": [source["name"] for source in self.text.sources],
            "corpus_counts": asdict(self.trainer.batch.counts),
            "settings": self.config.to_dict(),
            "n_tokens": self.trainer.n_tokens,
            "n_updates": self.trainer.step,
            "elapsed_s": round(self.elapsed_s),
            "perplexity": perplexities(validation) if validation is not None else None,
        }

    def _save_checkpoint(self) -> None:
        self._check_weights()
        snapshot = self.trainer.snapshot()
        if not self.ranks.is_writer or self._log is None:
            return
        record = {
            **snapshot.record,
            **self._settings(),
            "text": self._describe_text(),
            "best": {**asdict(self.best), "mean": finite_or_none(self.best.mean)},
            "validated_at": self._validated_at,
            "losses": self._losses,
            "elapsed_s": self.elapsed_s,
            "log_bytes": self._log.n_bytes,
        }
        self._unverified = save_checkpoint(self.output, self.trainer.step, Snapshot(snapshot.tensors, record))

    def _verify_checkpoint(self) -> None:
        """Remove old checkpoints when the weights of the newest one have given a finite result."""
        if self._unverified is not None:
            self._unverified = None
            prune_checkpoints(self.output, keep=self.config.keep_checkpoints)

    def _settings(self) -> Dict[str, Any]:
        return describe_settings(self.config, self.trainer.network.config, self.vocabulary)

    def _find_snapshot(self, *, resume: bool, force: bool) -> Optional[Snapshot]:
        if resume:
            snapshot, damaged = load_checkpoint(self.output)
            self.warnings += [f"Skipped a damaged checkpoint: {text}" for text in damaged]
            return snapshot
        files = find_run(self.output) if self.ranks.is_writer and not force else []
        if files:
            raise ValueError(Errors.EL104.format(path=self.output, files=", ".join(files)))
        return None

    def _open_folder(self, snapshot: Optional[Snapshot], force: bool) -> None:
        if not self.ranks.is_writer:
            return
        make_ready(self.output, is_resumed=snapshot is not None, force=force)
        n_bytes = int(snapshot.record["log_bytes"]) if snapshot is not None else 0
        self._log = RunLog(self.output, n_bytes=n_bytes, step=self.trainer.step)
        self.warnings += self._log.warnings

    def _restore(self, snapshot: Snapshot) -> None:
        record = snapshot.record
        best = self.output / BEST
        init = f", with paths.init = '{best}' to start from the best model of this one" if best.exists() else ""
        try:
            settings = changed_settings(record, self._settings())
            text = changed_text(record["text"], self._describe_text())
            if not settings and not text:
                self._continue_from(snapshot)
        # Wrong names, shapes, dtypes and values of tensors and settings raise different errors.
        except Exception as error:
            raise ValueError(
                f"The checkpoint '{snapshot.path}' does not fit this run, although its checksums are correct: "
                f"{error}. It was changed, or written by another version. Remove its folder to resume from the "
                "previous checkpoint, or start a new run."
            ) from error
        if settings and not text:  # another text has another vocabulary
            raise ValueError(Errors.EL146.format(path=self.output, different="; ".join(settings)))
        if text:
            raise ValueError(Errors.EL156.format(path=self.output, different="; ".join(text[:MAX_NAMED]), init=init))

    def _continue_from(self, snapshot: Snapshot) -> None:
        record = snapshot.record
        self.trainer.restore(snapshot)
        best_mean = record["best"]["mean"]  # null before the first validation
        self.best = BestSoFar(**{**record["best"], "mean": math.inf if best_mean is None else best_mean})
        self._validated_at = int(record["validated_at"])
        self._losses = list(map(float, record["losses"]))
        self.elapsed_s = float(record["elapsed_s"])

    def _describe_text(self) -> Dict[str, Any]:
        return describe_text(self.text, self.held_out, self.text_settings)

    def _check_weights(self) -> None:
        if not self.trainer.has_finite_weights():
            self._raise_diverged("A weight")

    def _raise_diverged(self, what: str) -> NoReturn:
        """EL103, after the removal of a checkpoint whose weights have not given a finite result."""
        if self._unverified is not None:
            shutil.rmtree(self._unverified)
        checkpoint = next(iter(list_checkpoints(self.output)), "none yet")
        best = self.output / BEST
        raise ValueError(
            Errors.EL103.format(
                what=what,
                step=self.trainer.step,
                n_tokens=self.trainer.n_tokens,
                checkpoint=checkpoint,
                best=best if best.exists() else "none yet",
            )
        )


def perplexities(validation: Perplexity) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Scores of a validation for the log and the model's meta data, plain JSON types."""
    return {
        "forward": round(validation.forward, 4),
        "backward": finite_or_none(round(validation.backward, 4)),
        "unk_rate": round(validation.unk_rate, 5),
    }
