"""Files of biLMs, ours and other people's."""

from .load import load_bilm
from .native.model import bilm_from_bytes, bilm_to_bytes
from .save import save_bilm

__all__ = ["bilm_from_bytes", "bilm_to_bytes", "load_bilm", "save_bilm"]
