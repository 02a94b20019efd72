"""ELMo for plain PyTorch: modules that need neither spaCy nor Thinc."""

from .elmo import Elmo, ElmoOutput
from .inputs import batch_to_ids
from .modules import BiLSTM, ScalarMix

__all__ = ["BiLSTM", "Elmo", "ElmoOutput", "ScalarMix", "batch_to_ids"]
