"""What a biLM contains: settings, numbers of parameters, gates, vocabulary, and what can be done with it."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import torch

from ..bilm.network import BiLMNetwork
from ..files import hash_file
from ..inference.bilm import BiLM
from ..inference.products import find_unsupported, quantizable_names
from ..util import DIRECTIONS, PRECISIONS
from .archive import File, PathLike
from .formats import FORMATS, INT8, detect_format, detect_pair, locate_model, split_name
from .meta import mixes_from_meta, read_record
from .tensor_map import count_numbers


@dataclass(frozen=True)
class FileFacts:
    """A file of a biLM: its path, size and checksum."""

    name: str
    n_bytes: int
    sha256: str


@dataclass(frozen=True)
class Origin:
    """Where a biLM is from.

    path (str), format (str): The folder or file, and the name of its format.
    files (Tuple[FileFacts, ...]): Its files; an archive is one file.
    download (Optional[Dict[str, Any]]): The record of `elmo download`.
    """

    path: str
    format: str
    files: Tuple[FileFacts, ...]
    download: Optional[Dict[str, Any]]

    @property
    def n_bytes(self) -> int:
        return sum(file.n_bytes for file in self.files)


@dataclass(frozen=True)
class Capability:
    """A use of a biLM, whether this biLM can be used for it, and why not, or how."""

    name: str
    is_possible: bool
    reason: str = ""


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
    origin (Optional[Origin]): Format and files, None for a biLM that was not read from a path.
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
    origin: Optional[Origin]
    mixes: List[Dict[str, Any]]


def read_contents(bilm: BiLM, origin: Optional[Origin] = None) -> Contents:
    """The contents of a loaded biLM, and its origin if it is known; no vector is computed."""
    words = bilm.vocabulary.words if bilm.vocabulary is not None else None
    symbols, capabilities = bilm.lexicon, _find_capabilities(bilm)
    return Contents(
        settings={**_flatten(bilm.config.to_dict()), "output_width": bilm.config.output_width},
        n_parameters=count_parameters(bilm),
        gates=_read_gates(bilm.network),
        vocabulary=None if words is None else {"n_words": len(words), "first": words[:8]},
        lexicon=None if symbols is None else {"n_characters": len(symbols.characters), "n_words": len(symbols.words)},
        meta=dict(bilm.meta or {}),
        problems=[f"{use.name} is not possible: {use.reason}" for use in capabilities[:4] if not use.is_possible],
        architecture=_describe_architecture(bilm),
        capabilities=capabilities,
        origin=origin,
        mixes=[{**asdict(mix), "shares": mix.shares} for mix in mixes_from_meta(bilm.meta, bilm.config.n_layers)],
    )


def read_origin(path: PathLike, options: Optional[Path] = None) -> Origin:
    """The origin of a biLM, see `load_bilm`; with `options`, which are not beside the weights, `path` is the file of
    the weights. All files are read for their checksums.

    RAISES (ValueError): EL020 and other errors if no biLM is detected.
    """
    target = locate_model(split_name(path)[0])
    if options is not None:
        format, model = detect_pair(target, File(options))
        paths = sorted({*model.paths, options})
    else:
        format, model = detect_format(target)
        paths = model.paths
    files = tuple(FileFacts(str(file), file.stat().st_size, hash_file(file)) for file in paths)
    return Origin(str(target), format.name, files, read_record(target))


def _describe_architecture(bilm: BiLM) -> str:
    config, characters = bilm.config, bilm.config.char_cnn
    words = "a table of words" if characters is None else f"a character CNN ({characters.codec})"
    if config.token_embedder is not None:
        words = f"words and characters of ELMoForManyLangs ({config.token_embedder.kind})"
    directions = "forward only" if config.directions == "forward" else "forward and backward"
    layers = f"{config.n_layers} {config.encoder.upper() if config.encoder == 'lstm' else config.encoder} layer(s)"
    return f"biLM of {layers} of width {config.projection_width}, {directions}, over {words}"


def count_parameters(bilm: BiLM) -> Dict[str, int]:
    """Parameters per module and of the biLM (tables without their mask row, as in the papers), and of softmax and token
    embeddings if present.
    """
    counts: Dict[str, int] = {}
    shapes = {key: tuple(tensor.shape) for key, tensor in bilm.network.state_dict().items()}
    for key, n_numbers in count_numbers(shapes).items():
        counts[_module_of(key)] = counts.get(_module_of(key), 0) + n_numbers
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


def _module_of(key: str) -> str:
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
    biases = []  # of each LSTM, gates i, f, o
    for layer in range(config.n_layers if config.encoder == "lstm" else 0):
        for row in state[f"encoder.layers.{layer}.bias"]:  # (4H,), columns i, j, f, o
            i, _, f, o = row.chunk(4)
            biases.append((i, f + 1.0, o))  # the forget bias of 1 is not stored in the weights
    for layer in range(config.encoder_depth if config.encoder == "bilstm" else 0):
        for suffix in ("", "_reverse"):
            both = [state[f"encoder.lstm.bias_{side}_l{layer}{suffix}"] for side in ("ih", "hh")]
            i, f, _, o = (both[0] + both[1]).chunk(4)
            biases.append((i, f, o))
    for row, bias in enumerate(biases):
        layer, k = divmod(row, config.n_directions)
        module = f"LSTM layer {layer + 1} {DIRECTIONS[k]}"
        for name, gate in zip(("input", "forget", "output"), bias):
            gates.append((module, name, float(torch.sigmoid(gate).mean())))
    for k in range(config.n_layers - 1 if config.highway_between else 0):
        for direction, row in zip(DIRECTIONS, state[f"encoder.highways.{k}.bias"]):
            activation = float(torch.sigmoid(row).mean())
            gates.append((f"highway around LSTM layer {k + 2} {direction}", "transform", activation))
    return gates


def _find_capabilities(bilm: BiLM) -> List[Capability]:
    """Vectors, perplexity, training, export to each format, each reduced precision."""
    config, embedder = bilm.config, bilm.config.token_embedder
    sizes = f"{config.n_layers + 1} layers of {config.output_width} dimensions"
    sizes += ", forward direction only" if config.directions == "forward" else ""
    reads_characters = config.char_cnn is not None or (embedder is not None and embedder.n_characters > 0)
    from_characters = reads_characters and bilm.token_embeddings is None
    unknown = (
        "from characters"
        if from_characters
        else "words outside the vocabulary share the vector of <UNK> in the token layer"
    )
    lacking = [name for name, value in (("softmax", bilm.head), ("vocabulary", bilm.vocabulary)) if value is None]
    training = Capability("further training", True, "with a new vocabulary and a new softmax" if lacking else "")
    if embedder is not None:
        reason = "ELMoForManyLangs: pretraining has no word input of this kind"
        training = Capability("further training", False, reason)
    elif config.encoder == "bilstm":
        reason = "a plain bidirectional LSTM can be fine-tuned with a task only"
        training = Capability("further training", False, reason)
    capabilities = [
        Capability("contextual vectors", True, sizes),
        Capability("vectors of unknown words", from_characters, unknown),
        Capability("perplexity", not lacking, f"it lacks: {', '.join(lacking)}" if lacking else ""),
        training,
    ]
    has_matrices = bool(quantizable_names(bilm.network))
    for format in FORMATS:
        if format.write is not None:
            reason = "; ".join(format.find_unwritable(bilm))
            dtypes = ", ".join(dtype for dtype in format.dtypes if dtype != INT8 or has_matrices)
            capabilities.append(Capability(f"export to {format.name}", not reason, reason or dtypes))
    for precision in PRECISIONS[1:]:
        reason = "" if has_matrices else "it has no matrices that are computed in reduced precision"
        if has_matrices and config.encoder == "bilstm":
            reason = "the encoder 'bilstm' is computed in float32 only"
        reason = reason or find_unsupported(precision, bilm.device) or ""
        how = "matrices of the layers above the words"
        capabilities.append(Capability(f"computation in {precision}", not reason, reason or how))
    return capabilities
