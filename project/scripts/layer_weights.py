"""Print how each component weighs the layers of the biLM: softmax(w) and gamma of Peters et al. (2018), eq. 1."""

from dataclasses import dataclass
from pathlib import Path
from typing import List

import numpy
import spacy
import typer
from messages import Messages
from spacy.language import Language
from thinc.api import to_numpy
from wasabi import msg

MIX_LAYER = "scalar_mix"


@dataclass(frozen=True)
class LayerMix:
    """What one component learned.

    component (str): Its name.
    shares (List[float]): Part of each layer, the token layer first; they sum to one.
    gamma (float): Scale of the mix.
    """

    component: str
    shares: List[float]
    gamma: float


def layer_weights_cli(
    pipeline_path: Path = typer.Argument(..., help="Trained pipeline with ELMo", exists=True, file_okay=False),
) -> None:
    """Print the learned weights of the biLM's layers, one row per component that listens to them."""
    try:
        mixes = find_mixes(spacy.load(pipeline_path), pipeline_path)
    except ValueError as e:
        msg.fail("No layer weights", str(e), exits=1)
    n_layers = max(len(mix.shares) for mix in mixes)
    header = ["Component", "Token layer", *(f"LSTM layer {i}" for i in range(1, n_layers)), "Gamma"]
    msg.divider("Learned layer weights")
    rows = [[mix.component, *(f"{share:.1%}" for share in mix.shares), f"{mix.gamma:.3f}"] for mix in mixes]
    msg.table(rows, header=header, divider=True, aligns=["l", *("r" for _ in header[1:])])


def find_mixes(nlp: Language, path: Path) -> List[LayerMix]:
    """RETURNS (List[LayerMix]): In the order of the pipeline. RAISES (ValueError): P005 if no component listens."""
    mixes = []
    for name, pipe in nlp.pipeline:
        model = getattr(pipe, "model", None)
        for node in model.walk() if hasattr(model, "walk") else ():
            if node.name == MIX_LAYER:
                shares = _softmax(to_numpy(node.get_param("w")))
                mixes.append(LayerMix(name, shares, float(node.get_param("gamma")[0])))
    if not mixes:
        raise ValueError(Messages.P005.format(path=path))
    return mixes


def _softmax(weights: numpy.ndarray) -> List[float]:
    exps = numpy.exp(weights - weights.max())
    return [float(share) for share in exps / exps.sum()]


if __name__ == "__main__":
    typer.run(layer_weights_cli)
