"""Exports of a biLM and of vectors: ONNX graphs, spaCy packages, files of vectors."""

from .onnx_model import export_onnx

__all__ = ["export_onnx"]
