"""Name and version of the package."""

__title__ = "spacy-elmo"
__version__ = "0.1.0"
