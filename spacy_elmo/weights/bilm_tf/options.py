"""Convert bilm-tf's options.json to a `BiLMConfig` and back. All problems of a file are reported at once."""

from typing import Any, Dict, Mapping, Optional, Tuple

from ...bilm.config import ACTIVATIONS, BiLMConfig, CharCNNConfig
from ...errors import Errors
from ..limits import MAX_ABSOLUTE, MAX_CHARACTERS, MAX_LAYERS, MAX_WIDTH, MAX_WORDS, find_filter_excess, shorten
from ..settings_reader import SettingsReader

DEFAULT_MAX_CHARACTERS = 50
N_CHARACTERS_INFERENCE = 262
KNOWN_N_CHARACTERS = (261, 262)
MIN_CHARACTERS = 4  # as in `CharCNNConfig`


def read_options(
    options: Any,
    source: str,
    *,
    has_projection: bool = False,
    n_words: Optional[int] = None,
    forward_only: bool = False,
) -> BiLMConfig:
    """Convert options to a config.

    Three properties are taken from the weights file, since options omit them, or differ in training and inference.

    options (Any): The parsed JSON.
    source (str): Source of the options, for messages.
    has_projection (bool): Whether the weights have a character projection, even if bilm-tf would have none.
    n_words (Optional[int]): Rows of the word table in the weights, for options without `char_cnn`.
    forward_only (bool): Whether the names of the weights are those of a dump of a forward model.
    RETURNS (BiLMConfig): The config.
    RAISES (ValueError): EL023 with all problems.
    """
    if not isinstance(options, Mapping):
        problems = [f"it contains a {type(options).__name__}, not a block of settings"]
        raise ValueError(Errors.EL023.format(path=source, problems=problems[0]))
    reader = SettingsReader(options)
    settings = _lstm_settings(reader)
    characters = None
    if reader.has("char_cnn"):
        characters = _char_settings(reader, settings["projection_width"] if has_projection else None)
    else:
        settings["n_words"] = _n_words(reader, n_words)
    is_bidirectional = reader.take("bidirectional", bool, True)
    settings["directions"] = "forward" if forward_only or is_bidirectional is False else "both"
    if reader.problems:
        raise ValueError(Errors.EL023.format(path=source, problems=shorten("; ".join(reader.problems))))
    return BiLMConfig(char_cnn=None if characters is None else CharCNNConfig(**characters), **settings)


def write_options(config: BiLMConfig, n_vocabulary: Optional[int] = None) -> Dict[str, Any]:
    """config (BiLMConfig): The config.
    n_vocabulary (Optional[int]): V of the softmax or of the word table, if there is one.
    RETURNS (Dict[str, Any]): Options that bilm-tf and AllenNLP read for inference.
    """
    options: Dict[str, Any] = {
        "bidirectional": config.directions == "both",
        "lstm": {
            "use_skip_connections": config.has_skip,
            "projection_dim": config.projection_width,
            "cell_clip": config.cell_clip,
            "proj_clip": config.projection_clip,
            "dim": config.cell_width,
            "n_layers": config.n_layers,
        },
    }
    if config.char_cnn is not None:
        options["char_cnn"] = _write_char_cnn(config.char_cnn)
    if n_vocabulary is not None:
        options["n_tokens_vocab"] = n_vocabulary
    return options


def _lstm_settings(reader: SettingsReader) -> Dict[str, Any]:
    reader.take("lstm", Mapping, {})
    cell_width = reader.take("lstm.dim", int, least=1, most=MAX_WIDTH)
    projection_width = reader.take("lstm.projection_dim", int, least=1, most=MAX_WIDTH)
    if cell_width and projection_width and projection_width > cell_width:
        reader.refuse("lstm.projection_dim", projection_width, f"1 to lstm.dim ({cell_width})")
    return {
        "n_layers": reader.take("lstm.n_layers", int, 1, least=1, most=MAX_LAYERS),
        "cell_width": cell_width,
        "projection_width": projection_width,
        # null and 0 mean no clip: null in bilm-tf, both in AllenNLP.
        "cell_clip": reader.take("lstm.cell_clip", (int, float), None, least=0, most=MAX_ABSOLUTE) or None,
        "projection_clip": reader.take("lstm.proj_clip", (int, float), None, least=0, most=MAX_ABSOLUTE) or None,
        "has_skip": reader.take("lstm.use_skip_connections", bool, False),
    }


def _char_settings(reader: SettingsReader, projected_width: Optional[int]) -> Dict[str, Any]:
    """Settings of the character CNN. `projected_width` is the width of the projection in the weights, if any."""
    reader.take("char_cnn", Mapping, {})
    n_characters = reader.take("char_cnn.n_characters", int, N_CHARACTERS_INFERENCE)
    if n_characters is not None and n_characters not in KNOWN_N_CHARACTERS:
        reader.refuse("char_cnn.n_characters", n_characters, "261 (training) or 262 (inference)")
    activation = reader.take("char_cnn.activation", str)
    if activation is not None and activation not in ACTIVATIONS:
        reader.refuse("char_cnn.activation", activation, f"one of: {', '.join(ACTIVATIONS)}")
    name = "char_cnn.max_characters_per_token"
    max_characters = reader.take(name, int, DEFAULT_MAX_CHARACTERS, least=MIN_CHARACTERS, most=MAX_CHARACTERS)
    filters = _read_filters(reader, max_characters)
    return {
        "embedding_width": reader.take("char_cnn.embedding.dim", int, least=1, most=MAX_WIDTH),
        "filters": filters,
        "activation": activation,
        "n_highway": reader.take("char_cnn.n_highway", int, 0, least=0, most=MAX_LAYERS),
        "max_characters": max_characters,
        "always_project": filters is not None and sum(n for _, n in filters) == projected_width,
    }


def _read_filters(reader: SettingsReader, max_characters: Optional[int]) -> Optional[Tuple[Tuple[int, int], ...]]:
    filters = reader.take("char_cnn.filters", list)
    if filters is None:
        return None
    if not all(_is_filter(pair) for pair in filters):
        reader.refuse("char_cnn.filters", filters, "a list of [width, number]")
        return None
    if not filters:
        reader.problems.append("char_cnn.filters is empty, should name at least one [width, number]")
    reader.problems += find_filter_excess([number for _, number in filters], "char_cnn.filters")
    for width, number in filters:
        if number < 1:
            reader.problems.append(f"char_cnn.filters has [{width}, {number}], should have 1 filter or more")
        if max_characters is not None and not 1 <= width <= max_characters:
            wanted = f"should be 1 to {max_characters} characters wide"
            reader.problems.append(f"char_cnn.filters has [{width}, {number}], {wanted}")
    return tuple((width, number) for width, number in filters)


def _is_filter(pair: Any) -> bool:
    return isinstance(pair, (list, tuple)) and len(pair) == 2 and all(type(size) is int for size in pair)


def _n_words(reader: SettingsReader, n_words: Optional[int]) -> Optional[int]:
    """Rows of the word table in the file; a different number in the options is a problem."""
    stated = reader.take("n_tokens_vocab", int, None, least=1, most=MAX_WORDS)
    if n_words is None and stated is None:
        reader.problems.append("there is no char_cnn block, no n_tokens_vocab and no word table in the weights")
    elif n_words is not None and stated is not None and n_words != stated:
        reader.problems.append(f"n_tokens_vocab is {stated}, but the word table of the weights has {n_words} rows")
    return stated if n_words is None else n_words


def _write_char_cnn(char_cnn: CharCNNConfig) -> Dict[str, Any]:
    return {
        "activation": char_cnn.activation,
        "embedding": {"dim": char_cnn.embedding_width},
        "filters": [list(pair) for pair in char_cnn.filters],
        "max_characters_per_token": char_cnn.max_characters,
        "n_characters": N_CHARACTERS_INFERENCE,
        "n_highway": char_cnn.n_highway,
    }
