"""What a biLM contains: settings, numbers of parameters, gates, vocabulary, and what can be done with it."""

from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

import torch

from ..bilm.model import BiLMNetwork
from ..inference.bilm import BiLM
from .formats import Capability, find_capabilities
from .identity import Provenance
from .parts import mixes_from_meta

NO_SOFTMAX = "no softmax: perplexity cannot be computed, and further training starts with a new softmax"
# Tables with a row for the mask.
MASKED_TABLES = (
    "char_cnn.embedding",
    "token_embedder.char_cnn.embedding",
    "token_embedder.char_lstm.embedding",
    "token_embedder.word_embedding",
)


@dataclass(frozen=True)
class Contents:
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


def read_contents(bilm: BiLM, provenance: Optional[Provenance] = None) -> Contents:
    """bilm (BiLM): A loaded model.
    provenance (Optional[Provenance]): Its format and files.
    RETURNS (Contents): Its contents; no vector is computed.
    """
    words = bilm.vocabulary.words if bilm.vocabulary is not None else None
    symbols = bilm.lexicon
    return Contents(
        settings={**_flatten(bilm.config.to_dict()), "output_width": bilm.config.output_width},
        n_parameters=count_parameters(bilm),
        gates=_read_gates(bilm.network),
        vocabulary=None if words is None else {"n_words": len(words), "first": words[:8]},
        lexicon=None if symbols is None else {"n_characters": len(symbols.characters), "n_words": len(symbols.words)},
        meta=dict(bilm.meta or {}),
        problems=_find_problems(bilm),
        architecture=_describe_architecture(bilm),
        capabilities=find_capabilities(bilm),
        provenance=provenance,
        mixes=[{**asdict(mix), "shares": mix.shares} for mix in mixes_from_meta(bilm.meta, bilm.config.n_layers)],
    )


def _describe_architecture(bilm: BiLM) -> str:
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
