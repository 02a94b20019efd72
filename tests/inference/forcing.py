"""Compute without the native kernel in a test, and reasons to skip."""

import pytest

from spacy_elmo.inference import kernel, lstm

needs_kernel = pytest.mark.skipif(kernel.native is None, reason="installed without a compiler")
ENGINES = [pytest.param("kernel", marks=needs_kernel), "torch"]
ALL_ENGINES = [*ENGINES, "no compiler"]


def force_engine(monkeypatch, engine):
    """The engine of all runners made from now on: "torch" has products of torch and cells in C, as for reduced
    precision, "no compiler" both of torch.
    """
    if engine != "kernel":
        monkeypatch.setattr(kernel, "native", None)
    if engine == "no compiler":
        monkeypatch.setattr(lstm, "update_in_one_pass", None)
