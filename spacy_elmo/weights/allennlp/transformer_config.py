"""The config of a transformer language model of AllenNLP, converted to a `BiLMConfig`.

`language_model` with `bidirectional_language_model_transformer` (Peters et al. 2018b), as in allennlp-models.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ...bilm.config import ACTIVATIONS, PROJECTIONS, BiLMConfig, CharCNNConfig
from ...bilm.transformer_config import TransformerConfig
from ..limits import MAX_LAYERS, MAX_WIDTH, find_filter_excess
from ..settings_reader import SettingsReader

KINDS = ("language_model", "bidirectional-language-model")
ENCODER = "bidirectional_language_model_transformer"
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
    """config (Mapping[str, Any]): The parsed config.json of an archive.
    RETURNS (LanguageModelConfig): The settings.
    """
    reader = SettingsReader(config)
    _choose(reader, "model.type", KINDS)
    _choose(reader, "model.contextualizer.type", (ENCODER,))
    if reader.take("model.bidirectional", bool, True) is False:
        reader.refuse("model.bidirectional", False, "true")
    width = reader.take("model.contextualizer.input_dim", int, least=1, most=MAX_WIDTH)
    n_layers = reader.take("model.contextualizer.num_layers", int, least=1, most=MAX_LAYERS)
    hidden = reader.take("model.contextualizer.hidden_dim", int, least=1, most=MAX_WIDTH)
    if width and width % N_HEADS:
        reader.refuse("model.contextualizer.input_dim", width, f"a multiple of {N_HEADS}, the attention heads")
    embedder = _find_embedder(reader)
    characters = _read_characters(reader, f"{EMBEDDERS}.{embedder}", width) if embedder else {}
    is_sampled = reader.take("model.num_samples", int, None, least=1) is not None
    if reader.problems:
        return LanguageModelConfig(None, embedder, is_sampled, reader.problems)
    bilm = BiLMConfig(
        char_cnn=CharCNNConfig(**characters),
        n_layers=n_layers,
        projection_width=width,
        encoder="transformer",
        transformer=TransformerConfig(hidden, N_HEADS, MAX_POSITIONS),
    )
    return LanguageModelConfig(bilm, embedder, is_sampled, [])


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
        reader.refuse(f"{base}.encoder.projection_dim", projected, f"{width}, as model.contextualizer.input_dim")
    return {
        "embedding_width": reader.take(f"{base}.embedding.embedding_dim", int, least=1, most=MAX_WIDTH),
        "filters": _read_filters(reader, f"{base}.encoder.filters"),
        "activation": _choose(reader, f"{base}.encoder.activation", ACTIVATIONS, "relu"),
        "n_highway": reader.take(f"{base}.encoder.num_highway", int, least=0, most=MAX_LAYERS),
        "projection": _choose(reader, f"{base}.encoder.projection_location", PROJECTIONS, "after_highway"),
        "has_layer_norm": reader.take(f"{base}.encoder.do_layer_norm", bool, False),
        "always_project": True,
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
