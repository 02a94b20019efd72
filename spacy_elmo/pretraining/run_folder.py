"""The output folder of a run: its files, whether it contains a run, and removing one."""

import shutil
from pathlib import Path
from typing import Iterable, List, Optional

from ..text.vocabulary import Vocabulary
from ..weights.atomic import heal_folder
from ..weights.parts import read_vocabulary, write_vocabulary
from ..weights.sources import Source
from .checkpoint import FOLDER, list_checkpoints

LOG = "log.jsonl"
TENSORBOARD = "tensorboard"
PICTURE = "perplexity.png"
VOCABULARY = f"{FOLDER}/vocab.txt"
LAST = "model-last"
BEST = "model-best"
# Temporary files of a process that was killed while writing.
LEFTOVERS = (f"{FOLDER}/.step-*.part", f"{FOLDER}/.step-*.old", *(f".{name}.*.part" for name in (LAST, BEST)))


def find_run(output: Path) -> List[str]:
    """RETURNS (List[str]): Names of the results of a run in the folder: log, models, newest checkpoint."""
    found = [name for name in (LOG, LAST, BEST) if (output / name).exists()]
    return found + [f"{FOLDER}/{path.name}" for path in list_checkpoints(output)[:1]]


def make_ready(output: Path, *, is_resumed: bool, force: bool) -> None:
    """Create the folder; remove temporary files of a killed process, and the run that is not resumed. Other files stay.

    output (Path): Folder of the run.
    is_resumed (bool): Whether the run in it continues.
    force (bool): Remove all files of a run that does not continue; otherwise its models stay until the first
        validation.
    """
    output.mkdir(parents=True, exist_ok=True)
    for pattern in LEFTOVERS:
        for path in output.glob(pattern):
            shutil.rmtree(path)
    for name in (LAST, BEST):
        heal_folder(output / name)
    if not is_resumed:
        _remove([*list_checkpoints(output), output / VOCABULARY, output / LOG])
    if not is_resumed and force:
        _remove(output / name for name in (LAST, BEST, PICTURE, TENSORBOARD))


def store_vocabulary(output: Path, vocabulary: Vocabulary) -> None:
    """Store the vocabulary, so that a resumed run need not count the words again.

    output (Path): Folder of the run.
    vocabulary (Vocabulary): Words of the softmax.
    RAISES (ValueError): For words that do not fit on one line.
    """
    path = output / VOCABULARY
    part = path.with_name(f".{path.name}.part")
    path.parent.mkdir(exist_ok=True)
    write_vocabulary(part, vocabulary)
    part.replace(path)


def stored_vocabulary(output: Path) -> Optional[Vocabulary]:
    """RETURNS (Optional[Vocabulary]): Vocabulary of the run in the folder, None if there is no run to resume.
    RAISES (ValueError): EL027 for a damaged file.
    """
    path = output / VOCABULARY
    return read_vocabulary(Source(path), True) if path.is_file() and list_checkpoints(output) else None


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
