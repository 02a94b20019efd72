"""The layer mixes of a pipeline: what each task has learned (Peters et al. 2018, fig. 2); a logger of training."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import spacy
import srsly
from spacy.language import Language
from thinc.api import Model, to_numpy

from .mix import get_weights, softmax

MIX = "scalar_mix"
CONFIG = "config.cfg"  # in the folder of a pipeline
PLACES = ("input", "output")  # of the encoder of a task, as `ElmoTaskEncoder` refers to them: "elmo_input", ...


@dataclass(frozen=True)
class TaskMix:
    """The mix of one listener.

    component (str): Name of the component that mixes.
    number (int): Position of the mix in the component, from 1.
    shares (Tuple[float, ...]): softmax(w), one per layer, the token layer first; they sum to one. Empty if the layers
        are concatenated, since they have no weights.
    weights (Tuple[float, ...]): Raw weights w; empty if the layers are concatenated.
    gamma (float): Scale of the mix.
    place (Optional[str]): "input" or "output" of `spacy-elmo.ElmoTaskEncoder.v1`; None in other networks.
    """

    component: str
    number: int
    shares: Tuple[float, ...]
    weights: Tuple[float, ...]
    gamma: float
    place: Optional[str] = None

    @property
    def is_concatenated(self) -> bool:
        """RETURNS (bool): Whether the component reads all layers side by side (`mix = "concat"`)."""
        return not self.shares


def load_trained(pipeline: str) -> Language:
    """pipeline (str): A folder, or the name of an installed package.
    RAISES (ValueError): For a folder without a pipeline, with the pipelines in it; see `spacy.load`.
    """
    if Path(pipeline).is_dir() and not (Path(pipeline) / CONFIG).is_file():
        inside = ", ".join(str(path.parent) for path in sorted(Path(pipeline).glob(f"*/{CONFIG}")))
        hint = f"Name a pipeline in it: {inside}." if inside else "Name a trained pipeline."
        raise ValueError(f"The folder '{pipeline}' has no {CONFIG}, so it is not a pipeline. {hint}")
    return spacy.load(pipeline)


def find_task_mixes(nlp: Language) -> List[TaskMix]:
    """The mixes of all components at this moment, also of disabled components, in the order of the pipeline."""
    mixes = []
    for name, pipe in nlp.components:
        model = getattr(pipe, "model", None)
        places = _places_of(model)
        for mix_number, mix in enumerate(_mixes_of(model), start=1):
            is_concatenated = mix.attrs["mix"].mix == "concat"
            weights = to_numpy(get_weights(mix)).astype("float64")[: 0 if is_concatenated else None]
            gamma = float(to_numpy(mix.get_param("gamma"))[0])
            shares = () if is_concatenated else tuple(softmax(weights).tolist())
            mixes.append(TaskMix(name, mix_number, shares, tuple(weights.tolist()), gamma, places.get(mix.id)))
    return mixes


def describe_concatenated(name: str, mix: TaskMix) -> str:
    """name (str): Name of the component, for people.
    RETURNS (str): What to say of a mix without weights.
    """
    return f"{name}: layers are concatenated: no weights (gamma {mix.gamma:.3f})"


def find_untrained(nlp: Language) -> List[str]:
    """RETURNS (List[str]): Names of the components with a mix that is not initialized."""
    models = [(name, getattr(pipe, "model", None)) for name, pipe in nlp.components]
    walks = {name: list(model.walk()) for name, model in models if isinstance(model, Model)}
    return [
        name for name, nodes in walks.items() if any(node.name == MIX and not node.has_param("w") for node in nodes)
    ]


def _mixes_of(model: Any) -> Iterator[Model[Any, Any]]:
    """The initialized mixes inside a model, in the order of its layers."""
    if isinstance(model, Model):
        yield from (node for node in model.walk(order="dfs_pre") if node.name == MIX and node.has_param("w"))


def _places_of(model: Any) -> Dict[int, str]:
    """The place of each mix inside a task encoder, by the id of its layer."""
    nodes = list(model.walk()) if isinstance(model, Model) else []
    listeners = [(place, node.maybe_get_ref(f"elmo_{place}")) for node in nodes for place in PLACES]
    return {mix.id: place for place, listener in listeners for mix in _mixes_of(listener)}


LogStep = Callable[[Optional[Dict[str, Any]]], None]
Write = Callable[[Dict[str, Any], TaskMix], None]


def LayerWeightsLogger(path: Optional[Union[str, Path]] = None) -> Callable[..., Tuple[LogStep, Callable[[], None]]]:
    """Record softmax(w) and gamma of each mix at each evaluation. `spacy.ChainLogger.v1` combines loggers.

    Written are the weights that are trained, not their averages (`use_averages`).
    path (Optional[Union[str, Path]]): File for a line of JSON per evaluation and mix: step, epoch, score, component,
        number, place, shares, weights and gamma; folders are created. None to print a readable line. Concatenated
        layers have no weights, and so no lines.
    RETURNS (Callable): What spaCy calls when the training starts.
    RAISES (ValueError): At the start of the training if the file exists, if no component mixes layers.
    """

    def setup_logger(
        nlp: Language, stdout: IO[str] = sys.stdout, stderr: IO[str] = sys.stderr
    ) -> Tuple[LogStep, Callable[[], None]]:
        mixes = find_task_mixes(nlp)
        if not mixes:
            raise ValueError(
                "spacy-elmo.LayerWeightsLogger.v1 has no layer weights to record: no component mixes the "
                f"layers of a biLM (the components are: {', '.join(nlp.pipe_names)}). Remove the logger, or let "
                "a component use spacy-elmo.ElmoListener.v1."
            )
        write = _write_to(stdout) if path is None else _append_to(Path(path))
        concatenated = [mix for mix in mixes if mix.is_concatenated] if path is None else []
        for mix in concatenated:
            stdout.write(f"Layer weights of {describe_concatenated(mix.component, mix)}\n")

        def log_step(info: Optional[Dict[str, Any]]) -> None:
            if info is not None:
                for mix in find_task_mixes(nlp):
                    if not mix.is_concatenated:
                        write(info, mix)

        return log_step, lambda: None

    return setup_logger


def _append_to(path: Path) -> Write:
    if path.exists():
        raise ValueError(
            f"The log of layer weights '{path}' exists already. Move it, or give another path in "
            "[training.logger] (paths.logs in configs of `elmo init-config`)."
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
