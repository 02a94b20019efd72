"""Exports of a biLM and of vectors: ONNX graphs, spaCy packages, files of vectors, a callable for other engines."""

from .embedder import Embedder
from .onnx_model import export_onnx
from .package import package_bilm

__all__ = ["Embedder", "export_onnx", "package_bilm"]
