"""The config of a language model of AllenNLP, converted to a `BiLMConfig`.

`language_model` of allennlp-models, over a character CNN:

- `bidirectional_language_model_transformer` (Peters et al. 2018b);
- PyTorch's `lstm`, as far as a biLM can be equal to it. It has no projection and no clips, and its upper layers read
  both directions together. So it must be as wide as its input, and have one layer if it is bidirectional.
"""

from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ...bilm.config import ACTIVATIONS, PROJECTIONS, BiLMConfig, CharCNNConfig
from ...bilm.transformer_config import TransformerConfig
from ..limits import MAX_LAYERS, MAX_WIDTH, find_filter_excess
from ..settings_reader import SettingsReader

KINDS = ("language_model", "bidirectional-language-model")
N_HEADS = 8  # fixed in the code of AllenNLP
MAX_POSITIONS = 5000  # the same
N_CHARACTERS = 262  # bytes, special characters and the mask
EMBEDDERS = "model.text_field_embedder.token_embedders"


class LanguageModelConfig(NamedTuple):
    """The settings that the reader needs.

    bilm (Optional[BiLMConfig]): None if there are problems.
    embedder (str): Name of the token embedder with the characters.
    is_sampled (bool): Whether the softmax was sampled in training, which decides how it is stored.
    problems (List[str]): All problems.
    """

    bilm: Optional[BiLMConfig]
    embedder: str
    is_sampled: bool
    problems: List[str]


def read_language_model_config(config: Mapping[str, Any]) -> LanguageModelConfig:
    """config (Mapping[str, Any]): The parsed config.json of an archive, with a contextualizer of `CONTEXTUALIZERS`.
    RETURNS (LanguageModelConfig): The settings.
    """
    reader = SettingsReader(config)
    _choose(reader, "model.type", KINDS)
    kind = _choose(reader, "model.contextualizer.type", tuple(CONTEXTUALIZERS))
    encoder = CONTEXTUALIZERS[kind](reader) if kind in CONTEXTUALIZERS else {}
    embedder = _find_embedder(reader)
    characters: Dict[str, Any] = {}
    if embedder:
        characters = _read_characters(reader, f"{EMBEDDERS}.{embedder}", encoder.get("projection_width"))
    is_sampled = reader.take("model.num_samples", int, None, least=1) is not None
    if reader.problems:
        return LanguageModelConfig(None, embedder, is_sampled, reader.problems)
    char_cnn = CharCNNConfig(**characters)
    # AllenNLP always projects; a biLM with another width does so anyway.
    projects = char_cnn.n_filters == encoder["projection_width"]
    bilm = BiLMConfig(char_cnn=replace(char_cnn, always_project=projects), **encoder)
    return LanguageModelConfig(bilm, embedder, is_sampled, [])


def _read_transformer(reader: SettingsReader) -> Dict[str, Any]:
    if reader.take("model.bidirectional", bool, True) is False:
        reader.refuse("model.bidirectional", False, "true")
    base = "model.contextualizer."
    width = reader.take(f"{base}input_dim", int, least=1, most=MAX_WIDTH)
    n_layers = reader.take(f"{base}num_layers", int, least=1, most=MAX_LAYERS)
    hidden = reader.take(f"{base}hidden_dim", int, least=1, most=MAX_WIDTH)
    if width and width % N_HEADS:
        reader.refuse(f"{base}input_dim", width, f"a multiple of {N_HEADS}, the attention heads")
    settings = None if reader.problems else TransformerConfig(hidden, N_HEADS, MAX_POSITIONS)
    return {"n_layers": n_layers, "projection_width": width, "encoder": "transformer", "transformer": settings}


def _read_lstm(reader: SettingsReader) -> Dict[str, Any]:
    base = "model.contextualizer."
    width = reader.take(f"{base}input_size", int, least=1, most=MAX_WIDTH)
    hidden = reader.take(f"{base}hidden_size", int, least=1, most=MAX_WIDTH)
    n_layers = reader.take(f"{base}num_layers", int, 1, least=1, most=MAX_LAYERS)
    is_both = reader.take(f"{base}bidirectional", bool, False)
    if width and hidden and hidden != width:
        reader.refuse(f"{base}hidden_size", hidden, f"input_size ({width}): a biLM has one width")
    if is_both and n_layers and n_layers != 1:
        reader.refuse(f"{base}num_layers", n_layers, "1: upper layers read both directions together")
    if reader.take(f"{base}bias", bool, True) is False:
        reader.refuse(f"{base}bias", False, "true")
    return {
        "n_layers": n_layers,
        "cell_width": hidden,
        "projection_width": width,
        "cell_clip": None,
        "projection_clip": None,
        "has_skip": False,
        "directions": "both" if is_both else "forward",
    }


# By `model.contextualizer.type`: the settings of a `BiLMConfig` but its `char_cnn`.
CONTEXTUALIZERS: Dict[str, Callable[[SettingsReader], Dict[str, Any]]] = {
    "lstm": _read_lstm,
    "bidirectional_language_model_transformer": _read_transformer,
}


def _choose(reader: SettingsReader, name: str, known: Tuple[str, ...], default: Any = ...) -> Any:
    value = reader.take(name, str, default)
    if value is not None and value not in known:
        reader.refuse(name, value, " or ".join(f"'{one}'" for one in known))
    return value


def _find_embedder(reader: SettingsReader) -> str:
    """The only token embedder that is not empty."""
    blocks = reader.take(EMBEDDERS, Mapping) or {}
    named = [str(name) for name in blocks if reader.take(f"{EMBEDDERS}.{name}.type", str, None) != "empty"]
    if len(named) != 1 or "." in named[0]:
        reader.refuse(EMBEDDERS, named, "one embedder that is not 'empty', without a dot in its name")
        return ""
    _check_indexer(reader, named[0])
    return named[0]


def _check_indexer(reader: SettingsReader, name: str) -> None:
    """Characters have to be bytes. Archives without the indexer are judged by the rows of their embedding."""
    for path in ("dataset_reader.token_indexers", "dataset_reader.base_reader.token_indexers"):
        if reader.has(f"{path}.{name}"):
            _choose(reader, f"{path}.{name}.type", ("elmo_characters",))
            added = reader.take(f"{path}.{name}.tokens_to_add", Mapping, None)
            if added:
                reader.refuse(f"{path}.{name}.tokens_to_add", dict(added), "left out: such tokens cannot be read")


def _read_characters(reader: SettingsReader, base: str, width: Optional[int]) -> Dict[str, Any]:
    _choose(reader, f"{base}.type", ("character_encoding",))
    _choose(reader, f"{base}.encoder.type", ("cnn-highway",))
    n_rows = reader.take(f"{base}.embedding.num_embeddings", int)
    if n_rows is not None and n_rows != N_CHARACTERS:
        wanted = f"{N_CHARACTERS}, for the bytes of 'elmo_characters'; vocabularies of characters cannot be read"
        reader.refuse(f"{base}.embedding.num_embeddings", n_rows, wanted)
    projected = reader.take(f"{base}.encoder.projection_dim", int, least=1, most=MAX_WIDTH)
    if projected and width and projected != width:
        reader.refuse(f"{base}.encoder.projection_dim", projected, f"{width}, the width of the contextualizer")
    return {
        "embedding_width": reader.take(f"{base}.embedding.embedding_dim", int, least=1, most=MAX_WIDTH),
        "filters": _read_filters(reader, f"{base}.encoder.filters"),
        "activation": _choose(reader, f"{base}.encoder.activation", ACTIVATIONS, "relu"),
        "n_highway": reader.take(f"{base}.encoder.num_highway", int, least=0, most=MAX_LAYERS),
        "projection": _choose(reader, f"{base}.encoder.projection_location", PROJECTIONS, "after_highway"),
        "has_layer_norm": reader.take(f"{base}.encoder.do_layer_norm", bool, False),
    }


def _read_filters(reader: SettingsReader, name: str) -> Tuple[Tuple[int, int], ...]:
    filters = reader.take(name, list) or []
    if not filters or not all(_is_filter(pair) for pair in filters):
        reader.refuse(name, filters, "a list of [width, number], widths 1 to 50, numbers 1 or more")
        return ()
    reader.problems += find_filter_excess([number for _, number in filters], name)
    return tuple((width, number) for width, number in filters)


def _is_filter(pair: Any) -> bool:
    is_pair = isinstance(pair, (list, tuple)) and len(pair) == 2 and all(type(size) is int for size in pair)
    return is_pair and 1 <= pair[0] <= CharCNNConfig.max_characters and pair[1] >= 1
