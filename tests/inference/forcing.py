"""Compute without the native kernel in a test, and reasons to skip."""

import pytest

from spacy_elmo.inference import kernel
from spacy_elmo.inference.installation import describe_kernel

needs_kernel = pytest.mark.skipif(kernel.native is None, reason=f"native kernel: {describe_kernel()}")
ENGINES = [pytest.param("kernel", marks=needs_kernel), "torch"]


def force_engine(monkeypatch, engine):
    """The engine of all runners made from now on: "torch" as in an installation without the kernel."""
    if engine != "kernel":
        monkeypatch.setattr(kernel, "native", None)
