"""What all formats share: network, softmax, vocabulary, scalar mixes; limits on settings, problems in one error."""

import math
import warnings
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

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
from .tensor_map import MAX_ABSOLUTE, Array, Shape

# Functions of all formats: convert networks to arrays and back, read and write vocabularies, check sizes.

MAX_NAMED = 10  # words listed in an error


def build_network(config: BiLMConfig, state: Mapping[str, Array]) -> BiLMNetwork:
    """Create a network with given weights, without random initialization.

    config (BiLMConfig): Its config.
    state (Mapping[str, Array]): float32 arrays of its state dict, not copied.
    RETURNS (BiLMNetwork): In evaluation mode.
    """
    with torch.device("meta"):
        network = BiLMNetwork(config)
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


def build_head(weight: nn.Parameter, bias: Array) -> SoftmaxHead:
    """weight (nn.Parameter): Shape (V, P); the word table itself if it is shared.
    bias (Array): Shape (V,).
    RETURNS (SoftmaxHead): In evaluation mode.
    """
    with torch.device("meta"):
        head = SoftmaxHead(*weight.shape)
    head.weight = weight
    head.bias = nn.Parameter(torch.from_numpy(bias))
    return head.eval()


def is_head_shared(network: BiLMNetwork, head: Optional[LMHead]) -> bool:
    """RETURNS (bool): Whether the softmax shares the word table (bilm-tf's share_embedding_softmax)."""
    return isinstance(head, SoftmaxHead) and head.weight is network.word_embedding


def to_arrays(module: nn.Module) -> Dict[str, Array]:
    """RETURNS (Dict[str, Array]): The module's state dict in NumPy, float32."""
    state = full_state(module) if isinstance(module, BiLMNetwork) else module.state_dict()
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
    bad = [ascii(word) for word in vocabulary.words if not _fits_line(word)]
    bad += [ascii(word) for word in vocabulary.words[:1] if word.startswith(BYTE_ORDER_MARK)]
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


def find_excess(config: BiLMConfig) -> List[str]:
    """config (BiLMConfig): The config in a file.
    RETURNS (List[str]): A description of each setting above its limit.
    """
    record = config.to_dict()
    blocks = [record, *(block for block in record.values() if isinstance(block, dict))]
    sizes = [
        (name, block[name], most) for block in blocks for name, most in MOST.items() if block.get(name) is not None
    ]
    problems = [f"{name} is {shorten(str(n), 40)}, should be at most {most:,}" for name, n, most in sizes if n > most]
    clips = {"cell_clip": config.cell_clip, "projection_clip": config.projection_clip}
    huge = ((name, clip) for name, clip in clips.items() if clip is not None and clip > MAX_ABSOLUTE)
    problems += [f"{name} is {clip}, should be at most {MAX_ABSOLUTE:g}" for name, clip in huge]
    words = config.char_cnn or config.token_embedder
    return problems + find_filter_excess([n for _, n in words.filters] if words else [], "filters")


def find_filter_excess(numbers: List[int], name: str) -> List[str]:
    """numbers (List[int]): Filters of each width.
    name (str): Name of the setting in the file.
    RETURNS (List[str]): Problems: too many widths, or too many filters in total.
    """
    problems = []
    if len(numbers) > MAX_LAYERS:
        problems.append(f"{name} has {len(numbers):,} sizes, should have at most {MAX_LAYERS:,}")
    if sum(numbers) > MAX_WIDTH:
        total = shorten(str(sum(numbers)), 40)
        problems.append(f"{name} has {total} filters in all, should have at most {MAX_WIDTH:,}")
    return problems


def refuse_misfits(problems: Sequence[str], path: object, options: object) -> None:
    """problems (Sequence[str]): From `find_misfits`.
    path (object), options (object): The file of the arrays, and that of the settings.
    RAISES (ValueError): EL026 if there are any.
    """
    if problems:
        settings = {"options": options, "n_problems": len(problems), "problems": listed(problems)}
        raise ValueError(Errors.EL026.format(path=path, **settings))


# Settings of a foreign config file, read with their types and ranges; all problems are collected.


class SettingsReader:
    """Reads settings from nested options, and collects missing, mistyped and out-of-range ones as problems.

    options (Mapping[str, Any]): The parsed JSON.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options
        self.problems: List[str] = []

    def has(self, name: str) -> bool:
        """RETURNS (bool): Whether a dotted name has a value other than null."""
        return self._find(name)[1] is not None

    def take(
        self, name: str, kind: Any, default: Any = ..., *, least: Optional[int] = None, most: Optional[float] = None
    ) -> Any:
        """name (str): Dotted name.
        kind (Any): Its type, or several.
        default (Any): For a missing value; without it, a missing value is a problem.
        least (Optional[int]), most (Optional[float]): Its range.
        RETURNS (Any): The value, None if it is invalid.
        """
        found, value = self._find(name)
        if value is None and default is not ...:
            return default
        if not found or value is None:
            self.problems.append(f"{name} is {'null' if found else 'missing'}")
        elif not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.refuse(name, value, _kind_name(kind))
        elif least is not None and not value >= least:  # also refuses NaN
            self.refuse(name, value, f"{least} or more" + (", or null for none" if default is None else ""))
        elif most is not None and value > most:
            self.refuse(name, value, f"at most {most:,}" if most < MAX_ABSOLUTE else f"at most {most:g}")
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


def _kind_name(kind: Any) -> str:
    names = {
        int: "an integer",
        bool: "true or false",
        str: "a string",
        list: "a list",
        (int, float): "a number",
        Mapping: "a block of settings",
    }
    return names.get(kind, str(kind))


def read_filters(reader: SettingsReader, name: str, max_width: Optional[int]) -> Tuple[Tuple[int, int], ...]:
    """name (str): Dotted name of a list of [width, number].
    max_width (Optional[int]): Characters of a word; None if they are not known.
    RETURNS (Tuple[Tuple[int, int], ...]): The filters, empty if they are not valid.
    """
    filters = reader.take(name, list)
    if filters is None:
        return ()
    if not all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 and all(type(n) is int for n in pair) for pair in filters
    ):
        reader.refuse(name, filters, "a list of [width, number]")
        return ()
    if not filters:
        reader.problems.append(f"{name} is empty, should name at least one [width, number]")
    reader.problems += find_filter_excess([number for _, number in filters], name)
    for width, number in filters:
        if number < 1:
            reader.problems.append(f"{name} has [{width}, {number}], should have 1 filter or more")
        if max_width is not None and not 1 <= width <= max_width:
            reader.problems.append(f"{name} has [{width}, {number}], should be 1 to {max_width} characters wide")
    return tuple((width, number) for width, number in filters)
