"""bilm-tf without TensorFlow: the same arrays of ids, the same layers and state, the same files of vectors."""

from .data import Batcher, TokenBatcher, UnicodeCharsVocabulary, Vocabulary
from .dump import dump_bilm_embeddings, dump_token_embeddings
from .model import BidirectionalLanguageModel, weight_layers

__all__ = [
    "Batcher",
    "BidirectionalLanguageModel",
    "TokenBatcher",
    "UnicodeCharsVocabulary",
    "Vocabulary",
    "dump_bilm_embeddings",
    "dump_token_embeddings",
    "weight_layers",
]
