"""Settings in JSON files of any format, as a `BiLMConfig`: types, values and limits are checked, problems collected."""

import re
from types import MappingProxyType
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..bilm.config import BiLMConfig
from ..util import shorten
from .tensor_map import MAX_ABSOLUTE

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
    problems = [pattern.sub(lambda match: names[match[1]], problem) for problem in problems]
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
        values = {ours: self.take(name, object, default) for ours, (name, default) in table.items()}
        no_clips = [
            name
            for name, value in values.items()
            if name.endswith("_clip") and type(value) in (int, float) and not value
        ]
        return {**values, **dict.fromkeys(no_clips)}

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
        is_stated, value = self._find(name)
        if value is None and default is not ...:
            return default
        if not is_stated or value is None:
            self.problems.append(f"{name} is {'null' if is_stated else 'missing'}")
        elif not isinstance(value, kind) or (isinstance(value, bool) and kind not in (bool, object)):
            self.refuse(name, value, KINDS[kind])
        else:
            return value
        return None

    def refuse(self, name: str, value: Any, expected: str) -> None:
        """Add the problem that a setting should have another value."""
        self.problems.append(f"{name} is {shorten(repr(value), 80)}, should be {expected}")

    def _find(self, name: str) -> Tuple[bool, Any]:
        node: Any = self.options
        for key in name.split("."):
            if not isinstance(node, Mapping) or key not in node:
                return False, None
            node = node[key]
        return True, node


def _without_missing(record: Mapping[str, Any]) -> Dict[str, Any]:
    """Settings that are missing are reported already, and have the defaults of our config."""
    inner = {name: _without_missing(value) if isinstance(value, dict) else value for name, value in record.items()}
    return {name: value for name, value in inner.items() if value is not None}
