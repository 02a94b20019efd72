"""Archives of AllenNLP's `language_model` and `bidirectional-language-model`: which contextualizer reads them."""

from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional

from ...encoding.facade import BiLM
from ...errors import Errors
from ..limits import shorten
from ..tensor_map import Array
from .lstm_lm import read_lstm_lm
from .transformer_lm import read_transformer_lm

CONTEXTUALIZER = "_contextualizer."
SOFTMAX = "_softmax_loss."

# config (dict), arrays (by the names of the state dict), words of the vocabulary without padding, path -> biLM
LMReader = Callable[[Mapping[str, Any], Mapping[str, Array], Optional[List[str]], str], BiLM]


def _read_transformer(
    config: Mapping[str, Any], arrays: Mapping[str, Array], words: Optional[List[str]], where: str
) -> BiLM:
    try:
        return read_transformer_lm(config, arrays, words)
    except ValueError as error:
        raise ValueError(f"{error} It is '{where}'.") from error


# By `model.contextualizer.type` of the config.
READERS: Dict[str, LMReader] = {
    "lstm": read_lstm_lm,
    "bidirectional_language_model_transformer": _read_transformer,
}


def is_language_model(names: Iterable[str]) -> bool:
    """names (Iterable[str]): Names in a state dict.
    RETURNS (bool): Whether it is that of a language model: a contextualizer over an embedder.
    """
    return any(name.startswith(CONTEXTUALIZER) for name in names)


def read_language_model(config: Any, arrays: Mapping[str, Array], words: Optional[List[str]], where: str) -> BiLM:
    """Read a language model of AllenNLP as a biLM.

    config (Any): The config of the archive.
    arrays (Mapping[str, Array]): Its state dict.
    words (Optional[List[str]]): Its vocabulary without padding, in the order of the ids.
    where (str): Path of the state dict, for messages.
    RETURNS (BiLM): The model, float32, with its softmax.
    RAISES (ValueError): EL316 if the contextualizer cannot be read, and errors of its reader.
    """
    model = config.get("model") if isinstance(config, Mapping) else None
    contextualizer = model.get("contextualizer") if isinstance(model, Mapping) else None
    kind = contextualizer.get("type") if isinstance(contextualizer, Mapping) else None
    reader = READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        found = "no config.json with model.contextualizer.type" if kind is None else shorten(repr(kind), 80)
        raise ValueError(Errors.EL316.format(path=where, found=found, known=", ".join(READERS)))
    return reader(config, arrays, words, where)
