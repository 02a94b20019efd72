"""Read and write biLMs in the native format and in formats of other programs."""

from .formats import load_bilm, load_mixes, save_bilm
from .native import bilm_from_bytes, bilm_to_bytes

__all__ = ["bilm_from_bytes", "bilm_to_bytes", "load_bilm", "load_mixes", "save_bilm"]
