"""ELMo for plain PyTorch: modules that need neither spaCy nor Thinc."""

from .bilstm import BiLSTM
from .elmo import Elmo, ElmoOutput
from .inputs import batch_to_ids
from .scalar_mix import ScalarMix

__all__ = ["BiLSTM", "Elmo", "ElmoOutput", "ScalarMix", "batch_to_ids"]
