"""What raw text gives a network within a time limit: a pretrained tok2vec, static vectors or a biLM, each a folder
with its record.
"""

import hashlib
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, Iterable

import srsly
from atomic_files import write_json
from known_datasets import PROJECT_DIR
from messages import Messages
from wasabi import msg

ALTERNATIVES_DIR = PROJECT_DIR / "training" / "alternatives"
RECORD = "record.json"
BILM = "bilm"  # folder of the weights, beside the record
COMMANDS = {"tok2vec": "pretrain_tok2vec.py", "floret": "train_floret.py", "bilm": "pretrain_bilm.py"}


@dataclass(frozen=True)
class Source:
    """How an alternative to ELMo was made.

    kind (str): "tok2vec", "floret" or "bilm".
    text (str): Name of the raw text.
    share (int): Percentage of its sentences.
    words (int): Words trained on, those of several passes counted several times.
    limit_s (float): Limit of the wall time, seconds.
    elapsed_s (float): Wall time of the training, seconds.
    cpu_s (float): CPU time of the training, seconds; less than the wall time where the machine did other work.
    digest (str): First 12 digits of the sha256 of what was made.
    """

    kind: str
    text: str
    share: int
    words: int
    limit_s: float
    elapsed_s: float
    cpu_s: float
    digest: str


def source_dir(folder: Path, kind: str, config: str) -> Path:
    """RETURNS (Path): Folder of an alternative: pretrained weights fit the network of one config only."""
    return folder / (f"{kind}-{Path(config).stem.removeprefix('baseline_')}" if kind == "tok2vec" else kind)


def load_source(folder: Path, kind: str, config: str) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): The record of an alternative. RAISES (FileNotFoundError): P031 if it was not made."""
    path = source_dir(folder, kind, config) / RECORD
    if not path.is_file():
        raise FileNotFoundError(Messages.P031.format(path=path, command=COMMANDS[kind]))
    try:
        return asdict(Source(**srsly.read_json(path)))
    except (ValueError, TypeError) as e:
        raise ValueError(Messages.P032.format(path=path, reason=e)) from e


def save_source(output_dir: Path, source: Source) -> None:
    """Write the record of an alternative, last of its files: a folder with a record is complete."""
    write_json(output_dir / RECORD, asdict(source))


def start_source(output_dir: Path, *, force: bool) -> None:
    """Make the folder, without an older record. RAISES (FileExistsError): P033 if it is complete, without `force`."""
    if (output_dir / RECORD).exists() and not force:
        raise FileExistsError(Messages.P033.format(path=output_dir))
    output_dir.mkdir(parents=True, exist_ok=True)
    (output_dir / RECORD).unlink(missing_ok=True)


def is_kept(output_dir: Path, skip: bool) -> bool:
    """RETURNS (bool): Whether a complete alternative is to be skipped, and kept; then a message says so."""
    if not (skip and (output_dir / RECORD).exists()):
        return False
    msg.info(f"{output_dir} is complete, kept")
    return True


def digest_files(paths: Iterable[Path]) -> str:
    """RETURNS (str): First 12 digits of the sha256 of the contents."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def call_pretrain(config: Path, run: Path, settings: Dict[str, Any]) -> None:
    """config (Path): Config of `elmo pretrain`.
    run (Path): Folder of the run.
    settings (Dict[str, Any]): Overrides of the config, by their dotted names.
    RAISES (ValueError): P051 with the end of what it printed.
    """
    options = [text for name, value in settings.items() for text in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "spacy_elmo", "pretrain", str(config), str(run), *options]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf8")
    if done.returncode:
        raise ValueError(Messages.P051.format(command="elmo pretrain", output=(done.stdout + done.stderr)[-1000:]))
    msg.text(done.stdout)
