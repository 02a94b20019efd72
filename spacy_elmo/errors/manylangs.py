"""Errors of models of ELMoForManyLangs, and of biLMs of their kind. EL300, EL308, EL309."""

from .catalogue import Catalogue


class ManyLangsErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL300 = (
        "This biLM reads words and characters by tables of its own, whose symbols are in a lexicon; problems with its "
        "lexicon: {problems}. Load the biLM with `load_bilm`, or pass `lexicon=` of the model the weights belong to."
    )
    EL308 = (
        "This biLM cannot be saved in the {format} format: {problems}. The vectors would differ. Save it with format "
        '"native".'
    )
    EL309 = (
        "A biLM with words and characters (token_embedder, ELMoForManyLangs) cannot be pretrained further and has no "
        "perplexity: its files have no softmax, and text is read by the tables of symbols of the model. Fine-tune it "
        "in a pipeline or with `spacy_elmo.nn.Elmo` instead."
    )
