"""Exports of a biLM and of vectors: ONNX graphs, spaCy packages, files of vectors, a callable for other engines."""

from .embedder import Embedder
from .onnx_model import export_onnx

__all__ = ["Embedder", "export_onnx"]
