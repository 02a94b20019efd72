"""The ELMo of AllenNLP 0.9 to 2.10: the same modules, parameter names, state and results.

Peters et al. (2018). The LSTM state is carried from batch to batch, as in AllenNLP. New code is better served by
`spacy_elmo.nn`, where a vector does not depend on what was computed before.
"""

from ..common import ConfigurationError, add_submodules
from .characters import (
    DEFAULT_OPTIONS_FILE,
    DEFAULT_WEIGHT_FILE,
    ElmoCharacterEncoder,
    ELMoCharacterMapper,
    ELMoTokenCharactersIndexer,
    batch_to_ids,
    remove_sentence_boundaries,
)
from .elmo import Elmo, ElmoBiLm, ElmoEmbedder, ElmoTokenEmbedder, ScalarMix
from .lstm import ElmoLstm

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

add_submodules(
    __name__,
    {name: globals()[name] for name in __all__},
    (
        *("commands", "commands.elmo", "common", "common.checks", "data", "data.token_indexers"),
        *("data.token_indexers.elmo_indexer", "modules", "modules.elmo", "modules.elmo_lstm", "modules.scalar_mix"),
        *("modules.token_embedders", "modules.token_embedders.elmo_token_embedder", "nn", "nn.util"),
    ),
)
