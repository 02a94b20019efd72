"""A spaCy logger that records the layer weights of all listeners at each evaluation."""

import sys
from pathlib import Path
from typing import IO, Any, Callable, Dict, Optional, Tuple, Union

import srsly
from spacy.language import Language

from ..ml.task_mixes import TaskMix, find_task_mixes

LogStep = Callable[[Optional[Dict[str, Any]]], None]
Write = Callable[[Dict[str, Any], TaskMix], None]


def LayerWeightsLogger(path: Optional[Union[str, Path]] = None) -> Callable[..., Tuple[LogStep, Callable[[], None]]]:
    """Record softmax(w) and gamma of each mix at each evaluation. `spacy.ChainLogger.v1` combines it with others.

    The weights are those of the training, not their averages (`use_averages`).
    path (Optional[Union[str, Path]]): File for a line of JSON per evaluation and mix: step, epoch, score, component,
        number, place, shares, weights and gamma; folders are created. None to print a line for people.
    RETURNS (Callable): What spaCy calls when the training starts.
    RAISES (ValueError): At the start of the training if the file exists, if no component mixes layers.
    """

    def setup_logger(
        nlp: Language, stdout: IO[str] = sys.stdout, stderr: IO[str] = sys.stderr
    ) -> Tuple[LogStep, Callable[[], None]]:
        if not find_task_mixes(nlp):
            raise ValueError(
                "spacy-elmo.LayerWeightsLogger.v1 has no layer weights to record: no component mixes the "
                f"layers of a biLM (the components are: {', '.join(nlp.pipe_names)}). Remove the logger, or let "
                "a component use spacy-elmo.ElmoListener.v1."
            )
        write = _write_to(stdout) if path is None else _append_to(Path(path))

        def log_step(info: Optional[Dict[str, Any]]) -> None:
            if info is not None:
                for mix in find_task_mixes(nlp):
                    write(info, mix)

        return log_step, lambda: None

    return setup_logger


def _append_to(path: Path) -> Write:
    if path.exists():
        raise ValueError(
            f"The log of layer weights '{path}' exists already. Give another path in [training.logger], or move "
            "that file."
        )
    path.parent.mkdir(parents=True, exist_ok=True)

    def write(info: Dict[str, Any], mix: TaskMix) -> None:
        row = {name: info[name] for name in ("step", "epoch", "score")}
        row.update(component=mix.component, number=mix.number, place=mix.place)
        row.update(shares=mix.shares, weights=mix.weights, gamma=mix.gamma)
        with path.open("a", encoding="utf8") as file:
            file.write(srsly.json_dumps(row) + "\n")

    return write


def _write_to(stream: IO[str]) -> Write:
    def write(info: Dict[str, Any], mix: TaskMix) -> None:
        shares = "  ".join(f"{share:.1%}" for share in mix.shares)
        stream.write(f"Layer weights of {mix.component} ({mix.place or mix.number}): {shares}, gamma {mix.gamma:.3f}\n")

    return write
