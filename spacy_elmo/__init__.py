"""ELMo for spaCy: the public names. They are imported on first use, so that `python -m spacy` starts fast."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, List

from .about import __version__

if TYPE_CHECKING:
    from .bilm.config import BiLMConfig, CharCNNConfig, TokenEmbedderConfig, TransformerConfig
    from .bilm.state import BiLMState
    from .inference.bilm import BiLM
    from .pipeline.doc_vectors import register_extensions
    from .weights import load_bilm, load_mixes, save_bilm

__all__ = [
    "BiLM",
    "BiLMConfig",
    "BiLMState",
    "CharCNNConfig",
    "TokenEmbedderConfig",
    "TransformerConfig",
    "__version__",
    "load_bilm",
    "load_mixes",
    "register_extensions",
    "save_bilm",
]

_HOMES = {
    "BiLM": "inference.bilm",
    "BiLMConfig": "bilm.config",
    "BiLMState": "bilm.state",
    "CharCNNConfig": "bilm.config",
    "TokenEmbedderConfig": "bilm.config",
    "TransformerConfig": "bilm.config",
    "load_bilm": "weights",
    "load_mixes": "weights",
    "register_extensions": "pipeline.doc_vectors",
    "save_bilm": "weights",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> List[str]:
    return sorted({*globals(), *_HOMES})
