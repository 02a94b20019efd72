"""Exports of a biLM and of vectors: ONNX graphs, spaCy packages, HDF5 files."""

from .onnx_model import export_onnx

__all__ = ["export_onnx"]
