"""Errors of the PyTorch modules. EL250 to EL259."""

from .catalogue import Catalogue


class NNErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL250 = (
        "The scalar mix expects {wanted}, but found {found}. Pass the layers of a biLM first in one tensor, as "
        "`BiLM.encode` and `Elmo.encode` return them, or a list with one tensor per layer."
    )
    EL251 = (
        "The mask has {found}, but should have {wanted}: one truth value for each token of the layers. Pass the mask "
        "that came with them."
    )
    EL252 = "The batch has no sentences. Pass at least one; a sentence may have no words."
    EL253 = (
        "The biLM is trained (its parameters require a gradient), which starts every sentence from a zero state, but "
        "state is '{state}'. Set state = \"reset\", or freeze the biLM (`elmo.encoder.requires_grad_(False)`)."
    )
    EL254 = (
        "The state dict was saved with another biLM: {problem}. Its mixes are of no use here. Make the module with the "
        "biLM it was trained with; to load the other parameters all the same, delete '{key}' and pass strict=False."
    )
    EL255 = (
        "The rows of the BiLSTM are {found}, but should be a tensor (B, S, {width}): sentences, tokens of the longest "
        "one, input_width. Pass padded vectors of this width."
    )
    EL256 = (
        "The state dict has the weights of {found} layers ({key}...), but the scalar mix has {wanted}. Make it with "
        "n_layers = {found}, the layers that it was trained for."
    )
