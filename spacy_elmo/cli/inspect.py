"""`elmo inspect`: sizes, contents and problems of biLM weights."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import srsly
import torch

from ..bilm.model import BiLMNetwork
from ..encoding.facade import BiLM
from . import _common
from ._app import app


@dataclass(frozen=True)
class Report:
    """The contents of a biLM.

    settings (Dict[str, Any]): The config, nested blocks flattened with dots, and the width of a vector.
    n_parameters (Dict[str, int]): Parameters per module.
    gates (List[Tuple[str, str, float]]): Module, gate, and its mean activation at input zero, from 0 to 1.
    vocabulary (Optional[Dict[str, Any]]): Number of words and the first of them.
    meta (Dict[str, Any]): Information about the training.
    problems (List[str]): Limitations of this biLM, and their reasons.
    """

    settings: Dict[str, Any]
    n_parameters: Dict[str, int]
    gates: List[Tuple[str, str, float]]
    vocabulary: Optional[Dict[str, Any]]
    meta: Dict[str, Any]
    problems: List[str]


@app.command("inspect")
def inspect_cli(
    # fmt: off
    bilm_path: str = _common.BILM_ARG,
    options: Optional[Path] = _common.OPTIONS_OPT,
    vocab: Optional[Path] = _common.VOCAB_OPT,
    softmax: Optional[Path] = _common.SOFTMAX_OPT,
    token_embeddings: Optional[Path] = _common.TOKEN_EMBEDDINGS_OPT,
    as_json: bool = _common.JSON_OPT,
    # fmt: on
) -> None:
    """Show the sizes and the contents of biLM weights, and any problems with them.

    Prints the config, parameters per module, mean gate activations, vocabulary and meta data. If the weights cannot
    be loaded, lists all problems and exits with code 1.
    """
    with _common.show_errors():
        bilm = _common.open_bilm(
            bilm_path, options=options, vocab=vocab, softmax=softmax, token_embeddings=token_embeddings
        )
    report = inspect(bilm)
    if as_json:
        print(srsly.json_dumps(asdict(report)))
    else:
        _print_report(report, bilm_path)


def inspect(bilm: BiLM) -> Report:
    """bilm (BiLM): A loaded model.
    RETURNS (Report): Its contents; no vector is computed.
    """
    words = bilm.vocabulary.words if bilm.vocabulary is not None else None
    return Report(
        settings={**_flatten(bilm.config.to_dict()), "output_width": bilm.config.output_width},
        n_parameters=count_parameters(bilm),
        gates=_read_gates(bilm.network),
        vocabulary=None if words is None else {"n_words": len(words), "first": words[:8]},
        meta=dict(bilm.meta or {}),
        problems=_find_problems(bilm),
    )


def count_parameters(bilm: BiLM) -> Dict[str, int]:
    """bilm (BiLM): A loaded model.
    RETURNS (Dict[str, int]): Parameters per module and of the biLM (the character embedding without its mask row, as in
        the papers), and of softmax and token embeddings if present.
    """
    counts: Dict[str, int] = {}
    for key, tensor in bilm.network.state_dict().items():
        n_numbers = tensor[1:].numel() if key == "char_cnn.embedding" else tensor.numel()
        counts[_part_of(key)] = counts.get(_part_of(key), 0) + n_numbers
    counts["biLM"] = sum(counts.values())
    if bilm.head is not None:
        counts["softmax (not needed for vectors)"] = sum(tensor.numel() for tensor in bilm.head.state_dict().values())
    if bilm.token_embeddings is not None:
        counts["token embeddings"] = bilm.token_embeddings.numel()
    return counts


def _flatten(record: Dict[str, Any], prefix: str = "") -> Dict[str, Any]:
    flat: Dict[str, Any] = {}
    for key, value in record.items():
        flat.update(_flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value})
    return flat


def _part_of(key: str) -> str:
    """Name of the module of an entry of the state dict. Layers start at 1, since layer 0 is the token layer."""
    first, second, third = [*key.split("."), "", ""][:3]
    if first == "encoder" and second in ("layers", "blocks"):
        return f"{'LSTM' if second == 'layers' else 'transformer'} layer {int(third) + 1}"
    if first == "encoder" and second == "norm":
        return "output norm"
    if first == "encoder":
        return f"highway around LSTM layer {int(third) + 2}"
    return f"characters: {second}" if first == "char_cnn" else "word table"


@torch.no_grad()
def _read_gates(network: BiLMNetwork) -> List[Tuple[str, str, float]]:
    """Mean activation of each gate at input zero, which depends only on the bias."""
    gates: List[Tuple[str, str, float]] = []
    state, config = network.state_dict(), network.config
    for key in (key for key in state if key.startswith("char_cnn.highways.") and key.endswith(".bias")):
        gate = state[key].chunk(2)[1]
        gates.append((f"highway {int(key.split('.')[2]) + 1}", "transform", float(torch.sigmoid(gate).mean())))
    for layer in range(config.n_layers if config.has_state else 0):
        bias = state[f"encoder.layers.{layer}.bias"]  # (d, 4H), columns i, j, f, o
        for direction, row in zip(("forward", "backward"), bias):
            i, _, f, o = row.chunk(4)
            # The forget bias of 1 is not stored in the weights.
            for name, gate in (("input", i), ("forget", f + 1.0), ("output", o)):
                gates.append((f"LSTM layer {layer + 1} {direction}", name, float(torch.sigmoid(gate).mean())))
    for k in range(config.n_layers - 1 if config.highway_between else 0):
        for direction, row in zip(("forward", "backward"), state[f"encoder.highways.{k}.bias"]):
            activation = float(torch.sigmoid(row).mean())
            gates.append((f"highway around LSTM layer {k + 2} {direction}", "transform", activation))
    return gates


def _find_problems(bilm: BiLM) -> List[str]:
    problems = []
    if bilm.vocabulary is None:
        problems.append("no vocabulary: perplexity cannot be computed (vectors from characters do not need it)")
    if bilm.head is None:
        problems.append("no softmax: perplexity cannot be computed, and further training starts with a new softmax")
    if bilm.config.directions == "forward":
        problems.append("forward direction only: vectors do not depend on the following tokens")
    if bilm.config.char_cnn is None:
        problems.append("word input, no characters: all words outside the vocabulary have the same token layer")
    return problems


def _print_report(report: Report, title: str) -> None:
    msg = _common.msg
    msg.divider(title)
    msg.table([(key, str(value)) for key, value in report.settings.items()], header=("Setting", "Value"), divider=True)
    counts = [(part, f"{n:,}") for part, n in report.n_parameters.items()]
    msg.table(counts, header=("Part", "Parameters"), aligns=("l", "r"), divider=True)
    gates = [(part, gate, f"{activation:.3f}") for part, gate, activation in report.gates]
    msg.table(gates, header=("Part", "Gate", "Mean activation"), aligns=("l", "l", "r"), divider=True)
    if report.vocabulary is not None:
        msg.text(f"Vocabulary: {report.vocabulary['n_words']:,} words, {' '.join(report.vocabulary['first'])} ...")
    if report.meta:
        msg.divider("Meta data")
        print(srsly.json_dumps(report.meta, indent=2))
    for problem in report.problems:
        msg.warn(problem)
    msg.good("These weights can be used")
