"""Files of biLMs, ours and other people's."""

from .loading import load_bilm
from .native import bilm_from_bytes, bilm_to_bytes
from .saving import save_bilm

__all__ = ["bilm_from_bytes", "bilm_to_bytes", "load_bilm", "save_bilm"]
