"""The tiny biLM for all tests of this folder."""

from compat.tiny import files  # noqa: F401  a fixture
