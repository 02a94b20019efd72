"""What all formats share: network, softmax, vocabulary, scalar mixes; limits on settings, problems in one error."""

import math
import re
import warnings
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from torch import nn

from ..bilm.config import BiLMConfig
from ..bilm.lm_head import LMHead, SoftmaxHead
from ..bilm.model import BiLMNetwork
from ..errors import Errors, Warnings
from ..inference.products import full_state
from ..text.words import BYTE_ORDER_MARK, Vocabulary
from ..util import is_number, listed, shorten
from .sources import Source
from .tensor_map import MAX_ABSOLUTE, Array, Dataset, Shape, import_arrays

# Functions of all formats: convert networks to arrays and back, read and write vocabularies, check sizes.

MAX_NAMED = 10  # words listed in an error


def load_network(config: BiLMConfig, table: Iterable[Dataset], arrays: Mapping[str, Array]) -> BiLMNetwork:
    """Create a network with the weights of a file, without random initialization.

    config (BiLMConfig): Its config, of sizes within the limits.
    table (Iterable[Dataset]): The arrays of the file, and their positions in the state dict.
    arrays (Mapping[str, Array]): Arrays without problems, see `find_misfits`.
    RETURNS (BiLMNetwork): float32, in evaluation mode.
    """
    with torch.device("meta"):
        network = BiLMNetwork(config)
    state = import_arrays(table, arrays, {key: tuple(tensor.shape) for key, tensor in network.state_dict().items()})
    network.load_state_dict({key: torch.from_numpy(array) for key, array in state.items()}, assign=True)
    return network.eval()


def network_shapes(config: BiLMConfig) -> Dict[str, Shape]:
    """config (BiLMConfig): Of sizes within the limits.
    RETURNS (Dict[str, Shape]): Names and shapes of the state dict of its network; no memory is taken.
    """
    with torch.device("meta"):
        network = BiLMNetwork(config)
    return {key: tuple(tensor.shape) for key, tensor in network.state_dict().items()}


def count_numbers(shapes: Mapping[str, Shape]) -> Dict[str, int]:
    """RETURNS (Dict[str, int]): Parameters in each array of a network. The first row of a table of symbols is of the
    mask, and not a parameter.
    """
    masked = [name for name in shapes if name.endswith("embedding") and name != "word_embedding"]
    return {name: prod(shape) - (shape[1] if name in masked else 0) for name, shape in shapes.items()}


def softmax_shapes(
    names: Tuple[str, str], arrays: Mapping[str, Array], config: BiLMConfig, *, is_shared: bool, is_needed: bool = False
) -> Dict[str, Shape]:
    """names (Tuple[str, str]): Names of its weight and bias.
    arrays (Mapping[str, Array]): The arrays of the file.
    config (BiLMConfig): Of the network.
    is_shared (bool): Whether its weight is the word table.
    is_needed (bool): Whether it must be there.
    RETURNS (Dict[str, Shape]): Expected shapes, empty without a softmax. It has any number of rows, or those of the
        word table if this is shared.
    """
    found = [arrays[name] for name in names if name in arrays]
    if not found and not is_needed:
        return {}
    n_words = (config.n_words or 0) if is_shared or not found or not found[0].shape else len(found[0])
    shapes: Dict[str, Shape] = {names[0]: (n_words, config.projection_width), names[1]: (n_words,)}
    return {names[1]: shapes[names[1]]} if is_shared else shapes


def build_softmax(weight: Union[nn.Parameter, Array], bias: Array) -> SoftmaxHead:
    """weight (Union[nn.Parameter, Array]): Shape (V, P); the word table itself if it is shared.
    bias (Array): Shape (V,).
    RETURNS (SoftmaxHead): float32, in evaluation mode.
    """
    if not isinstance(weight, nn.Parameter):
        weight = nn.Parameter(torch.from_numpy(as_float32(weight)))
    with torch.device("meta"):
        head = SoftmaxHead(*weight.shape)
    head.weight = weight
    head.bias = nn.Parameter(torch.from_numpy(as_float32(bias)))
    return head.eval()


def load_softmax(
    names: Tuple[str, str], arrays: Mapping[str, Array], network: BiLMNetwork, *, is_shared: bool
) -> Optional[SoftmaxHead]:
    """names (Tuple[str, str]), arrays (Mapping[str, Array]), is_shared (bool): See `softmax_shapes`.
    RETURNS (Optional[SoftmaxHead]): None without a softmax.
    """
    if names[1] not in arrays:
        return None
    table = network.word_embedding if is_shared else None
    return build_softmax(arrays[names[0]] if table is None else table, arrays[names[1]])


def is_head_shared(network: BiLMNetwork, head: Optional[LMHead]) -> bool:
    """RETURNS (bool): Whether the softmax shares the word table (bilm-tf's share_embedding_softmax)."""
    return isinstance(head, SoftmaxHead) and head.weight is network.word_embedding


def to_arrays(module: nn.Module) -> Dict[str, Array]:
    """RETURNS (Dict[str, Array]): The module's state dict in NumPy, float32.
    RAISES (ValueError): For a biLM with parametrizations or pruned weights, which no format has.
    """
    state = full_state(module) if isinstance(module, BiLMNetwork) else module.state_dict()
    if isinstance(module, BiLMNetwork) and (others := sorted(state.keys() - network_shapes(module.config).keys())):
        raise ValueError(
            f"The biLM has parametrizations or pruned weights ({shorten(', '.join(others))}), which no format has. "
            "Make them permanent before it is saved: `torch.nn.utils.parametrize.remove_parametrizations`, or "
            "`torch.nn.utils.prune.remove`."
        )
    return {key: tensor.detach().cpu().numpy() for key, tensor in state.items()}


def as_float32(array: Array) -> Array:
    """RETURNS (Array): A writable float32 copy."""
    return np.array(array, dtype="float32", order="C")


def no_vocabulary(path: object, reason: object) -> ValueError:
    """RETURNS (ValueError): A file cannot be used as vocabulary, and why."""
    return ValueError(
        f"'{path}' cannot be used as vocabulary, one word per line in UTF-8: {reason} Correct the file, convert it "
        "to UTF-8, or use another one."
    )


def read_vocabulary(source: Source, is_needed: bool) -> Optional[Vocabulary]:
    """Read a vocabulary, one word per line.

    source (Source): The text file, UTF-8.
    is_needed (bool): Whether the model needs it; otherwise an invalid file is ignored with a warning.
    RETURNS (Optional[Vocabulary]): The words, or None after the warning WL020.
    RAISES (ValueError): If it is needed and invalid.
    """
    try:
        # Only a line feed (in a file without any, a carriage return) ends a line, since words may contain other line
        # separators of Unicode.
        text = source.read_text()
        lines = text.split("\n" if "\n" in text else "\r")
        vocabulary = Vocabulary.from_lines(lines[:-1] if not lines[-1] else lines)
    except ValueError as error:
        if is_needed:
            raise no_vocabulary(source, error) from error
        warnings.warn(Warnings.WL020.format(path=source, reason=error), stacklevel=2)
        return None
    _warn_of_repeated(vocabulary.words, source)
    return vocabulary


def _warn_of_repeated(words: List[str], source: Source) -> None:
    """bilm-tf reads such vocabularies, too: a word is trained, and looked up, in the last of its rows."""
    n_repeated = len(words) - len(set(words))
    if n_repeated:
        lines: Dict[str, int] = {}
        first = next(i for i, word in enumerate(words) if lines.setdefault(word, i) != i)
        text = (
            f"The vocabulary '{source}' repeats {n_repeated:,} word(s), first {words[first]!r} in the lines "
            f"{lines[words[first]] + 1:,} and {first + 1:,}. As in bilm-tf, a word has the last of its rows. Remove no "
            "line: lines are the rows of the weights."
        )
        warnings.warn(text, stacklevel=3)


def write_vocabulary(path: Path, vocabulary: Vocabulary) -> None:
    """path (Path): Output, a text file with one word per line.
    vocabulary (Vocabulary): The words.
    RAISES (ValueError): With words that would change when the file is read.
    """
    bad = [repr(word) for word in vocabulary.words if not _fits_line(word)]
    bad += [repr(word) for word in vocabulary.words[:1] if word.startswith(BYTE_ORDER_MARK)]
    if bad:
        words = ", ".join(bad[:MAX_NAMED])
        raise ValueError(
            f"{len(bad)} words of the vocabulary cannot be written to {path.name}, which has one word per line in "
            f"UTF-8: {words}. Replace these words: they contain a line feed or an unpaired surrogate, end in a "
            "carriage return, or begin with a byte order mark."
        )
    path.write_bytes("".join(f"{word}\n" for word in vocabulary.words).encode("utf8"))


def _fits_line(word: str) -> bool:
    """No line feed, no final carriage return (a line end on Windows), no unpaired surrogate."""
    return "\n" not in word and not word.endswith("\r") and not any("\ud800" <= char <= "\udfff" for char in word)


def check_vocabulary(vocabulary: Optional[Vocabulary], rows: Mapping[str, int]) -> None:
    """vocabulary (Optional[Vocabulary]): The words, if there are any.
    rows (Mapping[str, int]): Rows of each table that should have one row per word.
    RAISES (ValueError): With all tables that do not fit.
    """
    if vocabulary is None:
        return
    misfits = [f"{name} has {n} rows" for name, n in rows.items() if n != len(vocabulary)]
    if misfits:
        listing = "; ".join(misfits)
        raise ValueError(
            f"The vocabulary has {len(vocabulary)} words, but {listing}. Pass the vocabulary the model was "
            "trained with, one word per line in the order of the rows."
        )


def table_rows(
    words: Optional[Array] = None, softmax_bias: Optional[Array] = None, embeddings: Optional[Array] = None
) -> Dict[str, int]:
    """words (Optional[Array]): The word table.
    softmax_bias (Optional[Array]): One value per word.
    embeddings (Optional[Array]): Precomputed word vectors.
    RETURNS (Dict[str, int]): Rows of every table with one row per word.
    """
    tables = {"the word table": words, "the softmax": softmax_bias, "the token embeddings": embeddings}
    return {name: len(table) for name, table in tables.items() if table is not None and table.shape}


def check_dtype_fits(arrays: Mapping[str, Array], dtype: str) -> None:
    """arrays (Mapping[str, Array]): float32 arrays to be written.
    dtype (str): "float32" or "float16".
    RAISES (ValueError): For values that are not finite in that dtype.
    """
    with np.errstate(over="ignore"):
        bad: List[str] = [name for name, array in arrays.items() if not np.isfinite(array.astype(dtype)).all()]
    if bad:
        names = ", ".join(sorted(bad))
        raise ValueError(
            f"These tensors have values that are too large or not finite in {dtype}: {names}. Save as float32, or "
            "check how the model was trained."
        )


def cannot_add(path: object, format: str, given: str) -> ValueError:
    """RETURNS (ValueError): Files of words or options cannot be added to a biLM in this format."""
    return ValueError(
        f"The biLM in '{path}' is in the {format} format, which contains all its parameters and words, so {given} "
        f"cannot be added. Load it without {given}; a biLM with LSTMs can be saved in the bilm-tf format, and loaded "
        f"from there with {given}."
    )


# Scalar mixes that were trained with a biLM: as values, and in its meta data, with which every format keeps them.

MIXES_KEY = "scalar_mixes"  # in the meta data of a biLM
NORMS = (None, "token", "bilm-tf", "allennlp")


@dataclass(frozen=True)
class LoadedMix:
    """A scalar mix that was trained with a biLM, Peters et al. (2018), eq. 1.

    weights (Sequence[float]): Raw weights, one per layer, the token layer first.
    gamma (float): Scale.
    layer_norm (Optional[str]): Norm of each layer before the mix: "allennlp" for AllenNLP's do_layer_norm, or None.
    """

    weights: Sequence[float]
    gamma: float
    layer_norm: Optional[str] = None

    @property
    def shares(self) -> List[float]:
        """RETURNS (List[float]): softmax(weights), the share of each layer."""
        powers = [math.exp(weight - max(self.weights)) for weight in self.weights]
        return [power / sum(powers) for power in powers]


def mixes_to_meta(mixes: Sequence[LoadedMix]) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): The entry of the meta data, empty without mixes; plain JSON types."""
    records = [{**asdict(mix), "weights": [float(weight) for weight in mix.weights]} for mix in mixes]
    return {MIXES_KEY: records} if records else {}


def mixes_from_meta(meta: Optional[Mapping[str, Any]], n_layers: int) -> Tuple[LoadedMix, ...]:
    """The inverse of `mixes_to_meta`.

    meta (Optional[Mapping[str, Any]]): Meta data of a biLM, from any file.
    n_layers (int): L, LSTM layers of the biLM; a mix has L + 1 weights.
    RETURNS (Tuple[LoadedMix, ...]): The mixes, none if the meta data have none.
    RAISES (ValueError): For anything but mixes under their key.
    """
    records = (meta or {}).get(MIXES_KEY) or []
    if not isinstance(records, list) or not all(_is_mix(record, n_layers + 1) for record in records):
        problem = (
            f"{MIXES_KEY} in its meta data is {shorten(repr(records), 200)}, should be a list of objects with "
            f"`weights` ({n_layers + 1} numbers), `gamma` (a number) and optionally `layer_norm`"
        )
        raise ValueError(f"The scalar mixes of the biLM cannot be used: {problem}. Correct or remove the entry.")
    return tuple(LoadedMix(tuple(item["weights"]), item["gamma"], item.get("layer_norm")) for item in records)


def _is_mix(record: Any, n_weights: int) -> bool:
    if not isinstance(record, Mapping) or not isinstance(record.get("weights"), list):
        return False
    weights = record["weights"]
    are_numbers = all(is_number(value) and abs(value) <= MAX_ABSOLUTE for value in [*weights, record.get("gamma")])
    return are_numbers and len(weights) == n_weights and record.get("layer_norm") in NORMS


# Limits on what a config may declare, far above those of existing biLMs

MAX_LAYERS = 1000  # layers of the encoder, highway layers, filter sizes
MAX_WIDTH = 2**20
MAX_CHARACTERS = 1000  # ids per word, of 8 bytes each, for thousands of words at once
MAX_WORDS = 2**31
MAX_CUTOFFS = 100  # clusters of an adaptive softmax
WRAPPING = re.compile(r"The [\w ]+ is invalid: |\.? Correct these settings\.?|\.$")  # of the errors of configs
KINDS = {int: "an integer", bool: "true or false", str: "a string", Mapping: "a block of settings"}

# Settings by their names in `BiLMConfig`, `CharCNNConfig` and `TransformerConfig`.
MOST: Dict[str, int] = {
    "n_layers": MAX_LAYERS,
    "cell_width": MAX_WIDTH,
    "projection_width": MAX_WIDTH,
    "n_words": MAX_WORDS,
    "embedding_width": MAX_WIDTH,
    "n_highway": MAX_LAYERS,
    "max_characters": MAX_CHARACTERS,
    "n_characters": MAX_WIDTH,
    "character_width": MAX_WIDTH,
    "word_width": MAX_WIDTH,
    "encoder_depth": MAX_LAYERS,
    "feedforward_width": MAX_WIDTH,
    "max_positions": MAX_WIDTH,
}


def build_config(
    record: Mapping[str, Any], names: Mapping[str, str] = MappingProxyType({})
) -> Tuple[Optional[BiLMConfig], List[str]]:
    """Check types, values and limits of all settings, for every format.

    record (Mapping[str, Any]): The settings by our names, see `BiLMConfig.from_dict`.
    names (Mapping[str, str]): Their names in the file, for messages.
    RETURNS (Tuple[Optional[BiLMConfig], List[str]]): The config, None if there are problems, and all problems.
    """
    try:
        config = BiLMConfig.from_dict(record)
        problems = _find_excess(config)
    except (ValueError, TypeError) as error:
        problems = [WRAPPING.sub("", str(error))]
    pattern = re.compile(rf"\b(?:(?:char_cnn|token_embedder|transformer)\.)?({'|'.join(names) or '$^'})\b(?! in all)")
    problems = [pattern.sub(lambda found: names[found[1]], problem) for problem in problems]
    return (None, problems) if problems else (config, [])


def _find_excess(config: BiLMConfig) -> List[str]:
    record = config.to_dict()
    blocks = [record, *(block for block in record.values() if isinstance(block, dict))]
    sizes = [
        (name, block[name], most) for block in blocks for name, most in MOST.items() if block.get(name) is not None
    ]
    words = config.char_cnn or config.token_embedder
    filters = [] if words is None else words.filters
    problems = [f"{name} is {shorten(str(n), 40)}, should be at most {most:,}" for name, n, most in sizes if n > most]
    clips = {"cell_clip": config.cell_clip, "projection_clip": config.projection_clip}
    huge = ((name, clip) for name, clip in clips.items() if clip is not None and clip > MAX_ABSOLUTE)
    problems += [f"{name} is {clip}, should be at most {MAX_ABSOLUTE:g}" for name, clip in huge]
    if len(filters) > MAX_LAYERS:
        problems.append(f"filters has {len(filters):,} sizes, should have at most {MAX_LAYERS:,}")
    if sum(n for _, n in filters) > MAX_WIDTH:
        total = shorten(str(sum(n for _, n in filters)), 40)
        problems.append(f"filters has {total} filters in all, should have at most {MAX_WIDTH:,}")
    return problems


def refuse_misfits(problems: Sequence[str], path: object, options: object) -> None:
    """problems (Sequence[str]): From `find_misfits`.
    path (object), options (object): The file of the arrays, and that of the settings.
    RAISES (ValueError): EL026 if there are any.
    """
    if problems:
        settings = {"options": options, "n_problems": len(problems), "problems": listed(problems)}
        raise ValueError(Errors.EL026.format(path=path, **settings))


# Settings of a foreign config file. All problems are collected.


class SettingsReader:
    """Reads settings from nested options, and collects problems: missing ones, and those of `build`.

    options (Mapping[str, Any]): The parsed JSON.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options
        self.problems: List[str] = []
        self.names: Dict[str, str] = {}

    def read(self, table: Mapping[str, Tuple[str, Any]]) -> Dict[str, Any]:
        """table (Mapping[str, Tuple[str, Any]]): For each of our settings its dotted name in the file and its default,
            ... for none.
        RETURNS (Dict[str, Any]): The values by our names, a clip of 0 as null; their types are not checked.
        """
        self.names.update({ours: name for ours, (name, _) in table.items()})
        found = {ours: self.take(name, object, default) for ours, (name, default) in table.items()}
        no_clips = [
            name
            for name, value in found.items()
            if name.endswith("_clip") and type(value) in (int, float) and not value
        ]
        return {**found, **dict.fromkeys(no_clips)}

    def build(self, record: Mapping[str, Any]) -> Optional[BiLMConfig]:
        """record (Mapping[str, Any]): Settings from `read`, in their blocks, and others.
        RETURNS (Optional[BiLMConfig]): The config, None if there are problems.
        """
        config, problems = build_config(_without_missing(record) if self.problems else record, self.names)
        self.problems += problems
        return None if self.problems else config

    def has(self, name: str) -> bool:
        """RETURNS (bool): Whether a dotted name has a value other than null."""
        return self._find(name)[1] is not None

    def take(self, name: str, kind: Any, default: Any = ...) -> Any:
        """name (str): Dotted name.
        kind (Any): Its type.
        default (Any): For a missing value; without it, a missing value is a problem.
        RETURNS (Any): The value, None if it is invalid.
        """
        found, value = self._find(name)
        if value is None and default is not ...:
            return default
        if not found or value is None:
            self.problems.append(f"{name} is {'null' if found else 'missing'}")
        elif not isinstance(value, kind) or (isinstance(value, bool) and kind not in (bool, object)):
            self.refuse(name, value, KINDS[kind])
        else:
            return value
        return None

    def refuse(self, name: str, value: Any, wanted: str) -> None:
        """Add the problem that a setting should have another value."""
        self.problems.append(f"{name} is {shorten(repr(value), 80)}, should be {wanted}")

    def _find(self, name: str) -> Tuple[bool, Any]:
        node: Any = self.options
        for part in name.split("."):
            if not isinstance(node, Mapping) or part not in node:
                return False, None
            node = node[part]
        return True, node


def _without_missing(record: Mapping[str, Any]) -> Dict[str, Any]:
    """Settings that are missing are reported already, and have the defaults of our config."""
    inner = {name: _without_missing(value) if isinstance(value, dict) else value for name, value in record.items()}
    return {name: value for name, value in inner.items() if value is not None}
