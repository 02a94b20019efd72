"""`elmo inspect`: sizes, contents and problems of biLM weights."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

import srsly
import torch

from ..bilm.model import BiLMNetwork
from ..export.onnx_model import find_onnx_problem
from ..inference.bilm import BiLM
from ..weights.formats import Capability, find_capabilities
from ..weights.identity import Provenance, read_provenance
from ..weights.parts import mixes_from_meta
from . import _common
from ._app import app

NO_SOFTMAX = "no softmax: perplexity cannot be computed, and further training starts with a new softmax"
# Tables with a row for the mask.
MASKED_TABLES = (
    "char_cnn.embedding",
    "token_embedder.char_cnn.embedding",
    "token_embedder.char_lstm.embedding",
    "token_embedder.word_embedding",
)


@dataclass(frozen=True)
class Report:
    """The contents of a biLM.

    settings (Dict[str, Any]): The config, nested blocks flattened with dots, and the width of a vector.
    n_parameters (Dict[str, int]): Parameters per module.
    gates (List[Tuple[str, str, float]]): Module, gate, and its mean activation at input zero, from 0 to 1.
    vocabulary (Optional[Dict[str, Any]]): Number of words and the first of them.
    lexicon (Optional[Dict[str, Any]]): Number of characters and words in the tables of a token embedder.
    meta (Dict[str, Any]): Information about the training.
    problems (List[str]): Limitations of this biLM, and their reasons.
    architecture (str): The network in one sentence.
    capabilities (List[Capability]): What can be done with it, what cannot, and why.
    provenance (Optional[Provenance]): Format and files, None for a biLM that was not read from a path.
    mixes (List[Dict[str, Any]]): Scalar mixes trained with it: raw weights, shares (their softmax), gamma and norm.
    """

    settings: Dict[str, Any]
    n_parameters: Dict[str, int]
    gates: List[Tuple[str, str, float]]
    vocabulary: Optional[Dict[str, Any]]
    lexicon: Optional[Dict[str, Any]]
    meta: Dict[str, Any]
    problems: List[str]
    architecture: str
    capabilities: List[Capability]
    provenance: Optional[Provenance]
    mixes: List[Dict[str, Any]]


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

    Prints format, files with checksums, config, parameters per module, mean gate activations, vocabulary, meta data,
    and what can be done with the biLM. If the weights cannot be loaded, lists all problems and exits with code 1.
    """
    with _common.show_errors():
        bilm = _common.open_bilm(
            bilm_path, options=options, vocab=vocab, softmax=softmax, token_embeddings=token_embeddings
        )
        report = inspect(bilm, read_provenance(bilm_path, options))
    if as_json:
        print(srsly.json_dumps(asdict(report)))
    else:
        _print_report(report, bilm_path)


def inspect(bilm: BiLM, provenance: Optional[Provenance] = None) -> Report:
    """bilm (BiLM): A loaded model.
    provenance (Optional[Provenance]): Its format and files.
    RETURNS (Report): Its contents; no vector is computed.
    """
    words = bilm.vocabulary.words if bilm.vocabulary is not None else None
    return Report(
        settings={**_flatten(bilm.config.to_dict()), "output_width": bilm.config.output_width},
        n_parameters=count_parameters(bilm),
        gates=_read_gates(bilm.network),
        vocabulary=None if words is None else {"n_words": len(words), "first": words[:8]},
        lexicon=_count_symbols(bilm),
        meta=dict(bilm.meta or {}),
        problems=_find_problems(bilm),
        architecture=describe_architecture(bilm),
        capabilities=[*find_capabilities(bilm), _onnx_export(bilm)],
        provenance=provenance,
        mixes=[{**asdict(mix), "shares": mix.shares} for mix in mixes_from_meta(bilm.meta, bilm.config.n_layers)],
    )


def _onnx_export(bilm: BiLM) -> Capability:
    problem = find_onnx_problem(bilm)
    return Capability("export to onnx", problem is None, "float32" if problem is None else problem)


def describe_architecture(bilm: BiLM) -> str:
    """RETURNS (str): The network in one sentence: input, layers above the words, directions."""
    config, characters = bilm.config, bilm.config.char_cnn
    words = "a table of words" if characters is None else f"a character CNN ({characters.codec})"
    if config.token_embedder is not None:
        words = f"words and characters of ELMoForManyLangs ({config.token_embedder.kind})"
    directions = "forward only" if config.directions == "forward" else "forward and backward"
    layers = f"{config.n_layers} {config.encoder.upper() if config.encoder == 'lstm' else config.encoder} layer(s)"
    return f"biLM of {layers} of width {config.projection_width}, {directions}, over {words}"


def count_parameters(bilm: BiLM) -> Dict[str, int]:
    """bilm (BiLM): A loaded model.
    RETURNS (Dict[str, int]): Parameters per module and of the biLM (tables without their mask row, as in the
        papers), and of softmax and token embeddings if present.
    """
    counts: Dict[str, int] = {}
    for key, tensor in bilm.network.state_dict().items():
        n_numbers = tensor[1:].numel() if key in MASKED_TABLES else tensor.numel()
        counts[_part_of(key)] = counts.get(_part_of(key), 0) + n_numbers
    counts["biLM"] = sum(counts.values())
    if bilm.head is not None:
        counts["softmax (not needed for vectors)"] = sum(tensor.numel() for tensor in bilm.head.state_dict().values())
    if bilm.token_embeddings is not None:
        counts["token embeddings"] = bilm.token_embeddings.numel()
    return counts


def _count_symbols(bilm: BiLM) -> Optional[Dict[str, Any]]:
    if bilm.lexicon is None:
        return None
    return {"n_characters": len(bilm.lexicon.characters), "n_words": len(bilm.lexicon.words)}


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
    if first == "token_embedder":
        return f"token embedder: {second}"
    if first == "encoder" and second in ("lstm", "projection"):
        return "bidirectional LSTM"
    if first == "encoder":
        return f"highway around LSTM layer {int(third) + 2}"
    return f"characters: {second}" if first == "char_cnn" else "word table"


@torch.no_grad()
def _read_gates(network: BiLMNetwork) -> List[Tuple[str, str, float]]:
    """Mean activation of each gate at input zero, which depends only on the bias."""
    gates: List[Tuple[str, str, float]] = []
    state, config = network.state_dict(), network.config
    for key in (key for key in state if "char_cnn.highways." in key and key.endswith(".bias")):
        gate = state[key].chunk(2)[1]
        gates.append((f"highway {int(key.split('.')[-2]) + 1}", "transform", float(torch.sigmoid(gate).mean())))
    if config.encoder == "bilstm":
        return gates + _read_bilstm_gates(state, config.encoder_depth)
    for layer in range(config.n_layers if config.encoder == "lstm" else 0):
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


def _read_bilstm_gates(state: Mapping[str, torch.Tensor], depth: int) -> List[Tuple[str, str, float]]:
    gates: List[Tuple[str, str, float]] = []
    for layer in range(depth):
        for direction, suffix in (("forward", ""), ("backward", "_reverse")):
            bias = sum(state[f"encoder.lstm.bias_{side}_l{layer}{suffix}"] for side in ("ih", "hh"))
            i, f, _, o = torch.sigmoid(torch.as_tensor(bias)).chunk(4)
            for name, gate in (("input", i), ("forget", f), ("output", o)):
                gates.append((f"LSTM layer {layer + 1} {direction}", name, float(gate.mean())))
    return gates


def _find_problems(bilm: BiLM) -> List[str]:
    problems, embedder = [], bilm.config.token_embedder
    if embedder is not None:
        problems.append("ELMoForManyLangs: it cannot be pretrained further, nor saved for bilm-tf and AllenNLP")
    if bilm.config.encoder == "bilstm":
        problems.append("the encoder has no recurrent state, and its one layer above the words is the last LSTM layer")
    if bilm.vocabulary is None and embedder is None:
        problems.append("no vocabulary: perplexity cannot be computed (vectors from characters do not need it)")
    if bilm.head is None:
        problems.append(NO_SOFTMAX if embedder is None else "no softmax: perplexity cannot be computed")
    if bilm.config.directions == "forward":
        problems.append("forward direction only: vectors do not depend on the following tokens")
    if bilm.config.char_cnn is None and (embedder is None or not embedder.n_characters):
        problems.append("word input, no characters: all words outside the vocabulary have the same token layer")
    return problems


def _print_report(report: Report, title: str) -> None:
    msg = _common.msg
    msg.divider(title)
    if report.provenance is not None:
        _print_files(report.provenance)
    msg.text(f"Architecture: {report.architecture}")
    msg.table([(key, str(value)) for key, value in report.settings.items()], header=("Setting", "Value"), divider=True)
    counts = [(part, f"{n:,}") for part, n in report.n_parameters.items()]
    msg.table(counts, header=("Part", "Parameters"), aligns=("l", "r"), divider=True)
    gates = [(part, gate, f"{activation:.3f}") for part, gate, activation in report.gates]
    msg.table(gates, header=("Part", "Gate", "Mean activation"), aligns=("l", "l", "r"), divider=True)
    uses = [(use.name, "yes" if use.is_possible else "no", use.reason) for use in report.capabilities]
    msg.table(uses, header=("Use", "Possible", "Details"), divider=True, max_col=100)
    if report.vocabulary is not None:
        msg.text(f"Vocabulary: {report.vocabulary['n_words']:,} words, {' '.join(report.vocabulary['first'])} ...")
    if report.lexicon is not None:
        counts_of = report.lexicon
        msg.text(f"Tables of symbols: {counts_of['n_characters']:,} characters, {counts_of['n_words']:,} words")
    if report.mixes:
        mixes = [(k, mix["gamma"], *mix["shares"]) for k, mix in enumerate(report.mixes)]
        layers = [f"Layer {layer}" for layer in range(len(report.mixes[0]["shares"]))]
        rows = [[f"Mix {k}", *(f"{number:.3f}" for number in numbers)] for k, *numbers in mixes]
        msg.table(rows, header=("Part", "Gamma", *layers), aligns=("l", *"r" * (len(layers) + 1)), divider=True)
    if report.meta:
        msg.divider("Meta data")
        print(srsly.json_dumps(report.meta, indent=2))
    for problem in report.problems:
        msg.warn(problem)
    msg.good("These weights can be used")


def _print_files(provenance: Provenance) -> None:
    msg = _common.msg
    msg.text(f"Format: {provenance.format}, {provenance.n_bytes / 1e6:,.1f} MB")
    rows = [(Path(file.name).name, f"{file.n_bytes:,}", file.sha256) for file in provenance.files]
    msg.table(rows, header=("File", "Bytes", "SHA-256"), aligns=("l", "r", "l"), divider=True, max_col=70)
    if provenance.origin is not None:
        names = ("name", "language", "licence", "paper", "documented")
        facts = [(name.capitalize(), str(provenance.origin.get(name) or "unknown")) for name in names]
        msg.table(facts, header=("Origin", ""), divider=True, max_col=100)
