"""Compute without the native kernel in a test, and reasons to skip."""

import pytest

from spacy_elmo.inference import kernel

needs_kernel = pytest.mark.skipif(kernel.native is None, reason="installed without a compiler")
ENGINES = [pytest.param("kernel", marks=needs_kernel), "torch"]


def force_engine(monkeypatch, engine):
    """The engine of all runners made from now on: "torch" as where the package was installed without a compiler."""
    if engine != "kernel":
        monkeypatch.setattr(kernel, "native", None)
