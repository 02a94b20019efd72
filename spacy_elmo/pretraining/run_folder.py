"""The output folder of a run: its checkpoints and its log, and what a resumed run must share.

A checkpoint is the complete state of a run, from which it resumes with identical results: a folder `step-00001000` with
`state.safetensors` (all tensors), `state.json` (everything else) and `checksums.json` (sha256 of both). It is written
atomically, by one rename.
"""

import hashlib
import json
import shutil
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from safetensors.torch import load_file, save_file
from torch import Tensor

from ..bilm.config import BiLMConfig
from ..errors import Errors
from ..files import AnyPath, atomic_folder, check_not_read, hash_file, heal_folder
from ..settings import TrainingPrecision
from ..text.words import Vocabulary
from ..util import describe_changes, has_tensorboard
from .data import Sentences
from .run_config import PretrainConfig
from .stored_text import FILE_TYPES, StoredText
from .stored_text import RECORD as TEXT_RECORD

FOLDER = "checkpoints"
TENSORS, RECORD, CHECKSUMS = "state.safetensors", "state.json", "checksums.json"
SNAPSHOT_FILES = (TENSORS, RECORD, CHECKSUMS)
# Keys of `state.json`.
KEYS = (
    *("step", "n_tokens", "optimizer", "loss_scale", "n_ranks", "settings", "bilm", "vocabulary", "text"),
    *("best", "losses", "elapsed_s", "log_bytes", "validated_at"),
)


@dataclass(frozen=True)
class Snapshot:
    """The state of a run after an update.

    tensors (Dict[str, Tensor]): Weights, optimizer moments, recurrent states and random number generators, by name.
    record (Dict[str, Any]): Plain JSON types: counters, the position in the corpus, settings.
    """

    tensors: Dict[str, Tensor]
    record: Dict[str, Any]
    path: Optional[Path] = None


def save_checkpoint(output: Path, step: int, snapshot: Snapshot) -> Path:
    """Write a checkpoint into the folder of a run, and return its own folder.

    RAISES (ValueError): If it cannot be written, for example on a full disk; older checkpoints are kept.
    """
    path = output / FOLDER / f"step-{step:08d}"
    try:
        with atomic_folder(path, force=True, own_names=SNAPSHOT_FILES) as folder:
            tensors = {name: tensor.detach().contiguous() for name, tensor in snapshot.tensors.items()}
            save_file(tensors, folder / TENSORS)
            _write_json(folder / RECORD, snapshot.record)
            _write_json(folder / CHECKSUMS, {name: hash_file(folder / name) for name in (TENSORS, RECORD)})
    # safetensors raises its own error class for errors of the operating system.
    except Exception as error:
        newest = next(iter(list_checkpoints(output)), None)
        raise ValueError(
            f"The checkpoint '{path}' could not be written: {error}. Newest complete checkpoint: "
            f"{newest or 'none'}. Free disk space, then start the run again with `resume=True`."
        ) from error
    return path


def prune_checkpoints(output: Path, *, keep: int) -> None:
    """Remove all but the newest `keep` checkpoints."""
    for old in list_checkpoints(output)[keep:]:
        shutil.rmtree(old)


def list_checkpoints(output: Path) -> List[Path]:
    """RETURNS (List[Path]): Folders of the checkpoints of a run, the newest first."""
    paths = [path for path in (output / FOLDER).glob("step-*") if path.name[5:].isdecimal()]
    return sorted(paths, key=lambda path: int(path.name[5:]), reverse=True)


def load_checkpoint(output: Path) -> Tuple[Optional[Snapshot], List[str]]:
    """Read the newest intact checkpoint, None if the run has none, and the problems of newer, damaged checkpoints.

    RAISES (ValueError): EL129 if all checkpoints are damaged.
    """
    damaged: List[str] = []
    for path in list_checkpoints(output):
        try:
            return _read_checkpoint(path), damaged
        except Exception as error:  # files, JSON and safetensors raise different errors
            damaged.append(f"{path.name} cannot be read ({type(error).__name__}: {error})")
    if damaged:
        raise ValueError(Errors.EL129.format(path=output / FOLDER, problems="; ".join(damaged)))
    return None, damaged


def _read_checkpoint(path: Path) -> Snapshot:
    sums = _read_json(path / CHECKSUMS)
    changed = [name for name in (TENSORS, RECORD) if sums[name] != hash_file(path / name)]
    if changed:
        raise ValueError(f"the checksum of {', '.join(changed)} differs")
    record = _read_json(path / RECORD)
    return Snapshot(load_file(path / TENSORS), {key: record[key] for key in KEYS}, path)


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf8"))


def _write_json(path: Path, record: Any) -> None:
    """Write floats exactly; srsly writes ten decimals, which would turn an epsilon of 1e-12 into zero."""
    path.write_text(json.dumps(record, allow_nan=False), encoding="utf8")


# The folder

LOG = "log.jsonl"
TENSORBOARD = "tensorboard"
PICTURE = "perplexity.png"
LAST = "model-last"
BEST = "model-best"
TEXT = "text"
# Temporary files of a process that was killed while writing.
LEFTOVERS = (
    *(f"{FOLDER}/.step-*.{suffix}" for suffix in ("part", "old")),
    f".{LAST}.*.part",
    f".{BEST}.*.part",
    f".{TEXT}.*.part",
)
# Settings that may change when a run is resumed. A diverged run is resumed with a lower rate.
CHANGEABLE_ON_RESUME = (
    *("max_tokens", "max_passes", "eval_every", "patience", "checkpoint_every", "keep_checkpoints", "report_every"),
    *("optimizer.learn_rate", "optimizer.grad_clip"),
)


def check_results(output: Path, sources: Iterable[AnyPath]) -> None:
    """ValueError if a run in the folder would replace what it reads: see `check_not_read`. Other files there stay."""
    sources, texts = list(sources), (f"{TEXT}/{name}" for name in (*FILE_TYPES, TEXT_RECORD))
    for name in (LOG, PICTURE, LAST, BEST, FOLDER, TENSORBOARD, *texts):
        check_not_read(output / name, sources)


def find_run(output: Path) -> List[str]:
    """RETURNS (List[str]): Names of the results of a run in the folder: log, models, newest checkpoint."""
    names = [name for name in (LOG, LAST, BEST) if (output / name).exists()]
    return names + [f"{FOLDER}/{path.name}" for path in list_checkpoints(output)[:1]]


def make_ready(output: Path, *, is_resumed: bool, force: bool) -> None:
    """Create the folder; remove temporary files of a killed process, and the run that is not resumed. Other files stay.

    force (bool): Remove all files of a run that does not continue; otherwise its models stay until the first
        validation.
    """
    output.mkdir(parents=True, exist_ok=True)
    for pattern in LEFTOVERS:
        _remove(output.glob(pattern))
    for name in (LAST, BEST):
        heal_folder(output / name)
    if not is_resumed:
        _remove([*list_checkpoints(output), output / LOG])
    if not is_resumed and force:
        _remove(output / name for name in (LAST, BEST, PICTURE, TENSORBOARD))


def stored_precision(output: Path) -> Optional[TrainingPrecision]:
    """The precision of the run in the folder; None if there is no run to resume, or if it cannot be read."""
    for path in list_checkpoints(output):
        with suppress(OSError, ValueError, LookupError, TypeError, RecursionError):  # reported when the run is resumed
            precision: TrainingPrecision = _read_json(path / RECORD)["settings"]["precision"]
            return precision
    return None


class RunLog:
    """Writes one line per report.

    n_bytes (int): Length of the log at the checkpoint a run resumes from; the rest of the file is removed.
    step (int): Updates before the resume, for TensorBoard.
    """

    def __init__(self, output: Path, *, n_bytes: int = 0, step: int = 0) -> None:
        self.path = output / LOG
        self.warnings: List[str] = []
        self._cut(n_bytes)
        self._board: Optional[Any] = None
        if has_tensorboard:
            writer = import_module("torch.utils.tensorboard").SummaryWriter
            self._board = writer(str(output / TENSORBOARD), purge_step=step + 1)

    def _cut(self, n_bytes: int) -> None:
        """Truncate the log to complete lines. A file that is too short is not padded, but causes a warning."""
        content = self.path.read_bytes() if self.path.exists() else b""
        end = content.rfind(b"\n", 0, n_bytes) + 1
        if end < n_bytes:
            self.warnings.append(
                f"'{self.path}' has {len(content)} bytes, but had {n_bytes} when the checkpoint was written. The "
                "missing lines are lost and absent from the perplexity curve; training is not affected."
            )
        with self.path.open("ab") as file:
            file.truncate(end)

    @property
    def n_bytes(self) -> int:
        """RETURNS (int): Length of the log so far."""
        return self.path.stat().st_size

    def write(self, row: Dict[str, Any]) -> None:
        """row (Dict[str, Any]): Plain JSON types; numbers are also written to TensorBoard."""
        with self.path.open("a", encoding="utf8") as lines:
            lines.write(json.dumps(row, allow_nan=False) + "\n")
        if self._board is not None:
            for name, value in row.items():
                if isinstance(value, (int, float)) and name != "step":
                    self._board.add_scalar(name, value, row["step"])
            self._board.flush()


def describe_settings(config: PretrainConfig, bilm: BiLMConfig, vocabulary: Vocabulary) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Plain JSON types, for a checkpoint."""
    return {"settings": config.to_dict(), "bilm": bilm.to_dict(), "vocabulary": fingerprint(vocabulary)}


def changed_settings(then: Mapping[str, Any], now: Mapping[str, Any]) -> List[str]:
    """Describe each setting that differs but must not, of two `describe_settings`; other keys of `then` are ignored."""
    settings = (
        {**_flat(record["settings"]), **_flat({name: record[name] for name in ("bilm", "vocabulary")})}
        for record in (then, now)
    )
    return describe_changes(
        *({name: value for name, value in flat.items() if name not in CHANGEABLE_ON_RESUME} for flat in settings)
    )


def describe_text(text: StoredText, held_out: Sentences, settings: Mapping[str, Any]) -> Dict[str, Any]:
    """Describe the text for a checkpoint."""
    sizes: Dict[str, str] = {}
    for source in text.sources:
        size = f"{source['size_bytes']} bytes" if "size_bytes" in source else "of unknown size"
        name = source["name"]
        sizes[name] = f"{sizes[name]} and {size}" if name in sizes else size
    digest = hashlib.sha256("\n".join(" ".join(words) for words in held_out).encode("utf8", "surrogatepass"))
    return {
        **settings,
        "held-out text": f"{len(held_out)} sentences with sha256 {digest.hexdigest()[:16]}",
        "training text": f"{text.counts.n_sentences} sentences with sha256 {text.sha256[:16]}",
        "files": sizes,
    }


def changed_text(then: Mapping[str, Any], now: Mapping[str, Any]) -> List[str]:
    """Describe each difference of two results of `describe_text`."""
    before, after = ({**_flat({**record, "files": {}}), **record["files"]} for record in (then, now))
    return describe_changes(before, after, "missing")


def fingerprint(vocabulary: Vocabulary) -> str:
    """RETURNS (str): sha256 of the words in order."""
    return hashlib.sha256("\n".join(vocabulary.words).encode("utf8", "surrogatepass")).hexdigest()


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _flat(record: Mapping[str, Any], prefix: str = "") -> Dict[str, Any]:
    """Flatten nested blocks to dotted names, as on the command line."""
    flat: Dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat
