"""The output folder of a run: what stands in it, whether it holds a run, and making room for another one."""

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
# What a kill while writing leaves behind.
LEFTOVERS = (f"{FOLDER}/.step-*.part", f"{FOLDER}/.step-*.old", *(f".{name}.*.part" for name in (LAST, BEST)))


def find_run(output: Path) -> List[str]:
    """RETURNS (List[str]): Names of what a run has left in the folder that nobody would want to lose."""
    found = [name for name in (LOG, LAST, BEST) if (output / name).exists()]
    return found + [f"{FOLDER}/{path.name}" for path in list_checkpoints(output)[:1]]


def make_ready(output: Path, *, is_resumed: bool, force: bool) -> None:
    """Make the folder, remove what a kill has left half done, and the run that is not resumed. Other files stay.

    output (Path): Folder of the run.
    is_resumed (bool): The run in it goes on.
    force (bool): Remove all of a run that does not go on. Otherwise its models stay until the first validation.
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
    """Let a run that is resumed have its words without counting them again.

    output (Path): Folder of the run.
    vocabulary (Vocabulary): Of its softmax.
    RAISES (ValueError): EL035 for words that cannot stand on a line.
    """
    path = output / VOCABULARY
    part = path.with_name(f".{path.name}.part")
    path.parent.mkdir(exist_ok=True)
    write_vocabulary(part, vocabulary)
    part.replace(path)


def stored_vocabulary(output: Path) -> Optional[Vocabulary]:
    """RETURNS (Optional[Vocabulary]): Of the run that the folder holds, None if there is no run to resume.
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
