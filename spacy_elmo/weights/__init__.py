"""Read and write biLMs in the native format and in formats of other programs."""

from .formats.native import bilm_from_bytes, bilm_to_bytes
from .load import load_bilm, load_mixes
from .save import save_bilm

__all__ = ["bilm_from_bytes", "bilm_to_bytes", "load_bilm", "load_mixes", "save_bilm"]
