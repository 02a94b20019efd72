"""Name and version of the package, in one place."""

__title__ = "spacy-elmo"
__version__ = "0.1.0"
__summary__ = "ELMo as a first-class spaCy component: contextual vectors, listeners, pretraining and weight import"
__license__ = "MIT"
