"""The ELMo of AllenNLP 0.9 to 2.10: the same modules, parameter names, state and results.

Peters et al. (2018). The LSTM state is carried from batch to batch, as in AllenNLP. New code is better served by
`spacy_elmo.nn`, where a vector does not depend on what was computed before.
"""

from ..arguments import ConfigurationError
from .bilm import ElmoBiLm
from .boundaries import remove_sentence_boundaries
from .character_encoder import ElmoCharacterEncoder
from .elmo import Elmo, ElmoTokenEmbedder
from .elmo_lstm import ElmoLstm
from .embedder import ElmoEmbedder
from .files import DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE
from .indexer import ELMoCharacterMapper, ELMoTokenCharactersIndexer, batch_to_ids
from .scalar_mix import ScalarMix

# The names of AllenNLP.
_ElmoBiLm = ElmoBiLm
_ElmoCharacterEncoder = ElmoCharacterEncoder

__all__ = [
    "DEFAULT_OPTIONS_FILE",
    "DEFAULT_WEIGHT_FILE",
    "ConfigurationError",
    "ELMoCharacterMapper",
    "ELMoTokenCharactersIndexer",
    "Elmo",
    "ElmoBiLm",
    "ElmoCharacterEncoder",
    "ElmoEmbedder",
    "ElmoLstm",
    "ElmoTokenEmbedder",
    "ScalarMix",
    "_ElmoBiLm",
    "_ElmoCharacterEncoder",
    "batch_to_ids",
    "remove_sentence_boundaries",
]
