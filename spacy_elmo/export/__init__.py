"""Exports: ONNX graphs, spaCy packages, files with the vectors of a corpus, a callable for other engines."""

from .corpus import embed_corpus
from .embedder import Embedder
from .onnx_model import export_onnx
from .package import package_bilm

__all__ = ["Embedder", "embed_corpus", "export_onnx", "package_bilm"]
