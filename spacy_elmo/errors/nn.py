"""Errors of the PyTorch modules. EL252 and EL254."""

from .catalogue import Catalogue


class NNErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL252 = "The batch has no sentences. Pass at least one; a sentence may have no words."
    EL254 = (
        "The state dict was saved with another biLM: {problem}. Its mixes are of no use here. Make the module with the "
        "biLM it was trained with; to load the other parameters all the same, delete '{key}' and pass strict=False."
    )
